"""Spark's names for types, in one spelling; and those of what lies in Parquet files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from arco.worker.checks.columns import schema_of
from arco.worker.checks.subject import File

_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_ALIASES: Final = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
    "null": "void",
    "dec": "decimal",
    "numeric": "decimal",
    "time": "time(6)",
}
_NAMES: Final = (
    *("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz", "time(6)", "void", "variant"),
)
_SIMPLE = re.compile(r"([a-z_0-9]+)(?:\(([0-9, ]*)\))?")
_ARROW: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.null(): "void",
    pa.time64("us"): "time(6)",
}


def canonical(text: str) -> str | None:
    """`Struct<a: integer>` as `struct<a:int>`; None if it is no type."""
    text = text.strip()
    head, bracket, rest = text.partition("<")
    if not bracket:
        return _simple(text.lower())
    if not rest.endswith(">"):
        return None
    inner = list(_split(rest[:-1]))
    match head.strip().lower():
        case "array" if len(inner) == 1:
            parts = [canonical(inner[0])]
        case "map" if len(inner) == 2:
            parts = [canonical(each) for each in inner]
        case "struct":
            parts = [_field(each) for each in inner]
        case _:
            return None
    return None if None in parts else f"{head.strip().lower()}<{','.join(map(str, parts))}>"


def _simple(text: str) -> str | None:
    found = _SIMPLE.fullmatch(text)
    if found is None:
        return text if text.startswith("interval") else None
    name = _ALIASES.get(found[1], found[1])
    numbers = [each.strip() for each in (found[2] or "").split(",") if each.strip()]
    if name == "decimal":
        precision, scale = (*numbers, "10", "0")[:2] if not numbers else (*numbers, "0")[:2]
        return f"decimal({precision},{scale})"
    if name in ("varchar", "char"):
        return "string"
    return name if name in _NAMES and not (found[2] and name != "time(6)") else None


def _field(text: str) -> str | None:
    name, colon, kind = text.partition(":")
    found = canonical(kind) if colon else None
    return None if found is None else f"{name.strip().strip('`')}:{found}"


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


# -- of files -----------------------------------------------------------------------------


def stored_types(files: Sequence[File]) -> list[tuple[str, str]]:
    """Names and Spark types of the columns that the first file has; all others have them too.

    Spark leaves its own schema in what it writes, and reads by it; without that the
    Parquet types decide.
    """
    metadata = files[0].footer.metadata
    own = (metadata.metadata or {}).get(_SPARK_SCHEMA)
    if own is not None:
        return [(field["name"], _of_json(field["type"])) for field in json.loads(own)["fields"]]
    legacy = {
        metadata.schema.column(at).path
        for at in range(len(metadata.schema))
        if metadata.schema.column(at).physical_type == "INT96"
    }
    return [
        (field.name, "timestamp" if field.name in legacy else of_arrow(field.type))
        for field in schema_of(files[0])
    ]


def _of_json(value: Any) -> str:
    if isinstance(value, str):
        return canonical(value) or value
    match value["type"]:
        case "array":
            return f"array<{_of_json(value['elementType'])}>"
        case "map":
            return f"map<{_of_json(value['keyType'])},{_of_json(value['valueType'])}>"
        case "struct":
            fields = (f"{each['name']}:{_of_json(each['type'])}" for each in value["fields"])
            return f"struct<{','.join(fields)}>"
    return str(value["type"])


def of_arrow(type: pa.DataType) -> str:
    if type in _ARROW:
        return _ARROW[type]
    if pa.types.is_dictionary(type):
        return of_arrow(type.value_type)
    if pa.types.is_timestamp(type):
        return "timestamp" if type.tz else "timestamp_ntz"
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_fixed_size_binary(type):
        return "binary"
    if pa.types.is_map(type):
        return f"map<{of_arrow(type.key_type)},{of_arrow(type.item_type)}>"
    if pa.types.is_struct(type):
        fields = (type.field(at) for at in range(type.num_fields))
        return f"struct<{','.join(f'{each.name}:{of_arrow(each.type)}' for each in fields)}>"
    if pa.types.is_nested(type):
        return f"array<{of_arrow(type.value_type)}>"
    return str(type)
