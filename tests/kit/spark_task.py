"""A task's Spark session for tests of what reads and writes with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from arco.spark.session import open_session

_FAST = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.preserveCharVarcharTypeInfo": "true",
}


class StandIn:
    """The part of a `SparkTask` that frames are read and written with."""

    def __init__(self, session: Any, *, connect: bool = False) -> None:
        self.session = session
        self.connect = connect


@contextlib.contextmanager
def spark_task() -> Iterator[StandIn]:
    """A session of its own in this process's Spark, which stays for the next module."""
    root = open_session("local[2]", conf=_FAST)
    yield StandIn(root.newSession())
