"""Timers that are due: retries, and timeouts of tasks and runs."""

from __future__ import annotations

from datetime import datetime

from arco.orchestration.actions import FireTimer
from arco.orchestration.board import Board


def timers(board: Board, now: datetime) -> list[FireTimer]:
    """The timers to fire now, the oldest first. Only to be called when the inbox is empty."""
    due = [timer for timer in board.timers.values() if timer.fire_at <= now]
    due.sort(key=lambda timer: (timer.fire_at, timer.timer_id))
    return [FireTimer(timer.run_id, timer.timer_id) for timer in due]


def next_due(board: Board) -> datetime | None:
    return min((timer.fire_at for timer in board.timers.values()), default=None)
