"""What got lost between the log and the queue is sent again.

A task that is ready is sent by ready-dispatch, as often as it takes. A task that
was sent and that nobody started in time may have been lost with its queue; if the
queue does not have it, it goes again, under a new name: under the old one a queue
that remembers names would drop it in silence.
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
"""An attempt that was sent so often again, and never started, is given up."""


def unstarted(board: Board, now: datetime, timing: Timing) -> list[TaskRow]:
    """Tasks that were sent a while ago and that nobody has started, by attempt."""
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
    """`missing` are attempts that the queue says it does not have."""
    return [_again(task) for task in unstarted(board, now, timing) if task.attempt_id in missing]


def _again(task: TaskRow) -> Enqueue | LoseAttempt:
    if task.redelivery < MAX_REDELIVERIES:
        return Enqueue(task.run_id, task.task_id, task.attempt_id, task.redelivery + 1)
    reason = (
        f"it was enqueued {MAX_REDELIVERIES + 1} times and no worker started it; "
        "check that workers and orchestrator have the same ARCO_TASK_KEYS"
    )
    return LoseAttempt.of(task, reason)
