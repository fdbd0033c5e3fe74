"""The capacity of a worker, and how much of it each task uses.

A task has a weight in slots and memory. A worker takes tasks that fit into its free capacity. Tasks
that are larger than the worker are left to others; the only worker of a queue runs them alone.

Small tasks must not delay a large one for ever: they may pass a message that does not fit for
`PASS_S`. After that the worker takes only this message, until it fits or has left the queue.
"""

from __future__ import annotations

import threading
from collections.abc import Container
from typing import NamedTuple

from arco.clock import Clock
from arco.transport.queues.port import Weight

PASS_S = 10.0
"""How long smaller tasks may pass a task that waits for room."""


class Reserved(NamedTuple):
    slots: int
    memory_mib: int


class Capacity:
    """The slots and the memory of one worker. Its threads share it."""

    def __init__(
        self,
        slots: int,
        clock: Clock,
        *,
        memory_mib: int = 0,
        alone: bool = False,
        pass_s: float = PASS_S,
    ) -> None:
        """`memory_mib` 0: memory is not counted. `alone`: no other worker has this queue."""
        self.slots = slots
        self.memory_mib = memory_mib
        self._clock = clock
        self._alone = alone
        self._pass_s = pass_s
        self._changed = threading.Condition()
        self.reserved = Reserved(0, 0)
        self._passed_since: dict[str, float] = {}
        """By message that did not fit: since when it has waited."""

    def holds(self, weight: Weight) -> bool:
        """Whether a task of this weight could run here, if nothing else did."""
        memory = not self.memory_mib or weight.memory_mib <= self.memory_mib
        return self._alone or (weight.slots <= self.slots and memory)

    def reserve(self, name: str, weight: Weight) -> bool:
        with self._changed:
            if not self.holds(weight):
                return False
            if self._awaited() not in ("", name):
                return False
            after = self._with(self._bounded(weight), 1)
            memory = not self.memory_mib or after.memory_mib <= self.memory_mib
            if after.slots > self.slots or not memory:
                self._passed_since.setdefault(name, self._clock.monotonic())
                return False
            self.reserved = after
            self._passed_since.pop(name, None)
            return True

    def release(self, weight: Weight) -> None:
        with self._changed:
            self.reserved = self._with(self._bounded(weight), -1)
            self._changed.notify_all()

    def keep(self, names: Container[str]) -> None:
        with self._changed:
            since = self._passed_since
            self._passed_since = {name: at for name, at in since.items() if name in names}

    def wait_for_room(self, timeout_s: float) -> bool:
        """Whether a slot is free by then."""
        with self._changed:
            return self._changed.wait_for(lambda: self.reserved.slots < self.slots, timeout_s)

    def _awaited(self) -> str:
        """The message that no other may pass, because it has waited for too long."""
        if not self._passed_since:
            return ""
        name, since = min(self._passed_since.items(), key=lambda item: item[1])
        return name if self._clock.monotonic() - since >= self._pass_s else ""

    def _bounded(self, weight: Weight) -> Weight:
        """The weight, limited to the capacity of the worker."""
        memory_mib = min(weight.memory_mib, self.memory_mib) if self.memory_mib else 0
        return Weight(min(weight.slots, self.slots), memory_mib)

    def _with(self, weight: Weight, sign: int) -> Reserved:
        return Reserved(
            self.reserved.slots + sign * weight.slots,
            self.reserved.memory_mib + sign * weight.memory_mib,
        )
