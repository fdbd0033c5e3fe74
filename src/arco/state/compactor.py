"""The compactor: commits whenever there is something, and merges beside that."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa

from arco.clock import Clock
from arco.errors import Error
from arco.log.append import Signal
from arco.log.commit import Committed, Committer
from arco.log.head import Head
from arco.state.merge import Merger
from arco.storage.outage import Outage


class Compactor:
    """Wakes on a signal from its own process, and looks by itself every `interval_s`.

    Losing races and errors of the store are part of its life, once it has reached the store:
    it waits, and goes on when they are over. Commits and merges wait independently.
    """

    def __init__(
        self,
        committer: Committer,
        merger: Merger,
        signal: Signal,
        stop: threading.Event,
        clock: Clock,
        *,
        interval_s: float = 1.0,
        merge_interval_s: float = 1.0,
        announce: Callable[[Head, int], None] = lambda head, events: None,
    ) -> None:
        """`announce` is told of each generation that this publishes, and its events."""
        self._committer = committer
        self._merger = merger
        self._signal = signal
        self._stop = stop
        self._interval_s = interval_s
        self._merge_interval_s = merge_interval_s
        self._announce = announce
        self._committing = Outage(clock, "commits")
        self._merging = Outage(clock, "merges")
        self.failed: Exception | None = None
        """What ended the merges for good."""

    def run(self) -> None:
        """Commit and merge until `stop` is set; what was appended before that is committed."""
        merging = threading.Thread(target=self.merge_until_stopped, name="merger", daemon=True)
        merging.start()
        try:
            while not self._stop.is_set():
                self._stop.wait(self._try_to_drain(self._signal.wait(self._interval_s)))
            self._try_to_drain([])
        finally:
            self._stop.set()
            merging.join()
        if self.failed is not None:
            raise self.failed

    def _try_to_drain(self, names: list[str]) -> float:
        """How long to wait after it because the store fails."""
        try:
            self.drain(names)
        except Error as error:
            return self._committing.failed(error)
        self._committing.passed()
        return 0.0

    def drain(self, names: list[str] | None = None) -> int:
        """Commit until the inbox is empty; how many events that were."""
        total = 0
        while isinstance(outcome := self._committer.commit(names or ()), Committed):
            total += outcome.events
            self._announce(outcome.head, outcome.events)
            names = None
        return total

    def merge_until_stopped(self) -> None:
        while not self._stop.wait(self._merge_interval_s):
            try:
                self._stop.wait(self._try_to_merge())
            except Exception as error:
                # Commits without merges would pile up files: the whole compactor ends.
                self.failed = error
                self._stop.set()

    def _try_to_merge(self) -> float:
        """How long to wait after it because the store fails."""
        try:
            head = self._merger.merge()
        except Error as error:
            return self._merging.failed(error)
        self._merging.passed()
        if head is not None:
            self._announce(head, 0)
            pa.default_memory_pool().release_unused()  # a merge takes more than all else
        return 0.0
