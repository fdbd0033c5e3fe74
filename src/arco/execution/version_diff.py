"""How two versions differ: their columns, and by key their rows. This module decides what to
compare; DuckDB (`duck_diff.py`) or Spark (`arco/spark/compare.py`) compares it.

Rows are matched by key columns, null with null. A value has changed if it is not the same, where
null is the same as null and NaN as NaN. Columns of different numeric types are compared as
numbers; others whose type has changed, and maps, are not compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from arco.errors import Invalid
from servo.contract.task import ColumnInfo
from servo.suggest import did_you_mean

MASK: Final = "***"
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")

ColumnDifferenceKind = Literal["added", "removed", "type", "statistics", "same"]
RowDifference = Literal["added", "removed", "changed"]


class ColumnChange(Struct, frozen=True, kw_only=True):
    name: str
    change: ColumnDifferenceKind
    before: ColumnInfo | None = None
    after: ColumnInfo | None = None


class RowChange(Struct, frozen=True, kw_only=True):
    """An example. Values are texts; null stays null."""

    change: RowDifference
    key: dict[str, str | None]
    before: dict[str, str | None] = {}
    """Of a changed row, the columns that differ; of another, all."""
    after: dict[str, str | None] = {}


class KeyChanges(Struct, frozen=True, kw_only=True):
    key: tuple[str, ...]
    engine: str
    added: int
    removed: int
    changed: int
    same: int
    columns: dict[str, int]
    """In how many rows a column has changed; only those that have."""
    not_compared: tuple[str, ...]
    examples: tuple[RowChange, ...]


class MatchedColumn(NamedTuple):
    name: str
    before: str
    """As each version spells it."""
    after: str


class DiffColumns(NamedTuple):
    """What is compared by key."""

    keys: list[MatchedColumn]
    values: list[MatchedColumn]
    not_compared: tuple[str, ...]


class DiffCounts(NamedTuple):
    added: int
    removed: int
    changed: int
    same: int
    by_column: Sequence[int]


class DuplicateKeys(NamedTuple):
    version: Literal["first", "second"]
    values: int


def column_changes(before: Sequence[ColumnInfo], after: Sequence[ColumnInfo]) -> list[ColumnChange]:
    """Columns in the order of the second version; those that were removed come last."""
    old = {column.name.lower(): column for column in before}
    changes = [_change(old.pop(column.name.lower(), None), column) for column in after]
    removed = (
        ColumnChange(name=column.name, change="removed", before=column) for column in old.values()
    )
    return [*changes, *removed]


def _change(before: ColumnInfo | None, after: ColumnInfo) -> ColumnChange:
    change: ColumnDifferenceKind = "same"
    if before is None:
        change = "added"
    elif before.type != after.type or before.nullable != after.nullable:
        change = "type"
    elif (before.nulls, before.min, before.max) != (after.nulls, after.min, after.max):
        change = "statistics"
    return ColumnChange(name=after.name, change=change, before=before, after=after)


def diff_columns(
    before: Sequence[ColumnInfo], after: Sequence[ColumnInfo], key: Sequence[str]
) -> DiffColumns:
    """Invalid where a key column is missing, or cannot be compared."""
    old = {column.name.lower(): column for column in before}
    new = {column.name.lower(): column for column in after}
    keys = [_key_column(old, new, name) for name in _names(key, {*old} & {*new})]
    names = {column.name.lower() for column in keys}
    values: list[MatchedColumn] = []
    left: list[MatchedColumn] = []
    for column in after:
        other = old.get(column.name.lower())
        if other is None or column.name.lower() in names:
            continue
        matched = MatchedColumn(column.name, other.name, column.name)
        (values if _is_comparable(other.type, column.type) else left).append(matched)
    return DiffColumns(keys, values, tuple(column.name for column in left))


def _names(key: Sequence[str], existing: Collection[str]) -> list[str]:
    """A name may have a comma in it."""
    names = (
        name.strip()
        for text in key
        for name in ([text] if text.lower() in existing else text.split(","))
    )
    return list(dict.fromkeys(names))


def _key_column(
    old: Mapping[str, ColumnInfo], new: Mapping[str, ColumnInfo], name: str
) -> MatchedColumn:
    before, after = old.get(name.lower()), new.get(name.lower())
    if before is None or after is None:
        lacking = "neither version has" if before is after else "one of the versions lacks"
        names = [column.name for column in new.values()]
        hint = did_you_mean(name, names) or f"columns: {', '.join(names)}"
        raise Invalid(f"{lacking} the key column {name!r}", hint=hint)
    if not _is_comparable(before.type, after.type):
        raise Invalid(
            f"the key column {name!r} is {before.type} in one version, {after.type} in the other",
            hint="choose a key of types that can be compared",
        )
    return MatchedColumn(after.name, before.name, after.name)


def _is_comparable(before: str, after: str) -> bool:
    if "map<" in before or "map<" in after:
        return False
    return before == after or (before.startswith(_NUMBERS) and after.startswith(_NUMBERS))


def duplicates_refused(duplicates: DuplicateKeys, columns: DiffColumns) -> Invalid:
    key = ", ".join(column.name for column in columns.keys)
    return Invalid(
        f"{key} is not unique in the {duplicates.version} version: {duplicates.values:,} values "
        "occur more than once",
        hint="give more columns with --key",
    )


def example_of(
    change: RowDifference,
    columns: DiffColumns,
    values: tuple[Sequence[str | None], Sequence[str | None], Sequence[str | None]],
    differs: Sequence[bool],
    hidden: Collection[str],
) -> RowChange:
    """From the texts of the key, the values before and those after."""
    key, before, after = values
    chosen = [at for at in range(len(columns.values)) if change != "changed" or differs[at]]

    def texts(of: Sequence[str | None]) -> dict[str, str | None]:
        named = ((columns.values[at].name, of[at]) for at in chosen)
        return {name: _masked(name, value, hidden) for name, value in named}

    keys = (column.name for column in columns.keys)
    return RowChange(
        change=change,
        key={name: _masked(name, value, hidden) for name, value in zip(keys, key, strict=True)},
        before={} if change == "added" else texts(before),
        after={} if change == "removed" else texts(after),
    )


def _masked(name: str, value: str | None, hidden: Collection[str]) -> str | None:
    return MASK if value is not None and name.lower() in hidden else value
