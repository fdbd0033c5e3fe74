"""Spark for all tasks of one worker. They share it, and are isolated from each other.

    host = SparkHost(settings)
    host.warm()                                   # while there is something else to do
    with host.task(attempt_id, "sales.orders", input_bytes=n) as task:
        task.session.sql(...)                     # on this thread

Nothing starts before the first use of a session. If the JVM dies, the tasks that ran on it fail
(see `hurt`), and the next task starts a new one.

The worker's supervisor owns the JVM, and runs no task itself: its slots are *guests*, which join by
the host's address (`joined.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, TypeVar

from arco.spark import error_info
from arco.spark.damage import of_version
from arco.spark.driver import (
    END_S,
    WATCH_S,
    Driver,
    JvmDriver,
    ScopeOptions,
    TaskScope,
    start_driver,
)
from arco.spark.metrics import SparkUsage, StageProgress
from arco.spark.session import forget_jvm
from arco.spark.settings import SparkSettings, task_conf
from arco.tasks.failure import SparkUnavailable
from servo.contract.task import InputRef
from servo.errors import Cancelled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Start = Callable[[SparkSettings], Driver]
_log = logging.getLogger(__name__)
_numbers = itertools.count()
_DEATH_S: Final = 2.0
"""How long a process may take to end after its connection was closed."""


class SparkHost:
    """One for each process. All methods are for any thread."""

    def __init__(
        self, settings: SparkSettings = SparkSettings(), start: Start = start_driver
    ) -> None:
        self.settings = settings
        self._start = start
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._driver: Driver | None = None
        self._slots: set[int] = set()
        self.abandoned: weakref.WeakKeyDictionary[Driver, str] = weakref.WeakKeyDictionary()
        """Drivers whose cluster was lost, and why."""
        self._drivers: dict[int, JvmDriver] = {}
        """Those that guests have joined, by port."""
        self._watched = threading.Event()
        self._ended = threading.Event()
        self._has_started = False
        """Whether this process has had Spark before."""
        self._used = False
        """Whether a task may have cached something since the cache was last cleared."""

    def warm(self) -> None:
        """Start Spark on a separate thread. Errors are reported by the first task."""
        threading.Thread(target=self._warm, name="spark-warm", daemon=True).start()

    def _warm(self) -> None:
        try:
            driver = self.driver()
            if isinstance(driver, JvmDriver):
                # Loads what any query needs. Results do not matter, nor does failing here.
                driver.base.range(2).groupBy().count().collect()
        except Exception as error:
            _log.debug("Spark could not be started in advance: %s", error)

    @contextlib.contextmanager
    def task(
        self,
        attempt_id: str,
        description: str = "",
        *,
        input_bytes: int | None = None,
        opening: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        on_session: Callable[[], None] = lambda: None,
    ) -> Iterator[SparkTask]:
        """A task's Spark, for as long as it lasts, on the thread that enters.

        `input_bytes`, of Parquet, decides its SQL settings. None if unknown, e.g. for a task that
        generates its rows. The session is opened within `opening`, and `on_session` is called
        before user code gets it.
        """
        slot = self._take_slot()
        task = SparkTask(
            self, attempt_id, description, f"slot-{slot}", input_bytes, opening, on_session
        )
        failed = True
        try:
            yield task
            failed = False
        finally:
            task._close(failed=failed)
            self._return_slot(slot)

    def stop(self) -> None:
        """End the session. Tasks that still run fail."""
        with self._starting:
            driver, self._driver = self._driver, None
            if driver is not None:
                driver.stop()

    def end(self) -> None:
        """Stop Spark for good, and end its JVM. For a process that is about to end itself."""
        if not self._starting.acquire(timeout=END_S):
            return  # a JVM that is just being started ends when it loses this process
        try:
            driver, self._driver = self._driver, None
            if driver is not None:
                driver.end()
        finally:
            self._starting.release()

    def driver(self) -> Driver:
        """The driver that runs, or a new one. Raises Unavailable where there can be none."""
        with self._starting:
            driver = self._driver
            if driver is not None and driver.alive():
                return driver
            if driver is not None:
                _log.warning("Spark's driver was lost (%s); starting another", driver.exit_status())
                self._driver = None
                driver.stop()
            try:
                self._driver = self._start(self.settings)
            except SparkUnavailable as error:
                # A cluster that this process has reached before may come back.
                error.permanent = error.permanent and not self._has_started
                raise
            self._has_started = True
            return self._driver

    def _lost(self, driver: Driver) -> None:
        """This driver is not used any more."""
        with self._starting:
            if self._driver is driver:
                self._driver = None
                if not driver.connect:
                    forget_jvm()
                driver.discard()

    def _abandon(self, driver: Driver, reason: str) -> None:
        """End a driver whose cluster was lost: its tasks, which wait for answers, fail then."""
        self.abandoned[driver] = reason
        driver.discard()

    # -- guests: tasks in other processes ---------------------------------------------------

    def enter(self) -> int:
        """A guest joins. Returns the number of its scheduler pool."""
        if not self.settings.local and not self._watched.is_set():
            self._watched.set()
            threading.Thread(target=self._watch_cluster, name="spark-cluster", daemon=True).start()
        self._used = True
        return self._take_slot()

    def leave(self, pool: int, tags: Collection[str] = ()) -> None:
        """A guest has left or ended: cancel its jobs."""
        driver = self._driver
        if tags and isinstance(driver, JvmDriver):
            try:
                driver.cancel(tags)
            except Exception as error:  # a driver that has ended runs no jobs
                _log.debug("nothing to cancel: %s", error)
        self._return_slot(pool)

    def address(self) -> tuple[int, str]:
        """Where guests join. Starts Spark if need be; raises Unavailable where there is none."""
        driver = self.driver()
        assert isinstance(driver, JvmDriver)  # with a Connect server, all are clients
        self._drivers[driver.address[0]] = driver
        return driver.address

    def status(self, port: int) -> tuple[bool, int | None, str]:
        """Of the JVM that a guest has joined: whether it has ended, exit status and reason."""
        driver = self._drivers.get(port)
        if driver is None:
            return True, None, ""
        ended = not driver.alive()
        if ended:
            self._lost(driver)
        return ended, driver.exit_status(), self.abandoned.get(driver, "")

    def _watch_cluster(self) -> None:
        """End the driver when its cluster is lost, so that its tasks fail."""
        while not self._ended.wait(WATCH_S):
            driver = self._driver
            if driver is not None and self._slots:
                self._check_cluster(driver)

    def _check_cluster(self, driver: Driver) -> None:
        try:
            reason = driver.cluster_lost()
        except Exception as error:  # its tasks notice that a driver has ended
            _log.debug("no executors to be counted: %s", error)
            return
        if reason:
            _log.warning("Spark's cluster is lost: %s", reason)
            self._abandon(driver, reason)

    # Spark never removes pools, so there is one for each concurrent task, not for each task.
    def _take_slot(self) -> int:
        with self._lock:
            slot = next(n for n in range(len(self._slots) + 1) if n not in self._slots)
            self._slots.add(slot)
            return slot

    def _return_slot(self, slot: int) -> None:
        with self._lock:  # no task starts meanwhile: its cache would be cleared
            self._slots.discard(slot)
            if not self._slots and self._driver is not None and self._used:
                self._used = False
                with contextlib.suppress(Exception):
                    self._driver.clear_cache()


class SparkTask:
    """The Spark of one task. `cancel` and `progress` are for any thread."""

    def __init__(
        self,
        host: SparkHost,
        attempt_id: str,
        description: str,
        pool: str,
        input_bytes: int | None,
        opening: Callable[[], AbstractContextManager[None]],
        on_session: Callable[[], None],
    ) -> None:
        self._host = host
        # The scheduler remembers cancelled groups, so a repeated attempt needs another tag. Two
        # deliveries of one attempt may be in two processes that have joined one JVM.
        self._tag = f"arco-{attempt_id}-{os.getpid()}-{next(_numbers)}".replace(",", "_")
        self._description = description or attempt_id
        self._pool = pool
        self._input_bytes = input_bytes
        self._opening = opening
        self._on_session = on_session
        self._driver: Driver | None = None
        self._scope: TaskScope | None = None
        self._cancelled = False
        self._closed = False
        self.usage_so_far = SparkUsage()

    @property
    def started(self) -> bool:
        """Whether it has used its session. Without that, a task costs nothing."""
        return self._scope is not None

    @property
    def connect(self) -> bool:
        """Whether there is no JVM behind the session that one could call."""
        return bool(self._host.settings.remote)

    @property
    def session(self) -> SparkSession:
        """The task's own session. Other tasks do not see its views, settings and functions."""
        scope = self._scope
        if scope is None:
            with self._opening():
                scope = self._open()
        self._on_session()
        return scope.session

    def _open(self) -> TaskScope:
        if self._cancelled:
            raise Cancelled("the task was cancelled before it used Spark")
        driver = self._host.driver()
        self._host._used = True
        settings = self._host.settings
        conf = task_conf(self._input_bytes, driver.cores, local=settings.local, conf=settings.conf)
        self._driver = driver
        plan = ScopeOptions(self._tag, self._description, self._pool, conf)
        try:
            self._scope = driver.open(plan)
        except Exception as error:
            self.hurt(error)
            raise
        if self._cancelled:  # it was cancelled while it was opened
            self.cancel()
        return self._scope

    def cancel(self) -> None:
        """Cancel this task's jobs, and those it starts later. At any time, repeatedly."""
        self._cancelled = True
        self._ask(lambda scope: scope.cancel())

    def cancel_running(self) -> None:
        """Cancel the running jobs; the task goes on. For checks, which have their own timeout."""
        self._ask(lambda scope: scope.cancel_running())

    def progress(self) -> StageProgress | None:
        """The progress of its jobs; None when none runs."""
        return self._ask(lambda scope: scope.progress())

    def usage(self) -> SparkUsage:
        """The usage of its jobs so far; zeros where Spark has lost it."""
        usage = self._ask(lambda scope: scope.usage())
        if usage is not None:
            self.usage_so_far = usage
        return self.usage_so_far

    def _ask(self, call: Callable[[TaskScope], T]) -> T | None:
        """None without a scope, and if its driver has ended."""
        if self._scope is None or self._closed:
            return None
        try:
            return call(self._scope)
        except Exception as error:
            _log.debug("Spark does not answer: %s", error)
            return None

    def hurt(self, error: BaseException) -> bool:
        """Whether this error means that the driver has ended; the next task gets a new one."""
        driver = self._driver
        if driver is None:
            return False
        cut = error_info.connection_lost(error)
        if not (cut or error_info.from_spark(error)):
            return False
        if driver.connect:
            ended = cut
        else:
            ended = _has_ended(driver, wait_s=_DEATH_S if cut else 0.0)
        if ended:
            self._host._lost(driver)
        return ended

    def failure(
        self, error: BaseException, inputs: Sequence[InputRef] = ()
    ) -> error_info.SparkFailure | None:
        """The translated error, with how the driver ended or which input is damaged."""
        if self.hurt(error):
            assert self._driver is not None
            reason = self._host.abandoned.get(self._driver, "") or self._driver.lost_because
            return error_info.driver_lost(error, self._driver.exit_status(), reason)
        versions = {each.materialization_id for ref in inputs for each in ref.materializations}
        failure = error_info.translate(error, versions)
        return None if failure is None else of_version(failure, inputs)

    def _close(self, *, failed: bool) -> None:
        scope, self._closed = self._scope, True
        if scope is None:
            return
        try:
            scope.close(failed=failed)
        except Exception as error:  # a driver that has ended holds nothing of the task
            _log.debug("the task's session was lost before the task ended: %s", error)


def _has_ended(driver: Driver, *, wait_s: float) -> bool:
    waiting = threading.Event()
    for _ in range(int(wait_s / 0.05)):
        if not driver.alive():
            return True
        waiting.wait(0.05)
    return not driver.alive()
