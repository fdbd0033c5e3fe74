"""One row of a table, from its files: only the row groups that may hold its key are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from arco.log.manifest import FileRef
from arco.state.parquet import Files
from arco.state.sorted_rows import bucket_range, find, prefix_range
from arco.state.table import Key, Row, Table, Versioned

R = TypeVar("R", bound=Row)

MANY = 8
"""For more keys, the hashes of all keys of a file take less time than single lookups."""


def look_up(
    files: Files,
    recent: Iterable[FileRef],
    table: Table[R],
    key: Key,
    history: Callable[[int], Iterable[FileRef]] = lambda version: (),
) -> Versioned[R]:
    """The newest version of a row; (0, None) if it never existed.

    Files with newer rows come first, and a file that cannot have a newer version of the row than
    the best so far is left unread. `history` returns the history files with something newer than a
    version; it is called last.
    """
    best = _newest(files, recent, table, key, (0, None))
    return _newest(files, history(best[0]), table, key, best)


def look_up_many(
    files: Files, refs: Iterable[FileRef], table: Table[R], keys: Sequence[Key]
) -> dict[Key, Versioned[R]]:
    """The newest versions of those rows that are, or were, in one of the files.

    Each file is checked once for all keys that it may hold: the cost of a key does not depend on
    the number of rows.
    """
    if len(keys) < MANY:
        versions = ((key, _newest(files, refs, table, key, (0, None))) for key in keys)
        return {key: versioned for key, versioned in versions if versioned[0]}
    places = sorted([(table.bucket(key), key) for key in keys])
    newest: dict[Key, Versioned[R]] = {}
    for ref in sorted(refs, key=lambda ref: -ref.versions[1]):
        (low, high), (first, last) = ref.buckets, ref.shard
        within = [key for at, key in places if low <= at <= high]
        within = [key for key in within if first <= table.shard_text(key) <= last]
        if within:
            may_hold = files.key_hashes(table, ref).may_hold
            for key in filter(may_hold, within):  # in file order: a row group is read once
                best = _newest(files, (ref,), table, key, newest.get(key, (0, None)))
                if best[0]:
                    newest[key] = best
    return newest


def _newest(
    files: Files, refs: Iterable[FileRef], table: Table[R], key: Key, best: Versioned[R]
) -> Versioned[R]:
    bucket, shard = table.bucket(key), table.shard_text(key)
    candidates = [
        ref
        for ref in refs
        if ref.shard[0] <= shard <= ref.shard[1] and ref.buckets[0] <= bucket <= ref.buckets[1]
    ]
    if len(candidates) > 1:
        candidates.sort(key=lambda ref: -ref.versions[1])
    for ref in candidates:
        if ref.versions[1] <= best[0]:
            break
        for batch in files.batches(table, ref, bucket, key):
            at = find(batch, bucket, table.key, key)
            if at >= 0 and (version := batch.column("row_version")[at].as_py()) > best[0]:
                deleted = batch.column("_deleted")[at].as_py()
                best = (version, None if deleted else table.row_at(batch, at))
    return best


def slices(
    files: Files, refs: Iterable[FileRef], table: Table[R], key: Key
) -> Iterator[pa.RecordBatch]:
    """The rows whose keys start with `key`, a shard key or more: of each file, in its order."""
    shard = table.shard_text(key)
    if table.spread > 1 and len(key) == table.shard:
        for ref in refs:
            if ref.shard[0] <= shard <= ref.shard[1]:
                yield from _of_spread_shard(files, ref, table, key)
        return
    (bucket,) = table.buckets(key)
    for ref in refs:
        if not (
            ref.buckets[0] <= bucket <= ref.buckets[1] and ref.shard[0] <= shard <= ref.shard[1]
        ):
            continue
        for batch in files.batches(table, ref, bucket, key):
            start, end = prefix_range(batch, table.key, key, bucket_range(batch, bucket))
            if end > start:
                yield batch.slice(start, end - start)


def _of_spread_shard(
    files: Files, ref: FileRef, table: Table[Any], shard: Key
) -> Iterator[pa.RecordBatch]:
    """The rows of a shard key in a file, and no others, in file order."""
    buckets = [b for b in table.buckets(shard) if ref.buckets[0] <= b <= ref.buckets[1]]
    if not buckets:
        return
    for batch in files.shard_batches(table, ref, shard, buckets):
        # Comparing a whole column takes less than a search in each of the buckets.
        for name, value in zip(table.key, shard, strict=False):
            batch = batch.filter(pc.equal(batch.column(name), value))
        if batch.num_rows:
            yield batch
