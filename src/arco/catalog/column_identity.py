"""Matches the columns of two schemas: by name, by a rename, or by a former name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from arco.catalog.column_rows import column_id
from arco.catalog.schema_tables import (
    COLUMN_RENAMES,
    ColumnRenameRow,
    SchemaVersionRow,
)
from arco.catalog.tables import ColumnRow
from arco.columns.compatibility import RenameKind, matched
from arco.columns.schema_columns import (
    SchemaColumn,
)
from arco.state.fold import Fact, Rows

replace = msgspec.structs.replace


class ColumnRename(msgspec.Struct, frozen=True):
    column_id: str
    old: str
    new: str
    kind: RenameKind


def governed_renames(columns: Iterable[SchemaColumn], rows: Iterable[ColumnRow]) -> dict[str, str]:
    """New names by old ones, for the governed renames of a version's columns.

    A classified column is mapped to its own name, so that its classification is not inferred for
    another column in its place.
    """
    by_id = {row.column_id: row for row in rows}
    renames: dict[str, str] = {}
    for each in columns:
        row = by_id.get(each.column_id)
        if row is None:
            continue
        new = row.renaming_to or row.name
        if new != each.name or row.pii or row.sensitivity:
            renames[each.name] = new
    return renames


def renames_between(old: Iterable[SchemaColumn], new: Iterable[SchemaColumn]) -> dict[str, str]:
    """New names by old ones, of columns with the same id."""
    names = {each.column_id: each.name for each in new}
    return {each.name: names[each.column_id] for each in old if each.column_id in names}


def identified(
    rows: Rows,
    fact: Fact,
    before: SchemaVersionRow | None,
    columns: Sequence[SchemaColumn],
    existing: Sequence[ColumnRow],
    asset_id: str,
) -> tuple[tuple[SchemaColumn, ...], list[ColumnRename]]:
    """The columns with their ids: those of the version before, those that they had, or new ones."""
    old = () if before is None else before.decoded_columns()
    governed = governed_renames(old, existing)
    matching = matched(old, columns, governed)
    ids = {pair.new.name: pair.old.column_id for pair in matching.pairs}
    renames = [
        ColumnRename(pair.old.column_id, pair.old.name, pair.new.name, pair.rename)
        for pair in matching.pairs
        if pair.rename is not None
    ]
    former = _former_names(rows, asset_id, existing) if matching.added else {}
    used = set(ids.values())
    for ordinal, each in enumerate(columns):
        if each.name in ids:
            continue
        id = former.get(each.name, "")
        ids[each.name] = id if id and id not in used else column_id(fact.id, ordinal)
        used.add(ids[each.name])
    return tuple(replace(each, column_id=ids[each.name]) for each in columns), renames


def _former_names(rows: Rows, asset_id: str, existing: Sequence[ColumnRow]) -> dict[str, str]:
    """Ids by name; of two columns with one name the active one, then one that has it now."""
    former = {row.old_name: row.column_id for row in rows.scan(COLUMN_RENAMES, asset_id)}
    for status in ("Inactive", "Active"):
        former |= {row.name: row.column_id for row in existing if row.status == status}
    return former


def rename_rows(
    rows: Rows, fact: Fact, asset_id: str, renames: Iterable[ColumnRename], version: int
) -> Iterator[ColumnRenameRow]:
    for rename in renames:
        earlier = renames_of(rows, asset_id, rename.column_id)
        last = earlier[-1] if earlier else None
        if last is not None and last.new_name == rename.new and not last.changed_in_version:
            # A governed rename.
            yield replace(last, changed_in_version=version, in_data_at=fact.received_at)
        elif last is None or (last.old_name, last.new_name) != (rename.old, rename.new):
            row = rename_row(fact, asset_id, rename, len(earlier), version)
            yield replace(row, in_data_at=fact.received_at)


def renames_out(
    rows: Rows, fact: Fact, asset_id: str, columns: Sequence[SchemaColumn], version: int
) -> Iterator[ColumnRenameRow]:
    """The renames that waited for an output with a version that was declared before."""
    newest = {row.column_id: row for row in rows.scan(COLUMN_RENAMES, asset_id)}
    for column in columns:
        row = newest.get(column.column_id)
        if row is not None and row.new_name == column.name and not row.changed_in_version:
            yield replace(row, changed_in_version=version, in_data_at=fact.received_at)


def renames_of(rows: Rows, asset_id: str, column: str) -> list[ColumnRenameRow]:
    return [row for row in rows.scan(COLUMN_RENAMES, asset_id) if row.column_id == column]


def rename_row(
    fact: Fact, asset_id: str, rename: ColumnRename, number: int, version: int, reason: str = ""
) -> ColumnRenameRow:
    return ColumnRenameRow(
        asset_id=asset_id,
        column_id=rename.column_id,
        number=number,
        old_name=rename.old,
        new_name=rename.new,
        changed_in_version=version,
        change_type=rename.kind,
        reason=reason,
        renamed_by=fact.actor,
        renamed_at=fact.received_at,
    )
