# ruff: noqa: F821, UP037
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from servo import (
    AssetIn,
    all_upstream,
    asset,
    by_dimension,
    column,
    daily,
    dynamic,
    hourly,
    identity,
    latest,
    monthly,
    not_null,
    references,
    schedule,
    sensor,
    sql_asset,
    static,
    tenant,
    weekly,
    window,
)
from servo.asset import AnyAsset
from servo.contract import manifest as wire
from servo.mapping import PartitionMapping
from servo.partition import Partitions
from servo.project import Problem, Project
from servo.rules import names
from servo.sensor import SensorContext, SensorResult
from servo.validate import validate

HERE = Path(__file__).resolve().parent
DAYS = daily("date", start="2025-01-01")


def make(key: str, **settings: Any) -> AnyAsset:
    """An asset under this key."""

    def function() -> None: ...

    namespace, _, name = key.partition(".")
    return asset(**{"namespace": namespace, "name": name, **settings})(function)


def reads(
    upstream: Partitions | None, mapping: PartitionMapping, own: Partitions | None
) -> list[str]:
    """What is wrong with `a.down` reading `a.up`."""
    up: dict[str, Any] = {} if upstream is None else {"partitions": upstream}
    down: dict[str, Any] = {} if own is None else {"partitions": own}

    def function(up: AssetIn = AssetIn("a.up", mapping=mapping)) -> None: ...

    return said([make("a.up", **up), asset(**{"namespace": "a", "name": "down", **down})(function)])


def problems(assets: Sequence[AnyAsset], **more: Any) -> list[Problem]:
    return validate(Project(HERE, assets=assets, **more))


def said(assets: Sequence[AnyAsset], **more: Any) -> list[str]:
    return [
        f"{problem.message} ({problem.hint})" if problem.hint else problem.message
        for problem in problems(assets, **more)
    ]


# -- names --------------------------------------------------------------------------------


def test_a_problem_reads_like_a_compilers() -> None:
    assert str(Problem("a.py", 3, "it is wrong", "repair it", "a.b")) == (
        "a.py:3: it is wrong (repair it)"
    )
    assert str(Problem("a.py", 3, "it is wrong")) == "a.py:3: it is wrong"


def test_a_sound_project_has_no_problems() -> None:
    assert problems([make("a.x"), make("a.y", deps=["x"])]) == []


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("a.Orders", "'Orders' is not a valid asset name"),
        ("A.orders", "'A' is not a valid namespace"),
        (".orders", "the asset 'orders' has no namespace"),
    ],
)
def test_invalid_names_are_refused(key: str, message: str) -> None:
    found = problems([make(key)])
    assert [(problem.message, problem.asset) for problem in found] == [(message, key)]
    assert found[0].file == Path(__file__).name
    assert found[0].line > 0
    assert found[0].hint


def test_two_assets_of_one_key_name_each_others_place() -> None:
    def other() -> None: ...

    second = asset(namespace="a", name="x")(other)
    found = problems([make("a.x"), second])
    assert [problem.message for problem in found] == ["a.x is declared twice"]
    assert found[0].hint.startswith(f"also in {Path(__file__).name}:")


def test_a_rename_must_not_take_the_key_of_another() -> None:
    assert said([make("a.x"), make("a.y", renamed_from="x")]) == [
        "renamed_from='a.x' is the key of an asset that exists (rename it, or remove renamed_from)"
    ]
    assert said([make("a.y", renamed_from="x"), make("a.z", renamed_from="a.x")]) == [
        "both a.y and a.z are renamed from a.x (one of them can be)"
    ]
    assert "renamed_from: 'X' is not a valid asset name" in said([make("a.y", renamed_from="X")])[0]
    assert said([make("a.y", renamed_from="x")]) == []


def test_there_is_a_limit_to_assets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_ASSETS", 2)
    assert said([make("a.x"), make("a.y")]) == []
    assert said([make("a.x"), make("a.y"), make("a.z")]) == [
        "3 assets; a project has at most 2 (split it into several projects)"
    ]


# -- the graph ----------------------------------------------------------------------------


def test_an_unknown_input_suggests_the_nearest_key() -> None:
    assert said([make("sales.orders"), make("a.y", deps=["sales.ordres"])]) == [
        "the input 'sales.ordres' is unknown (did you mean 'sales.orders'?)"
    ]
    assert said([make("warehouse.orders"), make("a.y", deps=["orders"])]) == [
        "the input 'a.orders' is unknown (did you mean 'warehouse.orders'?)"
    ]
    assert said([make("a.y", deps=["zzz.qqq"])]) == [
        "the input 'zzz.qqq' is unknown (declare it, or check the spelling)"
    ]
    assert "input: 'Bad Key' is not a valid asset name" in said([make("a.y", deps=["Bad Key"])])[0]


def test_cycles_are_named_in_full() -> None:
    assets = [
        make("a.x", deps=["y"]),
        make("a.y", deps=["z"]),
        make("a.z", deps=["x"]),
        make("b.p", deps=["b.q", "a.x"]),
        make("b.q", deps=["b.p"]),
    ]
    hint = "(each reads the next; one of them must not)"
    assert said(assets) == [
        f"cycle: a.x -> a.y -> a.z -> a.x {hint}",
        f"cycle: b.p -> b.q -> b.p {hint}",
    ]


def test_an_asset_cannot_depend_on_itself() -> None:
    found = problems([make("a.x", deps=["a.x", "x"])])
    assert [problem.message for problem in found] == ["a.x depends on itself"]


PAST = window(-7, -1)
REFUSED = (
    'a.x depends on itself (it can read its past alone, by time: AssetIn["x", window(-7, -1)])'
)


@pytest.mark.parametrize(
    ("mapping", "partitions"),
    [
        (PAST, DAYS),
        (window(-3, -3), DAYS * static("region", ["eu", "us"])),
        (by_dimension(date=PAST, region=all_upstream), DAYS * static("region", ["eu"])),
    ],
)
def test_an_asset_may_read_its_own_past(mapping: PartitionMapping, partitions: Partitions) -> None:
    @asset(namespace="a", partitions=partitions)
    def x(past: AssetIn = AssetIn("x", mapping=mapping)) -> None: ...

    assert said([x]) == []
    query = "SELECT * FROM {{ ref('y') }}"
    y = sql_asset("y", query, namespace="a", partitions=partitions, inputs={"y": mapping})
    assert said([y]) == []


@pytest.mark.parametrize(
    ("mapping", "partitions"),
    [
        (identity, DAYS),
        (window(-7, 0), DAYS),
        (window(1, 2), DAYS),
        (all_upstream, DAYS),
        (latest, DAYS),
        (PAST, static("region", ["eu"])),
        (by_dimension(region=PAST), DAYS * static("region", ["eu"])),
        (by_dimension(date=window(-1, 0)), DAYS),
    ],
)
def test_an_asset_reads_nothing_else_of_itself(
    mapping: PartitionMapping, partitions: Partitions
) -> None:
    dependency = AssetIn("a.x", mapping=mapping)
    assert said([make("a.x", partitions=partitions, deps=[dependency])]) == [REFUSED]
    past = AssetIn("a.x", mapping=PAST)
    assert said([make("a.x", partitions=partitions, deps=[past, dependency])]) == [REFUSED]


def test_a_window_over_the_own_past_is_checked_as_any_other() -> None:
    backwards = AssetIn("a.x", mapping=window(-1, -7))
    assert said([make("a.x", partitions=DAYS, deps=[backwards])]) == [
        "input a.x: window(-1, -7) ends before it starts (write window(-7, -1))"
    ]
    unknown = AssetIn("a.x", mapping=by_dimension(date=PAST, area=latest))
    assert said([make("a.x", partitions=DAYS, deps=[unknown])]) == [
        "input a.x: it has no dimension 'area' (it has date)"
    ]


def test_the_own_past_is_along_one_dimension() -> None:
    both = DAYS * daily("booked", start="2025-01-01")
    deps = [AssetIn("a.x", mapping=by_dimension(**{name: PAST})) for name in ("date", "booked")]
    assert said([make("a.x", partitions=both, deps=deps)]) == [
        "a.x reads its own past along two dimensions (use one of them)"
    ]


def test_a_long_chain_is_no_cycle_and_no_recursion() -> None:
    chain = [make("a.n0"), *(make(f"a.n{n}", deps=[f"n{n - 1}"]) for n in range(1, 3000))]
    assert problems(chain) == []


def test_a_diamond_is_no_cycle() -> None:
    assets = [make("a.x"), make("a.y", deps=["x"]), make("a.z", deps=["x"])]
    assert problems([*assets, make("a.end", deps=["y", "z"])]) == []


# -- partitions ---------------------------------------------------------------------------


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


# -- mappings -----------------------------------------------------------------------------

REGIONS = static("region", ["eu", "us"])


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
            "a window over 'region', which is not a dimension of time "
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
            hourly("date", start="2025-01-01"),
            identity,
            DAYS,
            "its dimension 'date' is by hour, here it is by day (by_dimension(date=all_upstream) "
            "or by_dimension(date=latest), or the same unit)",
        ),
        (
            hourly("date", start="2025-01-01", timezone="Asia/Kolkata"),
            identity,
            hourly("date", start="2025-01-01"),
            "the hours of its dimension 'date' begin at other minutes than here "
            "(use the same time zone)",
        ),
        (
            weekly("date", start="2025-01-06"),
            window(-1, 0),
            DAYS,
            "its dimension 'date' is by week, here it is by day (by_dimension(date=all_upstream) "
            "or by_dimension(date=latest), or the same unit)",
        ),
        (
            static("date", ["a"]),
            identity,
            DAYS,
            "its dimension 'date' is not of time, here it is by day "
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


# -- checks and columns -------------------------------------------------------------------

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
        "the check 'not_null(amount)' looks at the unknown input 'order' (did you mean 'orders'?)"
    ]
    assert with_check(not_null("amount", input="orders")) == [
        "the check 'not_null(amount)' names an input (only with phase=\"before\")"
    ]
    assert said([make("a.x", checks=[not_null("a", phase="before")])]) == [
        "the check 'not_null(a)' comes before, but there are no inputs"
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


def test_lineage_must_come_from_somewhere() -> None:
    columns = [column("total", lineage=["a.up.amount", "a.upp.amount", "amount"])]
    assert said([make("a.up"), make("a.x", columns=columns)]) == [
        "the column 'total' comes from the unknown 'a.upp.amount' (did you mean 'a.up'?)",
        "the column 'total' comes from the unknown 'amount' (write namespace.asset.column)",
    ]


# -- schedules and sensors ----------------------------------------------------------------


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


# -- all at once --------------------------------------------------------------------------


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
