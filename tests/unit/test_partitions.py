from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from arco.orchestration.partition_ranges import (
    by_dimension,
    check_dimension,
    latest,
    pick,
)
from arco.orchestration.partition_space import (
    Calendar,
    Keys,
    Names,
    Ranges,
    Space,
    count,
    keys_of,
    merged,
)
from servo.contract.manifest import StaticDimension
from servo.errors import Invalid
from tests.kit.planning import CUSTOMERS, DAYS, REGIONS, TENANTS, asset, time

UNTIL = datetime(2025, 2, 10, 12)


def choose(keys: Keys, *texts: str) -> Ranges:
    """The keys that the texts name; Invalid if the dimension lacks one of them."""
    found = [pick(keys, text) for text in texts]
    for each in found:
        if each.problem:
            raise each.problem()
    return merged(numbers for each in found for numbers in each.keys)


def keys(calendar: Keys, *texts: str) -> list[object]:
    return [calendar.key(number) for numbers in choose(calendar, *texts) for number in numbers]


def shown(calendar: Keys, *texts: str) -> list[str]:
    return [str(key) for key in keys(calendar, *texts)]


# -- which keys there are ---------------------------------------------------------------


def test_a_day_counts_once_it_is_over() -> None:
    assert shown(Calendar(time(start="2025-02-08"), UNTIL), "all") == ["2025-02-08", "2025-02-09"]
    midnight = datetime(2025, 2, 11)
    assert shown(Calendar(DAYS, midnight), "latest") == ["2025-02-10"]
    assert shown(Calendar(DAYS, midnight - timedelta.resolution), "latest") == ["2025-02-09"]


def test_a_day_ends_at_midnight_of_its_zone() -> None:
    tokyo = time(timezone="Asia/Tokyo")
    assert shown(Calendar(tokyo, datetime(2025, 2, 9, 15)), "latest") == ["2025-02-09"]
    assert shown(Calendar(tokyo, datetime(2025, 2, 9, 14, 59)), "latest") == ["2025-02-08"]


def test_until_may_be_aware() -> None:
    aware = datetime(2025, 2, 10, 1, tzinfo=timezone(timedelta(hours=2)))
    assert Calendar(DAYS, aware).complete == Calendar(DAYS, datetime(2025, 2, 9, 23)).complete
    assert Calendar(DAYS, datetime(2025, 2, 9, tzinfo=UTC)).every_key()


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    weeks = Calendar(time("week", "2025-01-06"), UNTIL)
    assert shown(weeks, "all") == [
        "2025-01-06",
        "2025-01-13",
        "2025-01-20",
        "2025-01-27",
        "2025-02-03",
    ]
    months = Calendar(time("month", "2024-11-01"), UNTIL)
    assert shown(months, "all") == ["2024-11-01", "2024-12-01", "2025-01-01"]


def test_periods_that_start_or_end_cut_are_no_partitions() -> None:
    assert shown(Calendar(time("month", "2025-01-15", "2025-04-15")), "all") == [
        "2025-02-01",
        "2025-03-01",
    ]
    assert shown(Calendar(time("week", "2025-01-01", "2025-01-14")), "all") == ["2025-01-06"]


def test_end_is_exclusive_and_does_not_outrun_until() -> None:
    january = time(start="2025-01-30", end="2025-02-01")
    assert shown(Calendar(january), "all") == ["2025-01-30", "2025-01-31"]
    assert shown(Calendar(january, datetime(2025, 1, 31)), "all") == ["2025-01-30"]


def test_without_an_end_somebody_must_say_until_when() -> None:
    with pytest.raises(Invalid, match="'date' has no end"):
        Calendar(DAYS)


def test_a_dimension_that_has_not_begun_is_empty() -> None:
    future = Calendar(time(start="2026-01-01"), UNTIL)
    assert keys(future, "all") == []
    assert latest(future) == ()
    with pytest.raises(Invalid, match="no complete day yet") as error:
        choose(future, "latest")
    assert "2026-01-01" in error.value.hint


@pytest.mark.parametrize(
    ("day", "hours", "first"),
    [
        ("2025-03-29", 24, "2025-03-28 23:00:00"),
        ("2025-03-30", 23, "2025-03-29 23:00:00"),
        ("2025-10-26", 25, "2025-10-25 22:00:00"),
    ],
)
def test_a_day_has_the_hours_of_its_zone(day: str, hours: int, first: str) -> None:
    berlin = Calendar(time("hour", "2025-01-01", timezone="Europe/Berlin"), datetime(2026, 1, 1))
    found = shown(berlin, day)
    assert (len(found), found[0]) == (hours, first)


def test_a_day_without_a_midnight_begins_when_the_clock_jumps() -> None:
    # In Beirut, on this day, 00:00 became 01:00.
    beirut = Calendar(time("hour", "2024-01-01", timezone="Asia/Beirut"), datetime(2025, 1, 1))
    assert len(keys(beirut, "2024-03-31")) == 23
    daily = Calendar(time(start="2024-03-01", timezone="Asia/Beirut"), datetime(2024, 3, 30, 22))
    assert shown(daily, "latest") == ["2024-03-30"]


def test_daily_keys_are_unbroken_across_summer_time() -> None:
    berlin = time(start="2025-03-29", end="2025-04-01", timezone="Europe/Berlin")
    assert shown(Calendar(berlin), "all") == ["2025-03-29", "2025-03-30", "2025-03-31"]


def test_hours_of_a_half_hour_zone_begin_at_half_past() -> None:
    kolkata = Calendar(time("hour", "2025-01-01", timezone="Asia/Kolkata"), UNTIL)
    assert keys(kolkata, "2025-01-01")[0] == datetime(2024, 12, 31, 18, 30)
    with pytest.raises(Invalid, match="does not begin an hour"):
        choose(kolkata, "2025-01-01T05")


def test_names_are_sorted_and_each_is_there_once() -> None:
    assert keys(Names("region", ["us", "eu", "us"]), "all") == ["eu", "us"]
    assert keys(keys_of(REGIONS), "all") == ["eu", "us"]
    assert keys(keys_of(TENANTS), "all") == ["acme", "zeta"]
    assert keys(keys_of(CUSTOMERS, None, lambda name: [f"{name}-1"]), "all") == ["customers-1"]


def test_unknown_zones_and_bad_starts_are_invalid_and_name_the_asset() -> None:
    with pytest.raises(Invalid, match=r"s\.a: dimension 'date': unknown time zone 'Mars/Base'"):
        Space.of(asset("s.a", time(timezone="Mars/Base")), lambda d: keys_of(d, UNTIL))
    with pytest.raises(Invalid, match="its start 'soon' is not a date"):
        Calendar(time(start="soon"), UNTIL)


# -- arithmetic ---------------------------------------------------------------------------


def test_windows_move_by_periods_and_stop_at_the_ends() -> None:
    months = Calendar(time("month", "2024-12-01", "2025-04-01"))
    assert months.shift(date(2025, 2, 1), -1, 1) == [
        date(2025, 1, 1),
        date(2025, 2, 1),
        date(2025, 3, 1),
    ]
    assert months.shift(date(2025, 1, 1), -6, 0) == [date(2024, 12, 1), date(2025, 1, 1)]
    assert months.shift(date(2025, 3, 1), 1, 6) == []
    hours = Calendar(time("hour", "2025-01-01"), UNTIL)
    assert hours.shift(datetime(2025, 1, 2), -1, -1) == [datetime(2025, 1, 1, 23)]


def test_merging_keeps_each_number_once_and_in_order() -> None:
    ranges = [range(5, 7), range(1, 3), range(2, 4), range(9, 9), range(4, 5)]
    assert merged(ranges) == (range(1, 7),)
    assert merged([range(4, 5), range(1, 2)]) == (range(1, 2), range(4, 5))
    assert count([merged(ranges), (range(2),)]) == 12


def test_points_are_products_in_the_order_of_keys() -> None:
    space = Space([Names("region", ["us", "eu"]), Calendar(time(end="2025-01-03"))])
    everything = [merged([each.every_key()]) for each in space.dimensions]
    texts = [space.text(point) for point in space.points(everything)]
    assert texts == [
        "date=d:2025-01-01,region=s:eu",
        "date=d:2025-01-01,region=s:us",
        "date=d:2025-01-02,region=s:eu",
        "date=d:2025-01-02,region=s:us",
    ]
    assert [str(space.key(point)) for point in space.points(everything)] == texts
    assert [space.point(text) for text in texts] == space.points(everything)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "date=d:2025-01-01",
        "date=d:2024-12-31,region=s:eu",
        "date=d:2025-01-01,region=s:mars",
        "date=d:2025-01-01,region=i:1",
        "date=t:2025-01-01T00:00:00.000000Z,region=s:eu",
    ],
)
def test_a_partition_that_the_asset_has_no_more_is_no_point(text: str) -> None:
    space = Space([Names("region", ["us", "eu"]), Calendar(time(end="2025-01-03"))])
    assert space.point(text) is None


# -- ranges as people write them ----------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2025-01-01"], ["2025-01-01"]),
        (["2025-01-30..2025-02-01"], ["2025-01-30", "2025-01-31", "2025-02-01"]),
        (["2025-01-05,2025-01-01"], ["2025-01-01", "2025-01-05"]),
        (["2025-01-05", "2025-01-04..2025-01-05"], ["2025-01-04", "2025-01-05"]),
        (["2025-02-08.."], ["2025-02-08", "2025-02-09"]),
        (["..2025-01-02"], ["2025-01-01", "2025-01-02"]),
        (["latest"], ["2025-02-09"]),
        (["2025-01-03..2025-01-03 , latest"], ["2025-01-03", "2025-02-09"]),
    ],
)
def test_day_ranges(texts: list[str], expected: list[str]) -> None:
    assert shown(Calendar(DAYS, UNTIL), *texts) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-01-06..2025-01-13", ["2025-01-06", "2025-01-13"]),
        ("2025-01-06..2025-01-19", ["2025-01-06", "2025-01-13"]),
    ],
)
def test_week_ranges_end_with_a_monday_or_a_last_day(text: str, expected: list[str]) -> None:
    assert shown(Calendar(time("week"), UNTIL), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02", ["2024-02-01"]),
        ("2024-02..2024-03", ["2024-02-01", "2024-03-01"]),
        ("2024-02-01..2024-02-29", ["2024-02-01"]),
        ("2023-12-01..2024-01-31", ["2023-12-01", "2024-01-01"]),
    ],
)
def test_month_ranges(text: str, expected: list[str]) -> None:
    assert shown(Calendar(time("month", "2023-01-01"), UNTIL), text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-01T05",
        "2025-01-01T05:00",
        "2025-01-01T05Z",
        "2025-01-01T05:00:00.000000Z",
        "2025-01-01T06+01:00",
    ],
)
def test_hours_are_in_utc_unless_an_offset_follows(text: str) -> None:
    berlin = Calendar(time("hour", "2025-01-01", timezone="Europe/Berlin"), UNTIL)
    assert keys(berlin, text) == [datetime(2025, 1, 1, 5)]


def test_hour_ranges_take_hours_and_days() -> None:
    hours = Calendar(time("hour"), UNTIL)
    assert len(keys(hours, "2025-01-01T22..2025-01-02T01")) == 4
    assert len(keys(hours, "2025-01-01..2025-01-31")) == 31 * 24
    assert keys(hours, "2025-01-01T22..2025-01-01")[-1] == datetime(2025, 1, 1, 23)
    assert keys(hours, "latest") == [datetime(2025, 2, 10, 11)]


@pytest.mark.parametrize(
    ("every", "text", "message", "hint"),
    [
        ("day", "2024-12-31", "before the first partition", "the first is 2025-01-01"),
        ("day", "2024-12-01..2025-01-02", "before the first partition", "2025-01-01"),
        ("day", "2025-02-10", "not over yet", "the last is 2025-02-09"),
        ("day", "2025-02-20..", "not over yet", "the last is 2025-02-09"),
        ("day", "..2024-01-01", "before the first partition", "2025-01-01"),
        ("day", "2025-01-05..2025-01-01", "ends before it starts", "date=2025-01-01..2025-01-05"),
        ("day", "..", "has neither start nor end", "date=all"),
        ("day", "2025-02-30", "is not a day", "2025-01-01"),
        ("day", "20250101", "is not a day", "2025-01-01"),
        ("day", "2025-01-01T05", "is not a day", "2025-01-01"),
        ("day", "", "is not a day", "2025-01-01"),
        ("week", "2025-01-08", "does not begin a week", "2025-01-06"),
        ("week", "2025-01-08..2025-01-19", "does not begin a week", "2025-01-06"),
        ("week", "2025-01-06..2025-01-18", "does not begin a week", "2025-01-13"),
        ("month", "2025-01-01..9999-12-31", "does not begin a month", "9999-12-01"),
        ("month", "2025-01-31", "does not begin a month", "2025-01-01"),
        ("hour", "2025-01-01T05:30", "does not begin an hour", "2025-01-01T05:00"),
        ("hour", "noon", "is not an hour", "2025-01-01T05"),
    ],
)
def test_wrong_periods_are_invalid_with_a_hint(
    every: str, text: str, message: str, hint: str
) -> None:
    calendar = Calendar(time(every), UNTIL)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=message) as error:
        choose(calendar, text)
    assert hint in error.value.hint


def test_a_key_after_the_end_is_named_with_the_last_one() -> None:
    with pytest.raises(Invalid, match="after the end of 'date'") as error:
        choose(Calendar(time(end="2025-01-05"), UNTIL), "2025-01-05")
    assert error.value.hint == "the last is 2025-01-04"


def test_values_are_taken_by_name() -> None:
    regions = keys_of(StaticDimension(name="region", values=("us", "eu", "a,b", "all", "x..y")))
    assert keys(regions, "us,eu") == ["eu", "us"]
    assert keys(regions, "a,b") == ["a,b"]
    assert keys(regions, "x..y") == ["x..y"]
    assert keys(regions, "all") == ["all"]


def test_values_with_blanks_and_the_empty_value_are_taken_as_they_are() -> None:
    names = keys_of(StaticDimension(name="k", values=("", " lead", "trail ", "lead", "in side")))
    for value in ("", " lead", "trail ", "lead", "in side"):
        assert keys(names, value) == [value]
    assert keys(names, " lead,trail ,") == ["", " lead", "trail "]
    assert keys(names, " in side , lead") == [" lead", "in side"]
    assert keys(keys_of(REGIONS), " eu , us ") == ["eu", "us"]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "'' is not a value of 'region'", "it has: eu, us"),
        ("uss", "'uss' is not a value of 'region'", "did you mean 'us'?"),
        ("mars", "'mars' is not a value", "it has: eu, us"),
        ("eu..us", "has no ranges", "region=all"),
        ("latest", "no latest key", "region=all"),
    ],
)
def test_wrong_values_are_invalid_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(Invalid, match=message) as error:
        choose(keys_of(REGIONS), text)
    assert hint in error.value.hint


def test_picking_keeps_what_there_is_beside_the_problem() -> None:
    found = pick(Calendar(DAYS, UNTIL), "2024-12-30..2025-01-02")
    assert sum(len(numbers) for numbers in found.keys) == 2
    assert found.problem is not None


def test_ranges_are_grouped_by_dimension() -> None:
    assert by_dimension(["date=a", "region=eu", "date = b=c", "region="]) == {
        "date": ("a", " b=c"),
        "region": ("eu", ""),
    }
    for text in ("date", "=x"):
        with pytest.raises(Invalid, match="is not a partition range"):
            by_dimension([text])


def test_an_unknown_dimension_is_compared_with_the_known() -> None:
    with pytest.raises(Invalid, match="no dimension 'dat'") as error:
        check_dimension("dat", ["region", "date"])
    assert error.value.hint == "did you mean 'date'?"
