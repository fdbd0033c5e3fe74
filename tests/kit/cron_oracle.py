"""Which minutes a cron expression means, worked out minute by minute and without `cronsim`.

Debian's rules: an expression whose minute or hour begins with `*` follows real time. Of others
a wall time that does not exist is due at the end of the gap, and one that exists twice the
first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


class Oracle:
    def __init__(self, cron: str, timezone: str) -> None:
        fields = cron.split()
        self._sets = [_values(f, *r) for f, r in zip(fields, RANGES, strict=True)]
        self._zone = ZoneInfo(timezone)
        self._real_time = fields[0].startswith("*") or fields[1].startswith("*")

    def instants(self, after: datetime, until: datetime) -> list[datetime]:
        """In UTC without a zone: after one instant, up to another."""
        minutes = _real if self._real_time else _wall
        start = after - timedelta(hours=3)  # a gap may begin before and end after it
        due = {at for wall, at in minutes(self._zone, start, until) if self._matches(wall)}
        return sorted(at for at in due if after < at <= until)

    def _matches(self, wall: datetime) -> bool:
        minute, hour, day, month, weekday = self._sets
        return (
            wall.minute in minute
            and wall.hour in hour
            and wall.day in day
            and wall.month in month
            and (wall.isoweekday() % 7 in weekday or wall.isoweekday() in weekday)
        )


def _values(field: str, least: int, most: int) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        start = least if first == "*" else int(first)
        end = most if first == "*" else int(last or first)
        values |= set(range(start, end + 1, int(step or 1)))
    return values


def _real(zone: ZoneInfo, start: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Each minute that passes, with what the clock on the wall shows."""
    at = start.replace(second=0, microsecond=0)
    while at <= until:
        yield _wall_of(at, zone), at
        at += MINUTE


def _wall(zone: ZoneInfo, start: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Each minute that the clock should show, with when it does so for the first time.

    Where it jumps over a minute, that is when it arrives behind the gap.
    """
    at = start.replace(second=0, microsecond=0)
    shown = _wall_of(at, zone)
    while at <= until:
        yield shown, at
        following = _wall_of(at + MINUTE, zone)
        while shown + MINUTE < following:  # a gap
            shown += MINUTE
            yield shown, at + MINUTE
        at += MINUTE
        while at <= until and _wall_of(at, zone) <= shown:  # shown before
            at += MINUTE
        shown = _wall_of(at, zone)


def _wall_of(at: datetime, zone: ZoneInfo) -> datetime:
    return at.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
