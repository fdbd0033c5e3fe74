"""Validation of a project: partitions and mappings."""

from __future__ import annotations

from typing import Any

import pytest

from servo import (
    AssetIn,
    all_upstream,
    asset,
    by_dimension,
    daily,
    dynamic,
    hourly,
    identity,
    latest,
    monthly,
    static,
    tenant,
    time_window,
    weekly,
    window,
)
from servo.mapping import PartitionMapping
from servo.partition import Partitions
from tests.kit.validation import DAYS, make, problems, said


def reads(
    upstream: Partitions | None, mapping: PartitionMapping, own: Partitions | None
) -> list[str]:
    """What is wrong with `a.down` reading `a.up`."""
    up: dict[str, Any] = {} if upstream is None else {"partitions": upstream}
    down: dict[str, Any] = {} if own is None else {"partitions": own}

    def function(up: AssetIn = AssetIn("a.up", mapping=mapping)) -> None: ...

    return said([make("a.up", **up), asset(**{"namespace": "a", "name": "down", **down})(function)])


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (
            daily("date", start="2025-02-01", end="2025-01-01"),
            ["the dimension 'date' starts 2025-02-01, not before its end 2025-01-01"],
        ),
        (
            daily("date", start="2025-01-01", timezone="Europe/Berln"),
            ["the time zone 'Europe/Berln' is unknown"],
        ),
        (
            daily("date", start="soon", end="2025-13-01"),
            [
                "the dimension 'date': its end '2025-13-01' is not a date",
                "the dimension 'date': its start 'soon' is not a date",
            ],
        ),
        (
            daily("date", start="2025-01-01T06:00"),
            ["the dimension 'date': its start '2025-01-01T06:00' is not a date"],
        ),
        (
            weekly("week", start="2025-01-01"),
            ["the dimension 'week': its start '2025-01-01' does not begin a week"],
        ),
        (
            monthly("month", start="2025-01-15"),
            ["the dimension 'month': its start '2025-01-15' does not begin a month"],
        ),
        (
            hourly("hour", start="2025-01-15T06:30"),
            [
                "the dimension 'hour': its start '2025-01-15T06:30' "
                "is not a whole hour without offset"
            ],
        ),
        (static("region", []), ["the dimension 'region' has no values"]),
        (static("region", ["eu", "us", "eu"]), ["the dimension 'region' has 'eu' twice"]),
        (tenant("who", []), ["the dimension 'who' has no values"]),
        (static("Region", ["eu"]), ["'Region' is not a valid partition dimension"]),
        (dynamic("shop", keys="My Shops"), ["'My Shops' is not a valid set of partition keys"]),
        (DAYS * static("date", ["a"]), ["two dimensions are called 'date'"]),
        (weekly("w", start="2025-01-06", end="2025-01-13"), []),
        (monthly("m", start="2025-01-01", timezone="Asia/Kathmandu"), []),
        (hourly("h", start="2025-01-15T06:00", end="2025-01-16"), []),
    ],
)
def test_bad_partitions_say_what_is_wrong(partitions: Partitions, expected: list[str]) -> None:
    assert [p.message for p in problems([make("a.x", partitions=partitions)])] == expected


REGIONS = static("region", ["eu", "us"])
MONTHS = monthly("month", start="2025-01-01")


@pytest.mark.parametrize(
    ("upstream", "mapping", "own"),
    [
        (None, identity, None),
        (None, identity, DAYS),
        (None, latest, None),
        (DAYS, identity, DAYS),
        (DAYS, identity, DAYS * REGIONS),
        (DAYS, window(-6, 0), DAYS),
        (DAYS * REGIONS, window(-6, 0), DAYS * REGIONS),
        (DAYS, all_upstream, None),
        (DAYS, latest, None),
        (hourly("date", start="2025-01-01"), all_upstream, DAYS),
        (hourly("date", start="2025-01-01"), identity, DAYS),
        (DAYS, identity, hourly("date", start="2025-01-01", timezone="Europe/Berlin")),
        (DAYS, time_window(), weekly("date", start="2025-01-06")),
        (DAYS, time_window(), MONTHS),
        (DAYS, time_window("month"), MONTHS * weekly("week", start="2025-01-06")),
        (DAYS * REGIONS, time_window(), MONTHS * REGIONS),
        (DAYS * REGIONS, by_dimension(date=time_window(), region=latest), MONTHS),
        (DAYS, time_window("day"), daily("day", start="2025-01-01")),
        (
            hourly("hour", start="2025-01-01", timezone="Asia/Kolkata"),
            time_window(),
            daily("day", start="2020-01-01", timezone="Asia/Kolkata"),
        ),
        (DAYS * REGIONS, by_dimension(date=window(-6, 0), region=all_upstream), DAYS),
        (DAYS * REGIONS, by_dimension(date=window(-6, 0)), DAYS * static("region", ["eu"])),
        (dynamic("region"), identity, REGIONS),
        (tenant("region", ["eu", "us", "cn"]), identity, REGIONS),
    ],
)
def test_mappings_that_find_partitions_are_good(
    upstream: Partitions | None, mapping: PartitionMapping, own: Partitions | None
) -> None:
    assert reads(upstream, mapping, own) == []


@pytest.mark.parametrize(
    ("upstream", "mapping", "own", "expected"),
    [
        (
            DAYS * REGIONS,
            identity,
            DAYS,
            "it is partitioned by 'region', and a.down is not (map it: "
            "by_dimension(region=all_upstream) or by_dimension(region=latest))",
        ),
        (
            REGIONS,
            window(-6, 0),
            REGIONS,
            "a window over an asset that is not partitioned by time "
            "(use identity, all_upstream or latest)",
        ),
        (
            DAYS * REGIONS,
            by_dimension(region=window(-6, 0)),
            DAYS * REGIONS,
            "a window over 'region', which is not a time dimension "
            "(use identity, all_upstream or latest)",
        ),
        (
            DAYS * REGIONS,
            window(-6, 0),
            DAYS,
            "it is partitioned by 'region', and a.down is not (map it: "
            "by_dimension(region=all_upstream) or by_dimension(region=latest))",
        ),
        (
            DAYS,
            window(0, -6),
            DAYS,
            "window(0, -6) ends before it starts (write window(-6, 0))",
        ),
        (
            DAYS,
            window(-6, 0),
            None,
            "a window over 'date', by which a.down is not partitioned "
            "(by_dimension(date=all_upstream) or by_dimension(date=latest))",
        ),
        (
            None,
            window(-6, 0),
            DAYS,
            "a window over an asset that is not partitioned by time "
            "(use identity, all_upstream or latest)",
        ),
        (
            DAYS,
            by_dimension(dat=latest),
            DAYS,
            "it has no dimension 'dat' (did you mean 'date'?)",
        ),
        (None, by_dimension(zzz=latest), None, "it has no dimension 'zzz' (it has no partitions)"),
        (
            weekly("date", start="2025-01-06"),
            identity,
            monthly("date", start="2025-01-01"),
            "its dimension 'date' is by week, here it is by month, and a week may be in two months "
            "(by_dimension(date=all_upstream) or by_dimension(date=latest), or read days)",
        ),
        (
            weekly("week", start="2025-01-06"),
            time_window(),
            MONTHS,
            "its dimension 'week' is by week, here 'month' is by month, and a week may be in two "
            "months (by_dimension(week=all_upstream) or by_dimension(week=latest), or read days)",
        ),
        (
            hourly("hour", start="2025-01-01"),
            time_window(),
            daily("day", start="2025-01-01", timezone="Asia/Kolkata"),
            "its dimension 'hour' is by hour, here 'day' is by day, and these begin at different "
            "minutes of an hour (use the same time zone)",
        ),
        (
            DAYS,
            identity,
            MONTHS,
            "it is partitioned by 'date', and a.down is not (map it: "
            'by_dimension(date=time_window("month")), '
            "by_dimension(date=all_upstream) or by_dimension(date=latest))",
        ),
        (
            DAYS,
            time_window(),
            MONTHS * weekly("week", start="2025-01-06"),
            "a time window over 'date' does not say which dimension of a.down to follow "
            '(by_dimension(date=time_window("month")) or by_dimension(date=time_window("week")))',
        ),
        (
            DAYS,
            time_window("mont"),
            MONTHS,
            "a.down has no time dimension 'mont' (did you mean 'month'?)",
        ),
        (
            DAYS,
            time_window(),
            REGIONS,
            "a time window over 'date', and a.down is not partitioned by time "
            "(by_dimension(date=all_upstream) or by_dimension(date=latest))",
        ),
        (
            REGIONS,
            time_window(),
            MONTHS,
            "a time window over an asset that is not partitioned by time "
            "(use identity, all_upstream or latest)",
        ),
        (
            REGIONS,
            by_dimension(region=time_window()),
            MONTHS,
            "a time window over 'region', which is not a time dimension "
            "(use identity, all_upstream or latest)",
        ),
        (
            hourly("date", start="2025-01-01", timezone="Asia/Kolkata"),
            identity,
            hourly("date", start="2025-01-01"),
            "its dimension 'date' is by hour, here it is by hour, and these begin at different "
            "minutes of an hour (use the same time zone)",
        ),
        (
            weekly("date", start="2025-01-06"),
            window(-1, 0),
            DAYS,
            "its dimension 'date' is by week, here it is by day "
            '(by_dimension(date=time_window("date")), by_dimension(date=all_upstream) '
            "or by_dimension(date=latest), or the same unit)",
        ),
        (
            static("date", ["a"]),
            identity,
            DAYS,
            "its dimension 'date' is not by time, here it is by day "
            "(by_dimension(date=all_upstream) or by_dimension(date=latest), or the same unit)",
        ),
        (
            REGIONS,
            identity,
            static("region", ["eu", "cn", "jp"]),
            "its dimension 'region' lacks 'cn', 'jp' "
            "(share the values, or use by_dimension(region=all_upstream))",
        ),
    ],
)
def test_mappings_that_cannot_find_partitions_are_refused(
    upstream: Partitions | None, mapping: PartitionMapping, own: Partitions | None, expected: str
) -> None:
    assert reads(upstream, mapping, own) == [f"input a.up: {expected}"]


def test_a_dependency_without_data_needs_no_mapping() -> None:
    assert said([make("a.up", partitions=DAYS * REGIONS), make("a.down", deps=["up"])]) == []
