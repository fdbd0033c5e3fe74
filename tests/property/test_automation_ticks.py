"""Ticks against an independent computation, minute by minute, across clock changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import takewhile
from zoneinfo import available_timezones

from hypothesis import example, given, settings
from hypothesis import strategies as st

from arco.automation.ticks import due, ticks_after
from tests.kit.cron_oracle import Oracle
from tests.kit.depth import examples

ZONES = sorted(z for z in available_timezones() if "/" in z and not z.startswith("posix"))
CHANGES = [datetime(2025, 3, 9), datetime(2025, 3, 30), datetime(2025, 4, 6), datetime(2025, 10, 5)]
CHANGES += [datetime(2025, 10, 26), datetime(2025, 11, 2), datetime(2026, 2, 28)]


def field(least: int, most: int) -> st.SearchStrategy[str]:
    numbers = st.integers(least, most)
    pairs = st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]).map(sorted)
    ranges = pairs.map(lambda pair: f"{pair[0]}-{pair[1]}")
    steps = st.integers(2, 15)
    stepped = st.tuples(st.one_of(st.just("*"), ranges), steps).map(lambda p: f"{p[0]}/{p[1]}")
    some = st.lists(numbers, min_size=1, max_size=3, unique=True).map(
        lambda values: ",".join(map(str, sorted(values)))
    )
    return st.one_of(st.just("*"), some, ranges, stepped)


CRONS = st.builds(
    lambda minute, hour, day: f"{minute} {hour} {day}",
    field(0, 59),
    field(0, 23),
    st.one_of(
        st.just("* * *"),
        field(1, 28).map(lambda days: f"{days} * *"),
        field(0, 6).map(lambda weekdays: f"* * {weekdays}"),
    ),
)
INSTANTS = st.builds(
    lambda day, minutes: day + timedelta(minutes=minutes),
    st.sampled_from(CHANGES),
    st.integers(-36 * 60, 36 * 60),
)


@settings(max_examples=examples(25), deadline=None)
@example("30 2 * * *", "Europe/Berlin", datetime(2025, 3, 30))
@example("30 2 * * *", "Europe/Berlin", datetime(2025, 10, 26, 0, 45))
@example("0,30 1-3 * * *", "Europe/Berlin", datetime(2025, 10, 26))
@example("0 2,3 * * *", "Europe/Berlin", datetime(2025, 3, 29))
@example("0 * * * *", "Australia/Lord_Howe", datetime(2025, 4, 5))
@example("15 2 * * *", "Australia/Lord_Howe", datetime(2025, 10, 4))
@example("30 0 * * *", "Africa/Cairo", datetime(2025, 4, 24))
@given(CRONS, st.sampled_from(ZONES), INSTANTS)
def test_ticks_are_those_of_the_oracle(cron: str, timezone: str, after: datetime) -> None:
    until = after + timedelta(hours=30)
    ticks = list(takewhile(lambda tick: tick.at <= until, ticks_after(cron, timezone, after)))
    assert [tick.at for tick in ticks] == Oracle(cron, timezone).instants(after, until)
    assert len({tick.name for tick in ticks}) == len(ticks)


@settings(max_examples=examples(25), deadline=None)
@given(CRONS, st.sampled_from(ZONES), INSTANTS, st.integers(0, 3000), st.integers(1, 5))
def test_newest_due_ticks_do_not_depend_on_how_long_ago_the_last_was(
    cron: str, timezone: str, until: datetime, minutes: int, limit: int
) -> None:
    after = until - timedelta(minutes=minutes)
    ticks = list(takewhile(lambda tick: tick.at <= until, ticks_after(cron, timezone, after)))
    these = due(cron, timezone, after, until, limit)
    assert these.ticks == ticks[-limit:]
    if these.is_exact:
        assert these.earlier == max(0, len(ticks) - limit)
    else:
        assert these.earlier <= len(ticks) - limit
