"""A task's Spark for tests of what reads and writes with it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from arco.spark.host import SparkHost, SparkTask
from arco.spark.settings import SparkSettings

_SETTINGS = SparkSettings(
    master="local[2]",
    fast_start=True,
    conf={"spark.driver.memory": "1g", "spark.sql.preserveCharVarcharTypeInfo": "true"},
)


class StandIn:
    """The part of a task that frames are read and written with, around any session."""

    def __init__(self, session: Any, *, connect: bool = False) -> None:
        self.session = session
        self.connect = connect


@functools.cache
def _host() -> SparkHost:
    return SparkHost(_SETTINGS)


@contextlib.contextmanager
def spark_host() -> Iterator[SparkHost]:
    """This process's, which stays: tests of other modules may be using it in between."""
    yield _host()


@contextlib.contextmanager
def spark_task(host: SparkHost) -> Iterator[SparkTask]:
    """One task's session, with the settings that small inputs get."""
    with host.task("t1", "a test", input_bytes=1) as task:
        yield task
