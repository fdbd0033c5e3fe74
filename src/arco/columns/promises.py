"""Whether columns keep the promises of a contract.

A contract promises columns by their names, with their types. There may be more columns, in any
order, and a type may be wider. Nulls in an output depend on its data: a check counts them.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from arco.columns.compatibility import ChangeKind, SchemaChange, compare
from arco.columns.schema_columns import SchemaColumn, declared_columns
from servo.contract.manifest import ColumnDef

BREAKS: Final[frozenset[ChangeKind]] = frozenset(
    {"removed", "renamed", "narrowed", "retyped", "made_nullable"}
)
"""Changes that break readers of the promised columns. Widening does not, as in the registry."""
SHOWN: Final = 5


class PromisedColumns(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    columns: tuple[SchemaColumn, ...]
    excused: tuple[str, ...] = ()
    """Columns with accepted changes for this version of the contract."""
    renames: dict[str, str] = {}
    """Governed: new names by old ones."""


def promised_columns(columns: Iterable[ColumnDef]) -> tuple[SchemaColumn, ...]:
    """As a contract declares them. Only `nullable=False` is a promise."""
    return tuple(
        each if each.nullable is False else msgspec.structs.replace(each, nullable=None)
        for each in declared_columns(columns)
    )


def with_dimensions(
    columns: Sequence[SchemaColumn], dimensions: Iterable[str]
) -> tuple[SchemaColumn, ...]:
    """The columns as readers see them: with the partition's dimensions, which files may lack."""
    names = {each.name.lower() for each in columns}
    added = [name for name in dimensions if name.lower() not in names]
    return (*columns, *(SchemaColumn(name=name, nullable=None) for name in added))


def broken(promised: PromisedColumns, columns: Sequence[SchemaColumn]) -> list[SchemaChange]:
    """The changes that break promises, in the order of the promises."""
    old = [msgspec.structs.replace(each, nullable=None) for each in promised.columns]
    # A promise without a type is kept by any type; a column without a type is unknown.
    changes = compare(old, columns, "backward", promised.renames).changes
    return [each for each in changes if each.kind in BREAKS and each.column not in promised.excused]


def promise_changes(
    old: Sequence[ColumnDef], new: Sequence[ColumnDef], renames: Mapping[str, str]
) -> tuple[SchemaChange, ...]:
    """The changes of columns from one contract to the next."""
    changes = compare(declared_columns(old), declared_columns(new), "backward", renames).changes
    return tuple(each for each in changes if each.kind != "moved")


def packed_promise(promised: PromisedColumns) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(promised), 6)).decode()


def unpacked_promise(text: str) -> PromisedColumns:
    return msgspec.json.decode(zlib.decompress(base64.b64decode(text)), type=PromisedColumns)


def consumer_names(consumers: Sequence[str], more: int = 0) -> str:
    """The first few, and how many there are besides."""
    rest = max(0, len(consumers) - SHOWN) + more
    names = ", ".join(consumers[:SHOWN])
    return f"{names} and {rest} more" if rest else names
