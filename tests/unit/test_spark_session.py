"""Starting Spark: what is said where it cannot be."""

from __future__ import annotations

import socket

import pytest

from arco.spark.failed import SparkUnavailable
from arco.spark.session import start
from arco.spark.settings import SparkSettings


def test_a_connect_server_that_is_not_there_is_told_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(SparkUnavailable, match=f"no Spark Connect server at 127.0.0.1:{port}"):
            start(SparkSettings(remote=f"sc://127.0.0.1:{port}/;user_id=ana"))


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SparkUnavailable, match="JAVA_HOME") as caught:
        start(SparkSettings())
    assert "install" in caught.value.hint
