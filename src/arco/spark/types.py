"""Spark's types as data, so that no JVM and no PySpark is needed to speak of them.

A type is what Spark's own JSON says: a name (`long`, `decimal(10,2)`), or a dict for
arrays, maps and structs. Files of every writer are described in these terms: the same
columns have the same type texts and the same schema hash, whether Spark or Arrow wrote
them. Nullability is no part of either: Spark writes every column as nullable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

SparkType: TypeAlias = str | dict[str, Any]
Field: TypeAlias = dict[str, Any]
"""`name`, `type`, `nullable`, `metadata`."""

ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
MAX_PRECISION: Final = 38
MAX_DEPTH: Final = 100
"""Of types inside of types. Readers and writers follow them by recursion."""

_TEXTS: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")

_ARROW: Final[dict[pa.DataType, str]] = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    # As Spark reads them from Parquet: the next wider type with a sign.
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.date64(): "date",
}


# -- from elsewhere -----------------------------------------------------------------------


def from_arrow(type: pa.DataType) -> SparkType:
    """The type that Spark has for it. ValueError where there is none."""
    if isinstance(type, pa.BaseExtensionType):
        return from_arrow(type.storage_type)
    known = _ARROW.get(type)
    if known is not None:
        return known
    types = pa.types
    if types.is_timestamp(type):
        return "timestamp_ntz" if type.tz is None else "timestamp"
    if types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if types.is_dictionary(type):
        return from_arrow(type.value_type)
    if types.is_fixed_size_binary(type):
        return "binary"
    if types.is_time(type):
        return "time(6)"
    if types.is_duration(type):
        return "interval day to second"
    return _nested(type)


def _nested(type: pa.DataType) -> SparkType:
    types = pa.types
    if types.is_struct(type):
        return struct([field(each.name, from_arrow(each.type), each.nullable) for each in type])
    if types.is_map(type):
        return {
            "type": "map",
            "keyType": from_arrow(type.key_type),
            "valueType": from_arrow(type.item_type),
            "valueContainsNull": type.item_field.nullable,
        }
    if (
        types.is_list(type)
        or types.is_large_list(type)
        or types.is_fixed_size_list(type)
        or types.is_list_view(type)
        or types.is_large_list_view(type)
    ):
        return {
            "type": "array",
            "elementType": from_arrow(type.value_type),
            "containsNull": type.value_field.nullable,
        }
    raise ValueError(f"Spark has no type for Arrow's {type}")


def to_arrow(type: SparkType) -> pa.DataType:
    """The type as which Arrow holds what Spark reads."""
    if isinstance(type, str):
        digits = _DECIMAL.fullmatch(type)
        if digits is not None:
            return pa.decimal128(int(digits[1]), int(digits[2]))
        return _FROM_SPARK[type]
    match type["type"]:
        case "array":
            return pa.list_(to_arrow(type["elementType"]))
        case "map":
            return pa.map_(to_arrow(type["keyType"]), to_arrow(type["valueType"]))
    return pa.struct([(each["name"], to_arrow(each["type"])) for each in type["fields"]])


_FROM_SPARK: Final[dict[str, pa.DataType]] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time(6)": pa.time64("us"),
    "interval day to second": pa.duration("us"),
}


def plain(schema: pa.Schema) -> pa.Schema:
    """The same columns without what Spark has no types for: zones of moments, dictionaries."""
    fields = [each.with_type(rebuilt(each.type, _in_utc)) for each in schema]
    return pa.schema(fields, schema.metadata)


def _in_utc(type: pa.DataType) -> pa.DataType:
    zoned = pa.types.is_timestamp(type) and type.tz is not None
    return pa.timestamp(type.unit, "UTC") if zoned else type


def rebuilt(type: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type with other ones inside: what `leaf` makes of those that are not made of types."""

    def field(given: pa.Field) -> pa.Field:
        return given.with_type(rebuilt(given.type, leaf))

    if pa.types.is_dictionary(type):
        return rebuilt(type.value_type, leaf)
    if type == pa.uuid():
        return type.storage_type
    if pa.types.is_struct(type):
        return pa.struct([field(each) for each in type])
    if pa.types.is_map(type):
        return pa.map_(rebuilt(type.key_type, leaf), field(type.item_field), type.keys_sorted)
    if pa.types.is_list(type):
        return pa.list_(field(type.value_field))
    if pa.types.is_large_list(type):
        return pa.large_list(field(type.value_field))
    if pa.types.is_fixed_size_list(type):
        return pa.list_(field(type.value_field), type.list_size)
    return leaf(type)


def arrow_fields(schema: pa.Schema) -> list[Field]:
    """ValueError, with the column's name, where Spark has no type for one."""
    return [field(each.name, _type_in(each), each.nullable) for each in schema]


def _type_in(column: pa.Field) -> SparkType:
    try:
        return from_arrow(column.type)
    except ValueError as error:
        raise ValueError(f"column {column.name!r}: {error}") from None


def file_fields(metadata: Any) -> list[Field]:
    """The columns of a Parquet file, as Spark wrote them down, or else from its Arrow schema."""
    written = (metadata.metadata or {}).get(ROW_METADATA)
    if written is not None:
        fields: list[Field] = msgspec.json.decode(written)["fields"]
        return fields
    return arrow_fields(metadata.schema.to_arrow_schema())


def field(name: str, type: SparkType, nullable: bool = True) -> Field:
    return {"name": name, "type": type, "nullable": nullable, "metadata": {}}


def struct(fields: Sequence[Field]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


# -- texts --------------------------------------------------------------------------------


def text(type: SparkType) -> str:
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


def ddl(fields: Sequence[Field]) -> str:
    """Columns as a schema that Spark parses: names are quoted at every level."""
    return ", ".join(f"{quoted(each['name'])} {ddl_type(each['type'])}" for each in fields)


def ddl_type(type: SparkType) -> str:
    if isinstance(type, str):
        return text(type)
    match type["type"]:
        case "array":
            return f"array<{ddl_type(type['elementType'])}>"
        case "map":
            return f"map<{ddl_type(type['keyType'])}, {ddl_type(type['valueType'])}>"
        case "struct":
            inner = (f"{quoted(f['name'])}: {ddl_type(f['type'])}" for f in type["fields"])
            return f"struct<{', '.join(inner)}>"
    return ddl_type(type["sqlType"])


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def leaves(type: SparkType, path: str = "") -> Iterator[tuple[str, SparkType]]:
    """Every type inside of a type that is not itself made of types, with the way to it."""
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


def names(column: Field) -> Iterator[str]:
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
    """What is wrong with columns that share a name, or nothing. Spark does not see case."""
    seen: dict[str, str] = {}
    for name in names:
        before = seen.get(name.lower())
        if before == name:
            return f"two columns are called {name!r}"
        if before is not None:
            return f"the columns {before!r} and {name!r} differ only in case"
        seen[name.lower()] = name
    return ""


# -- versions of one schema ---------------------------------------------------------------


def nullable(type: SparkType) -> SparkType:
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


def nullable_field(given: Field) -> Field:
    return {**given, "type": nullable(given["type"]), "nullable": True}


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


def _wide(one: pa.Field, other: pa.Field) -> pa.DataType:
    found = [nullable(_type_in(each)) for each in (one, other)]
    wide = widened(*found)
    if wide is None:
        texts = " in one and ".join(map(text, found))
        raise ValueError(f"column {one.name!r} is {texts} in another")
    return to_arrow(wide)


_WHOLE: Final = ("byte", "short", "integer", "long")
_EXACT: Final = ("byte", "short", "integer")
"""Whole numbers that a double holds as they are; of a long it would round the large ones."""
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 20}


def widened(one: SparkType, other: SparkType) -> SparkType | None:
    """The narrowest type that holds the values of both; None where there is none."""
    if one == other:
        return one
    if isinstance(one, str) and isinstance(other, str):
        return _widened_leaf(one, other)
    if "void" in (one, other):
        return other if one == "void" else one
    if isinstance(one, str) or isinstance(other, str) or one["type"] != other["type"]:
        return None
    match one["type"]:
        case "array":
            return _together(one, other, "elementType")
        case "map":
            return _together(one, other, "keyType", "valueType")
        case "struct":
            merged = merged_fields(one["fields"], other["fields"])
            return None if isinstance(merged, str) else struct(merged)
    return None


def _together(one: dict[str, Any], other: dict[str, Any], *parts: str) -> SparkType | None:
    found = {part: widened(one[part], other[part]) for part in parts}
    return None if None in found.values() else {**one, **found}


def merged_fields(one: Sequence[Field], other: Sequence[Field]) -> list[Field] | str:
    """By name, in the order of first appearance; or the name of what does not go together."""
    merged = {each["name"]: each for each in one}
    for each in other:
        before = merged.get(each["name"])
        if before is None:
            merged[each["name"]] = each
        elif before["type"] != each["type"]:
            type = widened(before["type"], each["type"])
            if type is None:
                return str(each["name"])
            merged[each["name"]] = {**before, "type": type, "metadata": {}}
    return list(merged.values())


def _widened_leaf(one: str, other: str) -> str | None:
    if "void" in (one, other):
        return other if one == "void" else one
    if one in _WHOLE and other in _WHOLE:
        return max(one, other, key=_WHOLE.index)
    if {one, other} <= {*_EXACT, "float", "double"}:
        return "double"
    return _widened_decimal(one, other)


def _widened_decimal(one: str, other: str) -> str | None:
    sizes = [_decimal(each) for each in (one, other)]
    (p1, s1), (p2, s2) = (size or (0, 0) for size in sizes)
    if None in sizes or not (_DECIMAL.match(one) or _DECIMAL.match(other)):
        return None
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else None


def _decimal(type: str) -> tuple[int, int] | None:
    found = _DECIMAL.fullmatch(type)
    if found is not None:
        return int(found[1]), int(found[2])
    return (_DIGITS[type], 0) if type in _DIGITS else None


def readable_as(file: SparkType, wanted: SparkType) -> SparkType:
    """The type nearest to `wanted` as which Spark's Parquet reader gives a column of a file.

    It has the wanted shape, so that a cast, which goes by the order of fields, can do the rest.
    """
    if isinstance(file, str) or isinstance(wanted, str):
        return wanted if file == wanted or (str(file), str(wanted)) in _READS else file
    match file["type"]:
        case "array":
            parts: tuple[str, ...] = ("elementType",)
        case "map":
            parts = ("keyType", "valueType")
        case _:
            own = {each["name"]: each["type"] for each in file["fields"]}
            return struct(
                [
                    {**each, "type": readable_as(own[each["name"]], each["type"])}
                    if each["name"] in own
                    else each
                    for each in wanted["fields"]
                ]
            )
    return {**wanted, **{part: readable_as(file[part], wanted[part]) for part in parts}}


_READS: Final = {
    *((small, big) for i, small in enumerate(_WHOLE) for big in _WHOLE[i:]),
    ("float", "double"),
}
