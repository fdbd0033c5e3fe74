"""Schemas as Spark's reader takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from arco.columns.arrow import COLLATIONS
from arco.columns.quoting import backticked
from arco.columns.types import WHOLE_NUMBERS, ColumnType, SparkField, struct, text


def ddl(fields: Sequence[SparkField]) -> str:
    """Columns as a schema that Spark parses: names are quoted at every level."""
    return ", ".join(f"{backticked(each['name'])} {ddl_type(each)}" for each in fields)


def ddl_type(field: SparkField) -> str:
    """A column's type, with the collations of its texts, which are in its metadata."""
    collations = field.get("metadata", {}).get(COLLATIONS.decode(), {})
    return _ddl(field["type"], field["name"], collations)


def _ddl(type: ColumnType, path: str, collations: Mapping[str, str]) -> str:
    if isinstance(type, str):
        name = collations.get(path, "").rpartition(".")[2]
        return f"{text(type)} collate {name}" if name else text(type)
    match type["type"]:
        case "array":
            return f"array<{_ddl(type['elementType'], f'{path}.element', collations)}>"
        case "map":
            parts = (("keyType", "key"), ("valueType", "value"))
            inner = [_ddl(type[part], f"{path}.{name}", collations) for part, name in parts]
            return f"map<{', '.join(inner)}>"
        case "struct":
            inner = [f"{backticked(each['name'])}: {ddl_type(each)}" for each in type["fields"]]
            return f"struct<{', '.join(inner)}>"
    return _ddl(type["sqlType"], path, collations)


def readable_as(file: ColumnType, target: ColumnType) -> ColumnType:
    """The type nearest to `wanted` as which Spark's Parquet reader gives a column of a file.

    It has the wanted shape, so that a cast, which goes by the order of fields, can do the rest.
    """
    if isinstance(file, str) or isinstance(target, str):
        return target if file == target or (str(file), str(target)) in _READS else file
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
                    for each in target["fields"]
                ]
            )
    return {**target, **{part: readable_as(file[part], target[part]) for part in parts}}


_READS: Final = {
    *((small, big) for i, small in enumerate(WHOLE_NUMBERS) for big in WHOLE_NUMBERS[i:]),
    ("float", "double"),
}
