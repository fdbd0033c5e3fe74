"""Time that moves only when a test moves it."""

from __future__ import annotations

from datetime import timedelta

from tests.kit.stores import ManualClock


class SimClock(ManualClock):
    """A manual clock that can also play a machine that was suspended."""

    def advance(self, by: timedelta) -> None:
        self.sleep(by.total_seconds())

    def suspend(self, by: timedelta) -> None:
        """The wall clock goes on; the monotonic one stood still, as on a sleeping machine."""
        self._start += by
        self._now += by
