"""Searches and merges record batches in file order."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.state.arrow_columns import Texts, values_of
from arco.state.table import Key


def bucket_range(batch: pa.RecordBatch, bucket: int) -> tuple[int, int]:
    """Where the rows of one bucket begin and end."""
    buckets = values_of(batch.column("_bucket"))
    start = bisect.bisect_left(buckets, bucket)
    return start, bisect.bisect_right(buckets, bucket, start)


def bucket_slice(batch: pa.RecordBatch, bucket: int) -> pa.RecordBatch:
    """The rows of one bucket, without copying."""
    start, end = bucket_range(batch, bucket)
    return batch.slice(start, end - start)


def find(batch: pa.RecordBatch, bucket: int, key_columns: Sequence[str], key: Key) -> int:
    """The index of a key of a bucket, or -1."""
    start, end = prefix_range(batch, key_columns, key, bucket_range(batch, bucket))
    return start if start < end else -1


def prefix_range(
    batch: pa.RecordBatch,
    key_columns: Sequence[str],
    prefix: Key,
    within: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """Where the rows whose key starts with `prefix` begin and end.

    `within` is where the rows of one bucket do; without it, all are of one.
    """
    start, end = within or (0, batch.num_rows)
    for name, value in zip(key_columns, prefix, strict=False):
        column = values_of(batch.column(name))
        if isinstance(column, Texts):
            start = column.first(value, start, end)
        else:
            start = bisect.bisect_left(column, value, start, end)
        end = _end_of(value, column, start, end)
    return start, end


def shard_slices(
    batch: pa.RecordBatch, key_columns: Sequence[str], shards: Iterable[Key] | None
) -> Iterator[pa.RecordBatch]:
    """The rows of shard keys in a slice of one bucket, without copying; None: all rows."""
    if shards is None:
        yield batch
        return
    for shard in shards:
        start, end = prefix_range(batch, key_columns, shard)
        yield batch.slice(start, end - start)


def _end_of(value: Any, column: Sequence[Any], start: int, end: int) -> int:
    """The end of the equal values that begin at `start`.

    Most ranges are short: the search begins near the start.
    """
    step = 1
    while start + step <= end and column[start + step - 1] == value:
        start += step
        step *= 2
    return bisect.bisect_right(column, value, start, min(start + step - 1, end))


def latest(
    tables: Sequence[pa.Table | pa.RecordBatch], key_columns: Sequence[str], *, keep_deleted: bool
) -> pa.Table:
    """For each key the row with the greatest version, in file order."""
    parts = [pa.Table.from_batches([t]) if isinstance(t, pa.RecordBatch) else t for t in tables]
    merged = pa.concat_tables(parts, promote_options="default")
    if len(parts) == 1:
        result = merged if keep_deleted else merged.filter(pc.invert(merged.column("_deleted")))
        return result.combine_chunks()
    # Rows are copied once, when it is known which of them stay.
    return merged.take(_newest(merged, key_columns, keep_deleted)).combine_chunks()


def _newest(merged: pa.Table, key_columns: Sequence[str], keep_deleted: bool) -> pa.Array:
    """The indexes of the rows that stay, in file order."""
    order: list[tuple[str, Any]] = [("_bucket", "ascending")]
    order += [(c, "ascending") for c in key_columns]
    indices = pc.sort_indices(merged, sort_keys=[*order, ("row_version", "descending")])
    if len(indices) == 0:
        return indices
    same = None
    for name in key_columns:
        column = one_chunk(merged.column(name).take(indices))
        equal = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
        same = equal if same is None else pc.and_(same, equal)
    stays = pa.concat_arrays([pa.array([True]), one_chunk(pc.invert(same))])
    if not keep_deleted:
        deleted = one_chunk(merged.column("_deleted").take(indices))
        stays = pc.and_(stays, pc.invert(deleted))
    return indices.filter(stays)


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    if not column.num_chunks:  # of a table without rows
        return pa.array([], column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
