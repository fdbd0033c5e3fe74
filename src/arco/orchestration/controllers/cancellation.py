"""What runs while its run is being cancelled: told to stop, and given up after a while."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from arco.orchestration import states
from arco.orchestration.actions import Interrupt, LoseAttempt
from arco.orchestration.board import Board
from arco.orchestration.limits import Timing


def cancellation(
    board: Board, now: datetime, timing: Timing, since: Mapping[str, datetime]
) -> list[Interrupt | LoseAttempt]:
    """`since` tells when the observer first saw a run being cancelled, by its own clock.

    What nobody has started is taken back at once.
    """
    grace = timedelta(seconds=timing.cancel_grace_s)
    found: list[Interrupt | LoseAttempt] = []
    if not any(run.state == states.RUN_CANCELLING for run in board.runs.values()):
        return found
    for task in board.in_flight.values():
        run = board.runs[task.run_id]
        if run.state != states.RUN_CANCELLING:
            continue
        found.append(Interrupt(task.attempt_id))
        reason = ""
        if task.state == states.DISPATCHED:
            reason = "its run was cancelled before it started"
        elif now - since.get(run.run_id, now) > grace:
            reason = f"it did not stop within {timing.cancel_grace_s:g} s of the cancellation"
        if reason:
            found.append(
                LoseAttempt(task.run_id, task.task_id, task.attempt_id, reason, task.worker_id)
            )
    return sorted(found, key=lambda action: action.attempt_id)
