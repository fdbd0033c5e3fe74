"""Spark in a slot: a session on the JVM of the worker's supervisor.

A Python process joins a running JVM by the port and the token of its gateway. It has a context
and sessions of its own, on the one context of the JVM. When it is killed, the JVM goes on; its
jobs are cancelled by their tags.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple, Protocol

from arco.spark.driver import Driver, JvmScope, ScopeOptions, keep_alive
from arco.spark.host import SparkHost
from arco.spark.metrics import StatusStore
from arco.spark.session import forget_jvm, quiet_errors
from arco.spark.settings import SparkSettings


class JvmAddress(NamedTuple):
    """Where the JVM listens."""

    port: int
    token: str
    pool: str
    """The scheduler pool of the task that asks."""


class JvmStatus(NamedTuple):
    ended: bool
    exit_status: int | None
    reason: str


class JvmLink(Protocol):
    """The connection to the owner of the JVM."""

    def address(self) -> JvmAddress:
        """Starts Spark if needed. Raises SparkUnavailable if it cannot start."""

    def status(self, port: int) -> JvmStatus: ...

    def joined(self, tags: tuple[str, ...]) -> None:
        """Report the tags of the task's jobs."""


class JoinedHost(SparkHost):
    """For a process that runs one task at a time."""

    def __init__(self, settings: SparkSettings, link: JvmLink) -> None:
        super().__init__(settings)
        self._link = link

    def driver(self) -> Driver:
        if self.settings.remote:
            return super().driver()
        address, driver = self._link.address(), self._driver
        if not isinstance(driver, JoinedDriver) or driver.address[:2] != address[:2]:
            if driver is not None:
                forget_jvm()
            driver = self._driver = JoinedDriver(address, self._link)
        driver.address = address
        return driver


class JoinedDriver:
    connect = False

    def __init__(self, address: JvmAddress, link: JvmLink) -> None:
        self.address = address
        self._link = link
        self._status = JvmStatus(False, None, "")
        quiet_errors()
        self.base, self._context = _join(address)
        self.cores = int(self._context.defaultParallelism)
        self.store = StatusStore(self._context)

    def alive(self) -> bool:
        self._status = self._link.status(self.address.port)
        return not self._status.ended

    def cluster_lost(self) -> str:
        return ""  # the owner of the JVM watches it

    def exit_status(self) -> int | None:
        return self._status.exit_status

    @property
    def lost_because(self) -> str:
        return self._status.reason

    def open(self, plan: ScopeOptions) -> JvmScope:
        scope = JvmScope(self, plan._replace(pool=self.address.pool))
        self._link.joined(scope.tags)
        return scope

    def clear_cache(self) -> None:
        pass

    def stop(self) -> None:
        forget_jvm()

    def discard(self) -> None:
        pass

    def end(self) -> None:
        pass


def _join(address: JvmAddress) -> tuple[Any, Any]:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    variables = {"PYSPARK_GATEWAY_PORT": str(address.port), "PYSPARK_GATEWAY_SECRET": address.token}
    os.environ.update(variables)
    # Executors must run the Python that has the project's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        launch: Any = launch_gateway
        gateway = launch()
    finally:
        for name in variables:
            del os.environ[name]
    context_type: Any = SparkContext
    context_type._ensure_initialized(gateway=gateway)
    # Not the default session: user code may have cleared that.
    java = gateway.jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
    java_context = gateway.jvm.JavaSparkContext.fromSparkContext(java.sparkContext())
    conf: Any = SparkConf
    context = context_type(
        gateway=gateway, jsc=java_context, conf=conf(_jconf=java_context.getConf())
    )
    # When the JVM dies this server prints a traceback; its death is reported elsewhere.
    context._accumulatorServer.handle_error = lambda *_: None
    session: Any = SparkSession
    return session(context, java), keep_alive(context)
