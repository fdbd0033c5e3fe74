"""Whether a mapping can match two dimensions by value: one rule for validation and for planning."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

from servo.contract.manifest import (
    UNNESTED,
    Every,
    Mapping,
    TimeDimension,
    TimeWindow,
    Window,
)


class Mismatch(Enum):
    NOT_TIME = 1
    """A window over a dimension that is not of time."""
    REVERSED = 2
    """A window that ends before it starts."""
    ONE_OF_TIME = 3
    """Only one of the dimensions is of time."""
    OTHER_UNIT = 4
    """A window counts the periods of one unit."""
    UNNESTED = 5
    """Weeks and months: a week may be in two months."""
    OUT_OF_STEP = 6
    """Hours of one begin at another minute than hours, or days, of the other."""


def window_mismatch(rule: Mapping, source: Every | None) -> Mismatch | None:
    """Why a rule does not suit a dimension of the input; `source` is its unit, None without."""
    if isinstance(rule, Window | TimeWindow) and source is None:
        return Mismatch.NOT_TIME
    if isinstance(rule, Window) and rule.end < rule.start:
        return Mismatch.REVERSED
    return None


def unit_mismatch(
    rule: Mapping, source: Every | None, own: Every | None, is_in_step: Callable[[], bool]
) -> Mismatch | None:
    """Why a rule cannot match a dimension of the input with one of the reader, by their units.

    `is_in_step` is called for two dimensions of time of which one has hours.
    """
    if source is None or own is None:
        return None if source is own else Mismatch.ONE_OF_TIME
    if isinstance(rule, Window) and source != own:
        return Mismatch.OTHER_UNIT
    if {source, own} == UNNESTED:
        return Mismatch.UNNESTED
    if "hour" in (source, own) and not is_in_step():
        return Mismatch.OUT_OF_STEP
    return None


def are_in_step(one: TimeDimension, other: TimeDimension) -> bool:
    """Whether hours of one begin at the same minute as hours, or days, of the other.

    A day of both decides where the minute changes. Raises ValueError for a start that is no time,
    and LookupError or OSError for an unknown zone.
    """
    day = max(one.start[:10], other.start[:10])
    return _minute(one, day) == _minute(other, day)


def _minute(dimension: TimeDimension, day: str) -> timedelta:
    """How far after a whole hour, in UTC, its hours begin, or this day."""
    start = datetime.fromisoformat(dimension.start if dimension.every == "hour" else day)
    if start.tzinfo is None:
        start = start.replace(tzinfo=ZoneInfo(dimension.timezone))
    start = start.astimezone(UTC)
    return start - start.replace(minute=0, second=0, microsecond=0)
