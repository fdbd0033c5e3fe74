"""Reports: events of one process on their way into the log.

Whoever has something to report hands it over and goes on. What is urgent (a task has
finished) wakes whoever flushes; what is not (an acknowledgement) waits a moment for
something to go with. All that waits goes in one batch: that is what makes many small
tasks cheap.

Reports are facts, and facts may be folded twice: after an append whose outcome is
unknown they are simply appended again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from arco.clock import Clock
from arco.errors import Invalid, Unavailable
from arco.log.append import Ledger
from arco.log.envelope import MAX_BATCH_EVENTS, Event, Payload

log = logging.getLogger(__name__)

BATCH_BYTES = 4 << 20
Done = Callable[[], None]


class Reports:
    def __init__(self, ledger: Ledger, clock: Clock, *, linger_s: float = 0.05) -> None:
        self._ledger = ledger
        self._clock = clock
        self._linger_s = linger_s
        self._condition = threading.Condition()
        self._waiting: list[tuple[Event, Done | None]] = []
        self._since = 0.0
        self._urgent = False
        self.wake: Callable[[], None] = lambda: None
        """Called when something urgent has come in."""

    def submit(
        self, payloads: Sequence[Payload], *, urgent: bool = True, done: Done | None = None
    ) -> None:
        """Hand over events. `done` is called once they are durable."""
        events = [self._ledger.event(payload) for payload in payloads]
        with self._condition:
            if not self._waiting:
                self._since = self._clock.monotonic()
            self._waiting += [(event, None) for event in events[:-1]]
            self._waiting.append((events[-1], done))
            self._urgent = self._urgent or urgent
            self._condition.notify_all()
        if urgent:
            self.wake()

    @property
    def due_in_s(self) -> float | None:
        """How long what waits may still wait; None if nothing does."""
        with self._condition:
            if not self._waiting:
                return None
            if self._urgent:
                return 0.0
            return max(0.0, self._since + self._linger_s - self._clock.monotonic())

    def flush(self) -> list[str]:
        """Append all that waits; the names of the batches. Raises Unavailable: they wait on."""
        names: list[str] = []
        with self._condition:
            left = len(self._waiting)
        while left > 0:
            with self._condition:
                taken, self._waiting = _first(self._waiting)
                if not self._waiting:
                    self._urgent = False
            left -= len(taken)
            if not taken:
                break
            try:
                names.append(self._append(taken))
            except Unavailable:
                with self._condition:
                    self._waiting = taken + self._waiting
                    self._urgent = True
                raise
            for _, done in taken:
                if done is not None:
                    done()
        return names

    def _append(self, taken: Sequence[tuple[Event, Done | None]]) -> str:
        try:
            return self._ledger.append([event for event, _ in taken], notify=False).batch
        except Invalid:
            if len(taken) == 1:
                log.exception("this report cannot be appended, and is dropped: %r", taken[0][0])
                return ""
            half = len(taken) // 2
            self._append(taken[:half])
            return self._append(taken[half:])

    def run(self, stop: threading.Event) -> None:
        """Flush whenever something is due, until `stop` is set and nothing waits."""
        while True:
            due = self.due_in_s
            if due == 0.0 or (due is not None and stop.is_set()):
                try:
                    self.flush()
                except Unavailable as error:
                    log.warning("will report again: %s", error)
                    self._clock.sleep(0.5)
                continue
            if due is None and stop.is_set():
                return
            with self._condition:
                if not self._urgent:
                    self._condition.wait(min(due, 0.5) if due is not None else 0.5)


def _first(
    waiting: list[tuple[Event, Done | None]],
) -> tuple[list[tuple[Event, Done | None]], list[tuple[Event, Done | None]]]:
    """As many as go into one batch, and the rest."""
    size = 0
    for i, (event, _) in enumerate(waiting):
        size += len(event.data) + 400
        if i >= MAX_BATCH_EVENTS or size > BATCH_BYTES:
            return waiting[:i], waiting[i:]
    return waiting, []
