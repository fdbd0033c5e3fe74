"""Periods of one unit in those of another, against a walk through every hour or day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arco.orchestration.partition_space import Calendar
from servo.contract.manifest import Every
from tests.kit.depth import examples
from tests.kit.planning import World, asset, manifest, planned, reads, time

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",  # hours begin at half past
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # half an hour of summer time
    "America/St_Johns",  # at one minute past midnight
    "America/Sao_Paulo",  # midnight is skipped
    "America/Havana",  # midnight comes twice
    "Asia/Beirut",
    "Africa/Casablanca",
    "America/Goose_Bay",  # the date goes back after midnight
    "Antarctica/Casey",
    "Pacific/Apia",  # a day is skipped
]
CHANGES = [
    ("Europe/Berlin", date(2025, 3, 30)),
    ("Europe/Berlin", date(2025, 10, 26)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("America/Havana", date(2025, 11, 2)),
    ("America/St_Johns", date(2010, 11, 7)),
    ("America/Goose_Bay", date(1988, 10, 30)),
    ("Antarctica/Casey", date(2010, 3, 5)),
    ("Australia/Lord_Howe", date(2025, 4, 6)),
    ("Pacific/Apia", date(2011, 12, 30)),
]
places = st.one_of(
    st.sampled_from(CHANGES),
    st.tuples(st.sampled_from(ZONES), st.dates(date(1975, 1, 1), date(2035, 1, 1))),
)
cuts = st.tuples(st.integers(0, 20), st.integers(0, 20))
LONG: tuple[Every, ...] = ("day", "week", "month")


def period(every: Every, day: date) -> tuple[int, ...]:
    """What days of one period have in common."""
    match every:
        case "week":
            return tuple(day.isocalendar())[:2]
        case "month":
            return day.year, day.month
    return (day.toordinal(),)


def key_of(every: Every, day: date) -> date:
    """The first day of the period, by walking back to it."""
    while period(every, day - DAY) == period(every, day):
        day -= DAY
    return day


def dates_by_hour(zone: str, hours: list[datetime]) -> dict[datetime, date]:
    """The date on the clock when each hour begins; a date that was reached is not left again."""
    reached, dates = date.min, {}
    for hour in hours:
        clock = hour.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).date()
        reached = dates[hour] = max(reached, clock)
    return dates


def walked_hours(first: date, days: int, phase: timedelta) -> list[datetime]:
    begin = datetime(first.year, first.month, first.day) + phase
    return [begin + n * HOUR for n in range(24 * days)]


@given(places, st.sampled_from(LONG), cuts)
@example(("Europe/Berlin", date(2025, 3, 30)), "day", (0, 0))
@example(("Europe/Berlin", date(2025, 10, 26)), "day", (0, 0))
@example(("America/Goose_Bay", date(1988, 10, 30)), "day", (0, 0))
@example(("Antarctica/Casey", date(2010, 3, 5)), "day", (0, 0))
@example(("Pacific/Apia", date(2011, 12, 30)), "day", (0, 0))
@settings(max_examples=examples(50))
def test_hours_are_in_the_period_on_whose_days_they_begin(
    place: tuple[str, date], every: Every, cut: tuple[int, int]
) -> None:
    zone, day = place
    start, end = day - timedelta(days=cut[0]), day + timedelta(days=cut[1] + 1)
    hours = Calendar(time("hour", f"{start}T00:00", f"{end}T00:00", timezone=zone))
    own = Calendar(time(every, "1970-01-01", "2040-01-01", timezone=zone))
    walk = walked_hours(day - timedelta(days=40), 80, hours.phase)
    dates = dates_by_hour(zone, walk)
    partitions = [hour for hour in walk if hours.has(hour)]
    inside = [hour for hour in partitions if period(every, dates[hour]) == period(every, day)]
    assert hours.following(own, key_of(every, day)) == inside
    for hour in partitions:
        assert own.following(hours, hour) == [key_of(every, dates[hour])]


@given(st.dates(date(1990, 1, 1), date(2035, 1, 1)), st.sampled_from(["week", "month"]), cuts, cuts)
@settings(max_examples=examples(100))
def test_days_are_in_one_week_and_in_one_month(
    day: date, every: Every, cut: tuple[int, int], other: tuple[int, int]
) -> None:
    days = Calendar(time("day", f"{day - cut[0] * DAY}", f"{day + (cut[1] + 1) * DAY}"))
    first, last = day - other[0] * 5 * DAY, day + (1 + other[1] * 5) * DAY
    own = Calendar(time(every, str(first), str(last), timezone="Asia/Tokyo"))
    walk = [day + n * DAY for n in range(-40, 40)]
    inside = [each for each in walk if days.has(each) and period(every, each) == period(every, day)]
    assert days.following(own, key_of(every, day)) == inside
    key = key_of(every, day)
    whole = first <= key and all(
        period(every, last + n * DAY) != period(every, day) for n in range(31)
    )
    assert own.following(days, day) == ([key] if whole else [])


@pytest.mark.parametrize(
    ("zone", "day", "count"),
    [
        ("UTC", "2025-03-30", 24),
        ("Europe/Berlin", "2025-03-30", 23),
        ("Europe/Berlin", "2025-10-26", 25),
        ("Pacific/Apia", "2011-12-30", 0),
    ],
)
def test_a_day_of_a_zone_has_its_hours_of_utc(zone: str, day: str, count: int) -> None:
    hours = Calendar(time("hour", "2010-01-01T00:00", "2030-01-01T00:00"))
    days = Calendar(time("day", "2010-01-01", "2030-01-01", timezone=zone))
    read: list[Any] = hours.following(days, date.fromisoformat(day))
    assert len(read) == count
    assert all(later - earlier == HOUR for earlier, later in pairwise(read))
    assert all(days.following(hours, hour) == [date.fromisoformat(day)] for hour in read)


UNITS: list[tuple[Every, Every]] = [("hour", "day"), ("day", "week"), ("day", "month")]
FIRST, UNTIL = datetime(2025, 1, 6), datetime(2025, 4, 1)
offsets = st.sets(st.integers(0, 50), min_size=1, max_size=12)


@given(st.sampled_from(UNITS), offsets, st.lists(st.integers(0, 50), max_size=3))
@settings(max_examples=examples(50))
def test_exactly_the_periods_of_new_versions_run_again(
    units: tuple[Every, Every], existing: set[int], renewed: list[int]
) -> None:
    fine, coarse = units
    step = HOUR if fine == "hour" else DAY
    start = "2025-01-06" if coarse == "week" else "2025-01-01"
    project = manifest(
        asset("s.a", time(fine, "2025-01-01")), asset("s.b", time(coarse, start), reads("s.a"))
    )
    world = World()

    def add(offset: int) -> date:
        """A new version; the first day of the period of the reader that it is in."""
        begin = FIRST + offset * step
        value = f"t:{begin:%Y-%m-%dT%H}:00:00.000000Z" if fine == "hour" else f"d:{begin:%Y-%m-%d}"
        world.make("s.a", f"date={value}")
        return key_of(coarse, begin.date())

    def run(keys: set[date]) -> set[date]:
        """Of these partitions of the reader, those that run."""
        ranges = tuple(f"date={key}" for key in keys)
        spec = planned(project, "s.b", world=world, partitions=ranges, until=UNTIL)
        world.run(project, spec)
        running = [task.partition for task in spec.tasks if task.action == "run"]
        return {date.fromisoformat(text.removeprefix("date=d:")) for text in running}

    keys = {add(offset) for offset in sorted(existing)}
    assert run(keys) == keys
    assert run(keys) == set()
    changed = {add(offset) for offset in renewed}
    assert run(keys | changed) == changed
