"""Texts of checks, as values of the column that they are compared with.

Numbers that are compared exactly, days and moments become whole numbers: unscaled
digits, days since 1970, microseconds since 1970 in UTC. A bound that falls between
two values of the column moves inwards, so nothing is ever rounded.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Final, NamedTuple

import pyarrow as pa

from arco.epoch import EPOCH
from arco.worker.checks.subject_columns import CheckColumn

DAY_US: Final = 86_400_000_000
MAX_US: Final = (1 << 63) - 1
MAX_DAYS: Final = (1 << 31) - 1
"""The greatest moment and day that files hold. DuckDB, as PostgreSQL, calls them infinity."""
_MICROSECOND = timedelta(microseconds=1)

EXACT: Final = ("integer", "decimal", "date", "timestamp")
"""Families whose values are whole numbers here."""


class Unsuitable(Exception):
    """A text that is no value of the column's type; says what would be."""


class Span(NamedTuple):
    """Whole numbers from `low` to `high`; none is no bound."""

    low: int | None
    high: int | None

    def holds(self, value: int) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


def span(column: CheckColumn, low: str | None, high: str | None) -> Span:
    """The values of an exact column between two texts, both included."""
    at_least = None if low is None else math.ceil(_exact(column, low))
    at_most = None if high is None else math.floor(_exact(column, high))
    return Span(at_least, at_most)


def exactly(column: CheckColumn, text: str) -> int | None:
    """One value of an exact column; none if the column cannot hold it."""
    value = _exact(column, text)
    return int(value) if value.denominator == 1 else None


def double(column: CheckColumn, text: str) -> float:
    """The nearest that the column can hold."""
    try:
        value = float(text)
    except ValueError:
        raise Unsuitable("not a number") from None
    if not pa.types.is_float32(column.type):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise Unsuitable("neither true nor false")
    return text.lower() == "true"


def micros(moment: datetime) -> int:
    naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return (naive - EPOCH) // _MICROSECOND


def days(day: date) -> int:
    return (day - EPOCH.date()).days


def unit(column: CheckColumn, value: object) -> int | None:
    """A value of an exact column, as Python has it, as its whole number."""
    match value:
        case bool():
            return None
        case int() if column.family == "integer":
            return value
        case datetime() if column.family == "timestamp" and type(value) is datetime:
            return micros(value)
        case date() if column.family == "date" and not isinstance(value, datetime):
            return days(value)
        case _ if column.family == "decimal":
            return int(Fraction(str(value)) * 10 ** column.digits[1])
    return None


def _exact(column: CheckColumn, text: str) -> Fraction:
    match column.family:
        case "date":
            return Fraction(_moment(text), DAY_US)
        case "timestamp":
            return Fraction(_moment(text))
    scale: int = column.digits[1]
    try:
        return Fraction(text) * Fraction(10**scale)
    except (ValueError, ZeroDivisionError):
        raise Unsuitable("not a number") from None


def _moment(text: str) -> int:
    try:
        return micros(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise Unsuitable("neither a date nor a date-time") from None
