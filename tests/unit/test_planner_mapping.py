"""Every mapping over every sort of dimension."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from arco.orchestration.mapping import Resolver
from arco.orchestration.partition_space import Calendar, Point, Space
from servo.contract.manifest import (
    AllUpstream,
    Asset,
    DynamicDimension,
    Identity,
    Input,
    Latest,
    StaticDimension,
    TimeDimension,
    TimeWindow,
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

MONTHS = time("month", name="month")
OLD_MONTHS, WEEKS = time("month", "2024-01-01"), time("week", "2024-01-01")


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
        ((WEEKS,), (OLD_MONTHS,), Identity(), "by month, and a week may be in two"),
        ((OLD_MONTHS,), (WEEKS,), TimeWindow(), "by week, and a week may be in two"),
        ((DAYS,), (), TimeWindow(), "does not say which time dimension"),
        ((DAYS,), (MONTHS, time(name="paid")), TimeWindow(), "does not say which time dimension"),
        ((DAYS,), (MONTHS,), TimeWindow("mont"), r"\(.mont.\) over 'date': it has no such"),
        ((DAYS,), (REGIONS,), TimeWindow("region"), "one of them is a time dimension"),
        (
            (time("hour"),),
            (time("day", timezone="Asia/Kolkata"),),
            Identity(),
            "by hour, its own by day, and these begin at different minutes",
        ),
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
            "by hour, its own by hour, and these begin at different minutes",
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


# -- between units of time ----------------------------------------------------------------

WINTER = [f"date=d:2025-{day}" for day in ("01-30", "01-31", "02-01", "02-28", "03-01")]
SPRING = datetime(2025, 4, 2)


def read_later(upstream: Asset, reader: Asset, partition: str, made: list[str]) -> list[str]:
    """What one partition of the reader reads in spring."""
    world = World()
    world.make(upstream.key, *made)
    spec = planned(
        manifest(upstream, reader), reader.key, world=world, partitions=(partition,), until=SPRING
    )
    (task,) = spec.tasks
    return read_by(spec, f"{reader.key} {task.partition}")["x"]


@pytest.mark.parametrize(
    ("own", "rule"),
    [
        (time("month"), reads("s.a")),
        (time("month"), reads("s.a", TimeWindow())),
        (MONTHS, reads("s.a", TimeWindow())),
        (MONTHS, reads("s.a", TimeWindow("month"))),
        (MONTHS, reads("s.a", date=TimeWindow("month"))),
    ],
)
def test_a_month_reads_its_days(own: TimeDimension, rule: Input) -> None:
    reader = asset("s.b", own, rule)
    assert read_later(asset("s.a", DAYS), reader, f"{own.name}=2025-02", WINTER) == WINTER[2:4]


@pytest.mark.parametrize(
    ("every", "made", "day", "expected"),
    [
        ("month", ["2025-01-01", "2025-02-01"], "2025-01-31", ["2025-01-01"]),
        ("month", ["2025-01-01", "2025-02-01"], "2025-02-01", ["2025-02-01"]),
        ("week", ["2025-01-27", "2025-02-03"], "2025-02-02", ["2025-01-27"]),
        ("week", ["2025-01-27", "2025-02-03"], "2025-02-03", ["2025-02-03"]),
    ],
)
def test_a_day_reads_the_period_that_it_is_in(
    every: Any, made: list[str], day: str, expected: list[str]
) -> None:
    upstream = asset("s.a", time(every))
    texts = [f"date=d:{each}" for each in made]
    reading = read_later(upstream, asset("s.b", DAYS, reads("s.a")), f"date={day}", texts)
    assert reading == [f"date=d:{each}" for each in expected]


@pytest.mark.parametrize(("day", "count"), [("2025-03-29", 24), ("2025-03-30", 23)])
def test_a_day_of_berlin_reads_its_hours_of_utc(day: str, count: int) -> None:
    project = manifest(
        asset("s.a", time("hour")),
        asset("s.b", time("day", timezone="Europe/Berlin"), reads("s.a")),
    )
    hours = "date=2025-03-28T00..2025-03-31T23"
    spec = planned(project, "*", partitions=(hours, f"date={day}"), until=SPRING)
    reading = read_by(spec, f"s.b date=d:{day}")["x"]
    assert len(reading) == count
    before = {"2025-03-29": "2025-03-28", "2025-03-30": "2025-03-29"}[day]
    assert reading[0] == f"+date=t:{before}T23:00:00.000000Z"


def test_other_dimensions_are_the_same_beside_a_time_window() -> None:
    upstream = asset("s.a", DAYS, REGIONS)
    made = [f"{day},region=s:{region}" for day in WINTER for region in ("eu", "us")]
    world = World()
    world.make("s.a", *made)
    for rule in (reads("s.a", TimeWindow()), reads("s.a", date=TimeWindow("month"))):
        spec = planned(
            manifest(upstream, asset("s.b", MONTHS, REGIONS, rule)),
            "s.b",
            world=world,
            partitions=("month=2025-02", "region=us"),
            until=SPRING,
        )
        reading = read_by(spec, "s.b month=d:2025-02-01,region=s:us")["x"]
        assert reading == [f"{day},region=s:us" for day in WINTER[2:4]]


def test_a_month_leaves_out_days_that_do_not_exist_and_needs_one() -> None:
    upstream = asset("s.a", time(start="2025-01-31"))
    reader = asset("s.b", MONTHS, reads("s.a", TimeWindow()))
    assert read_later(upstream, reader, "month=2025-01", WINTER) == WINTER[1:2]
    with pytest.raises(
        Invalid,
        match=r"s\.b reads s\.a date=d:2025-02-01 to date=d:2025-02-28, which have no data yet",
    ):
        read_later(upstream, reader, "month=2025-02", WINTER[:2])


def test_a_new_version_of_a_day_puts_its_month_out_of_date_and_no_other() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", MONTHS, reads("s.a", TimeWindow())))
    world = World()
    world.make("s.a", *WINTER)
    request: Any = {"partitions": ("month=2025-01..2025-03",), "until": SPRING}
    world.run(project, planned(project, "s.b", world=world, **request))
    for made, expected in [
        ([], []),
        (["date=d:2025-02-28"], ["month=d:2025-02-01"]),
        (["date=d:2025-02-02"], ["month=d:2025-02-01"]),
        (["date=d:2025-03-31"], ["month=d:2025-03-01"]),
    ]:
        if made:
            world.make("s.a", *made)
        spec = planned(project, "s.b", world=world, **request)
        assert [task.partition for task in spec.tasks if task.action == "run"] == expected
        world.run(project, spec)


def test_a_dependency_without_data_waits_for_its_days() -> None:
    reader = asset("s.b", time("month"), reads("s.a", parameter=""))
    project = manifest(asset("s.a", DAYS), reader)
    spec = planned(project, "*", partitions=("date=2025-01..2025-02",), until=SPRING)
    assert [len(task.depends_on) for task in spec.tasks[-2:]] == [31, 28]


def test_a_dependency_without_data_waits_for_all_months_of_which_a_week_may_be_in_two() -> None:
    reader = asset("s.b", time("week", "2025-01-06"), reads("s.a", parameter=""))
    project = manifest(asset("s.a", time("month")), reader)
    spec = planned(project, "*", partitions=("date=all",), until=SPRING)
    assert {len(task.depends_on) for task in spec.tasks if task.asset == "s.b"} == {3}


def test_a_time_window_is_computed_from_the_value_alone() -> None:
    def existing() -> list[Point]:
        raise AssertionError("somebody looked at all partitions")

    hours, days = (
        Space([Calendar(time(every, "2020-01-01"), SPRING)]) for every in ("hour", "day")
    )
    for downstream, upstream, value, count in (
        (days, hours, date(2025, 1, 1), 24),
        (hours, days, datetime(2025, 1, 1, 5), 1),
    ):
        resolver = Resolver("s.b", reads("s.a"), downstream, upstream, existing)
        assert len(resolver.resolve(resolver.relevant((value,)))) == count


def test_a_window_over_names_is_invalid_if_it_was_meant_for_them() -> None:
    reader = asset("s.b", REGIONS, reads("s.a", region=Window(-1, 0)))
    with pytest.raises(Invalid, match="only time dimensions have windows"):
        planned(manifest(asset("s.a", REGIONS), reader), "*")


def test_a_time_window_over_names_is_invalid_if_it_was_meant_for_them() -> None:
    reader = asset("s.b", REGIONS, reads("s.a", region=TimeWindow()))
    with pytest.raises(Invalid, match=r"time_window\(\).*only time dimensions have windows"):
        planned(manifest(asset("s.a", REGIONS), reader), "*")


def test_a_mapping_of_an_unknown_dimension_is_invalid() -> None:
    reader = asset("s.b", DAYS, reads("s.a", dat=Latest()))
    with pytest.raises(Invalid, match="maps the dimension 'dat'") as error:
        planned(manifest(asset("s.a", DAYS), reader), "*")
    assert error.value.hint == "did you mean 'date'?"
