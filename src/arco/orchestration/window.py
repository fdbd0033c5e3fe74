"""How many tasks may be with the queue or a worker: as many as the live slots need.

Tasks that become ready later cannot overtake tasks in the queue. So the queue holds only what keeps
the workers busy until the orchestrator's next round:

- one waiting task for each slot, so that slots which become free at once all go on;
- where tasks are short, twice as many as ended in the last round.

Slots are those of workers whose liveness records change. A worker without work has no record: until
one is seen, a few slots are assumed, and what is seen to run counts as a slot too. So the window
doubles in each round while slots are idle. The workspace's `max_concurrent_tasks` is the upper
bound.

Tasks that take several slots, or memory, wait for workers that are large enough, and others do not
wait for them. Those that were not started take no place of other tasks. How many are sent:

- of each weight as many as the live workers have room for, and as many again;
- of a weight that no live worker is large enough for, a few: one without work may be;
- of all weights together, slots for slots, no more than the window has, or one of each weight;
- no more than half of `max_concurrent_tasks` of the workspace, and of a tenant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from arco.orchestration.board import Board, TaskKey
from arco.orchestration.controllers.lost_attempts import WorkerState
from arco.orchestration.limits import Limits, Timing, dispatch_limits
from arco.orchestration.states import TaskState
from arco.orchestration.tables import TaskRow
from servo.contract.manifest import Resources

ASSUMED_SLOTS = 8
"""While no worker is known."""
FEWEST_SLOTS = 2
UNPLACED = 4
"""Tasks of one weight that are sent although no live worker is large enough."""
FADING = 0.8
"""The weight of ended tasks decreases by this factor in each round."""
ORDINARY = Resources()
"""One slot, without a memory limit."""
Weights = Mapping[TaskKey, Resources]
"""Of tasks with the queue or a worker that are not ordinary."""
_WEIGHTLESS: Weights = {}


class DispatchWindow:
    def __init__(self, timing: Timing, slots: int = 0) -> None:
        """`slots` are those of the only worker of the queue; 0: ask the liveness records."""
        self._silent = timedelta(seconds=timing.zombie_after_s)
        self._own = slots
        self._slots = slots
        self._workers: list[WorkerState] = []
        """Those with slots, and a recent heartbeat."""
        self._ended: dict[Resources, float] = {}
        """By weight."""

    def saw_workers(self, alive: Mapping[str, WorkerState], now: datetime) -> None:
        if not self._own:
            self._workers = live_workers(alive.values(), now, self._silent)
            self._slots = sum(worker.slots for worker in self._workers)

    def forget(self) -> None:
        """The last observation is too old: forget it."""
        self._slots, self._ended = self._own, {}
        self._workers = []

    def saw_flight(
        self,
        before: Collection[TaskKey],
        after: Collection[TaskKey],
        weights: Weights = _WEIGHTLESS,
    ) -> None:
        """The tasks in flight in the last round, and now. `weights` are those of the last round."""
        ended = Counter(weights.get(key, ORDINARY) for key in before if key not in after)
        faded = {weight: count * FADING for weight, count in self._ended.items()}
        largest = {w: max(ended[w], faded.get(w, 0.0)) for w in {*ended, *faded}}
        self._ended = {weight: count for weight, count in largest.items() if count >= 0.5}

    def limits(self, board: Board, weights: Weights = _WEIGHTLESS) -> Limits:
        """The limits for what is sent now."""
        waiting = _waiting(board, weights)
        flight = [key for key in board.in_flight if key not in waiting]
        running = sum(task.state == TaskState.RUNNING for task in board.in_flight.values())
        slots = math.ceil(self._slots / _mean_slots(flight, weights))
        size = window_size(slots, running, self._ended_of(ORDINARY)) + len(waiting)
        limits = dispatch_limits(board.declared, (board.elsewhere or {}).values())
        most = limits.max_in_flight
        return msgspec.structs.replace(
            limits,
            max_in_flight=min(most, size),
            backfills_in_flight=min(most, backfill_window(slots, running, size)),
        )

    def has_room(self, weight: Resources, tenant: str, board: Board, weights: Weights) -> bool:
        """Whether one more task of this weight may be sent now."""
        if weight == ORDINARY:
            return True
        waiting = _waiting(board, weights)
        own = sum(task is not None and task.tenant == tenant for task in waiting.values())
        limits = dispatch_limits(board.declared, (board.elsewhere or {}).values())
        full = len(waiting) >= max(1, limits.max_in_flight // 2)
        if full or own >= max(1, limits.quota(tenant) // 2):
            return False
        alike = [key for key, other in weights.items() if other == weight]
        unstarted = sum(key in waiting for key in alike)
        running = len(alike) - unstarted
        room = self._room(weight)
        if not room:
            return unstarted < max(running, UNPLACED)
        within = len(alike) < window_size(room, running, self._ended_of(weight))
        return within and (not unstarted or self._shares(weight, waiting, weights))

    def _shares(self, weight: Resources, waiting: Collection[TaskKey], weights: Weights) -> bool:
        """Whether a task fits into what all weights that workers have room for may wait for."""
        waiting_cpu = sum(weights[key].cpu for key in waiting if self._room(weights[key]))
        ended = sum(w.cpu * self._ended_of(w) for w in self._ended if w != ORDINARY)
        return waiting_cpu + weight.cpu <= self._slots + max(self._slots, 2 * ended)

    def _room(self, weight: Resources) -> int:
        """How many tasks of a weight the live workers have room for, if they have no others."""
        if self._own:
            return max(1, self._own // weight.cpu)  # a task that is too large runs alone
        return sum(room_for(worker, weight) for worker in self._workers)

    def _ended_of(self, weight: Resources) -> int:
        return int(self._ended.get(weight, 0.0))


def room_for(worker: WorkerState, weight: Resources) -> int:
    """How many tasks of a weight a worker has room for, if it has no others."""
    slots = worker.slots // weight.cpu
    if not (worker.memory_mib and weight.memory_mib):
        return slots
    return min(slots, worker.memory_mib // weight.memory_mib)


def _waiting(board: Board, weights: Weights) -> dict[TaskKey, TaskRow | None]:
    """The tasks that are not ordinary, and that nobody has started."""
    tasks = {key: board.in_flight.get(key) or board.task(*key) for key in weights}
    return {
        key: task for key, task in tasks.items() if task is None or task.state != TaskState.RUNNING
    }


def _mean_slots(flight: Collection[TaskKey], weights: Weights) -> float:
    """How many slots a task takes, on average."""
    more = sum(weights.get(key, ORDINARY).cpu - 1 for key in flight)
    return 1 + more / len(flight) if flight else 1.0


def live_workers(
    workers: Iterable[WorkerState], now: datetime, silent: timedelta
) -> list[WorkerState]:
    return [worker for worker in workers if worker.slots and now - worker.changed_at <= silent]


def window_size(slots: int, running: int, ended: int) -> int:
    """`ended` is the number of tasks that end in one round."""
    busy = _busy(slots, running)
    return busy + max(busy, 2 * ended)


def backfill_window(slots: int, running: int, size: int) -> int:
    """The part of a window for tasks of backfills: little more than the slots, so that few of them
    wait in the queue before others."""
    return max(_busy(slots, running), size // 2) + max(1, size // 10)


def _busy(slots: int, running: int) -> int:
    return max(slots, running, FEWEST_SLOTS) if slots else max(running, ASSUMED_SLOTS)
