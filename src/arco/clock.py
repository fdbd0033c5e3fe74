"""The only place that knows the time. Everything else is handed a `Clock`."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from arco.errors import Invalid


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


class MovedClock(SystemClock):
    """The system's clock, moved by the number of seconds in a file, which may change meanwhile.

    For experiments: all processes with the same file see ticks fall due as soon as it is changed.
    The store has to be shifted too (`storage/moved.py`). Replace the file atomically.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.shift()

    def now(self) -> datetime:
        return super().now() + self.shift()

    def shift(self) -> timedelta:
        """The current shift. Raises Invalid for an invalid file."""
        try:
            return timedelta(seconds=float(self._file.read_text("utf-8")))
        except (OSError, ValueError, OverflowError) as error:
            raise Invalid(
                f"the clock offset cannot be read from {self._file}: {error}",
                hint="write the number of seconds into it, as in 3600",
            ) from None


def from_unix(seconds: float) -> datetime:
    """A POSIX time as the naive UTC datetime that all our records use."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
