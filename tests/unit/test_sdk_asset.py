# ruff: noqa: F821, UP037
from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from servo import (
    AssetContext,
    AssetIn,
    Freshness,
    In,
    Invalid,
    Resources,
    Retry,
    all_upstream,
    asset,
    by_dimension,
    check,
    column,
    daily,
    row_count,
    sql_asset,
    time_window,
    window,
)
from servo.asset import AnyAsset
from servo.contract import manifest as wire
from servo.contract.config_values import ACCEPTED
from servo.contract.manifest import decode_manifest, encode_manifest
from servo.declare import Declared, declare
from servo.errors import Misdeclared
from servo.project import Project

NAMESPACE = "shop"
HERE = Path(__file__).resolve().parent


def declared(definition: AnyAsset) -> Declared:
    return declare(definition, Project(HERE))


def wired(definition: AnyAsset) -> wire.Asset:
    asset, flaws = declared(definition)
    assert flaws == ()
    return asset


def messages(definition: AnyAsset) -> list[str]:
    return [flaw.message for flaw in declared(definition).flaws]


# -- the decorator ------------------------------------------------------------------------


@asset
def orders(ctx: AssetContext) -> int:
    """What was bought."""
    return 7


@asset(namespace="crm", name="people", description="Who buys.")
def customers(limit: AssetIn["orders"]) -> str:
    """Not used."""
    return f"{limit.asset}!"


@asset
def was_on_spark(limit: AssetIn["orders"]) -> int:
    """Was a pyspark job once: ctx.spark, limit.read()."""
    return 7  # no pyspark any more


@asset
def is_on_spark(ctx: AssetContext) -> Any:
    return ctx.spark.range(1)


@asset
def reads_a_frame(limit: AssetIn["orders"]) -> Any:
    return limit.read()


@asset
def reaches_something_else(ctx: AssetContext) -> Any:
    return ctx.spark.range(math.floor(2.5))


def frame_of(ctx: AssetContext) -> Any:
    return ctx.spark.range(1)


@asset
def reaches_spark(ctx: AssetContext) -> Any:
    return frame_of(ctx)


@asset
def reaches_no_spark() -> Any:
    """Not on pyspark."""
    return math.floor(2.5)  # ctx.spark


def test_code_that_uses_spark_is_marked_and_words_about_spark_are_not() -> None:
    marks = [wired(each).engine for each in (was_on_spark, is_on_spark, reads_a_frame)]
    assert marks == ["", "spark", "spark"]
    reaching = (reaches_something_else, reaches_spark, reaches_no_spark)
    assert [wired(each).engine for each in reaching] == ["spark", "spark", ""]


def test_a_bare_decorator_takes_name_docstring_and_namespace_from_the_module() -> None:
    made = wired(orders)
    assert (made.key, made.description) == ("shop.orders", "What was bought.")
    assert made.code.module == __name__
    assert (made.code.name, made.code.file) == ("orders", Path(__file__).name)


def test_what_is_given_wins_over_what_is_found() -> None:
    made = wired(customers)
    assert (made.key, made.description) == ("crm.people", "Who buys.")


def test_a_definition_is_still_the_plain_function() -> None:
    assert customers(AssetIn("a.b")) == "a.b!"
    assert customers(limit=AssetIn("a.b")) == "a.b!"
    assert (customers.__name__, customers.__doc__) == ("customers", "Not used.")
    assert customers.__wrapped__(AssetIn("a.b")) == "a.b!"
    assert list(inspect.signature(customers).parameters) == ["limit"]
    assert repr(customers) == "<asset crm.people>"


def test_every_setting_reaches_the_manifest() -> None:
    @check(severity="info")
    def fine(data: AssetIn) -> bool:
        return True

    @asset(
        partitions=daily("date", start="2025-01-01"),
        owners=["ann"],
        tags={"a": "b"},
        group="g",
        checks=[row_count(min=1)],
        gating=wire.Gating(preset="lenient"),
        retry=Retry(max_attempts=2, delay="10s", max_delay="1m", retry_on=(OSError, "input")),
        timeout="1h30m",
        freshness=Freshness(max_age=timedelta(hours=2), cron="0 6 * * *"),
        io={"compression": "zstd"},
        resources=Resources(cpu=2, priority=9, pool="jdbc"),
        secrets={"token": "env:TOKEN"},
        columns=[column("id", "bigint", pii="none", lineage=["a.b.c"])],
        deps=["orders", customers, AssetIn("x.y", mapping=all_upstream)],
        config={"n": 1},
        renamed_from="old",
    )
    def everything() -> None: ...

    made = wired(everything)
    assert made == wire.Asset(
        key="shop.everything",
        code=made.code,
        partitions=(wire.TimeDimension(name="date", every="day", start="2025-01-01"),),
        owners=("ann",),
        tags={"a": "b"},
        group="g",
        checks=(wire.Check(kind="row_count", name="row_count", params={"min": "1"}),),
        gating=wire.Gating(preset="lenient"),
        retry=wire.RetrySpec(
            max_attempts=2, delay_s=10, max_delay_s=60, retry_on=("OSError", "input")
        ),
        timeout_s=5400,
        freshness=wire.FreshnessSpec(max_age_s=7200, cron="0 6 * * *"),
        io={"compression": "zstd"},
        resources=wire.Resources(cpu=2, priority=9, pool="jdbc"),
        secrets={"token": wire.SecretRef(provider="env", path="TOKEN")},
        columns=(wire.ColumnDef(name="id", type="bigint", pii="none", lineage=("a.b.c",)),),
        inputs=(
            wire.Input(asset="shop.orders"),
            wire.Input(asset="crm.people"),
            wire.Input(asset="x.y", mapping=wire.AllUpstream()),
        ),
        config={"n": 1},
        renamed_from="shop.old",
        transform=made.transform,
        source=made.source,
    )


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"owner": ["ann"]}, "unknown argument 'owner'", "did you mean 'owners'?"),
        ({"owners": "ann"}, "owners is 'ann', not a list or tuple", ""),
        (
            {"partitions": "daily"},
            "partitions is 'daily', not a Partitions",
            'write daily("date", start="2025-01-01"), or another kind of partitions',
        ),
        (
            {"retry": "3"},
            "retry is '3', not an int",
            'the number of attempts, or Retry(max_attempts=3, delay="1m")',
        ),
        ({"retry": 0}, "retry is 0, not a number of attempts", "1 is never retried, 3 twice"),
        (
            {"gating": "quarantin"},
            'gating is \'quarantin\'; it is one of "strict", "lenient", "quarantine"',
            "did you mean 'quarantine'?",
        ),
        (
            {"gating": wire.Gating(preset="harsh")},  # type: ignore[arg-type]
            'Gating: preset is \'harsh\'; it is one of "strict", "lenient", "quarantine"',
            "",
        ),
        (
            {"gating": wire.Gating(error="blok")},  # type: ignore[arg-type]
            "Gating: error is 'blok'; it is one of",
            "did you mean 'block'?",
        ),
        ({"extra": "alow"}, "extra is 'alow'; it is one of", "did you mean 'allow'?"),
        ({"freshness": "1h"}, "freshness is '1h'", 'write Freshness(max_age="1h")'),
        ({"tags": {"tier": 1}}, "tags['tier'] is 1, not a str", "write '1'"),
        ({"config": {"x": {1, 2}}}, "config['x'] is {1, 2}, of type set", ACCEPTED),
        ({"config": {"x": [1, object]}}, "config['x'][1] is <class 'object'>", ACCEPTED),
        ({"config": {"x": float("inf")}}, "which is not a finite number", "use None or text"),
        ({"config": {"x": 2**63}}, "config['x'] is beyond 64 bits", "write it as text"),
        ({"config": {"x": {1: 2}}}, "config['x'] has the key 1", "keys are text"),
        ({"ins": {"a": 3}}, "ins['a'] is 3, not a str or AssetIn or Declaration", "write '3'"),
        ({"name": 3}, "name is 3, not a str", ""),
        ({"checks": [3]}, "an item of checks is 3, not a Check or CheckDefinition", ""),
        ({"columns": ["id"]}, "an item of columns is 'id', not a ColumnDef", ""),
        ({"deps": [3]}, "an item of deps is 3, not a str or AssetIn or Declaration", ""),
    ],
)
def test_an_impossible_argument_is_refused_at_once_with_its_line(
    settings: dict[str, Any], message: str, hint: str
) -> None:
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(Misdeclared, match=re.escape(message)) as error:
        asset(**settings)(lambda: None)
    assert (error.value.file, error.value.line) == (__file__, line)
    assert f"{__file__}:{line}: " in str(error.value)
    assert error.value.hint == hint


def test_only_functions_can_be_assets() -> None:
    class Thing:
        def __call__(self) -> None: ...

    with pytest.raises(Invalid, match="which is not a function"):
        asset(Thing())


# -- parameters ---------------------------------------------------------------------------


def test_inputs_come_from_annotations_and_defaults_in_the_parameters_order() -> None:
    @asset
    def report(
        a: AssetIn["crm.people"],
        ctx: AssetContext,
        b: AssetIn["orders", window(-6, 0)],
        c: AssetIn = AssetIn("x.y", mapping=by_dimension(date=window(-1, -1), region=all_upstream)),
        d: AssetIn = AssetIn("x.z", mapping=by_dimension(date=time_window("month"))),
    ) -> None: ...

    assert report.signature.context == "ctx"
    assert wired(report).inputs == (
        wire.Input(asset="crm.people", parameter="a"),
        wire.Input(asset="shop.orders", parameter="b", mapping=wire.Window(-6, 0)),
        wire.Input(
            asset="x.y",
            parameter="c",
            dimensions={"date": wire.Window(-1, -1), "region": wire.AllUpstream()},
        ),
        wire.Input(asset="x.z", parameter="d", dimensions={"date": wire.TimeWindow("month")}),
    )


def test_inputs_may_be_named_on_the_decorator_or_by_their_parameters() -> None:
    @asset
    def people() -> None: ...

    @asset(ins={"a": In("raw.orders", window(-6, 0)), "b": "crm.people", "c": people})
    def report(a: AssetIn, b: AssetIn, c, orders: AssetIn, ctx: AssetContext) -> None:  # type: ignore[no-untyped-def]
        ...

    assert messages(report) == []
    assert report.signature.context == "ctx"
    assert wired(report).inputs == (
        wire.Input(asset="raw.orders", parameter="a", mapping=wire.Window(-6, 0)),
        wire.Input(asset="crm.people", parameter="b"),
        wire.Input(asset="shop.people", parameter="c"),
        wire.Input(asset="shop.orders", parameter="orders"),
    )


def test_an_input_that_is_named_nowhere_or_twice_is_a_flaw() -> None:
    @asset(ins={"ordres": "raw.orders", "people": "crm.people", "ctx": "a.b"})
    def report(orders: AssetIn, people: AssetIn["crm.people"], ctx: AssetContext) -> None: ...

    _, flaws = declared(report)
    assert [(flaw.message, flaw.hint) for flaw in flaws] == [
        ("ins names 'ordres', which is not a parameter", "did you mean 'orders'?"),
        ("parameter 'people' names an asset, and so does ins", "keep one of them"),
        (
            "parameter 'ctx' is of type AssetContext, and ins names it",
            "remove it from ins",
        ),
    ]


def test_annotations_may_be_objects_as_well_as_text() -> None:
    def report(a: Any, ctx: Any) -> None: ...

    report.__annotations__ = {"a": AssetIn.__class_getitem__("crm.people"), "ctx": AssetContext}
    assert wired(asset(report)).inputs == (wire.Input(asset="crm.people", parameter="a"),)


def test_a_parameter_that_nobody_can_pass_is_named() -> None:
    @asset
    def bad(  # type: ignore[no-untyped-def]
        plain,
        /,
        bare,
        number: int,
        wrong: AssetIn["a.b", "latest"],
        gone: Missing,  # type: ignore[name-defined]
        *rest: int,
        **more: int,
    ) -> None: ...

    assert messages(bad) == [
        "parameter 'plain' is positional-only",
        "parameter 'bare' has no annotation",
        "parameter 'number' is of type int, which is neither an input nor the context",
        "parameter 'wrong': AssetIn('a.b'): 'latest' is not a mapping",
        "parameter 'gone': its annotation Missing cannot be evaluated: "
        "name 'Missing' is not defined",
        "parameter *rest: an asset's inputs have names",
        "parameter **more: an asset's inputs have names",
    ]


def test_two_contexts_are_one_too_many() -> None:
    @asset
    def bad(a: AssetContext, b: AssetContext) -> None: ...

    assert messages(bad) == ["a and b both take the AssetContext"]


def test_functions_of_other_kinds_are_refused() -> None:
    async def slow() -> None: ...

    assert messages(asset(slow)) == ["slow is async"]
    assert "a lambda cannot be an asset" in messages(asset(name="a")(lambda: None))


def test_a_mapping_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(Misdeclared, match="is not a mapping"):
        AssetIn("a.b", mapping="latest")  # type: ignore[arg-type]
    with pytest.raises(Misdeclared, match="names no asset"):
        AssetIn[3]  # type: ignore[misc]
    with pytest.raises(Misdeclared, match="at most one mapping"):
        AssetIn["a.b", window(0, 0), window(0, 0)]  # type: ignore[misc]
    with pytest.raises(Misdeclared, match="is not a mapping"):
        by_dimension(date=3)  # type: ignore[arg-type]
    with pytest.raises(Misdeclared, match="whole numbers"):
        window(0.5, 1)  # type: ignore[arg-type]
    with pytest.raises(Misdeclared, match="name of a time dimension"):
        time_window(1)  # type: ignore[arg-type]
    with pytest.raises(Misdeclared, match="is not a mapping"):
        AssetIn("a.b", mapping=time_window)  # type: ignore[arg-type]


# -- flaws of settings --------------------------------------------------------------------


def test_all_flaws_of_one_asset_are_found_together() -> None:
    @asset(timeout="soon", secrets={"a": "nowhere", "b": "env:B"})
    def bad(plain: int) -> None: ...

    made, flaws = declared(bad)
    assert [flaw.message for flaw in flaws] == [
        "parameter 'plain' is of type int, which is neither an input nor the context",
        "'soon' is not a valid timeout",
        "'nowhere' is not a secret's reference",
    ]
    assert made.secrets == {"b": wire.SecretRef(provider="env", path="B")}


def test_short_forms_are_what_they_stand_for() -> None:
    @asset(retry=5, gating="quarantine", timeout="30 min")
    def short() -> None: ...

    assert wired(short).retry == wire.RetrySpec(max_attempts=5)
    assert wired(short).gating == wire.Gating(preset="quarantine")
    assert wired(short).timeout_s == 1800


def test_configured_values_have_one_exact_form() -> None:
    @asset(
        config={
            "text": "a",
            "count": 3,
            "flag": True,
            "none": None,
            "rate": 0.1,
            "price": Decimal("1.50"),
            "day": date(2025, 1, 31),
            "at": datetime(2025, 1, 31, 7, tzinfo=timezone(timedelta(hours=1))),
            "nested": {"codes": ("a", 2.5)},
        }
    )
    def configured() -> None: ...

    made = wired(configured)
    assert made.config == {
        "text": "a",
        "count": 3,
        "flag": True,
        "none": None,
        "rate": {"$float": "0.1"},
        "price": {"$decimal": "1.50"},
        "day": {"$date": "2025-01-31"},
        "at": {"$datetime": "2025-01-31T06:00:00+00:00"},
        "nested": {"codes": ["a", {"$float": "2.5"}]},
    }
    (again,) = decode_manifest(encode_manifest(wire.Manifest(assets=(made,)))).assets
    assert again == made


def read_elsewhere(ctx: AssetContext) -> Any:
    return ctx.config["elsewhere"]


def test_names_that_code_reads_from_the_context_are_part_of_the_manifest() -> None:
    @asset(config={"declared": 1})
    def reads(ctx: AssetContext) -> Any:
        return ctx.config["declared"], ctx.config.get("optional"), read_elsewhere(ctx)

    assert wired(reads).config_read == ("elsewhere", "optional")


@pytest.mark.parametrize("timeout", [0, -1, "0s", "", "1.5s", timedelta(milliseconds=1), 1.5, True])
def test_a_timeout_is_a_positive_number_of_seconds(timeout: Any) -> None:
    @asset(timeout=timeout)
    def bad() -> None: ...

    assert len(messages(bad)) == 1
    assert "timeout" in messages(bad)[0]


# -- what an asset does -------------------------------------------------------------------


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args) * 2

    return wrapper


def test_the_transform_is_the_function_and_its_config_alone() -> None:
    def first() -> Any:
        @asset
        def one() -> int:
            return 1

        return one

    def second() -> Any:
        class Inner:
            @asset(owners=["ann"], namespace="other")
            def one() -> int:
                return 1

        return Inner.one

    def third() -> Any:
        @asset
        def one() -> int:
            return 2

        return one

    def fourth() -> Any:
        @asset
        @twice
        def one() -> int:
            return 1

        return one

    def fifth() -> Any:
        @asset(config={"n": 1})
        def one() -> int:
            return 1

        return one

    base = wired(first()).transform
    assert wired(second()).transform == base
    others = {wired(make()).transform for make in (third, fourth, fifth)}
    assert len(others | {base}) == 4


def test_a_text_that_reaches_the_left_margin_does_no_harm() -> None:
    @asset
    def query() -> str:
        return """
SELECT 1
"""

    assert wired(query).transform


def test_a_function_without_source_is_a_flaw() -> None:
    scope: dict[str, Any] = {}
    exec("def ghost() -> None: ...", scope)
    assert messages(asset(namespace="a")(scope["ghost"])) == ["the source of ghost cannot be read"]


# -- SQL ----------------------------------------------------------------------------------


def test_refs_of_a_query_are_its_inputs_each_once() -> None:
    query = """
        SELECT * FROM {{ ref("orders") }} o JOIN {{ref('crm.people')}} USING (id)
        WHERE o.id NOT IN (SELECT id FROM {{ ref("orders") }})
    """
    totals = sql_asset("totals", query, inputs={"orders": window(-6, 0)}, description="Sums.")
    made = wired(totals)
    assert (made.key, made.kind, made.sql) == ("shop.totals", "sql", query)
    assert made.inputs == (
        wire.Input(asset="shop.orders", parameter="orders", mapping=wire.Window(-6, 0)),
        wire.Input(asset="crm.people", parameter="crm.people"),
    )


@pytest.mark.parametrize("value", [{"a": 1}, [], [[1]]])
def test_a_configured_value_that_sql_cannot_write_is_a_flaw(value: Any) -> None:
    query = sql_asset("q", 'SELECT {{ config("x") }}', config={"x": value})
    assert messages(query) == ["the query uses the config value 'x', which SQL cannot write"]
    assert messages(sql_asset("q", 'SELECT {{ config("x") }}', config={"x": [0.5]})) == []


def test_a_retention_is_of_whole_numbers() -> None:
    @asset(retention=wire.Retention(versions="3"))  # type: ignore[arg-type]
    def bad() -> None: ...

    assert messages(bad) == ["Retention: versions='3' is not a whole number"]


def test_a_template_that_is_not_a_ref_is_a_flaw() -> None:
    query = sql_asset("q", "SELECT {{ now() }}", inputs={"orders": all_upstream})
    assert messages(query) == [
        "the query has '{{ now() }}'",
        "inputs maps 'orders', which the query does not ref",
    ]


def test_an_input_names_a_version_or_a_time() -> None:
    id, berlin = "01K9ZQ3F7M0000000000000000", timezone(timedelta(hours=1))

    @asset(ins={"c": In("x.c", all_upstream, as_of=datetime(2026, 1, 31, 2, tzinfo=berlin))})
    def pinned(
        c: AssetIn,
        a: AssetIn = AssetIn("x.a", version=3),
        b: AssetIn = AssetIn("x.b", version=id),
        d: AssetIn = AssetIn("x.d", as_of="2026-01-31"),
    ) -> None: ...

    assert [(each.version, each.as_of) for each in pinned.signature.inputs] == [
        ("", "2026-01-31T01:00:00"),
        ("3", ""),
        (id, ""),
        ("", "2026-01-31T00:00:00"),
    ]
    for wrong in (0, -1, "v3", True):
        with pytest.raises(Misdeclared, match="is not a version"):
            AssetIn("x.a", version=wrong)
    with pytest.raises(Misdeclared, match="is not a time"):
        AssetIn("x.a", as_of="yesterday")
    with pytest.raises(Misdeclared, match="has a version and as_of"):
        AssetIn("x.a", version=1, as_of="2026-01-31")
