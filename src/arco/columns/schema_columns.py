"""The columns of a schema, in one form for files, declarations and the registry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence, Set
from typing import Any, Final

import msgspec

from arco.columns.type_text import array, map_of, parse
from arco.columns.types import ColumnType, struct, text
from servo.contract import canonical
from servo.contract.manifest import ColumnDef
from servo.contract.task import ColumnInfo

HASH_CHARS: Final = 32
_sorted = msgspec.json.Encoder(order="sorted")


class SchemaColumn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    name: str
    type: str | dict[str, Any] = ""
    """Spark's JSON; empty where it is not known."""
    nullable: bool | None = True
    """None where it is not known."""
    field_id: int | None = None
    """Of the Parquet file, where its writer gave one."""
    column_id: str = ""
    """The registry's own; survives renames."""

    @property
    def type_text(self) -> str:
        return text(self.type)


def actual_columns(columns: Iterable[ColumnInfo]) -> tuple[SchemaColumn, ...]:
    """Of an output, as its footers have them."""
    return tuple(
        SchemaColumn(
            name=each.name,
            type=_actual_type(each),
            nullable=each.nullable,
            field_id=each.field_id,
        )
        for each in columns
    )


def declared_columns(columns: Iterable[ColumnDef]) -> tuple[SchemaColumn, ...]:
    """Of an asset, as code declares them. A name with a dot is inside of another column."""
    return tuple(
        SchemaColumn(name=each.name, type=declared_type(each.type), nullable=each.nullable)
        for each in columns
        if "." not in each.name
    )


def declared_type(type: str) -> ColumnType:
    """A text that is not a Spark type stays as it is, and equals only itself."""
    return (parse(type) or type) if type else ""


def _actual_type(column: ColumnInfo) -> ColumnType:
    if column.shape:
        type: ColumnType = msgspec.json.decode(column.shape)
        return type
    return parse(column.type) or column.type


def shape_of(type: ColumnType) -> str:
    """JSON of a type whose text is incomplete; empty otherwise."""
    if isinstance(type, str):
        return ""
    plain = plain_type(type)
    return "" if parse_plain(text(type)) == plain else msgspec.json.encode(plain).decode()


def parse_plain(type: str) -> ColumnType | None:
    parsed = parse(type)
    return None if parsed is None else plain_type(parsed)


def plain_type(type: ColumnType) -> ColumnType:
    """The same type without metadata of fields and user-defined types."""
    if isinstance(type, str):
        return type
    match type["type"]:
        case "array":
            return array(plain_type(type["elementType"]), type["containsNull"])
        case "map":
            key, value = plain_type(type["keyType"]), plain_type(type["valueType"])
            return map_of(key, value, type["valueContainsNull"])
        case "struct":
            fields = [
                {
                    "name": each["name"],
                    "type": plain_type(each["type"]),
                    "nullable": each["nullable"],
                    "metadata": {},
                }
                for each in type["fields"]
            ]
            return struct(fields)
    return plain_type(type["sqlType"])


def hash_of(columns: Iterable[SchemaColumn]) -> str:
    """Of names, types and nullability, in their order. Ids are no part of it."""
    parts = [(each.name, each.type, each.nullable) for each in columns]
    return hashlib.sha256(_sorted.encode(parts)).hexdigest()[:HASH_CHARS]


def text_hash(columns: Iterable[tuple[str, str]]) -> str:
    """Of names and type texts, in their order: the same for every writer of these columns."""
    return canonical.fingerprint([[name, type] for name, type in columns])


def required_names(columns: Iterable[SchemaColumn | ColumnDef]) -> set[str]:
    return {each.name for each in columns if each.nullable is False}


def with_known_nulls(
    columns: Sequence[SchemaColumn], outputs: Sequence[ColumnInfo], required: Set[str]
) -> tuple[SchemaColumn, ...]:
    """The columns of an output; those without nulls are not nullable if that is required.

    Spark writes every column as nullable. That alone breaks no promise.
    """
    full = {each.name for each in outputs if each.nulls == 0} & required
    return tuple(
        msgspec.structs.replace(each, nullable=False) if each.name in full else each
        for each in columns
    )
