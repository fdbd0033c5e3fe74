"""Ready tasks that could not be enqueued: when to retry, and when they fail.

A task cannot be enqueued while its request cannot be built. If the run's plan or manifest is the
cause, this concerns every task of the run: one try is enough for all of them. Otherwise it concerns
only the task, e.g. if an input is missing.

    Unavailable, Denied    tried again, however long it takes
    Corrupt, NotFound      tried again for `DAMAGE_S`: stores have passing faults
    anything else          the task fails at once
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import NamedTuple

from arco.clock import Clock
from arco.errors import Corrupt, Denied, NotFound, Unavailable
from arco.orchestration.controllers.ready_dispatch import Deferred
from arco.orchestration.tables import TaskRow

log = logging.getLogger(__name__)

SEND_AGAIN_S = 2.0
"""The pause before a task is retried."""
DAMAGE_S = 30.0
"""An object that is damaged or missing for this long is a permanent error."""


class _Hindered(NamedTuple):
    """A run, or one attempt, by the monotonic clock."""

    run_id: str
    task_id: str
    since: float
    again_at: float


class EnqueueFailures:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, _Hindered] = {}
        self._attempts: dict[str, _Hindered] = {}

    def __len__(self) -> int:
        return len(self._runs) + len(self._attempts)

    def run_may_pass(self, task: TaskRow, error: Exception) -> bool:
        """Record a failure for all tasks of a run; whether it may be transient."""
        return self._may_pass(self._runs, task.run_id, f"run {task.run_id}", task, error)

    def task_may_pass(self, task: TaskRow, error: Exception) -> bool:
        """The same for one task."""
        return self._may_pass(self._attempts, task.attempt_id, task.asset_key, task, error)

    def _may_pass(
        self, failures: dict[str, _Hindered], id: str, name: str, task: TaskRow, error: Exception
    ) -> bool:
        now = self._clock.monotonic()
        before = failures.get(id)
        since = now if before is None else before.since
        damaged = isinstance(error, Corrupt | NotFound) and now - since < DAMAGE_S
        if not (damaged or isinstance(error, Unavailable | Denied)):
            return False
        if before is None:
            log.warning("%s will be enqueued later: %s", name, error)
        failures[id] = _Hindered(task.run_id, task.task_id, since, now + SEND_AGAIN_S)
        return True

    def run_passed(self, task: TaskRow) -> None:
        self._runs.pop(task.run_id, None)

    def task_passed(self, task: TaskRow) -> None:
        self._attempts.pop(task.attempt_id, None)

    def waits(self, task: TaskRow) -> bool:
        """Whether it is too early for a retry."""
        hindered = (self._runs.get(task.run_id), self._attempts.get(task.attempt_id))
        now = self._clock.monotonic()
        return any(each is not None and now < each.again_at for each in hindered)

    def later(self) -> Deferred:
        """The tasks that wait for a retry."""
        now = self._clock.monotonic()
        attempts = self._attempts.values()
        return Deferred(
            frozenset(run_id for run_id, each in self._runs.items() if now < each.again_at),
            frozenset((each.run_id, each.task_id) for each in attempts if now < each.again_at),
        )

    def keep(self, runs: Collection[str], is_awaited: Callable[[str, str, str], bool]) -> None:
        """Forget runs that have ended, and attempts that do not wait any more."""
        self._runs = {id: each for id, each in self._runs.items() if id in runs}
        self._attempts = {
            id: each
            for id, each in self._attempts.items()
            if is_awaited(id, each.run_id, each.task_id)
        }
