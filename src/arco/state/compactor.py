"""The compactor: commits whenever the inbox has batches, and merges concurrently."""

from __future__ import annotations

import threading
from collections.abc import Callable

from arco.clock import Clock
from arco.errors import Error
from arco.log.commit import Committed
from arco.log.head import Head
from arco.state.merge import Merger
from arco.state.merge_loop import MergeLoop
from arco.state.writer import LogWriter
from arco.storage.outage import Outage


class Compactor:
    """Wakes on a signal from its own process, and every `interval_s`.

    After its first success, lost races and errors of the store do not end it: it waits until they
    are over. Commits and merges wait independently.
    """

    def __init__(
        self,
        clock: Clock,
        writer: LogWriter,
        merger: Merger,
        stop: threading.Event,
        *,
        interval_s: float = 1.0,
        merge_interval_s: float = 1.0,
        announce: Callable[[Head, int], None] = lambda head, events: None,
    ) -> None:
        """`announce` is called with each generation that this publishes, and its events."""
        self._committer = writer.committer
        self._signal = writer.signal
        self._stop = stop
        self._interval_s = interval_s
        self._announce = announce
        self._committing = Outage(clock, "commits")
        self._merging = MergeLoop(
            clock, merger, interval_s=merge_interval_s, on_merge=lambda head: announce(head, 0)
        )

    def run(self) -> None:
        """Commit and merge until `stop` is set; what was appended before that is committed."""
        with self._merging.beside(self._stop):
            while not self._stop.is_set():
                self._stop.wait(self.try_to_drain(self._signal.wait(self._interval_s)))
            self.try_to_drain([])

    def try_to_drain(self, names: list[str]) -> float:
        """Drain; returns the pause after an error of the store."""
        try:
            self.drain(names)
        except Error as error:
            return self._committing.failed(error)
        self._committing.passed()
        return 0.0

    def drain(self, names: list[str] | None = None) -> int:
        """Commit until the inbox is empty; returns the number of events."""
        total = 0
        while isinstance(outcome := self._committer.commit(names or ()), Committed):
            total += outcome.events
            self._announce(outcome.head, outcome.events)
            names = None
        return total
