"""Merging beside commits, on a thread, until it is stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

from arco.clock import Clock
from arco.errors import Error
from arco.log.head import Head
from arco.state.merge import Merger
from arco.storage.outage import Outage


class MergeLoop:
    """Merges what is due every `interval_s`. Errors of the store end it only before its first
    success: after that it waits until they are over."""

    def __init__(
        self,
        clock: Clock,
        merger: Merger,
        *,
        interval_s: float = 1.0,
        on_merge: Callable[[Head], None] = lambda head: None,
    ) -> None:
        """`on_merge` is called with each generation that this publishes."""
        self._merger = merger
        self._interval_s = interval_s
        self._on_merge = on_merge
        self._outage = Outage(clock, "merges")

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(self._interval_s):
            stop.wait(self._try_to_merge())

    @contextlib.contextmanager
    def beside(self, stop: threading.Event) -> Iterator[None]:
        """Merge on a thread while the block runs; the end of either sets `stop`.

        Without merges, commits would accumulate files: an error of the merges also ends the block,
        and is raised after it.
        """
        failures: list[Exception] = []

        def merge() -> None:
            try:
                self.run(stop)
            except Exception as error:
                failures.append(error)
                stop.set()

        thread = threading.Thread(target=merge, name="merger", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failures:
            raise failures[0]

    def _try_to_merge(self) -> float:
        """Merge; returns the pause after an error of the store."""
        try:
            head = self._merger.merge()
        except Error as error:
            return self._outage.failed(error)
        self._outage.passed()
        if head is not None:
            self._on_merge(head)
            pa.default_memory_pool().release_unused()  # a merge takes more than all else
        return 0.0
