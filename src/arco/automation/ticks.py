"""When a schedule is due: cron expressions in a time zone, evaluated by `cronsim`.

The rules are Debian's. A time of day that a clock change skips is due once, at the end of the
gap; one that it repeats is due once, the first time. Expressions of intervals, whose minute or
hour begins with `*`, follow real time: `0 * * * *` is due 23 or 25 times on such a day.

A tick is named by its schedule and its wall time. Machines with different zone data use the same
name for a tick, at different instants.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

FIRST_WINDOW = timedelta(days=1)
WIDER = 8
SEARCHED = timedelta(days=400)
"""How far from now a clock change is of interest."""


class Tick(NamedTuple):
    name: str
    """The wall time, as `2025-10-26T02:30`; the second time within a repeated hour ends in `/2`."""
    at: datetime
    """In UTC, without a zone."""


class Due(NamedTuple):
    ticks: list[Tick]
    """The newest, in their order."""
    earlier: int
    """How many more are due; at least that many, if `is_exact` is not set."""
    is_exact: bool


def ticks_after(cron: str, timezone: str, after: datetime) -> Iterator[Tick]:
    """The ticks after an instant (UTC, without a zone), each later than the one before."""
    zone = ZoneInfo(timezone)
    last = after
    for local in CronSim(cron, after.replace(tzinfo=UTC).astimezone(zone)):
        at = local.astimezone(UTC).replace(tzinfo=None)
        if at > last:  # in a repeated hour, what it gives may be before the start
            last = at
            yield Tick(name_of(at, zone), at)


def name_of(at: datetime, zone: ZoneInfo) -> str:
    local = at.replace(tzinfo=UTC).astimezone(zone)
    return f"{local:%Y-%m-%dT%H:%M}" + ("/2" if local.fold else "")


def next_tick(cron: str, timezone: str, after: datetime) -> Tick | None:
    """None if there is none within fifty years."""
    return next(ticks_after(cron, timezone, after), None)


def due(cron: str, timezone: str, after: datetime, until: datetime, limit: int) -> Due:
    """The newest ticks, `limit` at most, after one instant and up to another.

    The cost depends on `limit`, not on the time since the last tick.
    """
    window = FIRST_WINDOW
    while True:
        start = max(after, until - window)
        ticks = _between(cron, timezone, start, until)
        if start == after or len(ticks) >= limit:
            return Due(ticks[-limit:], max(0, len(ticks) - limit), start == after)
        window *= WIDER


def _between(cron: str, timezone: str, after: datetime, until: datetime) -> list[Tick]:
    ticks: list[Tick] = []
    for tick in ticks_after(cron, timezone, after):
        if tick.at > until:
            break
        ticks.append(tick)
    return ticks


def ticks_around(cron: str, timezone: str, change: datetime) -> list[Tick]:
    """The last tick before a clock change, and two after it."""
    before = due(cron, timezone, change - SEARCHED, change - timedelta(seconds=1), 1).ticks
    after = islice(ticks_after(cron, timezone, change - timedelta(seconds=1)), 2)
    return [*before, *after]


def next_clock_change(timezone: str, after: datetime) -> datetime | None:
    """The next instant (UTC) at which a zone's offset changes; None if none is near."""
    zone = ZoneInfo(timezone)
    at, offset = after.replace(second=0, microsecond=0), _offset(zone, after)
    for step in (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)):
        while _offset(zone, at + step) == offset:
            at += step
            if at > after + SEARCHED:
                return None
    return at + timedelta(minutes=1)


def _offset(zone: ZoneInfo, at: datetime) -> timedelta | None:
    return at.replace(tzinfo=UTC).astimezone(zone).utcoffset()
