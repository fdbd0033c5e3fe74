"""How many tasks may be with the queue or a worker: as many as the live slots need.

What is in the queue cannot be overtaken by what becomes ready later. So the queue holds
no more than keeps the workers busy until the orchestrator comes round again:

- one waiting task for each slot, so that slots which become free at once all go on;
- where tasks are short, twice as many as ended from one look to the next.

Slots are those of workers whose liveness records change. A worker without work has no
record: until one is seen, a few slots are assumed, and what is seen to run counts as a
slot too. So the window doubles from one look to the next while slots are idle.
`--max-in-flight` is the upper bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from arco.orchestration import states
from arco.orchestration.board import Board, TaskKey
from arco.orchestration.controllers.zombies import Alive
from arco.orchestration.limits import Limits, Timing

ASSUMED_SLOTS = 8
"""While no worker is known."""
FEWEST_SLOTS = 2
FADING = 0.8
"""What ended in one look counts for less in each of the next."""


class Window:
    def __init__(self, limits: Limits, timing: Timing, slots: int = 0) -> None:
        """`slots` are those of the only worker of the queue; 0: ask the liveness records."""
        self._limits = limits
        self._silent = timedelta(seconds=timing.zombie_after_s)
        self._own = slots
        self._slots = slots
        self._ended = 0.0

    def saw_workers(self, alive: Mapping[str, Alive], now: datetime) -> None:
        if not self._own:
            self._slots = live_slots(alive.values(), now, self._silent)

    def forget(self) -> None:
        """Nobody has looked for so long that what was seen says nothing about now."""
        self._slots, self._ended = self._own, 0.0

    def saw_flight(self, before: Collection[TaskKey], after: Collection[TaskKey]) -> None:
        """What was with the queue or a worker at the last look, and what is now."""
        ended = sum(key not in after for key in before)
        self._ended = max(ended, self._ended * FADING)

    def limits(self, board: Board) -> Limits:
        """The limits for what is sent now."""
        running = sum(task.state == states.RUNNING for task in board.in_flight.values())
        size = window_size(self._slots, running, int(self._ended))
        return msgspec.structs.replace(
            self._limits, max_in_flight=min(self._limits.max_in_flight, size)
        )


def live_slots(workers: Iterable[Alive], now: datetime, silent: timedelta) -> int:
    return sum(worker.slots for worker in workers if now - worker.changed_at <= silent)


def window_size(slots: int, running: int, ended: int) -> int:
    """`ended` is how many tasks end from one look to the next."""
    busy = max(slots, running, FEWEST_SLOTS) if slots else max(running, ASSUMED_SLOTS)
    return busy + max(busy, 2 * ended)
