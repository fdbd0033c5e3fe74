"""Enqueues tasks ahead of the commit: those that appended reports make ready.

Tasks that have ended by those reports free their places at once. Ready tasks of the board go first,
by the rules of `ready_dispatch`; then those that the reports make ready, by the same rules. With
many tasks in flight nothing goes ahead: no worker waits for the next task, and the commit will do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from arco.orchestration.actions import Enqueue
from arco.orchestration.board import Board, TaskKey, kind_of
from arco.orchestration.controllers.ready_dispatch import (
    NOTHING,
    Backlog,
    Deferred,
    Turn,
    backfill_share,
    enqueue,
    in_flight,
    is_served,
    ready_dispatch,
    run_order,
    share,
)
from arco.orchestration.limits import Limits
from arco.orchestration.states import TaskState
from arco.orchestration.tables import TaskRow

SPECULATE_BELOW = 128
"""With more tasks than this in flight nothing is sent ahead of the commit."""


def is_short_of_work(board: Board, sent: Mapping[str, TaskKey], ended: Collection[TaskKey]) -> bool:
    """Whether so little is in flight that a worker may wait for the next task."""
    return len({*board.in_flight, *sent.values()}.difference(ended)) <= SPECULATE_BELOW


def send_ahead(
    board: Board,
    limits: Limits,
    turn: Turn,
    sent: Mapping[str, TaskKey],
    ended: Collection[TaskKey],
    ready: Callable[[], Iterable[TaskRow]],
    later: Deferred = NOTHING,
) -> tuple[list[Enqueue], Turn]:
    """The attempts to send now, in order.

    `sent` are attempts that have gone, and `ended` tasks whose attempts have ended, though the
    board does not show it yet. `ready` folds what was appended; it is called only if the board's
    own ready tasks leave room.
    """
    if not is_short_of_work(board, sent, ended):
        return [], turn
    if others_wait(board, sent, later):
        return ready_dispatch(board, limits, turn, sent, ended, later)
    return dispatch_ahead(board, limits, turn, sent, ended, ready(), later), turn


def dispatch_ahead(
    board: Board,
    limits: Limits,
    turn: Turn,
    sent: Mapping[str, TaskKey],
    ended: Collection[TaskKey],
    ready: Iterable[TaskRow],
    later: Deferred = NOTHING,
) -> list[Enqueue]:
    """Those of `ready` that may be enqueued now."""
    tasks = {
        (task.run_id, task.task_id): task
        for task in ready
        if task.attempt_id not in sent
        and is_served(board, task.run_id)
        and not later.has(task)
        and not board.goes_after(task)
    }
    backfills = backfill_share(board, limits, sent, ended)
    flying = in_flight(board, sent, ended, backfills)
    free = limits.max_in_flight - sum(flying.values())
    if free <= 0 or not tasks:
        return []
    backlog: Backlog = {}
    for task in sorted(tasks.values(), key=lambda task: (-task.priority, task.index)):
        runs = backlog.setdefault(task.tenant, {})
        order = (-task.priority, task.index, task.task_id)
        runs.setdefault(run_order(board, task.run_id), []).append(order)
    picks, _ = share(backlog, flying, free, limits, turn, backfills)
    return [enqueue(tasks[key]) for key in picks]


def others_wait(board: Board, sent: Mapping[str, TaskKey], later: Deferred) -> bool:
    """Whether the board has tasks that are ready, were not sent, and may go now."""
    if not board.ready:
        return False
    ready = {key: task for key in (*sent.values(), *later.tasks) if (task := _ready(board, key))}
    passed_over = {
        key for attempt, key in sent.items() if key in ready and ready[key].attempt_id == attempt
    }
    passed_over |= later.tasks & ready.keys()
    excluded = Counter(key[0] for key in passed_over if kind_of(ready[key]) not in later.kinds)
    for kind in later.kinds:
        excluded[kind[1]] += board.ready_of.get(kind, 0)
    waiting: Counter[str] = Counter()
    for runs in board.ready.values():
        waiting.update({run_id: len(orders) for run_id, orders in runs.items()})
    return any(
        count > excluded[run_id]
        for run_id, count in waiting.items()
        if run_id not in later.runs and is_served(board, run_id)
    )


def _ready(board: Board, key: TaskKey) -> TaskRow | None:
    task = board.task(*key)
    return task if task is not None and task.state == TaskState.READY else None
