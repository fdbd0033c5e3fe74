"""The end of Spark: bounded, whatever state its JVM is in."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from typing import cast
from unittest.mock import MagicMock

import pytest

from arco.cli.api_worker import end_spark
from arco.errors import Unavailable
from arco.spark import driver as drivers
from arco.spark.driver import JvmDriver
from arco.spark.host import SparkHost
from arco.spark.settings import SparkSettings


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[JvmDriver]:
    """A driver whose JVM accepts calls and answers none."""
    monkeypatch.setattr(drivers, "END_S", 0.2)
    released = threading.Event()

    def hang() -> None:
        released.wait(60)
        raise ConnectionError("the JVM has ended")

    with subprocess.Popen(["sleep", "60"]) as process:
        context = MagicMock(**{"_gateway.proc": process, "defaultParallelism": 1})
        monkeypatch.setattr(drivers, "start", lambda settings: MagicMock(sparkContext=context))
        driver = JvmDriver(SparkSettings())
        context._jsc.sc.side_effect = hang
        yield driver
        released.set()
        process.kill()


def test_jvm_that_does_not_answer_is_ended_all_the_same(hung: JvmDriver) -> None:
    ending = threading.Thread(target=hung.end, daemon=True)
    began = time.monotonic()
    ending.start()
    ending.join(20)
    assert not ending.is_alive(), f"it still waits after {time.monotonic() - began:.0f} s"
    assert hung.exit_status() is not None
    assert not hung.alive()


class BrokenHost:
    def end(self) -> None:
        raise RuntimeError("no end")


def test_results_that_were_not_reported_are_told_although_spark_does_not_end() -> None:
    spark = cast("SparkHost", BrokenHost())
    with pytest.raises(Unavailable, match="did not accept the results of a1"):
        end_spark(spark, "w1", ["a1"])
    with pytest.raises(RuntimeError, match="no end"):
        end_spark(spark, "w1", [])
