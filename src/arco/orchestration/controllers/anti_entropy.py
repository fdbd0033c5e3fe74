"""Enqueues tasks again that the queue has lost.

Ready-dispatch enqueues ready tasks, and retries failures. A task that was enqueued and not started
in time may have been lost with its queue. If the queue does not have it, it is enqueued again under
a new name: a queue that remembers names would drop the old one without an error.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from arco.orchestration.actions import Enqueue, LoseAttempt
from arco.orchestration.board import Board
from arco.orchestration.limits import Timing
from arco.orchestration.states import TaskState
from arco.orchestration.tables import TaskRow

MAX_REDELIVERIES = 5
"""An attempt that was enqueued again this often and never started is lost."""


def unstarted(board: Board, now: datetime, timing: Timing) -> list[TaskRow]:
    """Tasks that were enqueued a while ago and not started, by attempt."""
    limit = timedelta(seconds=timing.redeliver_after_s)
    tasks = [
        task
        for task in board.in_flight.values()
        if task.state == TaskState.DISPATCHED
        and task.dispatched_at is not None
        and now - task.dispatched_at > limit
    ]
    return sorted(tasks, key=lambda task: task.attempt_id)


def anti_entropy(
    board: Board, now: datetime, timing: Timing, missing: Collection[str]
) -> list[Enqueue | LoseAttempt]:
    """`missing` are attempts that the queue does not have."""
    return [
        _redelivered(task) for task in unstarted(board, now, timing) if task.attempt_id in missing
    ]


def _redelivered(task: TaskRow) -> Enqueue | LoseAttempt:
    if task.redelivery < MAX_REDELIVERIES:
        return Enqueue(task.run_id, task.task_id, task.attempt_id, task.redelivery + 1)
    reason = (
        f"it was enqueued {MAX_REDELIVERIES + 1} times and no worker started it; "
        "check that workers and orchestrator have the same ARCO_TASK_KEYS"
    )
    return LoseAttempt.of(task, reason)
