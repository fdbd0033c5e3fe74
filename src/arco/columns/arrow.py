"""Column types of Arrow schemas and Parquet files, and Arrow's types for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from arco.columns.types import DECIMAL, ColumnType, SparkField, field, struct
from servo.contract.partition import Scalar

ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
COLLATIONS: Final = b"__COLLATIONS"
"""The key of Spark's metadata of a field whose texts have a collation."""
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


def from_arrow(type: pa.DataType) -> ColumnType:
    """The type that Spark has for it. ValueError where there is none."""
    if isinstance(type, pa.BaseExtensionType):
        return from_arrow(type.storage_type)
    type_name = _ARROW.get(type)
    if type_name is not None:
        return type_name
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


def _nested(type: pa.DataType) -> ColumnType:
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


def to_arrow(type: ColumnType) -> pa.DataType:
    """The type as which Arrow holds what Spark reads."""
    if isinstance(type, str):
        digits = DECIMAL.fullmatch(type)
        if digits is not None:
            return pa.decimal128(int(digits[1]), int(digits[2]))
        return _TO_ARROW[type]
    match type["type"]:
        case "array":
            return pa.list_(to_arrow(type["elementType"]))
        case "map":
            return pa.map_(to_arrow(type["keyType"]), to_arrow(type["valueType"]))
    return pa.struct([(each["name"], to_arrow(each["type"])) for each in type["fields"]])


_TO_ARROW: Final[dict[str, pa.DataType]] = {
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
    """The same columns with types that Spark has: without time zones and dictionaries."""
    fields = [each.with_type(rebuilt(each.type, _in_utc)) for each in schema]
    return pa.schema(fields, schema.metadata)


def _in_utc(type: pa.DataType) -> pa.DataType:
    zoned = pa.types.is_timestamp(type) and type.tz is not None
    return pa.timestamp(type.unit, "UTC") if zoned else type


def rebuilt(type: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type whose leaf types are replaced by `leaf`."""

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


def arrow_fields(schema: pa.Schema) -> list[SparkField]:
    """ValueError, with the column's name, where Spark has no type for one."""
    return [field(each.name, column_type(each), each.nullable) for each in schema]


def column_type(column: pa.Field) -> ColumnType:
    try:
        return from_arrow(column.type)
    except ValueError as error:
        raise ValueError(f"column {column.name!r}: {error}") from None


def file_fields(metadata: Any) -> list[SparkField]:
    """The columns of a Parquet file, as Spark wrote them down, or else from its Arrow schema."""
    written = (metadata.metadata or {}).get(ROW_METADATA)
    if written is not None:
        fields: list[SparkField] = msgspec.json.decode(written)["fields"]
        return fields
    return arrow_fields(metadata.schema.to_arrow_schema())


def collated_columns(metadata: Any) -> list[str]:
    """Columns of a Parquet file with a text in them that Spark compares by a collation."""
    if COLLATIONS not in (metadata.metadata or {}).get(ROW_METADATA, b""):
        return []
    fields = file_fields(metadata)
    return [each["name"] for each in fields if COLLATIONS in msgspec.json.encode(each)]


def scalar_type(value: Scalar) -> pa.DataType:
    """Of a value of a partition key."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64()
        case datetime():
            return pa.timestamp("us", tz="UTC")
        case date():
            return pa.date32()
        case str():
            return pa.string()
