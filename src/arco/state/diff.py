"""What is different between two states of a table, and between two snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from arco.state.snapshot import Snapshot
from arco.state.table import Key, Row, Table

Rows = dict[Key, tuple[int, Row]]


class RowDiff(NamedTuple):
    """Keys by what happened to their rows on the way from one state to the other."""

    table: Table[Any]
    before: Rows
    after: Rows
    added: list[Key]
    removed: list[Key]
    changed: list[Key]

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed)


def diff_rows(table: Table[Any], before: pa.Table, after: pa.Table, *, versions: bool) -> RowDiff:
    """Compare live rows (as `scan` gives them); with their versions, or what they say only."""
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
    """The tables that differ between two generations. Tables with the same files are not read."""
    diffs = []
    for table in tables:
        a, b = before.manifest(table), after.manifest(table)
        if {ref.path for ref in a.files()} == {ref.path for ref in b.files()}:
            continue
        difference = diff_rows(table, before.scan(table), after.scan(table), versions=False)
        if not difference.same:
            diffs.append(difference)
    return diffs


def _by_key(table: Table[Any], rows: pa.Table) -> Rows:
    versions = rows.column("row_version").to_pylist()
    pairs = zip(versions, table.rows_of(rows), strict=True)
    return {table.key_of(row): (version, row) for version, row in pairs}


def _comparable(rows: pa.Table, table: Table[Any], columns: list[str]) -> pa.Table:
    for name in columns:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, table.schema.field(name).type))
    schema = pa.schema([table.schema.field(name) for name in columns])
    return rows.select(columns).cast(schema).combine_chunks()
