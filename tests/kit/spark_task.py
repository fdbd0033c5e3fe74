"""One Spark for all tests of a process: a task's, or any session's.

A JVM that has compiled its code, and Python processes that have their imports, serve the next
test in a fraction of the time that new ones take.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from arco.spark.driver import JvmDriver
from arco.spark.host import SparkHost, SparkTask
from arco.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def spark_session(**more: str) -> SparkSession:
    """A session of its own on this process's Spark, for small inputs.

    `more`: settings, without `spark.sql.` and with `_` for each dot.
    """
    driver = _host().driver()
    assert isinstance(driver, JvmDriver)
    session = driver.base.newSession()
    plain = {
        "preserveCharVarcharTypeInfo": "false",
        "adaptive.enabled": "false",
        "codegen.wholeStage": "false",
        "shuffle.partitions": "1",
    }
    for name, value in {**plain, **{k.replace("_", "."): v for k, v in more.items()}}.items():
        session.conf.set(f"spark.sql.{name}", value)
    return session


@contextlib.contextmanager
def spark_task(host: SparkHost) -> Iterator[SparkTask]:
    """One task's session, with the settings that small inputs get."""
    with host.task("t1", "a test", input_bytes=1) as task:
        yield task
