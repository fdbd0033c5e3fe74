"""The store's clock, which decides every age that deletes or expires something.

Machines' clocks differ, and a wrong one must not destroy anything: a collector whose clock is a day
ahead would take the files of a commit under way for old ones. So ages are computed between two
times of one clock, the store's: the last-modified time of an object, and the store's present time,
which is measured:

1. Overwrite a small object, then ask for its last-modified time. It was last overwritten between
   our two calls: the time is the store's time of that moment. (On a local disk the time is that of
   a file that is renamed into place later. A writer that slept in between gives an old time, so a
   wrong clock counts only after three measurements.)
2. Compare it with this machine's clock before and after. Object stores give whole
   seconds, so the difference is known up to a second and the two calls. A difference of
   zero is assumed where it is possible.

Appends of this process are measurements too: the listing of its own batch shows the store's time of
a known moment. A measurement holds for five minutes, and until the wall clock and the monotonic
clock disagree about how much time has passed.

A clock that differs by more than a bound is refused with ClockSkew. Such a process may
read and append; it neither commits nor collects.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import NamedTuple

from arco.clock import Clock
from arco.errors import ClockSkew
from arco.storage import paths
from arco.storage.port import Mode, Store

BOUND = timedelta(minutes=5)
FRESH_S = 300.0
"""How long a measurement holds."""
JUMP = timedelta(seconds=1)
"""Maximum difference between wall and monotonic clock before the wall clock counts as set."""
RESOLUTION = timedelta(seconds=1)
"""Object stores cut the last-modified time to whole seconds."""
LONGEST = timedelta(minutes=1)
"""A write that took longer is no measurement: the precision is its duration."""
REMEMBERED_WRITES = 64
ATTEMPTS = 3


class ClockReading(NamedTuple):
    """A moment by both clocks of this machine."""

    wall: datetime
    monotonic_s: float

    def jumped_until(self, later: ClockReading) -> bool:
        """Whether the wall clock was set, or the machine slept, between two moments."""
        return abs(later.wall - self.wall - self.elapsed_until(later)) > JUMP

    def elapsed_until(self, later: ClockReading) -> timedelta:
        return timedelta(seconds=later.monotonic_s - self.monotonic_s)

    def measures_until(self, later: ClockReading) -> bool:
        """Whether a write between two moments tells the difference to the store's clock."""
        return self.elapsed_until(later) <= LONGEST and not self.jumped_until(later)


class _Measurement(NamedTuple):
    moment: ClockReading
    offset: timedelta
    """The store's time minus this machine's wall clock at that moment."""


class StoreClock:
    """Tells the store's time. Measures it when it has to."""

    def __init__(self, store: Store, clock: Clock, *, bound: timedelta = BOUND) -> None:
        self._store = store
        self._clock = clock
        self.bound = bound
        self._lock = threading.Lock()
        self._latest: _Measurement | None = None
        self._difference = timedelta()
        """The last one that was measured, however large."""
        self._writes: OrderedDict[str, tuple[ClockReading, ClockReading]] = OrderedDict()

    def now(self) -> datetime:
        """The store's time. Raises ClockSkew if this machine's differs by more than the bound."""
        latest = self._latest
        if latest is None or not self._is_fresh(latest):
            return self.measure()
        return self._checked(latest)

    def estimate(self) -> datetime:
        """The store's time without a measurement. Not for decisions that destroy something."""
        return self._clock.now() + self._difference

    def measure(self) -> datetime:
        """The store's time, measured now."""
        measured: _Measurement | None = None
        for _ in range(ATTEMPTS):
            before = self.moment()
            self._store.put(paths.CLOCK, b"{}", Mode.OVERWRITE)
            stamp = self._store.head(paths.CLOCK).last_modified
            after = self.moment()
            if not before.measures_until(after):
                continue
            measured = self._record(before, after, stamp)
            if abs(measured.offset) <= self.bound:
                break
        if measured is not None:
            return self._checked(measured)
        raise ClockSkew(
            f"this machine's clock was set, or the store took more than {LONGEST}, {ATTEMPTS} "
            f"times in a row while it was compared with the clock of {self._store.url}",
            hint="wait until the clock and the store are stable, then try again; nothing was lost",
        )

    def moment(self) -> ClockReading:
        return ClockReading(self._clock.now(), self._clock.monotonic())

    def wrote(self, path: str, before: ClockReading) -> None:
        """Remember when this process created an object, for the listing that shows it."""
        after = self.moment()
        with self._lock:
            self._writes[path] = (before, after)
            while len(self._writes) > REMEMBERED_WRITES:
                self._writes.popitem(last=False)

    def listed(self, path: str, stamp: datetime) -> None:
        """Use the listing of an object that this process created as a measurement.

        One that shows a wrong clock is ignored: the object may have been touched. The next call
        measures.
        """
        with self._lock:
            interval = self._writes.pop(path, None)
        if interval is None or not interval[0].measures_until(interval[1]):
            return
        if abs(_offset(*interval, stamp)) <= self.bound:
            self._record(*interval, stamp)

    def _record(self, before: ClockReading, after: ClockReading, stamp: datetime) -> _Measurement:
        measured = _Measurement(after, _offset(before, after, stamp))
        self._difference = measured.offset
        # One beyond the bound is not kept: work continues as soon as the clock is right.
        self._latest = measured if abs(measured.offset) <= self.bound else None
        return measured

    def _is_fresh(self, latest: _Measurement) -> bool:
        now = self.moment()
        recent = now.monotonic_s - latest.moment.monotonic_s < FRESH_S
        return recent and not latest.moment.jumped_until(now)

    def _checked(self, latest: _Measurement) -> datetime:
        if abs(latest.offset) > self.bound:
            side = "behind" if latest.offset > timedelta() else "ahead of"
            difference = timedelta(seconds=round(abs(latest.offset).total_seconds()))
            raise ClockSkew(
                f"this machine's clock is {difference} {side} the clock of {self._store.url}; "
                f"at most {self.bound} is safe",
                hint="set the clock (for example with NTP), then try again; nothing was lost",
            )
        # By the monotonic clock: the wall clock may be set at any moment, this one too.
        elapsed = timedelta(seconds=self._clock.monotonic() - latest.moment.monotonic_s)
        return latest.moment.wall + latest.offset + elapsed


def _offset(before: ClockReading, after: ClockReading, stamp: datetime) -> timedelta:
    """The store's time minus this machine's, if a write between the two bears this stamp."""
    least, most = stamp - after.wall, stamp + RESOLUTION - before.wall
    return max(least, min(timedelta(), most))
