"""Checks that are answered from the footers of files: rows, schema, freshness, bounds."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from servo.check import (
    accepted_values,
    expression,
    freshness,
    in_range,
    row_count,
    row_count_change,
    schema_is,
    unique,
)
from servo.contract.manifest import Check
from tests.kit.checked_files import ORDERS, Files, joined
from tests.kit.clocks import SimClock


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (row_count(min=5, max=5), "passed", ""),
        (row_count(min=6), "failed", "there are 5 rows"),
        (row_count(max=4), "failed", "there are 5 rows"),
    ],
)
def test_rows_are_counted_by_the_footers(
    files: Files, given: Check, status: str, message: str
) -> None:
    (found,) = files.results(files.put("shop.orders", ORDERS), given)
    assert (found.status, found.message, found.method) == (status, message, "footer")


@pytest.mark.parametrize(
    ("previous", "bounds", "status", "actual"),
    [
        (10, (-50, 0), "passed", "-50.0%"),
        (10, (-49, None), "failed", "-50.0%"),
        (4, (None, 25), "passed", "+25.0%"),
        (3, (None, 66), "failed", "+66.7%"),
        (None, (0, 0), "passed", ""),
        (0, (0, 0), "passed", ""),
    ],
)
def test_rows_are_compared_with_the_version_before(
    files: Files, previous: int | None, bounds: Any, status: str, actual: str
) -> None:
    given = row_count_change(min_percent=bounds[0], max_percent=bounds[1])
    (found,) = files.results(files.put("shop.orders", ORDERS), given, previous=previous)
    assert (found.status, found.actual, found.method) == (status, actual, "catalog")


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (["bigint", "string", "decimal(10,2)", "timestamp"], ""),
        (["LONG", "varchar(20)", "decimal( 10 , 2 )", "timestamp_ltz"], ""),
        (["int", "string", "numeric(10,2)", "timestamp"], "'Id' is bigint and not int"),
    ],
)
def test_a_schema_is_compared_in_sparks_terms(files: Files, types: list[str], message: str) -> None:
    given = schema_is(dict(zip(ORDERS.column_names, types, strict=True)))
    (found,) = files.results(files.put("shop.orders", ORDERS), given)
    assert (found.message, found.passed, found.method) == (message, not message, "footer")


def test_a_schema_may_name_the_partition_or_not(files: Files) -> None:
    ref = files.put("a.b", pa.table({"x": [1]}), partition="day=d:2025-01-01")
    without, with_it, other = files.results(
        ref,
        schema_is({"x": "bigint"}, name="without"),
        schema_is({"x": "bigint", "day": "date"}, name="with"),
        schema_is({"day": "date", "x": "bigint"}, name="other"),
    )
    assert [without.passed, with_it.passed, other.passed] == [True, True, False]
    assert other.message == "'day' is missing"


def test_columns_in_another_order_are_another_schema(files: Files) -> None:
    ref = files.put("a.b", pa.table({"x": [1], "y": ["a"]}))
    (found,) = files.results(ref, schema_is({"y": "string", "x": "bigint"}))
    assert found.message == "the columns are in another order"


def test_the_schema_of_every_version_is_compared(files: Files) -> None:
    tables = [pa.table({"x": pa.array([1], type)}) for type in (pa.int32(), pa.float64())]
    refs = [files.put("a.b", each, partition=f"n=i:{at}") for at, each in enumerate(tables)]
    wanted = schema_is({"x": "int"})
    for given in (joined(*refs), joined(*reversed(refs))):
        (found,) = files.results(given, wanted)
        message = "'x' is double and not int, in partition n=1"
        assert (found.message, found.actual) == (message, "x double")
    (found,) = files.results(joined(refs[0], refs[0]), wanted)
    assert (found.passed, found.actual) == (True, "x int")
    plain = [files.put("a.b", each) for each in tables]
    (found,) = files.results(joined(*plain), wanted)
    path = plain[1].materializations[0].path
    assert found.message == f"'x' is double and not int, in {path}"


def test_a_version_may_hold_its_partition_and_another_not(files: Files) -> None:
    held = files.put("a.b", pa.table({"x": [1], "n": [1]}), partition="n=i:1")
    added = files.put("a.b", pa.table({"x": [1]}), partition="n=i:2")
    (found,) = files.results(joined(held, added), schema_is({"x": "bigint", "n": "bigint"}))
    assert found.passed


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(("hours", "status"), [(24, "passed"), (25, "failed")])
def test_freshness_is_the_age_of_the_newest(
    files: Files, statistics: bool, hours: int, status: str
) -> None:
    clock = SimClock()
    newest = clock.now() - timedelta(hours=hours)
    at = pa.array([newest - timedelta(days=9), newest, None], pa.timestamp("us", tz="UTC"))
    ref = files.put("a.b", pa.table({"at": at}), write_statistics=statistics)
    (found,) = files.results(ref, freshness("AT", max_age="1d"), clock=clock)
    assert (found.status, found.method) == (status, "footer" if statistics else "duckdb")
    assert found.expected == "at most 1d old"
    assert found.actual == ("1d old" if hours == 24 else "1d 1h old")


def test_nothing_is_not_fresh(files: Files) -> None:
    at = pa.array([None], pa.timestamp("us"))
    (found,) = files.results(files.put("a.b", pa.table({"at": at})), freshness("at", max_age=60))
    assert (found.status, found.message) == ("failed", "there is no value to compute an age from")


def test_bounds_of_floats_prove_nothing(files: Files) -> None:
    ref = files.put("a.b", pa.table({"x": [0.5, float("nan")]}))
    for given in (in_range("x", min=0), in_range("x", max=1)):
        (found,) = files.results(ref, given)
        assert (found.method, found.failing) == ("duckdb", 1)


NAN = float("nan")


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    "given",
    [
        in_range("x", min=0),
        in_range("x", max=5),
        in_range("x", min=0, max=2),
        in_range("s.x", max=5),
        in_range("small", max=5),
        accepted_values("x", ["1", "2"]),
        expression("x <= 5"),
        expression("NOT (x > 5)"),
        unique("x"),
    ],
    ids=lambda given: given.name,
)
def test_nan_is_counted_and_shown_whatever_the_statistics_say(
    files: Files, given: Check, statistics: bool
) -> None:
    x = pa.array([1.0, NAN, 2.0, NAN, None])
    table = pa.table(
        {"x": x, "small": x.cast(pa.float32()), "s": pa.StructArray.from_arrays([x], ["x"])}
    )
    (found,) = files.results(files.put("a.b", table, write_statistics=statistics), given)
    assert (found.status, found.method) == ("failed", "duckdb")
    shown = [json.loads(sample)["x"] for sample in found.sample]
    if given.kind == "expression":  # a null is not true either
        assert (found.failing, shown.count("nan"), shown.count(None)) == (3, 2, 1)
    else:
        assert (found.failing, shown) == (1 if given.kind == "unique" else 2, ["nan", "nan"])
