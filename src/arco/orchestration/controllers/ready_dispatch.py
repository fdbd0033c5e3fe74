"""Which ready tasks go next: by priority within a tenant, fairly between tenants.

Deficit round-robin. Each round, a tenant that has something to send earns its
weight, and spends one for each task. What it may not spend, because its quota is
full, is forgotten: nobody saves up a claim on the others. A task in flight counts
against its tenant's quota and against the workspace's limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from arco.orchestration.actions import Enqueue
from arco.orchestration.board import Board, Order
from arco.orchestration.limits import Limits


class Turn(Struct, frozen=True):
    """Where the round stands; carried from one call to the next."""

    last: str = ""
    deficits: Mapping[str, int] = {}


def ready_dispatch(
    board: Board, limits: Limits, turn: Turn, sent: Collection[str] = ()
) -> tuple[list[Enqueue], Turn]:
    """The attempts to send now, in order. `sent` have gone, though the board lags behind."""
    flying = dict(board.in_flight_of)
    queues: dict[str, list[Order]] = {}
    for tenant, orders in board.ready.items():
        waiting = orders
        if sent:
            waiting = [o for o in orders if _attempt(board, o) not in sent]
            flying[tenant] = flying.get(tenant, 0) + len(orders) - len(waiting)
        if waiting:
            queues[tenant] = waiting
    free = limits.max_in_flight - sum(flying.values())
    if free <= 0 or not queues:
        return [], turn
    picks, turn = _share(queues, flying, free, limits, turn)
    return [_enqueue(board, order) for order in picks], turn


def _share(
    queues: Mapping[str, list[Order]],
    flying: Mapping[str, int],
    free: int,
    limits: Limits,
    turn: Turn,
) -> tuple[list[Order], Turn]:
    room = {t: max(0, limits.quota(t) - flying.get(t, 0)) for t in queues}
    taken = dict.fromkeys(queues, 0)
    deficits = {t: turn.deficits.get(t, 0) for t in queues}
    ring = _from(sorted(queues), turn.last)
    picks: list[Order] = []
    last = turn.last
    while free > 0:
        active = [t for t in ring if taken[t] < min(len(queues[t]), room[t])]
        if not active:
            break
        for tenant in active:
            deficits[tenant] += max(1, limits.weights.get(tenant, 1))
            left = min(len(queues[tenant]), room[tenant]) - taken[tenant]
            count = min(deficits[tenant], left, free)
            picks += queues[tenant][taken[tenant] : taken[tenant] + count]
            taken[tenant] += count
            deficits[tenant] -= count
            free -= count
            last = tenant
            if free == 0:
                break
    kept = {t: d for t, d in deficits.items() if d and taken[t] < min(len(queues[t]), room[t])}
    return picks, Turn(last, kept)


def _from(tenants: list[str], last: str) -> list[str]:
    """The ring of tenants, beginning after the one that went last."""
    after = [t for t in tenants if t > last]
    return after + [t for t in tenants if t <= last]


def _attempt(board: Board, order: Order) -> str:
    return board.tasks[order[2]][order[4]].attempt_id


def _enqueue(board: Board, order: Order) -> Enqueue:
    task = board.tasks[order[2]][order[4]]
    return Enqueue(task.run_id, task.task_id, task.attempt_id, task.redelivery)
