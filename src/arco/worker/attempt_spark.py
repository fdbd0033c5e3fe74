"""An attempt's use of Spark: its session, the progress of its jobs, and their usage.

Nothing starts before the first use of the session. From then on a thread reports the progress of
the jobs, and cancels them if the attempt is to stop.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from arco.spark.error_info import SparkFailure
from arco.spark.host import SparkHost, SparkTask
from arco.spark.metrics import SparkUsage
from arco.spark.shipping import ship_as_code
from arco.tasks.input_failures import partition_text
from arco.worker.failures import TaskFailed, failed
from arco.worker.stopping import Stopping
from servo.contract.task import TaskRequest

WATCH_S: Final = 0.5
"""Interval of progress reports, in seconds."""
STOP_S: Final = 0.1
"""Interval of checks whether the attempt is to stop, in seconds."""
USAGE_S: Final = 3.0
"""How long an interrupted attempt waits for the usage of its jobs."""


class Process(Protocol):
    """The process that an attempt runs in."""

    def logger(self, name: str) -> logging.Logger: ...

    def progress(self, percent: int, text: str) -> None: ...

    def own_changes(self) -> AbstractContextManager[None]:
        """Changes of the process within this context are not the task's."""

    def loaded(self) -> None:
        """The asset's modules are imported. Later changes of the process are the task's."""

    def called(self) -> None:
        """User code has returned. Ends the process if that cannot go on."""


class AttemptSpark:
    def __init__(
        self, host: SparkHost | None, request: TaskRequest, stopping: Stopping, process: Process
    ) -> None:
        self._host = host
        self.request = request
        self._stopping = stopping
        self._process = process
        self._task: SparkTask | None = None
        self._broken_off = False
        self._left = threading.Event()
        self._names: Collection[str] = ()
        self._watching: threading.Thread | None = None
        self.usage: SparkUsage | None = None
        """Known after the attempt, if it used Spark."""
        self.shows_progress = True
        """Until the function reports its own."""

    @contextlib.contextmanager
    def open_scope(self) -> Iterator[None]:
        """Within this context the attempt can have a session."""
        if self._host is None:
            yield
            return
        request = self.request
        described = f"{request.asset} {partition_text(request.partition)}".rstrip()
        size = sum(m.bytes for ref in request.inputs for m in ref.materializations)
        with self._host.task(
            request.attempt_id,
            described,
            input_bytes=size or None,
            opening=self._opening,
            on_session=self._opened,
        ) as task:
            self._task = task
            try:
                yield
            finally:
                self._left.set()
                if self._watching is not None:
                    self._watching.join(USAGE_S)
                if task.started:
                    self.usage = self._usage(task)

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        with self._stopping.shielded(), self._process.own_changes():
            yield

    def _usage(self, task: SparkTask) -> SparkUsage | None:
        """After an interruption another thread asks: an answer may be unread on this one."""
        if not self._stopping.interrupted and not self._broken_off:
            return task.usage()
        asking = threading.Thread(target=task.usage, name="spark-usage", daemon=True)
        asking.start()
        asking.join(USAGE_S)
        return None if asking.is_alive() else task.usage_so_far

    @property
    def task(self) -> SparkTask:
        """TaskFailed where this worker has no Spark."""
        if self._task is None:
            raise failed(
                "configuration",
                "spark.missing",
                f"{self.request.asset} needs Spark, which this worker does not have",
                "install it for the workers: pip install 'arco[spark]'",
            )
        return self._task

    def session(self) -> Any:
        return self.task.session

    def ship(self, names: Collection[str]) -> None:
        """Let Spark's Python processes have the functions of these modules."""
        self._names = names
        if self._task is not None and self._task.started:
            ship_as_code(names)

    def _opened(self) -> None:
        """Called for every session; only the first call has an effect."""
        if self._watching is None:
            ship_as_code(self._names)
            self._watching = threading.Thread(target=self._watch, name="spark-watch", daemon=True)
            self._watching.start()

    def _watch(self) -> None:
        task, polls = self.task, 0
        while not self._left.wait(STOP_S):
            if self._stopping.stopping():
                task.cancel()
            elif (polls := polls + 1) % round(WATCH_S / STOP_S) == 0:
                seen = (
                    task.progress()
                )  # also if it is not shown: Spark forgets the usage of old jobs
                if self.shows_progress and seen is not None:
                    self._process.progress(seen.percent, seen.text)

    @property
    def available(self) -> bool:
        return self._task is not None

    def cancel_running(self) -> None:
        if self._task is not None:
            self._task.cancel_running()

    def broken_off(self) -> None:
        """A call to the JVM may have been interrupted: its connection is not used again."""
        self._broken_off = True

    def hurt(self, error: BaseException) -> bool:
        return self._task is not None and self._task.hurt(error)

    def failure(self, error: BaseException) -> SparkFailure | None:
        """Spark's description of an error, if it is one of Spark's."""
        if self._task is None or isinstance(error, TaskFailed):
            return None
        return self._task.failure(error, (*self.request.inputs, *self.request.references))
