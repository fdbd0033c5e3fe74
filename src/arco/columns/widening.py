"""One schema for files of several versions: the columns of all, of types that hold each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from arco.columns.arrow import column_type, to_arrow
from arco.columns.types import (
    DECIMAL,
    WHOLE_NUMBERS,
    ColumnType,
    SparkField,
    ambiguous,
    nullable,
    struct,
    text,
)

MAX_PRECISION: Final = 38


def unified(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of all, by name, of types that hold the values of each.

    By the rules of reading with Spark: Arrow itself would make doubles of large integers.
    ValueError where there is no such type, or names differ only in case.
    """
    different = list(dict.fromkeys(schemas))
    fields: dict[str, pa.Field] = {}
    for schema in different:
        _tell_apart(schema.names)
        for each in schema:
            before = fields.get(each.name, each)
            same = before.type == each.type
            fields[each.name] = before if same else before.with_type(_wide(before, each))
    _tell_apart(list(fields))
    if len(different) == 1:
        return different[0]
    return pa.schema([each.with_nullable(True) for each in fields.values()])


def _tell_apart(names: Sequence[str]) -> None:
    flaw = ambiguous(names)
    if flaw:
        raise ValueError(flaw)


def _wide(first: pa.Field, second: pa.Field) -> pa.DataType:
    types = [nullable(column_type(each)) for each in (first, second)]
    wide = widened(*types)
    if wide is None:
        texts = " in one and ".join(map(text, types))
        raise ValueError(f"column {first.name!r} is {texts} in another")
    return to_arrow(wide)


_EXACT: Final = ("byte", "short", "integer")
"""Whole numbers that a double holds as they are; of a long it would round the large ones."""
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 20}


def widened(first: ColumnType, second: ColumnType) -> ColumnType | None:
    """The narrowest type that holds the values of both; None where there is none."""
    if first == second:
        return first
    if isinstance(first, str) and isinstance(second, str):
        return _widened_leaf(first, second)
    if "void" in (first, second):
        return second if first == "void" else first
    if isinstance(first, str) or isinstance(second, str) or first["type"] != second["type"]:
        return None
    match first["type"]:
        case "array":
            return _together(first, second, "elementType")
        case "map":
            return _together(first, second, "keyType", "valueType")
        case "struct":
            merged = merged_fields(first["fields"], second["fields"])
            return None if isinstance(merged, str) else struct(merged)
    return None


def _together(first: dict[str, Any], second: dict[str, Any], *parts: str) -> ColumnType | None:
    parts_of = {part: widened(first[part], second[part]) for part in parts}
    return None if None in parts_of.values() else {**first, **parts_of}


def merged_fields(
    first: Sequence[SparkField], second: Sequence[SparkField]
) -> list[SparkField] | str:
    """Fields by name, in the order of appearance; or the name of one with incompatible types."""
    merged = {each["name"]: each for each in first}
    for each in second:
        before = merged.get(each["name"])
        if before is None:
            merged[each["name"]] = each
        elif before["type"] != each["type"]:
            type = widened(before["type"], each["type"])
            if type is None:
                return str(each["name"])
            merged[each["name"]] = {**before, "type": type, "metadata": {}}
    return list(merged.values())


def _widened_leaf(first: str, second: str) -> str | None:
    if "void" in (first, second):
        return second if first == "void" else first
    if first in WHOLE_NUMBERS and second in WHOLE_NUMBERS:
        return max(first, second, key=WHOLE_NUMBERS.index)
    if {first, second} <= {*_EXACT, "float", "double"}:
        return "double"
    return _widened_decimal(first, second)


def _widened_decimal(first: str, second: str) -> str | None:
    sizes = [_decimal(each) for each in (first, second)]
    (p1, s1), (p2, s2) = (size or (0, 0) for size in sizes)
    if None in sizes or not (DECIMAL.match(first) or DECIMAL.match(second)):
        return None
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else None


def _decimal(type: str) -> tuple[int, int] | None:
    match = DECIMAL.fullmatch(type)
    if match is not None:
        return int(match[1]), int(match[2])
    return (_DIGITS[type], 0) if type in _DIGITS else None
