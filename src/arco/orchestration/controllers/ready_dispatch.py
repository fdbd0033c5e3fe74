"""Which ready tasks go next: fairly between tenants, and between the runs of a tenant.

Deficit round-robin between tenants. When its turn comes, a tenant that has something to send earns
its weight, and spends one for each task. If the workspace is full before that is spent, its turn
goes on with the next call: slots that become free one by one are shared as those that are free at
once. What it cannot spend, because its quota is full or it has nothing more to send, is lost:
tenants do not accumulate credit. A task in flight counts against its tenant's quota and against the
workspace's limit.

What a tenant may send goes by priority; tasks of one priority go by turns, one of each
run: a run waits for the others' next task, and not for all of their tasks. Nothing is sent
of a run that is being cancelled, and no task while an older run makes the same partition.

Runs of backfills have the least priority. So that they are never starved, a tenth of what may be
in flight is theirs while they have work. Beyond that they fill the slots that others leave free,
and hardly more (`window.py`). Those of their tasks that wait in the queue take no room of others:
workers take them after all others, and one in ten (`queues/port.py`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from arco.orchestration.actions import Enqueue
from arco.orchestration.board import Board, Kind, TaskKey, TaskOrder, kind_of
from arco.orchestration.limits import Limits
from arco.orchestration.states import RunState, RunTrigger, TaskState
from arco.orchestration.tables import TaskRow

RunOrder = tuple[datetime, str]
"""The older run goes first."""
Pick = tuple[RunOrder, str]
"""A task of a run."""
Backlog = dict[str, dict[RunOrder, list[TaskOrder]]]
"""What may be sent, by tenant and run."""


class Turn(Struct, frozen=True):
    """The state of the round, from one call to the next."""

    last: str = ""
    """Whose turn it was."""
    left: int = 0
    """What that tenant may still spend."""
    runs: Mapping[str, RunOrder] = {}
    """By tenant: the run that was served last."""


class Deferred(Struct, frozen=True):
    """Ready tasks that cannot be enqueued now. They take no place of others."""

    runs: frozenset[str] = frozenset()
    tasks: frozenset[TaskKey] = frozenset()
    kinds: frozenset[Kind] = frozenset()

    def has(self, task: TaskRow) -> bool:
        key = task.run_id, task.task_id
        return task.run_id in self.runs or key in self.tasks or kind_of(task) in self.kinds


NOTHING = Deferred()


class BackfillShare(Struct, frozen=True):
    """The share of runs of backfills."""

    runs: frozenset[str] = frozenset()
    least: int = 0
    """How many of their tasks go before others."""
    most: int = 0
    """Maximum of their tasks to enqueue."""
    waiting: Mapping[str, int] = {}
    """By tenant: those that were not started. They take no place of others."""


NO_BACKFILLS = BackfillShare()


def ready_dispatch(
    board: Board,
    limits: Limits,
    turn: Turn,
    sent: Mapping[str, TaskKey] | None = None,
    ended: Collection[TaskKey] = (),
    later: Deferred = NOTHING,
) -> tuple[list[Enqueue], Turn]:
    """The attempts to enqueue now, in order.

    `sent` are attempts that were enqueued, and `ended` tasks whose attempts have ended, where the
    board does not show it yet.
    """
    sent = sent or {}
    if not board.ready:
        return [], turn
    backfills = backfill_share(board, limits, sent, ended)
    flying = in_flight(board, sent, ended, backfills)
    free = limits.max_in_flight - sum(flying.values())
    if free <= 0:
        return [], turn
    enqueued = {key for attempt, key in sent.items() if _attempt(board, key) == attempt}
    # One more than is free tells whether a tenant has something left to send.
    backlog = _backlog(board, enqueued, later, free + 1)
    picks, turn = share(backlog, flying, free, limits, turn, backfills)
    return [enqueue(board.tasks[run_id][task_id]) for run_id, task_id in picks], turn


def in_flight(
    board: Board,
    sent: Mapping[str, TaskKey],
    ended: Collection[TaskKey] = (),
    backfills: BackfillShare = NO_BACKFILLS,
) -> dict[str, int]:
    """By tenant: tasks that are with the queue or a worker, by the board or by `sent`, without
    those of backfills that wait."""
    counts = dict(board.in_flight_of)
    for tenant, waiting in backfills.waiting.items():
        counts[tenant] = counts.get(tenant, 0) - waiting
    for key in ended:
        if key in board.in_flight:
            counts[board.in_flight[key].tenant] -= 1
    for key in sent.values():
        task = board.task(*key)
        if task is not None and key not in board.in_flight and key not in ended:
            counts[task.tenant] = counts.get(task.tenant, 0) + 1
    return counts


def backfill_share(
    board: Board, limits: Limits, sent: Mapping[str, TaskKey], ended: Collection[TaskKey] = ()
) -> BackfillShare:
    """What runs of backfills may send now, by what they have in flight."""
    runs = frozenset(id for id, run in board.runs.items() if run.trigger == RunTrigger.BACKFILL)
    if not runs:
        return NO_BACKFILLS
    keys = {*board.in_flight, *sent.values()}.difference(ended)
    own = [key for key in keys if key[0] in runs]
    least = max(1, limits.max_in_flight // 10)
    room = (limits.backfills_in_flight or limits.max_in_flight) - (len(keys) - len(own))
    tasks = [task for key in own if (task := board.task(*key)) is not None]
    waiting = Counter(task.tenant for task in tasks if task.state != TaskState.RUNNING)
    least_now = max(0, least - len(own))
    return BackfillShare(runs, least_now, max(0, max(least, room) - len(own)), waiting)


def _backlog(board: Board, enqueued: set[TaskKey], later: Deferred, limit: int) -> Backlog:
    """The first tasks of each run that are ready, were not enqueued, and may be."""
    passed_over = enqueued | later.tasks
    kinds_of: dict[tuple[str, str], set[Kind]] = {}
    for kind in later.kinds:
        kinds_of.setdefault(kind[:2], set()).add(kind)
    backlog: Backlog = {}
    for tenant, runs in board.ready.items():
        for run_id, orders in runs.items():
            if run_id in later.runs or not is_served(board, run_id):
                continue
            kinds = kinds_of.get((tenant, run_id), set())
            if sum(board.ready_of.get(kind, 0) for kind in kinds) == len(orders):
                continue  # all of them are deferred
            tasks = board.tasks[run_id]
            waiting = (
                order
                for order in orders
                if (run_id, order[2]) not in passed_over and not board.goes_after(tasks[order[2]])
            )
            if kinds:
                waiting = (order for order in waiting if kind_of(tasks[order[2]]) not in kinds)
            if first := list(itertools.islice(waiting, limit)):
                backlog.setdefault(tenant, {})[run_order(board, run_id)] = first
    return backlog


def share(
    backlog: Backlog,
    flying: Mapping[str, int],
    free: int,
    limits: Limits,
    turn: Turn,
    backfills: BackfillShare = NO_BACKFILLS,
) -> tuple[list[TaskKey], Turn]:
    queues = {tenant: _by_turns(runs, turn.runs.get(tenant)) for tenant, runs in backlog.items()}
    if backfills.runs:
        queues = _with_share(queues, backfills)
    room = {tenant: max(0, limits.quota(tenant) - flying.get(tenant, 0)) for tenant in queues}
    waiting = {tenant: queue[: room[tenant]] for tenant, queue in queues.items() if room[tenant]}
    ring = _from(sorted(waiting), turn)
    picked = dict.fromkeys(ring, 0)
    picks: list[TaskKey] = []
    served = {tenant: run for tenant, run in turn.runs.items() if tenant in backlog}
    last, left = turn.last, turn.left
    while ring and free > 0:
        for tenant in ring:
            earned = max(1, limits.weights.get(tenant, 1))
            if last == tenant and left:
                earned = left
            at = picked[tenant]
            chosen = waiting[tenant][at : at + min(earned, free)]
            picks += [(run[1], task_id) for run, task_id in chosen]
            served[tenant] = chosen[-1][0]
            picked[tenant] += len(chosen)
            free -= len(chosen)
            full = free == 0 and picked[tenant] < len(queues[tenant])
            last, left = tenant, earned - len(chosen) if full else 0
            if free == 0:
                break
        ring = [tenant for tenant in ring if picked[tenant] < len(waiting[tenant])]
    return picks, Turn(last, left, served)


def _with_share(
    queues: Mapping[str, list[Pick]], backfills: BackfillShare
) -> dict[str, list[Pick]]:
    """The same, with the share of backfills in front, and what they may not send left out."""
    least, most = backfills.least, backfills.most
    shared: dict[str, list[Pick]] = {}
    for tenant in sorted(queues):
        others = [pick for pick in queues[tenant] if pick[0][1] not in backfills.runs]
        own = [pick for pick in queues[tenant] if pick[0][1] in backfills.runs][:most]
        if others or own:
            shared[tenant] = own[:least] + others + own[least:]
        least, most = max(0, least - len(own)), most - len(own)
    return shared


def _by_turns(runs: Mapping[RunOrder, Sequence[TaskOrder]], last: RunOrder | None) -> list[Pick]:
    """A tenant's tasks by priority; within one, its runs by turns, after the one served last."""
    ring = sorted(runs)
    if last is not None:
        ring = [run for run in ring if run > last] + [run for run in ring if run <= last]
    by_priority: dict[int, dict[RunOrder, list[str]]] = {}
    for run in ring:
        for priority, _, task_id in runs[run]:
            by_priority.setdefault(priority, {}).setdefault(run, []).append(task_id)
    return [pick for priority in sorted(by_priority) for pick in _one_each(by_priority[priority])]


def _one_each(queues: Mapping[RunOrder, Sequence[str]]) -> Iterator[Pick]:
    for number in range(max(map(len, queues.values()))):
        for run, queue in queues.items():
            if number < len(queue):
                yield run, queue[number]


def _from(tenants: list[str], turn: Turn) -> list[str]:
    """The ring of tenants, beginning with the one whose turn it is."""
    before = [t for t in tenants if t < turn.last or (t == turn.last and not turn.left)]
    return tenants[len(before) :] + before


def is_served(board: Board, run_id: str) -> bool:
    run = board.runs.get(run_id)
    return run is not None and run.state != RunState.CANCELLING


def run_order(board: Board, run_id: str) -> RunOrder:
    return board.runs[run_id].created_at, run_id


def _attempt(board: Board, key: TaskKey) -> str:
    task = board.task(*key)
    return "" if task is None else task.attempt_id


def enqueue(task: TaskRow) -> Enqueue:
    return Enqueue(task.run_id, task.task_id, task.attempt_id, task.redelivery)
