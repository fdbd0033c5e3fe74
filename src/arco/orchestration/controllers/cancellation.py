"""A run that is being cancelled: its workers stop, and its tasks end in chunks.

The command changes the run's row alone, whatever the run's size. From then on no task of the run is
enqueued. Workers are told to stop, and after a while their attempts are lost. Waiting tasks are
ended here by events of a bounded size, between which other runs are served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from arco.orchestration import states
from arco.orchestration.actions import CancelTasks, Interrupt, LoseAttempt
from arco.orchestration.board import Board
from arco.orchestration.limits import Timing
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import RunRow, TaskRow

CHUNK_ROWS = 500
"""One fact ends tasks until this number of tasks, and of edges from them, is reached."""


def cancellation(
    board: Board, now: datetime, timing: Timing, since: Mapping[str, datetime]
) -> list[Interrupt | LoseAttempt]:
    """`since` tells when the observer first saw a run being cancelled, by its own clock.

    Tasks that were not started are removed from the queue at once.
    """
    actions: list[Interrupt | LoseAttempt] = []
    if not any(run.state == RunState.CANCELLING for run in board.runs.values()):
        return actions
    for task in board.in_flight.values():
        run = board.runs[task.run_id]
        if run.state != RunState.CANCELLING:
            continue
        actions.append(Interrupt(task.run_id, task.attempt_id))
        reason = _lost_reason(run, task, now - since.get(run.run_id, now), timing)
        if reason:
            actions.append(LoseAttempt.of(task, reason))
    return sorted(actions, key=lambda action: action.attempt_id)


def _lost_reason(run: RunRow, task: TaskRow, waited: timedelta, timing: Timing) -> str:
    """Why an attempt is lost; empty while it is waited for."""
    if task.state == TaskState.DISPATCHED:
        return "its run was cancelled before it started"
    if run.cancel_forced:
        return "its run was cancelled by force"
    if waited > timedelta(seconds=timing.cancel_grace_s):
        return f"it did not stop within {timing.cancel_grace_s:g} s of the cancellation"
    return ""


def end_waiting(board: Board) -> list[CancelTasks]:
    """For the oldest run that is being cancelled and has tasks that wait: end some of them."""
    cancelling = [run for run in board.runs.values() if run.state == RunState.CANCELLING]
    for run in sorted(cancelling, key=lambda run: (run.cancel_requested_at, run.run_id)):
        left = run.tasks_total - run.tasks_done
        if left <= board.in_flight_in.get(run.run_id, 0):
            continue  # all other tasks are with workers
        waiting = filter(waits, board.tasks[run.run_id].values())
        for task_ids in chunks_of(waiting):
            return [CancelTasks(run.run_id, task_ids)]
    return []


def waits(task: TaskRow) -> bool:
    """Whether a task has not ended, and is with no worker."""
    return task.state not in states.TERMINAL and task.state not in states.IN_FLIGHT


def chunks_of(tasks: Iterable[TaskRow]) -> Iterator[tuple[str, ...]]:
    """The ids of tasks, as many at a time as one fact may end.

    Downstream tasks come before their upstream tasks, so that ending a task skips no others.
    """
    ids: list[str] = []
    rows = 0
    for task in sorted(tasks, key=lambda task: -task.index):
        cost = 1 + len(task.downstream)
        if ids and rows + cost > CHUNK_ROWS:
            yield tuple(ids)
            ids, rows = [], 0
        ids.append(task.task_id)
        rows += cost
    if ids:
        yield tuple(ids)
