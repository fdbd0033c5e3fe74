"""Types of columns as data, without a JVM and PySpark. A type has the form of Spark's own JSON: a
name (`long`, `decimal(10,2)`), or a dict for arrays, maps and structs. Files of every writer are
described in these terms: the same columns have the same type texts and the same schema hash,
whether Spark or Arrow wrote them. Nullability is no part of either: Spark writes every column as
nullable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

ColumnType: TypeAlias = str | dict[str, Any]
SparkField: TypeAlias = dict[str, Any]
"""`name`, `type`, `nullable`, `metadata`."""
MAX_DEPTH: Final = 100
"""Of types inside of types. Readers and writers follow them by recursion."""
DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")
WHOLE_NUMBERS: Final = ("byte", "short", "integer", "long")
"""From the narrowest."""

_TEXTS: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def field(name: str, type: ColumnType, nullable: bool = True) -> SparkField:
    return {"name": name, "type": type, "nullable": nullable, "metadata": {}}


def struct(fields: Sequence[SparkField]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def text(type: ColumnType) -> str:
    """What Spark SQL calls it: `bigint`, `array<string>`, `struct<a:int,b:decimal(10,2)>`."""
    if isinstance(type, str):
        return _TEXTS.get(type, type)
    match type["type"]:
        case "array":
            return f"array<{text(type['elementType'])}>"
        case "map":
            return f"map<{text(type['keyType'])},{text(type['valueType'])}>"
        case "struct":
            inner = ",".join(f"{each['name']}:{text(each['type'])}" for each in type["fields"])
            return f"struct<{inner}>"
    return text(type["sqlType"])  # a user's own type, on top of one of these


def leaves(type: ColumnType, path: str = "") -> Iterator[tuple[str, ColumnType]]:
    """Every leaf type inside of a type, with its path."""
    if isinstance(type, str):
        yield path, type
        return
    match type["type"]:
        case "array":
            yield from leaves(type["elementType"], f"{path}[]")
        case "map":
            yield from leaves(type["keyType"], f"{path}.key")
            yield from leaves(type["valueType"], f"{path}.value")
        case "struct":
            for each in type["fields"]:
                yield from leaves(each["type"], f"{path}.{each['name']}")
        case _:
            yield from leaves(type["sqlType"], path)


def names(column: SparkField) -> Iterator[str]:
    """Of a column and of every field inside of it."""
    waiting: list[Any] = [column]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "name" in each:
                yield each["name"]
            parts = ("type", "elementType", "keyType", "valueType", "sqlType")
            waiting += [each[part] for part in parts if part in each]
            waiting += each.get("fields", ())


def ambiguous(names: Sequence[str]) -> str:
    """The problem with columns that share a name, or nothing. Case is ignored, as in Spark."""
    seen: dict[str, str] = {}
    for name in names:
        before = seen.get(name.lower())
        if before == name:
            return f"two columns have the name {name!r}"
        if before is not None:
            return f"the columns {before!r} and {name!r} differ only in case"
        seen[name.lower()] = name
    return ""


def nullable(type: ColumnType) -> ColumnType:
    """The same type with nulls allowed everywhere, as Spark reads files; user types as stored."""
    if isinstance(type, str):
        return type
    match type["type"]:
        case "array":
            inner = nullable(type["elementType"])
            return {"type": "array", "elementType": inner, "containsNull": True}
        case "map":
            return {
                "type": "map",
                "keyType": nullable(type["keyType"]),
                "valueType": nullable(type["valueType"]),
                "valueContainsNull": True,
            }
        case "struct":
            return struct([nullable_field(each) for each in type["fields"]])
    return nullable(type["sqlType"])


def nullable_field(given: SparkField) -> SparkField:
    return {**given, "type": nullable(given["type"]), "nullable": True}
