from __future__ import annotations

import pytest

from arco.worker.checks.types import canonical


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LONG", "bigint"),
        ("integer", "int"),
        ("decimal", "decimal(10,0)"),
        ("dec(5)", "decimal(5,0)"),
        ("numeric(5, 2)", "decimal(5,2)"),
        ("varchar(3)", "string"),
        ("Array<Int>", "array<int>"),
        ("map<string, array<long>>", "map<string,array<bigint>>"),
        ("struct<A: int, `b c`:struct<x:date>>", "struct<A:int,b c:struct<x:date>>"),
        ("struct<>", "struct<>"),
        ("time", "time(6)"),
        ("time(6)", "time(6)"),
        ("interval day to second", "interval day to second"),
    ],
)
def test_a_type_has_one_spelling(text: str, found: str) -> None:
    assert canonical(text) == found


@pytest.mark.parametrize("text", ["", "text", "array<int", "array<a,b>", "map<int>", "struct<a>"])
def test_what_is_no_type_is_none(text: str) -> None:
    assert canonical(text) is None
