"""Deadlines against a brute-force oracle: every check time, every period, one after the other."""

from __future__ import annotations

import functools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arco.automation.controllers.freshness import verdict
from arco.automation.deadlines import DeadlineRule
from arco.automation.freshness_tables import (
    FreshnessPolicyRow,
    FreshnessRow,
    FreshnessStatus,
)
from servo.contract.manifest import Dimension, TimeDimension
from servo.contract.partition import PartitionKey
from tests.kit.cron_oracle import Oracle
from tests.kit.depth import examples

BEGIN = datetime(2026, 3, 27)
"""Two days before the clocks of Europe change."""
LAST = timedelta(days=5)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

minutes = st.integers(0, int(LAST / MINUTE)).map(lambda n: BEGIN + n * MINUTE)
crons = st.sampled_from(["", "0 6 * * *", "30 2 * * *", "0 */6 * * *", "15 9 * * 1-5"])
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
ages = st.integers(1, 3 * 24 * 60).map(lambda n: n * MINUTE)


def policy(max_age: timedelta, cron: str, zone: str, *dimensions: Dimension) -> FreshnessPolicyRow:
    times = [each.name for each in dimensions if isinstance(each, TimeDimension)]
    return FreshnessPolicyRow(
        asset_id="A",
        asset_key="a.a",
        project="p",
        deployment_id="D",
        active=True,
        number=1,
        shape=1,
        max_age_s=int(max_age.total_seconds()),
        cron=cron,
        timezone=zone,
        request_run=True,
        time_dimension=times[0] if times else "",
        dimension_names=[each.name for each in dimensions],
        dimensions=msgspec.json.encode(dimensions).decode(),
        upstream=[],
        since=BEGIN,
        observed=True,
    )


def series(
    partition: str, made_at: datetime | None, due_at: datetime | None = None
) -> FreshnessRow:
    return FreshnessRow(
        asset_id="A",
        series="",
        status=FreshnessStatus.FRESH,
        shape=1,
        partition_key=partition,
        materialization_id="" if made_at is None else "M",
        made_at=made_at,
        judged="",
        due_at=due_at,
        cause="",
        reason="",
        changed_at=BEGIN,
    )


@functools.cache
def ticks(cron: str, zone: str) -> list[datetime]:
    return Oracle(cron, zone).instants(BEGIN - 2 * DAY, BEGIN + LAST)


def checks(cron: str, zone: str, until: datetime) -> list[datetime]:
    """When age is asked, up to an instant; without ticks the last time tells it all."""
    return [at for at in ticks(cron, zone) if at <= until] if cron else [until]


@given(ages, crons, zones, st.none() | minutes, minutes)
@settings(max_examples=examples(60), deadline=None)
def test_a_version_is_stale_from_the_first_check_at_which_it_is_too_old(
    max_age: timedelta, cron: str, zone: str, made_at: datetime | None, now: datetime
) -> None:
    rule = DeadlineRule(policy(max_age, cron, zone))
    row = None if made_at is None else series("", made_at)
    too_old = (made_at or BEGIN) + max_age
    is_stale = any(at >= too_old for at in checks(cron, zone, now))
    assert (verdict(rule, "", row, now).status == FreshnessStatus.STALE) == is_stale


def ends(every: str, zone: str) -> dict[PartitionKey, datetime]:
    """The periods of the time that is looked at, each with its end, counted one by one."""
    if every == "hour":
        first = BEGIN - DAY
        return {
            PartitionKey({"t": first + n * HOUR}): first + (n + 1) * HOUR for n in range(24 * 12)
        }
    found = {}
    for n in range(12):
        day = BEGIN.date() - DAY + n * DAY
        following = day + DAY
        midnight = datetime(following.year, following.month, following.day, tzinfo=ZoneInfo(zone))
        found[PartitionKey({"t": day})] = midnight.astimezone(UTC).replace(tzinfo=None)
    return found


@given(
    st.sampled_from(["day", "hour"]),
    ages,
    crons,
    zones,
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    st.none() | st.integers(0, 5 * 24),
    minutes,
)
@settings(max_examples=examples(80), deadline=None)
def test_a_period_that_is_not_there_is_stale_from_its_first_check_on(
    every: str,
    max_age: timedelta,
    cron: str,
    zone: str,
    of: str,
    newest_number: int | None,
    now: datetime,
) -> None:
    start = date(2026, 3, 1).isoformat() + ("T00:00" if every == "hour" else "")
    dimension = TimeDimension(name="t", every=every, start=start, timezone=of)  # type: ignore[arg-type]
    rule = DeadlineRule(policy(max_age, cron, zone, dimension))
    periods = ends(every, of)
    keys = sorted(periods)
    newest = None if newest_number is None else keys[newest_number % len(keys)]
    row = None if newest is None else series(str(newest), BEGIN)
    times = checks(cron, zone, now)
    missing = [
        key
        for key in keys
        if (key > newest if newest is not None else periods[key] > BEGIN)
        and any(at >= periods[key] + max_age for at in times)
    ]
    current = verdict(rule, "", row, now)
    assert (current.status == FreshnessStatus.STALE) == bool(missing)
    if missing:
        assert current.partition == str(missing[-1]), "the newest one that is due"


@given(st.sampled_from(["", "day", "hour"]), ages, crons, zones, minutes)
@example("day", MINUTE, "0 6 * * *", "UTC", BEGIN + 2 * DAY + MINUTE)
@settings(max_examples=examples(60), deadline=None)
def test_a_stale_series_is_due_again_at_times_that_follow_each_other(
    every: str, max_age: timedelta, cron: str, zone: str, now: datetime
) -> None:
    start = date(2026, 3, 1).isoformat() + ("T00:00" if every == "hour" else "")
    dimensions = [TimeDimension(name="t", every=every, start=start)] if every else []  # type: ignore[arg-type]
    rule = DeadlineRule(policy(max_age, cron, zone, *dimensions))
    first = rule.deadline(None)
    assert first is not None
    row = series("", None, due_at=first)
    now = max(now, first)
    latest = rule.latest_due(row, now)
    following = rule.next_due(row, now)
    assert first <= latest <= now
    assert following is not None and following > now
    assert rule.latest_due(row, following) == following
    assert rule.latest_due(row, following - timedelta(seconds=1)) == latest
