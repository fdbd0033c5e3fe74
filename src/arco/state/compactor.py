"""The compactor: commits whenever there is something, and merges beside that."""

from __future__ import annotations

import logging
import threading

from arco.errors import Conflict, Fenced, Unavailable
from arco.log.append import Signal
from arco.log.commit import Committed, Committer
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
    ) -> None:
        self._committer = committer
        self._merger = merger
        self._signal = signal
        self._stop = stop
        self._interval_s = interval_s
        self._merge_interval_s = merge_interval_s

    def run(self) -> None:
        """Commit and merge until `stop` is set; what was appended before that is committed."""
        merging = threading.Thread(target=self._merge_loop, name="merger", daemon=True)
        merging.start()
        try:
            while not self._stop.is_set():
                self.drain(self._signal.wait(self._interval_s))
            self.drain()
        finally:
            self._stop.set()
            merging.join()

    def drain(self, names: list[str] | None = None) -> int:
        """Commit until the inbox is empty; how many events that were."""
        total = 0
        try:
            while isinstance(outcome := self._committer.commit(names or ()), Committed):
                total += outcome.events
                names = None
        except (Unavailable, Conflict, Fenced) as error:
            log.warning("will try to commit again: %s", error)
        return total

    def _merge_loop(self) -> None:
        while not self._stop.wait(self._merge_interval_s):
            try:
                self._merger.merge()
            except (Unavailable, Conflict, Fenced) as error:
                log.warning("will try to merge again: %s", error)
