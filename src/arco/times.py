"""Parses and formats times. All of them are UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from arco.errors import Invalid

_AGO = re.compile(r"(\d+)\s*([smhdw])(?:\s+ago)?")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str, now: datetime) -> datetime:
    """`2026-01-31T12:00Z`, `2026-01-31 12:00` (UTC), `2026-01-31`, or `90s`, `15m`, `2h`, `3d` ago.

    UTC without a zone, as all our records are.
    """
    if match := _AGO.fullmatch(text.strip()):
        return _before(now, int(match[1]), _UNITS[match[2]], text)
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Invalid(
            f"{text!r} is not a time",
            hint="write 2026-01-31T12:00:00Z, 2026-01-31, or 15m, 2h, 3d for that long ago",
        ) from None
    return utc(time)


def _before(now: datetime, count: int, unit: str, text: str) -> datetime:
    try:
        return now - timedelta(**{unit: count})
    except OverflowError:
        raise Invalid(f"{text!r} is too far in the past", hint="give a shorter time") from None


def iso(time: datetime) -> str:
    """With microseconds and a Z: for machines."""
    return utc(time).isoformat(timespec="microseconds") + "Z"


def utc(time: datetime) -> datetime:
    """Without a zone, as all our records are.

    Raises Invalid for a time of the year 1 or 9999 that is of another year in UTC.
    """
    try:
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise Invalid(
            f"{time.isoformat()} is before the year 1 or after the year 9999 in UTC",
            hint="give a date between the years 1 and 9999",
        ) from None


def short(time: datetime) -> str:
    """To the second: for people."""
    return f"{utc(time):%Y-%m-%d %H:%M:%S}Z"
