"""A running Spark: a JVM of our own, or an external Connect server.

PySpark keeps its JVM in class attributes and expects it to outlive the process. When
it dies all of these point to a dead connection, so `forget_jvm` clears them; then the next
session starts a new JVM. UDFs that modules keep hold a Java object as well.

A *scope* is what one task has of it: a session with views and settings of its own,
and a tag, a job group and a scheduler pool on the JVM's side of the task's thread.
The tag finds the jobs, from any thread; the group makes the scheduler refuse jobs that
are started after the task was cancelled. The session's own tag is on all of its
queries, also on those from threads that did not inherit the first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from arco.spark import cached
from arco.spark.cluster import Activity, ClusterWatch
from arco.spark.metrics import SparkUsage, StageProgress, StatusStore, TaskStatus
from arco.spark.session import forget_jvm, start
from arco.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

WATCH_S: Final = 1.0
"""Minimum interval between queries for the executors, in seconds."""
END_S: Final = 5.0
"""How long a JVM may take to end."""
CONNECT_RETRIES: Final = 5
"""With pauses that grow: some seventeen seconds in all."""


class ScopeOptions(NamedTuple):
    """What a scope is opened with."""

    tag: str
    description: str
    pool: str
    conf: dict[str, str]


class TaskScope(Protocol):
    """One task's part. Opened and closed on its thread; the rest is for any thread."""

    session: SparkSession

    def cancel(self) -> None: ...

    def cancel_running(self) -> None: ...

    def progress(self) -> StageProgress | None: ...

    def usage(self) -> SparkUsage: ...

    def close(self, *, failed: bool) -> None: ...


class Driver(Protocol):
    connect: bool
    cores: int

    def alive(self) -> bool: ...

    def cluster_lost(self) -> str:
        """Why its cluster is lost; empty if it is not, or if that is unknown."""

    def exit_status(self) -> int | None: ...

    @property
    def lost_because(self) -> str:
        """Why it has ended, as far as its owner knows."""

    def open(self, plan: ScopeOptions) -> TaskScope: ...

    def clear_cache(self) -> None: ...

    def stop(self) -> None: ...

    def discard(self) -> None:
        """End a driver that is not used any more and may not answer. Never waits."""

    def end(self) -> None:
        """Stop for good: its JVM has ended when this returns."""


def keep_alive(spark: Any) -> Any:
    """A session or a context, whose `stop` does not end Spark for all other tasks."""
    spark.stop = _stop_nothing
    return spark


def _stop_nothing() -> None:
    _log.warning("stop() does nothing in a task: Spark is that of other tasks as well")


def start_driver(settings: SparkSettings) -> Driver:
    return ConnectDriver(settings) if settings.remote else JvmDriver(settings)


# -- a JVM of our own ---------------------------------------------------------------------


class JvmDriver:
    connect = False
    lost_because = ""

    def __init__(self, settings: SparkSettings) -> None:
        self.base = start(settings)
        self._context: Any = self.base.sparkContext
        gateway: Any = self._context._gateway
        self._process = gateway.proc
        self.cores = int(self._context.defaultParallelism)
        self.store = StatusStore(self._context)
        # When the JVM dies this server prints a traceback; its death is reported elsewhere.
        server: Any = self._context._accumulatorServer
        server.handle_error = lambda *_: None
        self._watch = None if settings.local else _watch(settings)
        self._watching = threading.Lock()
        self._looked_at = 0.0
        self._discarded = False

    @property
    def address(self) -> tuple[int, str]:
        """The port and the token by which another process can join."""
        parameters = self._context._gateway.gateway_parameters
        return int(parameters.port), str(parameters.auth_token)

    def cancel(self, tags: Iterable[str]) -> None:
        """Cancel the jobs of a task whose process has ended."""
        _cancel_jobs(self._context, tags)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else int(self._process.pid)

    def exit_status(self) -> int | None:
        """How the JVM ended; None while it runs, or where it is not ours."""
        return None if self._process is None else self._process.poll()

    def alive(self) -> bool:
        """Whether the JVM runs, and neither a lost master nor user code stopped its context."""
        java = self._context._jsc
        if java is None or self._discarded or self.exit_status() is not None:
            return False
        try:
            return not java.sc().isStopped()
        except Exception:  # whatever it is: it does not answer
            return False

    def cluster_lost(self) -> str:
        """Queries the JVM at most once per second, for all callers."""
        watch, now = self._watch, time.monotonic()
        if watch is None or self._discarded:
            return ""
        with self._watching:
            if now - self._looked_at < WATCH_S:
                return ""
            self._looked_at = now
            if not watch.is_lost(self._activity(), now):
                return ""
        return f"its jobs waited for {watch.patience_s:.0f} s without an executor"

    def _activity(self) -> Activity:
        scala = self._context._jsc.sc()
        count = int(scala.getExecutorMemoryStatus().size()) - 1  # the driver is one of them
        return Activity(count, len(scala.statusTracker().getActiveJobIds()))

    def open(self, plan: ScopeOptions) -> JvmScope:
        return JvmScope(self, plan)

    def clear_cache(self) -> None:
        """No task runs: clear the cache, which belongs to all sessions."""
        self.base.catalog.clearCache()

    def stop(self) -> None:
        """Stop the context. The JVM stays, for the next one in this process."""
        if not self.alive():
            forget_jvm()
            self.discard()
            return
        jvm = self._context._jvm
        self.base.stop()
        _forget_conf(jvm)

    def discard(self) -> None:
        """End the JVM. Calls that wait for its answer fail."""
        self._discarded = True
        if self._process is not None:
            threading.Thread(target=self._end_process, name="spark-end", daemon=True).start()

    def end(self) -> None:
        """A JVM that does not answer, e.g. during an endless garbage collection, is killed."""
        _within(END_S, self._stop_if_alive)
        self._discarded = True
        self._end_process()
        forget_jvm()

    def _stop_if_alive(self) -> None:
        if self.alive():
            self.stop()

    def _end_process(self) -> None:
        """Gives the JVM a short time to remove its temporary files."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _within(seconds: float, act: Callable[[], None]) -> None:
    """Call `act` and wait at most this long. Its errors are ignored."""

    def quietly() -> None:
        with contextlib.suppress(Exception):
            act()

    thread = threading.Thread(target=quietly, name="spark-stop", daemon=True)
    thread.start()
    thread.join(seconds)


def _watch(settings: SparkSettings) -> ClusterWatch:
    return ClusterWatch(
        lost_s=settings.executor_loss_s,
        first_s=settings.first_executor_s,
        dynamic=settings.conf.get("spark.dynamicAllocation.enabled", "").lower() == "true",
    )


class JvmHolder(Protocol):
    """What a scope needs of its driver."""

    base: Any
    _context: Any
    store: StatusStore


class JvmScope:
    def __init__(self, driver: JvmHolder, plan: ScopeOptions) -> None:
        self._context = driver._context
        self._tag = plan.tag
        context = self._context
        context.setJobGroup(plan.tag, plan.description, interruptOnCancel=True)
        context.addJobTag(plan.tag)
        context.setLocalProperty("spark.scheduler.pool", plan.pool)
        self.session = keep_alive(driver.base.newSession())
        cached.note(self.session)
        java = self.session._jsparkSession
        settings = java.conf()
        for name, value in plan.conf.items():
            settings.set(name, value)
        self._sessions = self.session._get_j_spark_session_class(context._jvm)
        self._sessions.setActiveSession(java)
        # Who asks PySpark for a session gets this one.
        kind: Any = type(self.session)
        kind._instantiatedSession = kind._activeSession = self.session
        self.tags: tuple[str, ...] = (plan.tag, java.sessionJobTag())
        self._status = TaskStatus(driver.store, self.tags)

    def cancel(self) -> None:
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._tag)
        self.cancel_running()

    def cancel_running(self) -> None:
        _cancel_jobs(self._context, self.tags)

    def progress(self) -> StageProgress | None:
        return self._status.progress()

    def usage(self) -> SparkUsage:
        return self._status.usage()

    def close(self, *, failed: bool) -> None:
        """Nothing of the task stays on its thread, nor what it cached.

        An exception may have left an unread answer on the thread's connection; it goes, and
        the JVM's thread with it.
        """
        if failed:
            _hang_up(self._context._gateway)
        else:
            self._context._jsc.sc().setLocalProperties(self._context._jvm.java.util.Properties())
            self._sessions.clearActiveSession()
        cached.forget(self.session)


def _cancel_jobs(context: Any, tags: Iterable[str]) -> None:
    scala = context._jsc.sc()
    for tag in tags:
        scala.cancelJobsWithTag(tag)


def _hang_up(gateway: Any) -> None:
    """Close this thread's connection; the next call opens another."""
    client = gateway._gateway_client
    connection = client.get_thread_connection()
    if connection is not None:
        with contextlib.suppress(ValueError):
            client.deque.remove(connection)
        connection.close()


def _forget_conf(jvm: Any) -> None:
    """Remove the system properties of one context: the next one would have them too."""
    system = jvm.java.lang.System
    for name in list(system.getProperties().stringPropertyNames()):
        if name.startswith("spark."):
            system.clearProperty(name)


# -- a Connect server ---------------------------------------------------------------------


class ConnectDriver:
    connect = True
    lost_because = ""
    cores = 8
    """Not known; enough for the number of shuffle partitions."""

    def __init__(self, settings: SparkSettings) -> None:
        self.base: Any = start(settings)
        _give_up_sooner(self.base)
        self._conf = {"spark.sql.session.timeZone": "UTC", **settings.conf}

    def alive(self) -> bool:
        return not self.base.is_stopped

    def cluster_lost(self) -> str:
        return ""  # the server has its own cluster, which a client cannot query

    def exit_status(self) -> int | None:
        return None

    def open(self, plan: ScopeOptions) -> ConnectScope:
        return ConnectScope(self.base, plan._replace(conf={**self._conf, **plan.conf}))

    def clear_cache(self) -> None:
        pass

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            self.base.stop()
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)

    def discard(self) -> None:
        self.stop()

    def end(self) -> None:
        _within(END_S, self.stop)


def _give_up_sooner(session: Any) -> None:
    """Fail after seconds, not ten minutes, without a server: the attempt is retried."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=CONNECT_RETRIES)])


class ConnectScope:
    def __init__(self, base: Any, plan: ScopeOptions) -> None:
        self.session = base.newSession()
        _give_up_sooner(self.session)
        self._stop = self.session.stop
        keep_alive(self.session)
        # Who asks PySpark for a session gets this one.
        kind: Any = type(self.session)
        kind._default_session = kind._active_session.session = self.session
        self._tag = plan.tag
        # A new session has the server's settings, not the first session's.
        for name, value in plan.conf.items():
            self.session.conf.set(name, value)
        self.session.addTag(plan.tag)

    def cancel(self) -> None:
        self.cancel_running()

    def cancel_running(self) -> None:
        self.session.interruptTag(self._tag)
        self.session.interruptAll()

    def progress(self) -> None:
        return None

    def usage(self) -> SparkUsage:
        return SparkUsage()

    def close(self, *, failed: bool) -> None:
        self.session.clearTags()
        self._stop()
