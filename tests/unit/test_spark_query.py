"""The text of SQL assets, without Spark: what it refers to, and what is wrong where."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from arco.spark.query import TaskQuery, dependencies
from arco.spark.template import literal, marked_line
from arco.tasks.failure import TaskFailed
from servo.contract.template import Call, Rendered, render


def test_refs_are_found_once_in_their_order() -> None:
    sql = """SELECT * FROM {{ ref("b.x") }} JOIN {{ref('a')}} JOIN {{ ref( "b.x" ) }}
             WHERE d = {{ partition("d") }}"""
    assert dependencies(sql) == ("b.x", "a")


def test_places_map_back_to_the_source() -> None:
    def doubled(call: Call) -> str:
        return f"<{call.argument}{call.argument}>"

    rendered = render('ab {{ x("cd") }} ef {{ y("") }}g', doubled)
    assert rendered.text == "ab <cdcd> ef <>g"
    assert rendered.span(0, 2) == (0, 2)
    assert rendered.span(3, 9) == (3, 16)  # all of what was replaced
    assert rendered.span(5, 7) == (3, 16)  # and a part of it
    assert rendered.span(10, 12) == (17, 19)
    assert rendered.span(1, 11) == (1, 18)
    assert rendered.span(15, 16) == (31, 32)
    assert rendered.span(15, 99) == (31, 32)
    assert Rendered("abc", "abc", ()).span(1, 2) == (1, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-5, "CAST(-5 AS BIGINT)"),
        (date(2025, 1, 15), "DATE'2025-01-15'"),
        (datetime(2025, 1, 15, 6), "TIMESTAMP'2025-01-15 06:00:00.000000Z'"),
        ('"so"', "'\"so\"'"),
        ("it's", "CAST(X'69742773' AS STRING)"),
        (0.1, "0.1D"),
        (-1e-7, "(-1e-07D)"),
        (Decimal("1.50"), "1.50BD"),
        (datetime(2025, 1, 15, 6, tzinfo=UTC), "TIMESTAMP'2025-01-15 06:00:00.000000Z'"),
        (["a", True], "'a', TRUE"),
    ],
)
def test_values_become_literals(value: Any, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT * FROM t LIMIT {n}", "SELECT * FROM t LIMIT 5"),
        ("SELECT * FROM t LIMIT {n} -- five", "SELECT * FROM t LIMIT 5 -- five"),
        ("SELECT date_add(d, {n}), date_add(d, -{n})", "SELECT date_add(d, 5), date_add(d, -5)"),
        ("SELECT a FROM t ORDER BY {n} OFFSET {n}", "SELECT a FROM t ORDER BY 5 OFFSET 5"),
        ("SELECT {n} AS n, 2 * {n}, {n}-1", "SELECT 5L AS n, 2 * 5L, 5L-1"),
        ("SELECT a - {n} FROM t WHERE a > {n}", "SELECT a - 5L FROM t WHERE a > 5"),
        ("SELECT a - {m}, date_add(d, {m})", "SELECT a - (-5L), date_add(d, (-5))"),
        ("SELECT a + /* a */ {n} /* b */", "SELECT a + /* a */ 5 /* b */"),
        ("SELECT {big}", "SELECT 5000000000L"),
        ("SELECT a FROM t WHERE s IN ({codes})", "SELECT a FROM t WHERE s IN ('a', 'b')"),
    ],
)
def test_a_configured_integer_is_plain_where_spark_wants_one_and_bigint_where_it_counts(
    sql: str, text: str
) -> None:
    names = ("n", "m", "big", "codes")
    source = sql.format(**{name: f'{{{{ config("{name}") }}}}' for name in names})
    config = {"n": 5, "m": -5, "big": 5_000_000_000, "codes": ["a", "b"]}
    assert TaskQuery(source, config=config).rendered.text == text


@pytest.mark.parametrize(("value", "what"), [([], "an empty list"), ({"a": 1}, "an object")])
def test_a_value_that_sql_cannot_write_is_shown_in_the_query(value: Any, what: str) -> None:
    with pytest.raises(TaskFailed, match=f"the config value 'x' is {what}"):
        TaskQuery('SELECT {{ config("x") }}', config={"x": value})


def test_a_place_is_shown_with_its_line() -> None:
    sql = "SELECT a,\n\tnope\nFROM t"
    assert marked_line(sql, 11, 15) == "line 2, column 2:\n  2 |     nope\n    |     ^^^^"
    assert marked_line(sql, len(sql), len(sql)) == "line 3, column 7:\n  3 | FROM t\n    |       ^"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT {{ partition('hour') }}", "no dimension 'hour'"),
        ("SELECT {{ config('x') }}", "no config value 'x'"),
        ("SELECT {{ env('x') }}", "the query has"),
    ],
)
def test_values_that_are_not_there_are_refused_with_their_place(sql: str, message: str) -> None:
    with pytest.raises(TaskFailed, match=message) as caught:
        TaskQuery(sql, partition="date=d:2025-01-15", config={"y": 1}, file="a.py", line=3)
    info = caught.value.info
    assert (info.category, info.code, info.file, info.line) == (
        "user_code",
        "sql.invalid",
        "a.py",
        3,
    )
    assert "a.py:3" in info.message
    assert "line 1, column 8" in info.message
    assert "^^^" in info.message
