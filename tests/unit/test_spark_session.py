"""Starting Spark: what is said where it cannot be."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

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
        SparkUnavailable, match=f"no Spark Connect server answers at {place}: "
    ) as caught:
        start(SparkSettings(remote=f"sc://{place}/;user_id=ana"))
    assert "`remote`" in caught.value.hint


@pytest.mark.parametrize("masters", ["{}", "{0},{0}"])
def test_a_master_that_is_not_there_is_told_at_once(place: str, masters: str) -> None:
    url = masters.format(place)
    with pytest.raises(SparkUnavailable, match=f"no Spark master answers at {url}: ") as caught:
        start(SparkSettings(master=f"spark://{url}"))
    assert "`master`" in caught.value.hint


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SparkUnavailable, match="JAVA_HOME") as caught:
        start(SparkSettings())
    assert "install" in caught.value.hint
