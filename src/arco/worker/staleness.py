"""Whether the attempt of a message is over: then its message does nothing.

A message may be delivered, or put back into the queue by somebody, long after its attempt has ended
or was replaced. Its signature is valid, so every delivery looks this up before user code runs. That
costs several reads of the store, so first deliveries share a snapshot that is at most `RECENT_S`
old. That is safe:

- An attempt that is over in an older snapshot is over for ever. (After a rollback it may be
  active again. Then its message is dropped by mistake, and the orchestrator sends another:
  it does so for every task that the queue has lost.)
- An attempt that the snapshot does not know yet is not over: messages are sent ahead of
  the commit that makes their task ready. Only its run must be known, and where it is not,
  the newest snapshot is asked.
- An attempt that ended after the snapshot is not noticed. A worker remembers its own; a replay at
  another worker within `RECENT_S` of the end runs again, and its output and reports have no effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from arco.clock import Clock
from arco.orchestration import states
from arco.orchestration.tables import TASKS, TaskRow
from arco.state.snapshot import Snapshot
from servo.contract.task import TaskRequest

RECENT_S: Final = 1.0


class Staleness:
    def __init__(self, newest: Callable[[], Snapshot], clock: Clock) -> None:
        self._newest = newest
        self._clock = clock
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._read_at = 0.0

    def recent(self) -> Snapshot:
        """A snapshot that was the newest at most `RECENT_S` ago. One thread reads it for all."""
        with self._lock:
            now = self._clock.monotonic()
            if self._snapshot is None or not 0 <= now - self._read_at < RECENT_S:
                self._snapshot, self._read_at = self._newest(), now
            return self._snapshot

    def is_over(self, request: TaskRequest) -> bool:
        """For a first delivery: whether the attempt has ended or was replaced."""
        row = _task(self.recent(), request) or _task(self._newest(), request)
        if row is None or row.state in states.TERMINAL:
            return True
        if row.attempt < request.attempt:
            return False  # sent ahead of the commit that begins this attempt
        return row.attempt > request.attempt or row.state not in states.ACTIVE_ATTEMPT

    def is_stale(self, request: TaskRequest) -> bool:
        """For a later delivery: whether the attempt is not the active one any more."""
        row = _task(self._newest(), request)
        if row is None:
            return True
        return row.attempt_id != request.attempt_id or row.state not in states.ACTIVE_ATTEMPT


def _task(snapshot: Snapshot, request: TaskRequest) -> TaskRow | None:
    return snapshot.get(TASKS, request.run_id, request.task_id)
