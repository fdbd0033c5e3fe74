"""Rows of some files of a table, together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from arco.log.manifest import FileRef
from arco.state.lookup import slices
from arco.state.parquet import Files
from arco.state.sorted_rows import latest
from arco.state.table import Key, Table
from arco.storage.parallel import each

ShardRange = tuple[str, str] | None
"""Only files that may hold a shard key of this range are opened; their other rows are included."""


def newest_versions(
    files: Files, table: Table[Any], refs: Sequence[FileRef]
) -> dict[Key, tuple[int, bool]]:
    """By key, the newest version in some files, and whether that is a deletion."""
    columns = [*table.key, "row_version", "_deleted", "_bucket"]
    parts = [files.table(table, ref).select(columns) for ref in refs]
    if not parts:
        return {}
    rows = latest(parts, table.key, keep_deleted=True)
    keys = zip(*(rows.column(name).to_pylist() for name in table.key), strict=True)
    versions = rows.column("row_version").to_pylist(), rows.column("_deleted").to_pylist()
    return dict(zip(keys, zip(*versions, strict=True), strict=True))


def may_hold(ref: FileRef, between: ShardRange) -> bool:
    return between is None or (ref.shard[0] <= between[1] and between[0] <= ref.shard[1])


def rows_of_files(files: Files, table: Table[Any], refs: Sequence[FileRef], shard: Key) -> pa.Table:
    parts = list(slices(files, refs, table, shard) if shard else _whole(files, table, refs))
    if not parts:
        return table.schema.empty_table()
    return latest(parts, table.key, keep_deleted=False)


def _whole(files: Files, table: Table[Any], refs: Sequence[FileRef]) -> Iterator[pa.RecordBatch]:
    for batches in each(files.store, lambda ref: files.batches(table, ref), refs):
        yield from batches
