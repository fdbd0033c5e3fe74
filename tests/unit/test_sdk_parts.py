"""Partitions, policies, checks, schedules and sensors as they are built."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from servo import (
    AssetIn,
    Freshness,
    Retry,
    RunRequest,
    SensorContext,
    SensorFile,
    SensorResult,
    accepted_values,
    check,
    column,
    daily,
    dynamic,
    expression,
    file_sensor,
    freshness,
    hourly,
    in_range,
    matches,
    monthly,
    not_null,
    references,
    row_count,
    row_count_change,
    schedule,
    schema_is,
    sensor,
    sql_asset,
    static,
    tenant,
    unique,
    webhook_sensor,
    weekly,
)
from servo.contract import manifest as wire
from servo.contract.manifest import Check
from servo.cron import check_cron
from servo.duration import seconds
from servo.errors import Invalid, Misdeclared
from servo.partition import Partitions


def test_a_product_has_the_dimensions_of_both() -> None:
    days = daily("date", start="2025-01-01", end="2025-02-01", timezone="Europe/Berlin")
    product = days * static("region", ["eu", "us"]) * dynamic("shop") * tenant("who", ("a",))
    assert product == Partitions(
        (
            wire.TimeDimension(
                name="date",
                every="day",
                start="2025-01-01",
                end="2025-02-01",
                timezone="Europe/Berlin",
            ),
            wire.StaticDimension(name="region", values=("eu", "us")),
            wire.DynamicDimension(name="shop", keys="shop"),
            wire.TenantDimension(name="who", values=("a",)),
        )
    )
    with pytest.raises(TypeError):
        days * 3  # type: ignore[operator]


@pytest.mark.parametrize(
    ("make", "start", "spelled"),
    [
        (daily, date(2025, 1, 2), "2025-01-02"),
        (daily, "20250102", "2025-01-02"),
        (weekly, "2025-W02-1", "2025-01-06"),
        (monthly, date(2025, 1, 1), "2025-01-01"),
        (hourly, date(2025, 1, 2), "2025-01-02T00:00"),
        (hourly, "2025-01-02", "2025-01-02T00:00"),
        (hourly, datetime(2025, 1, 2, 3), "2025-01-02T03:00"),
        (hourly, "2025-01-02T03:00:00", "2025-01-02T03:00"),
        (daily, "yesterday", "yesterday"),
    ],
)
def test_a_moment_has_one_spelling(make: Callable[..., Any], start: Any, spelled: str) -> None:
    assert make("t", start=start).dimensions[0].start == spelled


def test_a_set_of_dynamic_keys_may_be_shared() -> None:
    assert dynamic("shop", keys="shops").dimensions[0] == wire.DynamicDimension(
        name="shop", keys="shops"
    )


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (90, 90),
        (90.0, 90),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("30 min", 1800),
        ("1.5 hours", 5400),
        ("2 Days 1 second", 172_801),
        ("2d", 172_800),
        (timedelta(minutes=1), 60),
    ],
)
def test_durations_are_whole_seconds(value: Any, count: int) -> None:
    assert seconds(value, "timeout") == count


@pytest.mark.parametrize(
    "value",
    ["", " ", "m", "5", "30m1h", "-1s", "1.5s", "3 moons", None, 1.5, float("nan"), True, 0],
)
def test_other_durations_are_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="timeout"):
        seconds(value, "timeout")


@pytest.mark.parametrize(
    "text",
    ["* * * * *", "30 2 * * *", "*/15 0-6,22 1 1-6/2 *", "5-59/10 * * * 0,7", "0 0 29 2 *"],
)
def test_a_cron_of_five_fields_in_range_is_good(text: str) -> None:
    assert check_cron(text) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "has 4 fields, not 5"),
        ("@daily", "has 1 fields"),
        ("60 * * * *", "the minute 60 is not in 0 to 59"),
        ("0 24 * * *", "the hour 24"),
        ("0 0 0 * *", "the day of the month 0"),
        ("0 0 * 13 *", "the month 13"),
        ("0 0 * * 8", "the day of the week 8"),
        ("0 0 * * MON", "'MON' is not a day of the week"),
        ("0 9-5 * * *", "ends before it starts"),
        ("*/0 * * * *", "a step of 0"),
        ("1, * * * *", "'' is not a minute"),
        ("5/10 * * * *", "programs read the minute '5/10' differently"),
        ("0 3-3/2 * * *", "programs read the hour '3-3/2' differently"),
        ("0 0 1 * 1", "a day of the month and a day of the week"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
    ],
)
def test_a_bad_cron_says_which_field(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        check_cron(text)


def test_policies_are_refused_where_they_are_written() -> None:
    policies: list[tuple[Callable[[], Any], str]] = [
        (lambda: Retry(max_attempts=0), "max_attempts=0"),
        (lambda: Retry(delay="2h"), "exceeds max_delay"),
        (lambda: Retry(delay="soon"), "'soon' is not a valid delay"),
        (lambda: Freshness(max_age="never"), "max_age"),
        (lambda: Freshness(max_age="1h", cron="daily"), "has 1 fields"),
        (lambda: Freshness(max_age="1h", cron="0 6 30 2 *"), "never fires"),
        (lambda: Freshness(max_age="1h", timezone="Europe/Berlin"), "no effect without cron"),
        (lambda: Freshness(max_age="1h", request_run="yes"), "request_run is 'yes'"),  # type: ignore[arg-type]
    ]
    for make, message in policies:
        with pytest.raises(Misdeclared, match=message) as error:
            make()
        assert error.value.file == __file__


def test_checks_are_data() -> None:
    assert [
        row_count(min=1, max=9),
        not_null("a", "b"),
        unique("a", severity="critical", name="key"),
        accepted_values("s", ["x", "y"], phase="before", input="orders"),
        in_range("n", min=Decimal("0.50"), max="1E3"),
        in_range("d", min=date(2025, 1, 1), name="d"),
        matches("s", "[a-z]+"),
        freshness("t", max_age="2h"),
        schema_is({"a": "bigint", "b": "string"}),
        row_count_change(min_percent=-10),
        references("a", "crm.people.id"),
        expression("a < b", severity="warning"),
    ] == [
        Check(kind="row_count", name="row_count", params={"min": "1", "max": "9"}),
        Check(kind="not_null", name="not_null(a, b)", columns=("a", "b")),
        Check(kind="unique", name="key", columns=("a",), severity="critical"),
        Check(
            kind="accepted_values",
            name="accepted_values(s)",
            columns=("s",),
            params={"values": ["x", "y"], "input": "orders"},
            phase="before",
        ),
        Check(
            kind="in_range",
            name="in_range(n)",
            columns=("n",),
            params={"min": "0.50", "max": "1E3"},
        ),
        Check(kind="in_range", name="d", columns=("d",), params={"min": "2025-01-01"}),
        Check(kind="matches", name="matches(s)", columns=("s",), params={"pattern": "[a-z]+"}),
        Check(kind="freshness", name="freshness(t)", columns=("t",), params={"max_age_s": 7200}),
        Check(
            kind="schema_is",
            name="schema_is(a, b)",
            columns=("a", "b"),
            params={"types": ["bigint", "string"]},
        ),
        Check(kind="row_count_change", name="row_count_change", params={"min_percent": "-10"}),
        Check(
            kind="references",
            name="references(a)",
            columns=("a",),
            params={"asset": "crm.people", "column": "id"},
        ),
        Check(
            kind="expression",
            name="expression(a < b)",
            params={"sql": "a < b"},
            severity="warning",
        ),
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: row_count(), "needs a minimum, a maximum"),
        (lambda: not_null(), "names no column"),
        (lambda: in_range("n", min=float("nan")), "nan is not a finite number"),
        (lambda: in_range("n", max=Decimal("Infinity")), "Infinity is not a finite number"),
        (lambda: in_range("n", min=object()), "is of type object"),  # type: ignore[arg-type]
        (lambda: accepted_values("n", [1, None]), "None is of type NoneType"),  # type: ignore[list-item]
        (lambda: row_count(min=1.5), "min=1.5 is not a whole number"),  # type: ignore[arg-type]
        (lambda: row_count(min="some"), "min=some is not a whole number"),  # type: ignore[arg-type]
        (lambda: not_null("a", severity="eror"), 'one of "info", "warning", "error"'),  # type: ignore[arg-type]
        (lambda: not_null("a", phase="during"), 'one of "before", "after"'),  # type: ignore[arg-type]
        (lambda: matches("a", 3), "pattern is 3, not a str"),  # type: ignore[arg-type]
        (lambda: column("a", nullable="no"), "nullable is 'no', not a bool"),  # type: ignore[arg-type]
        (lambda: Retry(retry_on=(3,)), "3 is neither a category nor an exception"),  # type: ignore[arg-type]
        (lambda: sql_asset("q", "SELECT 1", inputs={"a": "latest"}), "inputs: a is 'latest'"),  # type: ignore[dict-item]
        (lambda: accepted_values("s", "abc"), "values is 'abc', not a list"),
        (lambda: accepted_values("s", []), "has no values"),
        (lambda: not_null(["a"]), r"an item of columns is \['a'\], not a str"),  # type: ignore[arg-type]
        (lambda: static("r", "eu"), "values is 'eu', not a list"),
        (lambda: static("r", [1]), "an item of values is 1, not a str"),  # type: ignore[list-item]
        (lambda: daily("d", start=2025), "start is 2025, not a str or date"),  # type: ignore[arg-type]
        (lambda: daily(None, start="2025-01-01"), "the dimension is None"),  # type: ignore[arg-type]
        (lambda: schedule("n", cron="* * * * *", selection="a.b"), "selection is 'a.b'"),
        (lambda: references("a", "people.id"), r"not namespace\.asset\.column"),
        (lambda: freshness("t", max_age="soon"), "'soon' is not a valid max_age"),
        (lambda: not_null("a", level="high"), "unknown option 'level'"),  # type: ignore[call-arg]
    ],
)
def test_what_means_nothing_is_refused_where_it_is_written(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(Misdeclared, match=message) as error:
        make()
    assert error.value.file == __file__


def test_a_python_check_is_still_the_function() -> None:
    @check(severity="critical", name="size", phase="before")
    def small(data: AssetIn) -> tuple[bool, str]:
        return len(data.read()) < 3, "too long"

    assert small(AssetIn("a.b", reader=lambda *_: [1])) == (True, "too long")
    code = small.check.code
    assert code is not None
    assert (code.module, code.name, code.file) == (__name__, "small", __file__)
    assert small.check == Check(
        kind="python", name="size", severity="critical", phase="before", code=code
    )


def test_a_sensor_of_files_or_messages_may_stand_over_a_function() -> None:
    @file_sensor("landing", "s3://bucket/x/", selection=["a.b"], pattern="*.csv")
    def landing(ctx: SensorContext) -> SensorResult:
        return SensorResult(runs=[RunRequest(file.path) for file in ctx.files])

    files = (SensorFile("x.csv", 1, datetime(2026, 1, 1)),)
    context = SensorContext(cursor="", log=logging.getLogger("test"), files=files)
    assert landing(context) == SensorResult(runs=[RunRequest("x.csv")])
    assert (landing.kind, landing.name, landing.code.name) == ("files", "landing", "landing")
    plain = webhook_sensor("pushed", selection=["a.b"])
    assert (plain.function, plain.code.line > 0) == (None, True)
    with pytest.raises(Misdeclared, match="which is not a function"):
        webhook_sensor("pushed", selection=["a.b"])(3)


def test_a_sensor_is_still_the_function() -> None:
    @sensor(selection=["a.b"], interval="5m")
    def files(ctx: SensorContext) -> SensorResult:
        return SensorResult(cursor=ctx.cursor + "x", runs=(RunRequest(key="1"),))

    assert (files.name, files.interval, files.selection) == ("files", "5m", ("a.b",))
    result = files(SensorContext(cursor="x", log=logging.getLogger("test")))
    assert result == SensorResult(cursor="xx", runs=(RunRequest(key="1"),))
    assert sensor("named", selection=["a.b"])(files.__wrapped__).name == "named"
    with pytest.raises(Misdeclared, match="not a function"):
        sensor(selection=["a.b"])(3)  # type: ignore[arg-type]
