"""The compactor: commits whenever there is something, and merges beside that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from arco.errors import Conflict, Fenced, Unavailable
from arco.log.append import Signal
from arco.log.commit import Committed, Committer
from arco.log.head import Head
from arco.state.merge import Merger

log = logging.getLogger(__name__)


class Compactor:
    """Wakes on a signal from its own process, and looks by itself every `interval_s`.

    Losing races and passing outages are part of its life; corruption is not, and
    ends it.
    """

    def __init__(
        self,
        committer: Committer,
        merger: Merger,
        signal: Signal,
        stop: threading.Event,
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
        self.failed: Exception | None = None
        """What ended the merges for good."""

    def run(self) -> None:
        """Commit and merge until `stop` is set; what was appended before that is committed."""
        merging = threading.Thread(target=self.merge_until_stopped, name="merger", daemon=True)
        merging.start()
        try:
            while not self._stop.is_set():
                self._try_to_drain(self._signal.wait(self._interval_s))
            self._try_to_drain([])
        finally:
            self._stop.set()
            merging.join()
        if self.failed is not None:
            raise self.failed

    def _try_to_drain(self, names: list[str]) -> None:
        try:
            self.drain(names)
        except (Unavailable, Conflict, Fenced) as error:
            log.warning("will try to commit again: %s", error)

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
                if (head := self._merger.merge()) is not None:
                    self._announce(head, 0)
            except (Unavailable, Conflict, Fenced) as error:
                log.warning("will try to merge again: %s", error)
            except Exception as error:
                # Commits without merges would pile up files: the whole compactor ends.
                self.failed = error
                self._stop.set()
