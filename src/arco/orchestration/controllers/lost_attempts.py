"""Lost attempts: their worker is dead, or does not run them any more.

A worker that has work rewrites its liveness record. How long it has been silent is measured by the
observer's own clock since the record last changed, so that differences between clocks have no
effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from arco.orchestration.actions import LoseAttempt
from arco.orchestration.board import Board
from arco.orchestration.limits import Timing
from arco.orchestration.states import TaskState


class WorkerState(Struct, frozen=True):
    """What is known of a worker."""

    changed_at: datetime
    """When its record was last seen to change, by the observer's clock."""
    attempts: frozenset[str]
    """The attempts that it runs, by its record."""
    slots: int = 0
    """Maximum number of concurrent tasks of the workspace's queue."""
    memory_mib: int = 0
    """How much memory it has for them; 0: it does not count."""


def lost_attempts(
    board: Board,
    alive: Mapping[str, WorkerState],
    now: datetime,
    timing: Timing,
    since: Mapping[str, datetime],
) -> list[LoseAttempt]:
    """`since` tells when the observer first saw an attempt run, by its own clock."""
    silent = timedelta(seconds=timing.zombie_after_s)
    actions = []
    for task in board.in_flight.values():
        if task.state != TaskState.RUNNING or task.started_at is None:
            continue
        worker = alive.get(task.worker_id)
        changed_at = since.get(task.attempt_id, now)
        if worker is None:
            reason = f"worker {task.worker_id} has no liveness record"
        elif task.attempt_id not in worker.attempts:
            reason = f"worker {task.worker_id} no longer works on it"
        else:
            reason = f"worker {task.worker_id} has had no heartbeat for {timing.zombie_after_s:g} s"
            changed_at = worker.changed_at
        if now - changed_at > silent:
            actions.append(LoseAttempt.of(task, reason))
    return sorted(actions, key=lambda lost: lost.attempt_id)
