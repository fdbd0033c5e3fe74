"""One row of a table, from its files: only the row groups that may hold its key are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from arco.log.manifest import FileRef
from arco.state.parquet import Files
from arco.state.runs import bucket_slice, find
from arco.state.table import Key, Row, Table, Versioned

R = TypeVar("R", bound=Row)


def look_up(files: Files, refs: Iterable[FileRef], table: Table[R], key: Key) -> Versioned[R]:
    """The newest version of a row; (0, None) if it never was."""
    best: Versioned[R] = (0, None)
    for batch in slices(files, refs, table, key):
        at = find(batch, table.key, key)
        if at >= 0 and (version := batch.column("row_version")[at].as_py()) > best[0]:
            deleted = batch.column("_deleted")[at].as_py()
            best = (version, None if deleted else table.row_at(batch, at))
    return best


def slices(
    files: Files, refs: Iterable[FileRef], table: Table[R], key: Key
) -> Iterator[pa.RecordBatch]:
    """The rows of a key's bucket, from the row groups that may hold the key, or a part of it."""
    bucket, shard = table.bucket(key), table.shard_text(key)
    for ref in refs:
        low, high = ref.shard
        if ref.buckets[0] <= bucket <= ref.buckets[1] and low <= shard <= high:
            for batch in files.batches(ref, bucket, key):
                yield bucket_slice(batch, bucket)
