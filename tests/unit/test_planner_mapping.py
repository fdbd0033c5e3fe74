"""Every mapping over every sort of dimension."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from servo.contract.manifest import (
    AllUpstream,
    Asset,
    DynamicDimension,
    Identity,
    Latest,
    StaticDimension,
    Window,
)
from servo.errors import Invalid
from tests.kit.planning import (
    CUSTOMERS,
    DAYS,
    REGIONS,
    TENANTS,
    World,
    asset,
    manifest,
    planned,
    read_by,
    reads,
    time,
)


def read(
    upstream: Asset, reader: Asset, partition: str, *made: str, world: World | None = None
) -> list[str]:
    """What one partition of the reader reads of what was made."""
    world = world or World(customers=["c1", "c2"])
    if made:
        world.make(upstream.key, *made)
    key = tuple(f"{name}={value}" for name, value in _plain(partition))
    spec = planned(manifest(upstream, reader), reader.key, world=world, partitions=key)
    return read_by(spec, f"{reader.key} {partition}".strip())["x"]


def _plain(partition: str) -> list[tuple[str, str]]:
    parts = (part.partition("=") for part in partition.split(",") if part)
    return [(name, value.partition(":")[2]) for name, _, value in parts]


@pytest.mark.parametrize(
    ("dimension", "partition"),
    [
        (DAYS, "date=d:2025-01-03"),
        (time("week", "2024-01-01"), "date=d:2024-12-30"),
        (time("month", "2024-01-01"), "date=d:2024-02-01"),
        (time("hour"), "date=t:2025-01-03T05:00:00.000000Z"),
        (REGIONS, "region=s:eu"),
        (TENANTS, "tenant=s:acme"),
        (CUSTOMERS, "customer=s:c1"),
    ],
)
def test_identity_reads_the_same_value(dimension: Any, partition: str) -> None:
    reader = asset("s.b", dimension, reads("s.a"))
    assert read(asset("s.a", dimension), reader, partition, partition) == [partition]


def test_identity_is_between_dimensions_of_one_name_whatever_their_bounds() -> None:
    upstream = asset("s.a", time(start="2020-01-01", timezone="Asia/Tokyo"))
    reader = asset("s.b", DAYS, reads("s.a"))
    assert read(upstream, reader, "date=d:2025-01-03", "date=d:2025-01-03")
    upstream = asset("s.a", DynamicDimension(name="region", keys="any"))
    reader = asset("s.b", StaticDimension(name="region", values=("eu",)), reads("s.a"))
    assert read(upstream, reader, "region=s:eu", "region=s:eu") == ["region=s:eu"]


@pytest.mark.parametrize(
    ("every", "partition", "expected"),
    [
        ("day", "date=d:2024-03-01", ["date=d:2024-02-29", "date=d:2024-03-01"]),
        ("week", "date=d:2024-12-30", ["date=d:2024-12-23", "date=d:2024-12-30"]),
        ("month", "date=d:2024-03-01", ["date=d:2024-02-01", "date=d:2024-03-01"]),
        (
            "hour",
            "date=t:2024-03-01T00:00:00.000000Z",
            ["date=t:2024-02-29T23:00:00.000000Z", "date=t:2024-03-01T00:00:00.000000Z"],
        ),
    ],
)
def test_windows_count_in_periods(every: Any, partition: str, expected: list[str]) -> None:
    upstream = asset("s.a", time(every, "2024-01-01"))
    reader = asset("s.b", time(every, "2024-02-01"), reads("s.a", Window(-1, 0)))
    assert read(upstream, reader, partition, *expected) == expected


def test_hourly_windows_run_through_summer_time() -> None:
    berlin = time("hour", "2025-03-01", timezone="Europe/Berlin")
    made = [f"date=t:2025-03-30T{hour:02}:00:00.000000Z" for hour in (0, 1)]
    reader = asset("s.b", berlin, reads("s.a", Window(-1, 0)))
    world = World()
    world.make("s.a", *made)
    spec = planned(
        manifest(asset("s.a", berlin), reader),
        "s.b",
        world=world,
        partitions=("date=2025-03-30T01",),
        until=datetime(2025, 4, 1),
    )
    assert read_by(spec, f"s.b {made[1]}")["x"] == made


def test_a_window_is_clipped_and_leaves_out_what_was_never_made() -> None:
    upstream = asset("s.a", time(end="2025-01-05"))
    reader = asset("s.b", DAYS, reads("s.a", Window(-6, 1)))
    made = ["date=d:2025-01-01", "date=d:2025-01-03"]
    assert read(upstream, reader, "date=d:2025-01-02", *made) == made
    assert read(upstream, reader, "date=d:2025-01-09", *made) == made[1:]


def test_a_window_reads_from_the_plan_and_from_what_exists() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", DAYS, reads("s.a", Window(-2, 0))))
    world = World()
    world.make("s.a", "date=d:2025-01-01", "date=d:2025-01-02")
    spec = planned(project, "*", world=world, partitions=("date=2025-01-02..2025-01-03",))
    assert read_by(spec, "s.b date=d:2025-01-03")["x"] == [
        "+date=d:2025-01-02",
        "+date=d:2025-01-03",
        "date=d:2025-01-01",
    ]


def test_all_reads_every_partition_there_is() -> None:
    made = ["date=d:2025-01-02", "date=d:2025-01-10"]
    reader = asset("s.b", reads("s.a", AllUpstream()))
    assert read(asset("s.a", DAYS), reader, "", *made) == made
    assert read(asset("s.a", REGIONS), reader, "", "region=s:us", "region=s:eu") == [
        "region=s:eu",
        "region=s:us",
    ]


def test_all_leaves_out_partitions_that_the_asset_has_no_more() -> None:
    made = ["region=s:us", "region=s:atlantis", "", "date=d:2025-01-01"]
    reader = asset("s.b", reads("s.a", AllUpstream()))
    assert read(asset("s.a", REGIONS), reader, "", *made) == ["region=s:us"]


def test_latest_reads_the_greatest_one() -> None:
    reader = asset("s.b", reads("s.a", Latest()))
    made = ["date=d:2025-01-09", "date=d:2025-01-10", "date=d:2025-01-02"]
    assert read(asset("s.a", DAYS), reader, "", *made) == ["date=d:2025-01-10"]
    assert read(asset("s.a", REGIONS), reader, "", "region=s:us", "region=s:eu") == ["region=s:us"]


def test_latest_prefers_what_the_plan_makes_if_it_is_greater() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", reads("s.a", Latest())))
    world = World()
    world.make("s.a", "date=d:2025-01-05")
    for day, expected in (("03", "date=d:2025-01-05"), ("07", "+date=d:2025-01-07")):
        spec = planned(project, "*", world=world, partitions=(f"date=2025-01-{day}",))
        assert read_by(spec, "s.b")["x"] == [expected]


MADE = [
    f"date=d:2025-01-0{day},region=s:{region}"
    for day, region in [(1, "eu"), (1, "us"), (2, "eu"), (3, "us")]
]


@pytest.mark.parametrize(
    ("rules", "partition", "expected"),
    [
        ({}, MADE[2], [MADE[2]]),
        ({"date": Window(-1, 0)}, MADE[2], [MADE[0], MADE[2]]),
        ({"mapping": Window(-1, 0)}, MADE[2], [MADE[0], MADE[2]]),
        ({"region": AllUpstream()}, MADE[0], [MADE[0], MADE[1]]),
        ({"date": Latest()}, MADE[1], [MADE[3]]),
        ({"date": AllUpstream()}, MADE[0], [MADE[0], MADE[2]]),
        ({"date": Window(-1, 0), "region": AllUpstream()}, MADE[2], [MADE[0], MADE[1], MADE[2]]),
        ({"date": Window(-1, 0), "region": Latest()}, MADE[2], [MADE[1], MADE[2]]),
        ({"date": Latest(), "region": AllUpstream()}, MADE[0], [MADE[2], MADE[3]]),
        ({"mapping": Latest()}, MADE[0], [MADE[3]]),
        ({"mapping": AllUpstream()}, MADE[0], MADE),
        ({"mapping": AllUpstream(), "region": Identity()}, MADE[1], [MADE[1], MADE[3]]),
    ],
)
def test_products_are_mapped_dimension_by_dimension(
    rules: dict[str, Any], partition: str, expected: list[str]
) -> None:
    rules = dict(rules)
    reader = asset("s.b", DAYS, REGIONS, reads("s.a", rules.pop("mapping", Identity()), **rules))
    assert read(asset("s.a", DAYS, REGIONS), reader, partition, *MADE) == expected


def test_dimensions_that_only_the_reader_has_are_ignored() -> None:
    reader = asset("s.b", DAYS, REGIONS, reads("s.a"))
    made = "date=d:2025-01-03"
    assert read(asset("s.a", DAYS), reader, f"{made},region=s:eu", made) == [made]
    assert read(asset("s.a"), reader, f"{made},region=s:eu", "") == [""]


def test_inputs_that_are_read_alike_are_shared() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", REGIONS, reads("s.a", AllUpstream())))
    spec = planned(project, "*", partitions=("date=all",))
    eu, us = spec.tasks[-2:]
    assert eu.inputs == us.inputs == (0,)
    assert eu.depends_on is us.depends_on


@pytest.mark.parametrize(
    ("upstream", "own", "rule", "message"),
    [
        ((DAYS,), (), Identity(), "identity over 'date': it has no such dimension itself"),
        ((DAYS,), (), Window(-1, 0), r"window\(-1, 0\) over 'date': it has no such dimension"),
        ((REGIONS,), (DAYS,), Identity(), "over 'region': it has no such dimension"),
        ((time("hour"),), (DAYS,), Identity(), "the input's is by hour, its own by day"),
        ((time("week"),), (DAYS,), Window(0, 0), "the input's is by week, its own by day"),
        ((DAYS,), (DAYS,), Window(1, 0), "it ends before it starts"),
        (
            (DAYS,),
            (StaticDimension(name="date", values=("2025-01-01",)),),
            Identity(),
            "one of them is a time dimension",
        ),
        (
            (time("hour", timezone="Asia/Kolkata"),),
            (time("hour"),),
            Identity(),
            "hours begin at different minutes",
        ),
    ],
)
def test_mappings_that_cannot_be_are_invalid(
    upstream: Any, own: Any, rule: Any, message: str
) -> None:
    project = manifest(asset("s.a", *upstream), asset("s.b", *own, reads("s.a", rule)))
    with pytest.raises(Invalid, match=r"s\.b cannot read s\.a by .*" + message) as error:
        planned(project, "*")
    assert "all_upstream or latest" in error.value.hint


def test_a_window_over_names_is_invalid_if_it_was_meant_for_them() -> None:
    reader = asset("s.b", REGIONS, reads("s.a", region=Window(-1, 0)))
    with pytest.raises(Invalid, match="only time dimensions have windows"):
        planned(manifest(asset("s.a", REGIONS), reader), "*")


def test_a_mapping_of_an_unknown_dimension_is_invalid() -> None:
    reader = asset("s.b", DAYS, reads("s.a", dat=Latest()))
    with pytest.raises(Invalid, match="maps the dimension 'dat'") as error:
        planned(manifest(asset("s.a", DAYS), reader), "*")
    assert error.value.hint == "did you mean 'date'?"
