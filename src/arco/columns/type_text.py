"""Parses texts of types to one canonical form."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final

from arco.columns.types import MAX_DEPTH, ColumnType, field, struct

_ALIASES: Final = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
    "null": "void",
    "dec": "decimal",
    "numeric": "decimal",
    "time": "time(6)",
    "varchar": "string",
    "char": "string",
}
_NAMES: Final = frozenset(
    (
        *("byte", "short", "integer", "long", "float", "double", "decimal", "boolean"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz", "time(6)", "void", "variant"),
    )
)
_SIMPLE = re.compile(r"([a-z_0-9]+)(?:\(([0-9, ]*)\))?")


def parse(text: str) -> ColumnType | None:
    """`Struct<a: Int>` as Spark's JSON has it; None if it is no type.

    Everything inside of it is nullable: a text does not contain that.
    """
    return _parse(text, MAX_DEPTH)


def _parse(text: str, depth: int) -> ColumnType | None:
    text = text.strip()
    head, bracket, rest = text.partition("<")
    if not bracket:
        return _simple(text.lower())
    if not rest.endswith(">") or not depth:
        return None
    inner = list(_split(rest[:-1]))
    match head.strip().lower():
        case "array" if len(inner) == 1:
            element = _parse(inner[0], depth - 1)
            return None if element is None else array(element)
        case "map" if len(inner) == 2:
            key, value = (_parse(each, depth - 1) for each in inner)
            return None if key is None or value is None else map_of(key, value)
        case "struct":
            fields = [_field(each, depth - 1) for each in inner]
            return None if None in fields else struct([each for each in fields if each])
    return None


def array(element: ColumnType, contains_null: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def map_of(key: ColumnType, value: ColumnType, contains_null: bool = True) -> dict[str, Any]:
    return {
        "type": "map",
        "keyType": key,
        "valueType": value,
        "valueContainsNull": contains_null,
    }


@functools.lru_cache(maxsize=256)
def _simple(text: str) -> str | None:
    match = _SIMPLE.fullmatch(text)
    if match is None:
        return text if text.startswith("interval") else None
    name = _ALIASES.get(match[1], match[1])
    numbers = [each.strip() for each in (match[2] or "").split(",") if each.strip()]
    if name == "decimal":
        precision, scale = (*numbers, "0")[:2] if numbers else ("10", "0")
        return f"decimal({precision},{scale})"
    if match[1] in ("varchar", "char"):
        return "string"
    return name if name in _NAMES and not (match[2] and name != "time(6)") else None


def _field(text: str, depth: int) -> dict[str, Any] | None:
    name, colon, kind = text.partition(":")
    type = _parse(kind, depth) if colon else None
    return None if type is None else field(name.strip().strip("`"), type)


def _split(text: str) -> Iterator[str]:
    """At the commas that are not inside of brackets."""
    depth, start = 0, 0
    for at, each in enumerate(text):
        depth += (each in "<(") - (each in ">)")
        if each == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text.strip():
        yield text[start:]
