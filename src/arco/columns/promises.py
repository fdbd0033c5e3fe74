"""Whether columns are what a contract promises.

A promise is about what its consumers read: columns by their names, with their types. More columns
may be there, in any order, and a type may hold more than it has to. Whether a column of an output
has nulls is a matter of its data: a check looks at that.
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
"""What breaks somebody who reads by the promised columns. Widening does not, as in the registry."""
SHOWN: Final = 5


class PromisedColumns(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    columns: tuple[SchemaColumn, ...]
    excused: tuple[str, ...] = ()
    """Columns whose changes somebody has accepted for this version of the contract."""
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
    """The columns as readers see them: with those of the partition that files need not have."""
    names = {each.name.lower() for each in columns}
    added = [name for name in dimensions if name.lower() not in names]
    return (*columns, *(SchemaColumn(name=name, nullable=None) for name in added))


def broken(promised: PromisedColumns, columns: Sequence[SchemaColumn]) -> list[SchemaChange]:
    """The changes by which columns are not what is promised, in the order of the promise."""
    old = [msgspec.structs.replace(each, nullable=None) for each in promised.columns]
    # A promise without a type is kept by any; a column without one has to be seen first.
    changes = compare(old, columns, "backward", promised.renames).changes
    return [each for each in changes if each.kind in BREAKS and each.column not in promised.excused]


def promise_changes(
    old: Sequence[ColumnDef], new: Sequence[ColumnDef], renames: Mapping[str, str]
) -> tuple[SchemaChange, ...]:
    """What differs in the columns of a contract that comes after another."""
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
