"""The only place that knows the time. Everything else is handed a `Clock`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock: UTC, without a zone, in microseconds."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC).replace(tzinfo=None)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def from_unix(seconds: float) -> datetime:
    """A POSIX time as the naive UTC datetime that all our records use."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
