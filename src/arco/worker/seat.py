"""An attempt's place on Spark: its session, how far its jobs are, and what they took.

Nothing starts before the session is asked for. The watchdog's thread cancels the jobs of
an attempt that is to stop, and passes on how far they are, through a thread that may wait
for Spark: one that hangs must not keep other attempts from being stopped.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from arco.clock import Clock
from arco.orchestration.runs import TIMEOUT_GRACE_S
from arco.spark.errors import SparkFailure
from arco.spark.host import SparkHost, SparkTask
from arco.spark.metrics import SparkUsage
from arco.spark.shipping import ship_as_code
from arco.worker.failures import TaskFailed, failed
from arco.worker.interrupt import SPARK_PATIENCE_S, Control, Interruption
from arco.worker.loader import package_name
from servo.contract.task import TaskRequest

WATCH_S: Final = 0.5
"""How often Spark is asked how far it is, and told again to stop."""

MAX_START_S: Final = TIMEOUT_GRACE_S / 4
"""Not more than that: half of the grace after its time-out a task is taken for stuck, and
what is to be stopped needs time for that as well."""

USAGE_S: Final = 3.0
"""How long an attempt that was interrupted waits to hear what its jobs took."""


class Seat:
    def __init__(
        self,
        host: SparkHost | None,
        request: TaskRequest,
        control: Control,
        interruption: Interruption,
        clock: Clock,
    ) -> None:
        self._host = host
        self._request = request
        self._control = control
        self._interruption = interruption
        self._clock = clock
        self._task: SparkTask | None = None
        self._watched_at = 0.0
        self._broken_off = False
        self._start_s = 0.0
        self._looking: Future[None] | None = None
        self.usage: SparkUsage | None = None
        """Known when the seat was left, and Spark was used."""
        self.shows_progress = True
        """Until the function tells its own."""

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """While this lasts, on this thread, there is a session to be had."""
        if self._host is None:
            yield
            return
        request = self._request
        described = f"{request.asset} {request.partition}".rstrip()
        size = sum(m.bytes for ref in request.inputs for m in ref.materializations)
        with self._host.task(
            request.attempt_id,
            described,
            input_bytes=size or None,
            opening=self._opening,
            on_session=self.ship,
        ) as task:
            self._task = task
            self._interruption.watch = self._watch
            try:
                yield
            finally:
                self._interruption.watch = None
                if task.started:
                    self.usage = self._usage(task)

    def _usage(self, task: SparkTask) -> SparkUsage | None:
        """An answer may be left unread on this thread's connection: then another one asks."""
        if not self._interruption.sent and not self._broken_off:
            return task.usage()
        try:
            return _watching().submit(task.usage).result(USAGE_S)
        except TimeoutError:
            return None

    @property
    def task(self) -> SparkTask:
        """TaskFailed where this worker has no Spark."""
        if self._task is None:
            raise failed(
                "configuration",
                "spark.missing",
                f"{self._request.asset} needs Spark, which this worker does not have",
                "install it for the workers: pip install 'arco[spark]'",
            )
        return self._task

    def session(self) -> Any:
        return self.task.session

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """A process's first task waits for Spark itself, which does not count as its time."""
        self._interruption.patience_s = SPARK_PATIENCE_S
        with self._interruption.shielded():
            began = self._clock.monotonic()
            try:
                yield
            finally:
                waited = self._start_s + self._clock.monotonic() - began
                granted = min(waited, MAX_START_S)
                self._interruption.extend(granted - self._start_s)
                self._start_s = granted

    def ship(self) -> None:
        """Let Spark's Python processes have the functions of the project's modules."""
        package = package_name(self._request.code.artifact)
        if self._task is not None and self._task.started and package in sys.modules:
            ship_as_code(package)

    @property
    def available(self) -> bool:
        return self._task is not None

    def cancel_running(self) -> None:
        if self._task is not None:
            self._task.cancel_running()

    def broken_off(self) -> None:
        """A call to the JVM may have been interrupted: there are no more on its connection."""
        self._broken_off = True

    def hurt(self, error: BaseException) -> bool:
        return self._task is not None and self._task.hurt(error)

    def failure(self, error: BaseException) -> SparkFailure | None:
        """What Spark has to say about an error, if it is one of its own."""
        if self._task is None or isinstance(error, TaskFailed):
            return None
        read = (*self._request.inputs, *self._request.references)
        versions = {m.materialization_id for ref in read for m in ref.materializations}
        return self._task.failure(error, versions)

    def _watch(self, reason: BaseException | None) -> None:
        """Told by the watchdog's thread, again and again; it never waits for Spark."""
        task, now = self._task, self._clock.monotonic()
        if task is None or not task.started or now - self._watched_at < WATCH_S:
            return
        if self._looking is None or self._looking.done():
            self._watched_at = now
            self._looking = _watching().submit(self._look, task, reason)

    def _look(self, task: SparkTask, reason: BaseException | None) -> None:
        if reason is not None:
            task.cancel()
            return
        task.check_cluster()
        seen = task.progress()  # also where nobody shows it: Spark forgets what jobs took
        if self.shows_progress and seen is not None:
            self._control.progress(seen.percent, seen.text)


@functools.cache
def _watching() -> ThreadPoolExecutor:
    """One thread for all seats: each thread that calls the JVM has one there as well."""
    return ThreadPoolExecutor(1, thread_name_prefix="spark-watch")
