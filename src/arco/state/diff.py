"""The differences between two states of a table, and between two snapshots."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from arco.state.snapshot import Snapshot
from arco.state.table import Key, Row, Table

KeyedRows = dict[Key, tuple[int, Row]]

LOOK_UPS: Final = 2_000
"""Up to this many rows are looked up one by one; more are read by a scan."""


class RowDiff(NamedTuple):
    """Keys of rows that were added, removed or changed."""

    table: Table[Any]
    before: KeyedRows
    after: KeyedRows
    added: list[Key]
    removed: list[Key]
    changed: list[Key]

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed)


def diff_rows(table: Table[Any], before: pa.Table, after: pa.Table, *, versions: bool) -> RowDiff:
    """Compare live rows (from `scan`); with or without their versions."""
    if not before.num_rows and not after.num_rows:
        return RowDiff(table, {}, {}, [], [], [])
    columns = [*table.columns, "row_version"] if versions else list(table.columns)
    a, b = _comparable(before, table, columns), _comparable(after, table, columns)
    if a.equals(b):
        return RowDiff(table, {}, {}, [], [], [])
    left, right = _by_key(table, before), _by_key(table, after)
    changed = [
        key
        for key in left.keys() & right.keys()
        if left[key][1] != right[key][1] or (versions and left[key][0] != right[key][0])
    ]
    return RowDiff(
        table,
        left,
        right,
        sorted(right.keys() - left.keys()),
        sorted(left.keys() - right.keys()),
        sorted(changed),
    )


def diff(before: Snapshot, after: Snapshot, tables: Sequence[Table[Any]]) -> list[RowDiff]:
    """The tables that differ between two generations."""
    differences = (diff_table(before, after, table) for table in tables)
    return [each for each in differences if not each.same]


def diff_table(before: Snapshot, after: Snapshot, table: Table[Any]) -> RowDiff:
    """The rows of a table that differ between two generations.

    Keys of rows that may differ are looked up in both generations.
    """
    keys = after.changed_keys(before, table)
    old, new = _rows_at(before, table, keys), _rows_at(after, table, keys)
    changed = [key for key in old.keys() & new.keys() if old[key][1] != new[key][1]]
    return RowDiff(
        table,
        old,
        new,
        sorted(new.keys() - old.keys()),
        sorted(old.keys() - new.keys()),
        sorted(changed),
    )


def _rows_at(snapshot: Snapshot, table: Table[Any], keys: Collection[Key]) -> KeyedRows:
    """Those of some keys that a generation has."""
    if len(keys) <= LOOK_UPS:
        versions = {key: snapshot.versioned(table, key) for key in keys}
        return {key: (at, row) for key, (at, row) in versions.items() if row is not None}
    rows = snapshot.scan(table)
    for number, name in enumerate(table.key):
        values = pa.array({key[number] for key in keys}, table.schema.field(name).type)
        rows = rows.filter(pc.is_in(rows.column(name), values))
    return {key: row for key, row in _by_key(table, rows).items() if key in keys}


def _by_key(table: Table[Any], rows: pa.Table) -> KeyedRows:
    versions = rows.column("row_version").to_pylist()
    pairs = zip(versions, table.rows_of(rows), strict=True)
    return {table.key_of(row): (version, row) for version, row in pairs}


def _comparable(rows: pa.Table, table: Table[Any], columns: list[str]) -> pa.Table:
    for name in columns:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, table.schema.field(name).type))
    schema = pa.schema([table.schema.field(name) for name in columns])
    return rows.select(columns).cast(schema).combine_chunks()
