"""Which ready tasks go next: by priority within a tenant, fairly between tenants.

Deficit round-robin. When its turn comes, a tenant that has something to send earns
its weight, and spends one for each task. If the workspace is full before that is
spent, its turn goes on with the next call: slots that become free one by one are
shared as those that are free at once. What it may not spend, because its quota is
full or it has nothing more to send, is forgotten: nobody saves up a claim on the
others. A task in flight counts against its tenant's quota and against the
workspace's limit.
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
    """Whose turn it was."""
    left: int = 0
    """What that tenant may still spend."""


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
    waiting = {t: queue[: room[t]] for t, queue in queues.items() if room[t]}
    ring = _from(sorted(waiting), turn)
    taken = dict.fromkeys(ring, 0)
    picks: list[Order] = []
    while ring and free > 0:
        for tenant in ring:
            earned = max(1, limits.weights.get(tenant, 1))
            if turn.last == tenant and turn.left:
                earned = turn.left
            at = taken[tenant]
            going = waiting[tenant][at : at + min(earned, free)]
            picks += going
            taken[tenant] += len(going)
            free -= len(going)
            full = free == 0 and taken[tenant] < len(queues[tenant])
            turn = Turn(tenant, earned - len(going) if full else 0)
            if free == 0:
                break
        ring = [t for t in ring if taken[t] < len(waiting[t])]
    return picks, turn


def _from(tenants: list[str], turn: Turn) -> list[str]:
    """The ring of tenants, beginning with the one whose turn it is."""
    before = [t for t in tenants if t < turn.last or (t == turn.last and not turn.left)]
    return tenants[len(before) :] + before


def _attempt(board: Board, order: Order) -> str:
    return board.tasks[order[2]][order[4]].attempt_id


def _enqueue(board: Board, order: Order) -> Enqueue:
    task = board.tasks[order[2]][order[4]]
    return Enqueue(task.run_id, task.task_id, task.attempt_id, task.redelivery)
