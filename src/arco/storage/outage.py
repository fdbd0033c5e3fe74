"""Waiting and logging of long-running loops while their store fails.

At start-up most errors are raised at once. In a running process, an error of the store is a reason
to wait: credentials are renewed, a disk has space again, a damaged read succeeds the next time. So
every loop of a long-running process has an `Outage`: it returns how long to wait before the next
try, and logs changes, without a line for each try.

    Unavailable, Conflict, Fenced   waits, from the first call on
    every other `Error`             waits, once a call has succeeded
    Unreadable                      ends the process: an older program cannot read it later

A *patient* loop always waits: its end would not be noticed.
"""

from __future__ import annotations

import logging
import random
import threading
from datetime import datetime

import msgspec

from arco.clock import Clock
from arco.errors import Conflict, Corrupt, Denied, Error, Fenced, Unavailable, Unreadable

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
REPEAT_S = 60.0
"""While nothing changes, a failure is logged once in this time."""

PASSING = (Unavailable, Conflict, Fenced)
"""Errors that are retried even by a loop that has never reached its store."""
STORE_ERRORS = (*PASSING, Corrupt, Denied)
"""Errors of a store or a queue; others come from the content that was read, and repeat."""


class PastOutage(msgspec.Struct, frozen=True):
    """A finished period in which a store failed."""

    began: datetime
    ended: datetime
    kind: str
    message: str


class Outage:
    """The failures of one loop's store. Threads may share it."""

    def __init__(
        self, clock: Clock, what: str, *, patient: bool = False, rng: random.Random | None = None
    ) -> None:
        """`what` names the loop in the log, as in "heartbeat"."""
        self._clock = clock
        self._what = what
        self._patient = patient
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._tries = 0
        self._kind = ""
        self._logged_at = 0.0
        self._reached = False
        self.began: datetime | None = None
        """Since when the store has failed; None while it does not."""
        self.error: Error | None = None
        """The newest failure, while it fails."""
        self.last: PastOutage | None = None
        """The last one that is over."""

    def failed(self, error: Error) -> float:
        """Record a failure; returns the pause before the next try. Raises permanent errors."""
        passes = self._reached or isinstance(error, PASSING)
        if not self._patient and (isinstance(error, Unreadable) or not passes):
            raise error
        with self._lock:
            if self.began is None:
                self.began = self._clock.now()
            self.error = error
            self._tries += 1
            self._log(error)
            longest_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._tries - 1, 20))
            return float(longest_s * self._rng.uniform(0.5, 1.0))

    def passed(self) -> None:
        """Record a success."""
        self._reached = True
        if self.began is None:
            return
        with self._lock:
            if self.began is None or self.error is None:
                return
            ended = self._clock.now()
            if self._tries > 1:  # one lost race is no outage
                self.last = PastOutage(self.began, ended, self.error.kind, self.error.message)
                log.warning(
                    "%s: the store answers again; it failed from %s to %s",
                    self._what,
                    _time(self.began),
                    _time(ended),
                )
            self.began = self.error = None
            self._tries, self._kind = 0, ""

    @property
    def text(self) -> str:
        """What is waited for, in one line; empty while nothing is."""
        began, error = self.began, self.error
        if began is None or error is None:
            return ""
        hint = f" ({error.hint})" if error.hint else ""
        return f"waiting for the store since {_time(began)}: {error.message}{hint}"

    def _log(self, error: Error) -> None:
        now = self._clock.monotonic()
        if error.kind == self._kind and now - self._logged_at < REPEAT_S:
            return
        self._kind, self._logged_at = error.kind, now
        level = logging.ERROR if isinstance(error, Corrupt) else logging.WARNING
        log.log(level, "%s: %s", self._what, self.text)


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
