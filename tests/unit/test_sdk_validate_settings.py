# ruff: noqa: F821, UP037
"""Validation of a project: checks, columns, schedules, sensors, resources."""

from __future__ import annotations

import pytest

from servo import (
    AssetIn,
    Freshness,
    Resources,
    asset,
    asset_sensor,
    column,
    daily,
    file_sensor,
    not_null,
    references,
    schedule,
    sensor,
    sql_asset,
    static,
    webhook_sensor,
)
from servo.contract import manifest as wire
from servo.sensor import SensorContext, SensorResult
from tests.kit.validation import make, problems, said

COLUMNS = [column("order_id"), column("amount")]


def test_a_check_of_an_undeclared_column_suggests_one() -> None:
    assert said([make("a.x", columns=COLUMNS, checks=[not_null("order_id", "amuont")])]) == [
        "the check 'not_null(order_id, amuont)' names the unknown column 'amuont' "
        "(did you mean 'amount'?)"
    ]
    assert said([make("a.x", checks=[not_null("whatever")])]) == []


def test_a_check_before_looks_at_the_inputs() -> None:
    def down(orders: AssetIn["a.up"]) -> None: ...

    up = make("a.up", columns=COLUMNS)

    def with_check(check: wire.Check) -> list[str]:
        return said([up, asset(namespace="a", checks=[check])(down)])

    assert with_check(not_null("amount", phase="before", input="orders")) == []
    assert with_check(not_null("amount", phase="before")) == []
    assert with_check(not_null("amuont", phase="before")) == [
        "the check 'not_null(amuont)' names the unknown column 'amuont' (did you mean 'amount'?)"
    ]
    assert with_check(not_null("amount", phase="before", input="order")) == [
        "the check 'not_null(amount)' names the unknown input 'order' (did you mean 'orders'?)"
    ]
    assert with_check(not_null("amount", input="orders")) == [
        "the check 'not_null(amount)' names an input (only with phase=\"before\")"
    ]
    assert said([make("a.x", checks=[not_null("a", phase="before")])]) == [
        "the check 'not_null(a)' has the phase before, but the asset has no inputs"
    ]


def test_a_reference_must_lead_somewhere() -> None:
    up = make("a.up", columns=COLUMNS)
    assert said([up, make("a.x", checks=[references("i", "a.up.order_id")])]) == []
    assert said([up, make("a.x", checks=[references("i", "a.up.id")])]) == [
        "the check 'references(i)': a.up has no column 'id'"
    ]
    assert said([up, make("a.x", checks=[references("i", "a.ups.id")])]) == [
        "the check 'references(i)' refers to the unknown asset 'a.ups' (did you mean 'a.up'?)"
    ]


def test_checks_and_columns_have_names_of_their_own() -> None:
    assert said([make("a.x", checks=[not_null("a"), not_null("a")])]) == [
        "two checks are called 'not_null(a)' (give one of them a name=\"…\")"
    ]
    assert said([make("a.x", columns=[column("a"), column("a")])]) == [
        "the column 'a' is declared twice"
    ]


def test_a_freshness_policy_must_be_one_that_can_be_kept() -> None:
    berlin = Freshness(max_age="1h", cron="0 6 * * *", timezone="Europe/Berlin")
    assert said([make("a.x", freshness=berlin)]) == []
    mars = Freshness(max_age="1h", cron="0 6 * * *", timezone="Mars/Base")
    assert said([make("a.x", freshness=mars)]) == [
        "freshness: the time zone 'Mars/Base' is unknown (write it like \"Europe/Berlin\")"
    ]
    assert said([make("a.x", freshness=Freshness(max_age="20000d"))]) == [
        "freshness: max_age is longer than ten years (give a shorter one)"
    ]
    two = daily("a", start="2026-01-01") * daily("b", start="2026-01-01")
    (problem,) = said([make("a.x", partitions=two, freshness=Freshness(max_age="1h"))])
    assert problem.startswith("freshness: a.x has several time dimensions (a, b)")


def test_lineage_must_come_from_somewhere() -> None:
    columns = [column("total", lineage=["a.up.amount", "a.upp.amount", "amount"])]
    assert said([make("a.up"), make("a.x", columns=columns)]) == [
        "the column 'total' comes from the unknown 'a.upp.amount' (did you mean 'a.up'?)",
        "the column 'total' comes from the unknown 'amount' (write namespace.asset.column)",
    ]


def test_schedules_are_checked() -> None:
    schedules = [
        schedule("nightly", cron="0 25 * * *", selection=["a.x"]),
        schedule("nightly", cron="0 2 * * *", timezone="Mars/Base", selection=["2+a.xx+", "x+1"]),
        schedule("Bad Name", cron="0 2 * * *", selection=["tag:daily", "a.*", "*"]),
        schedule("empty", cron="0 2 * * *", selection=[]),
    ]
    assert said([make("a.x")], schedules=schedules) == [
        "cron '0 25 * * *': the hour 25 is not in 0 to 23",
        "'nightly' selects the unknown asset 'a.xx' (did you mean 'a.x'?)",
        "the time zone 'Mars/Base' is unknown (write it like \"Europe/Berlin\")",
        "two schedules are called 'nightly'",
        "'Bad Name' is not a valid schedule (a-z first, then a-z, 0-9 and _; "
        "at most 128 characters)",
        "'Bad Name' selects 'tag:daily', which matches no asset of the project",
        "the schedule 'empty' selects nothing (write selection=[\"namespace.name\"])",
    ]


def test_sensors_are_checked() -> None:
    @sensor(selection=["a.y"], interval="often")
    def watch(ctx: SensorContext) -> SensorResult:
        return SensorResult()

    found = problems([make("a.x")], sensors=[watch])
    assert [problem.message for problem in found] == [
        "'often' is not a valid interval",
        "'watch' selects the unknown asset 'a.y'",
    ]


def test_a_sensor_without_a_result_is_refused() -> None:
    @sensor(selection=["a.x"])  # type: ignore[arg-type]
    def silent(ctx: SensorContext) -> None: ...

    @sensor(selection=["a.x"])
    def forgetful(ctx: SensorContext):  # type: ignore[no-untyped-def]
        if ctx.cursor:
            return

    @sensor(selection=["a.x"])
    def abstract(ctx: SensorContext) -> SensorResult:
        raise NotImplementedError

    @sensor(selection=["a.x"])  # type: ignore[arg-type]
    def alone() -> SensorResult:
        return SensorResult()

    found = problems([make("a.x")], sensors=[silent, forgetful, abstract, alone])
    assert [problem.message for problem in found] == [
        "the sensor 'silent' has no result",
        "the sensor 'forgetful' has no result",
        "the sensor 'alone' does not take one parameter",
    ]
    assert found[0].hint == "return SensorResult(...), also where nothing is to run"


def test_what_sensors_watch_and_how_often_is_checked() -> None:
    x = make("a.x")
    found = problems(
        [x],
        sensors=[
            file_sensor("often", "s3://bucket/x", selection=[x], interval="2s"),
            file_sensor("long", "/data", selection=[x], timeout="2h"),
            file_sensor("relative", "data", selection=[x]),
            file_sensor("web", "https://example.org/x", selection=[x]),
            file_sensor("secret", "/data", selection=[x], secrets={"t": "nowhere"}),
            asset_sensor("nothing", "x", selection=[x]),
            asset_sensor("unknown", "a.xx", selection=[x]),
            asset_sensor("elsewhere", "b.y", selection=[x]),
            asset_sensor("there", "a.xx", selection=[x], workspace="../up"),
            webhook_sensor("Bad Name", selection=[]),
        ],
    )
    assert [problem.message for problem in found] == [
        "'often' has an interval of 2 s",
        "'long' has a timeout of 7200 s",
        "'relative' watches the relative path 'data'",
        "'web' watches 'https://example.org/x', which names no folder of a store",
        "'nowhere' is not a secret's reference",
        "'x' is not an asset key",
        "'unknown' watches the unknown asset 'a.xx'",
        "'there' names the workspace '../up'",
        "'Bad Name' is not a valid sensor",
        "the sensor 'Bad Name' selects nothing",
    ]


def test_every_problem_of_a_project_is_reported_at_once() -> None:
    assets = [
        make("a.x", deps=["a.y"], timeout="soon"),
        make("a.y", deps=["a.x"], secrets={"t": "nowhere"}),
        make("Bad.name", deps=["a.z"], partitions=static("r", [])),
        sql_asset("q", "SELECT {{ x }}", namespace="a", timeout=-1),
    ]
    assert sorted(problem.message for problem in problems(assets)) == [
        "'Bad' is not a valid namespace",
        "'nowhere' is not a secret's reference",
        "'soon' is not a valid timeout",
        "cycle: a.x -> a.y -> a.x",
        "the dimension 'r' has no values",
        "the input 'a.z' is unknown",
        "the query has '{{ x }}'",
        "the timeout -1 is not positive",
    ]


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        (Resources(cpu=0), "Resources: cpu=0 is not a whole number from 1"),
        (Resources(memory_mib=-1), "Resources: memory_mib=-1 is not a whole number from 0"),
        (
            Resources(memory_mib="4GB"),  # type: ignore[arg-type]
            "Resources: memory_mib='4GB' is not a whole number",
        ),
        (
            Resources(cpu=1.5),  # type: ignore[arg-type]
            "Resources: cpu=1.5 is not a whole number",
        ),
        (Resources(cpu=True), "Resources: cpu=True is not a whole number"),
        (Resources(pool=""), "Resources: pool='' is not the name of a pool"),
        (Resources(pool="a/b"), "Resources: pool='a/b' is not the name of a pool"),
        (
            Resources(pool=4),  # type: ignore[arg-type]
            'Resources: pool=4 is not a name, as in "jdbc"',
        ),
    ],
)
def test_resources_that_no_task_can_have_are_refused(resources: Resources, problem: str) -> None:
    assert [p.message for p in problems([make("a.x", resources=resources)])] == [problem]
