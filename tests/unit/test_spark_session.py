"""Starting Spark: what is said where it cannot be."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from arco.spark.host import SparkHost
from arco.spark.session import start
from arco.spark.settings import SparkSettings
from arco.tasks.failure import SparkUnavailable


@pytest.fixture
def place() -> Iterator[str]:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_connect_server_that_is_not_there_is_told_at_once(place: str) -> None:
    with pytest.raises(
        SparkUnavailable, match=f"no Spark Connect server responds at {place}: "
    ) as caught:
        start(SparkSettings(remote=f"sc://{place}/;user_id=ana"))
    assert "`remote`" in caught.value.hint
    assert caught.value.permanent


@pytest.mark.parametrize("masters", ["{}", "{0},{0}"])
def test_a_master_that_is_not_there_is_told_at_once(place: str, masters: str) -> None:
    url = masters.format(place)
    with pytest.raises(SparkUnavailable, match=f"no Spark master responds at {url}: ") as caught:
        start(SparkSettings(master=f"spark://{url}"))
    assert "`master`" in caught.value.hint
    assert caught.value.permanent


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SparkUnavailable, match="JAVA_HOME") as caught:
        start(SparkSettings())
    assert "install" in caught.value.hint
    assert caught.value.permanent


@pytest.mark.parametrize(
    ("output", "message", "hint"),
    [
        (
            "unresolved dependency: org.nowhere#nothing;1.0: not found",
            "the package org.nowhere#nothing;1.0 was not found",
            "`packages`",
        ),
        (
            "java.lang.UnsupportedClassVersionError: SparkSubmit has been compiled by a newer",
            "this Java is too old",
            "Java 17",
        ),
        (
            "Invalid maximum heap size: -Xmx9g9\nError: Could not create the Java Virtual Machine.",
            "Invalid maximum heap size: -Xmx9g9",
            "`conf`",
        ),
    ],
)
def test_what_java_refuses_for_good_is_permanent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, message: str, hint: str
) -> None:
    use_java(tmp_path, monkeypatch, output)
    with pytest.raises(SparkUnavailable, match=re.escape(message)) as caught:
        start(SparkSettings())
    assert hint in caught.value.hint
    assert caught.value.permanent


def test_a_start_that_fails_for_an_unknown_reason_may_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_java(tmp_path, monkeypatch, "the machine is busy")
    with pytest.raises(SparkUnavailable, match="the machine is busy") as caught:
        start(SparkSettings())
    assert not caught.value.permanent


class GoneDriver:
    """A driver that has died."""

    def alive(self) -> bool:
        return False

    def exit_status(self) -> int:
        return 1

    def stop(self) -> None: ...


def test_a_master_that_was_reached_before_may_come_back() -> None:
    answers: list[object] = [GoneDriver(), SparkUnavailable("no master", permanent=True)]

    def start_driver(settings: SparkSettings) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, SparkUnavailable):
            raise answer
        return answer

    spark = SparkHost(start=start_driver)
    spark.driver()
    with pytest.raises(SparkUnavailable) as caught:
        spark.driver()
    assert not caught.value.permanent


def use_java(folder: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """A Java that prints and fails. A JVM that this process has already does not count."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}\nEND\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))
    monkeypatch.setenv("ARCO_SPARK_ARCHIVE", "off")
    monkeypatch.setattr(SparkContext, "_gateway", None)
