"""The text of SQL assets, without Spark: what it refers to, and what is wrong where."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from arco.spark.query import TaskQuery, dependencies
from arco.spark.template import literal, shown
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
    ],
)
def test_values_become_literals(value: str | int | date | None, text: str) -> None:
    assert literal(value) == text


def test_a_place_is_shown_with_its_line() -> None:
    sql = "SELECT a,\n\tnope\nFROM t"
    assert shown(sql, 11, 15) == "line 2, column 2:\n  2 |     nope\n    |     ^^^^"
    assert shown(sql, len(sql), len(sql)) == "line 3, column 7:\n  3 | FROM t\n    |       ^"


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
