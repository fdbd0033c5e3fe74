"""What got lost between the log and the queue is sent again.

A task that is ready is sent by ready-dispatch, as often as it takes. A task that
was sent and that nobody started in time may have been lost with its queue; if the
queue does not have it, it goes again, under a new name: under the old one a queue
that remembers names would drop it in silence.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from arco.orchestration import states
from arco.orchestration.actions import Enqueue
from arco.orchestration.board import Board
from arco.orchestration.limits import Timing
from arco.orchestration.tables import TaskRow


def unstarted(board: Board, now: datetime, timing: Timing) -> list[TaskRow]:
    """Tasks that were sent a while ago and that nobody has started, by attempt."""
    limit = timedelta(seconds=timing.redeliver_after_s)
    found = [
        task
        for task in board.in_flight.values()
        if task.state == states.DISPATCHED
        and task.dispatched_at is not None
        and now - task.dispatched_at > limit
    ]
    return sorted(found, key=lambda task: task.attempt_id)


def anti_entropy(
    board: Board, now: datetime, timing: Timing, gone: Collection[str]
) -> list[Enqueue]:
    """`gone` are attempts that the queue says it does not have."""
    return [
        Enqueue(task.run_id, task.task_id, task.attempt_id, task.redelivery + 1)
        for task in unstarted(board, now, timing)
        if task.attempt_id in gone
    ]
