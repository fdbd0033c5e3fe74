"""Splits the tasks to enqueue: those that no limit counts, and those to be admitted first.

A task without a limit is enqueued at once. One that a limit counts is first admitted by an event in
the log (`limit_fold.py`), and enqueued after that. So the limit holds with several orchestrators,
and if one of them dies.
"""

from __future__ import annotations

from collections.abc import Sequence

from arco.orchestration.actions import AdmitTasks, Enqueue
from arco.orchestration.board import Board, Kind
from arco.orchestration.limit_usage import limits_on
from arco.orchestration.tables import TaskRow


def limited_dispatch(
    board: Board, sending: Sequence[Enqueue], *, is_open: bool
) -> list[Enqueue | AdmitTasks]:
    """The actions for attempts, which are in the order in which they should be enqueued.

    `is_open`: the last admission is not committed yet. Then no more tasks are admitted.
    """
    if not board.declared.has_task_limits:
        return list(sending)
    use = board.task_use()
    actions: list[Enqueue | AdmitTasks] = []
    admitted: list[Enqueue] = []
    for action in sending:
        task = board.task(action.run_id, action.task_id)
        if task is None or not is_limited(board, task):
            actions.append(action)
        elif use.full(task) is None:
            use.add(task)
            admitted.append(action)
    if admitted and not (is_open or board.misses_others):
        actions.append(AdmitTasks(tuple(admitted)))
    return actions


def is_limited(board: Board, task: TaskRow | None) -> bool:
    return task is not None and next(limits_on(task, board.declared), None) is not None


def without_room(board: Board) -> frozenset[Kind]:
    """Kinds of tasks that wait for a slot of a pool: others need not wait for them."""
    if not board.pool_of or not board.declared.has_task_limits:
        return frozenset()
    use = board.task_use()
    sizes = {pool: board.declared.of_pool(pool) for pool in set(board.pool_of.values())}
    full = {pool for pool, size in sizes.items() if size is not None and use.pool(pool) >= size}
    return frozenset(kind for kind, pool in board.pool_of.items() if pool in full)
