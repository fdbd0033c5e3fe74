"""Partitions of an asset: one or more dimensions.

    daily("date", start="2025-01-01")
    daily("date", start="2025-01-01") * static("region", ["eu", "us"])

The product has a partition for each pair. Everything is checked when the project
is validated, so that all mistakes are reported at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from types import NoneType
from typing import TypeAlias

from msgspec import Struct

from servo.contract.manifest import (
    Dimension,
    DynamicDimension,
    Every,
    StaticDimension,
    TenantDimension,
    TimeDimension,
)
from servo.source import expect, expect_each

Moment: TypeAlias = str | date | datetime


class Partitions(Struct, frozen=True):
    """One partition for each combination of the dimensions' values."""

    dimensions: tuple[Dimension, ...]

    def __mul__(self, other: Partitions) -> Partitions:
        if not isinstance(other, Partitions):
            return NotImplemented
        return Partitions(self.dimensions + other.dimensions)


def hourly(
    name: str, *, start: Moment, end: Moment | None = None, timezone: str = "UTC"
) -> Partitions:
    """`start` (included) and `end` (excluded) are whole hours in `timezone`."""
    return _time(name, "hour", start, end, timezone)


def daily(
    name: str, *, start: Moment, end: Moment | None = None, timezone: str = "UTC"
) -> Partitions:
    """`start` is included, `end` is not; a day begins at midnight in `timezone`."""
    return _time(name, "day", start, end, timezone)


def weekly(
    name: str, *, start: Moment, end: Moment | None = None, timezone: str = "UTC"
) -> Partitions:
    """Weeks begin on Monday; so must `start` and `end`."""
    return _time(name, "week", start, end, timezone)


def monthly(
    name: str, *, start: Moment, end: Moment | None = None, timezone: str = "UTC"
) -> Partitions:
    """`start` and `end` are the first days of their months."""
    return _time(name, "month", start, end, timezone)


def static(name: str, values: Sequence[str]) -> Partitions:
    """One partition for each value. A deployment changes the values."""
    return Partitions((StaticDimension(name=_text(name), values=_texts(values)),))


def dynamic(name: str, *, keys: str = "") -> Partitions:
    """Values are added while the system runs, to the set `keys` (default: `name`)."""
    return Partitions((DynamicDimension(name=_text(name), keys=_text(keys) or name),))


def tenant(name: str, values: Sequence[str]) -> Partitions:
    """One partition for each tenant; the scheduler is fair between them."""
    return Partitions((TenantDimension(name=_text(name), values=_texts(values)),))


def _time(name: str, every: Every, start: Moment, end: Moment | None, timezone: str) -> Partitions:
    expect(start, (str, date), "start")
    expect(end, (str, date, NoneType), "end")
    expect(timezone, str, "timezone")
    first = _spelled(start, every)
    last = None if end is None else _spelled(end, every)
    return Partitions(
        (TimeDimension(name=_text(name), every=every, start=first, end=last, timezone=timezone),)
    )


def _spelled(moment: Moment, every: Every) -> str:
    """The one ISO spelling; a text that is no moment stays as it is, to be reported."""
    try:
        if every == "hour":
            return _to_datetime(moment).isoformat(timespec="minutes")
        if isinstance(moment, str):
            return date.fromisoformat(moment).isoformat()
    except ValueError:
        return str(moment)
    return moment.isoformat()


def _to_datetime(moment: Moment) -> datetime:
    if isinstance(moment, str):
        return datetime.fromisoformat(moment)
    if isinstance(moment, datetime):
        return moment
    return datetime(moment.year, moment.month, moment.day)


def _text(name: str) -> str:
    expect(name, str, "the dimension")
    return name


def _texts(values: Sequence[str]) -> tuple[str, ...]:
    expect_each(values, str, "values")  # a lone text would be a sequence of letters
    return tuple(values)
