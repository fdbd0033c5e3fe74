"""Table files: Parquet with a reference that verifies every byte that is read.

A small file is fetched whole and checked against its SHA-256. Of a larger one
only the footer (checked against a SHA-256 of its own) and the row groups that a
question needs are fetched; their pages carry checksums, which are verified too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.errors import Corrupt, Invalid, NotFound
from arco.log.manifest import ChangesRef, FileRef, sha256, verified
from arco.state import changes
from arco.state.table import Key, Table, Versioned, shard_text
from arco.storage.partial_file import PartialFile
from arco.storage.port import Store
from arco.storage.seal import read_checked

T = TypeVar("T")

ROWS_PER_GROUP = 16_384
SMALL_CELLS = 4_096
"""Below this, making ready to compress each column takes longer than all the rest."""
COLUMN_BYTES = 1_500
"""What a column of a batch costs in memory besides its values, as measured: its field, its
array, its buffers and what they waste by alignment."""
FOOTERS = 1_024
"""How many footers of large files are kept."""
WHOLE_FILE_BYTES = 256 << 10
"""Up to this size one request for the whole file is cheaper than two for parts of it."""


def encode(
    table: pa.Table,
    path: str,
    *,
    key: Sequence[str],
    shard: int,
    now: datetime,
    days: tuple[date, date] | None = None,
) -> tuple[bytes, FileRef]:
    """A table in file order as Parquet, with its reference."""
    sink = pa.BufferOutputStream()
    small = table.num_rows * table.num_columns < SMALL_CELLS
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="none" if small else "zstd",
        compression_level=None if small else 1,
        use_dictionary=False,  # zstd finds what repeats, in less time and space
        write_statistics=[*key, "row_version", "_bucket"],
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for rows in whole_buckets(table, ROWS_PER_GROUP):
            writer.write_table(rows, row_group_size=ROWS_PER_GROUP)
    raw = sink.getvalue().to_pybytes()
    footer = int.from_bytes(raw[-8:-4], "little") + 8
    versions = pc.min_max(table.column("row_version")).as_py()
    buckets = pc.min_max(table.column("_bucket")).as_py()
    ref = FileRef(
        path=path,
        rows=table.num_rows,
        bytes=len(raw),
        sha256=sha256(raw),
        footer_bytes=footer,
        footer_sha256=sha256(raw[-footer:]),
        buckets=(buckets["min"], buckets["max"]),
        shard=_shard_range(table, key[:shard]),
        versions=(versions["min"], versions["max"]),
        created_at=now,
        days=days,
    )
    return raw, ref


def whole_buckets(table: pa.Table, most_rows: int) -> Iterator[pa.Table]:
    """Parts of up to so many rows, or of one bucket: a look-up reads one of them."""
    if table.num_rows <= most_rows:
        yield table
        return
    start = size = 0
    for entry in pc.value_counts(table.column("_bucket")).to_pylist():
        if size and size + entry["counts"] > most_rows:
            yield table.slice(start, size)
            start, size = start + size, 0
        size += entry["counts"]
    yield table.slice(start, size)


def _shard_range(table: pa.Table, shard: Sequence[str]) -> tuple[str, str]:
    if len(shard) == 1 and table.schema.field(shard[0]).type == pa.string():
        bounds = pc.min_max(table.column(shard[0])).as_py()
        return bounds["min"], bounds["max"]
    texts = [shard_text(p) for p in zip(*(table.column(c).to_pylist() for c in shard), strict=True)]
    return min(texts), max(texts)


class Group(NamedTuple):
    """One row group: which rows it may hold, and where its bytes are."""

    buckets: tuple[int, int]
    keys: tuple[tuple[Any, Any], ...]
    start: int
    length: int

    def may_hold(self, bucket: int, key: Key | None) -> bool:
        if not self.buckets[0] <= bucket <= self.buckets[1]:
            return False
        if key is None or self.buckets[0] != self.buckets[1]:
            return True
        # zip stops at the shorter one: a prefix of the key will do
        return all(low <= v <= high for v, (low, high) in zip(key, self.keys, strict=False))


class _Footer(NamedTuple):
    metadata: pq.FileMetaData
    groups: tuple[Group, ...]


class Files:
    """Reads table files, and keeps what it read: they never change. Bounded by real bytes."""

    def __init__(self, store: Store, *, budget_bytes: int = 32 << 20) -> None:
        self.store = store
        self._budget = budget_bytes
        self._used = 0
        self._batches: OrderedDict[tuple[str, int], pa.RecordBatch] = OrderedDict()
        self._footers: OrderedDict[str, _Footer] = OrderedDict()
        self._lock = threading.Lock()

    def batches(
        self, table: Table[Any], ref: FileRef, bucket: int | None = None, key: Key | None = None
    ) -> list[pa.RecordBatch]:
        """The row groups of a file that may hold a bucket (and a key in it), or all."""
        if ref.table:
            if bucket is not None and not ref.buckets[0] <= bucket <= ref.buckets[1]:
                return []
            return [self._changed(table, ref)]
        if ref.bytes <= WHOLE_FILE_BYTES:
            if bucket is not None and not ref.buckets[0] <= bucket <= ref.buckets[1]:
                return []
            return [self._cached((ref.path, -1), lambda: decode(self.raw(ref), ref))]
        footer = self._footer(ref)
        groups = [
            i
            for i, group in enumerate(footer.groups)
            if bucket is None or group.may_hold(bucket, key)
        ]
        return [self._group(ref, footer, i) for i in groups]

    def spans_groups(self, ref: FileRef, bucket: int) -> bool:
        """Whether one bucket of a file takes more than one row group."""
        if (
            ref.table
            or ref.bytes <= WHOLE_FILE_BYTES
            or not ref.buckets[0] <= bucket <= ref.buckets[1]
        ):
            return False
        groups = self._footer(ref).groups
        return sum(group.may_hold(bucket, None) for group in groups) > 1

    def table(self, table: Table[Any], ref: FileRef) -> pa.Table:
        """All rows of a table in a file, verified, without filling the cache."""
        if ref.table:
            return changes.rows_of(self._changes(ref), table, ref)
        return decode(self.raw(ref), ref)

    def changed_rows(self, table: Table[Any], ref: FileRef) -> dict[Key, Versioned[Any]]:
        """All rows of a table in a change file, by key."""
        return changes.versioned_rows(self._changes(ref), table, ref)

    def written(self, ref: ChangesRef, raw: bytes) -> None:
        """Keep a change file that this process has just written."""
        self._keep((ref.path, -1), pa.Table.from_batches([changes.parse(raw, ref.path)]))

    def _changes(self, ref: FileRef) -> pa.RecordBatch:
        def read() -> pa.Table:
            return pa.Table.from_batches([changes.parse(self.raw(ref), ref.path)])

        return self._cached((ref.path, -1), read)

    def _changed(self, table: Table[Any], ref: FileRef) -> pa.RecordBatch:
        """The rows of one table in a change file."""
        at = (f"{ref.path}#{ref.table}", -1)
        return self._cached(at, lambda: changes.rows_of(self._changes(ref), table, ref))

    def raw(self, ref: FileRef) -> bytes:
        """The bytes of a file, verified."""
        try:
            return read_checked(
                self.store, ref.path, lambda raw: verified(raw, ref.sha256, ref.path)
            )
        except NotFound:
            raise _missing(ref) from None

    def _group(self, ref: FileRef, footer: _Footer, i: int) -> pa.RecordBatch:
        def read() -> pa.Table:
            group = footer.groups[i]
            raw = self._range(ref, group.start, group.length)
            source = pa.PythonFile(_FetchedRange(ref.bytes, group.start, raw), mode="r")
            return _read(source, ref, footer.metadata, [i])

        return self._cached((ref.path, i), lambda: self._twice(read))

    def _cached(self, at: tuple[str, int], read: Callable[[], pa.Table]) -> pa.RecordBatch:
        with self._lock:
            if (batch := self._batches.get(at)) is not None:
                self._batches.move_to_end(at)
                return batch
        return self._keep(at, read())

    def _keep(self, at: tuple[str, int], table: pa.Table) -> pa.RecordBatch:
        batch = one_batch(table)
        with self._lock:
            if at not in self._batches:
                self._batches[at] = batch
                self._used += real_bytes(batch)
            while self._used > self._budget and len(self._batches) > 1:
                _, dropped = self._batches.popitem(last=False)
                self._used -= real_bytes(dropped)
        return batch

    def _range(self, ref: FileRef, start: int, length: int) -> bytes:
        try:
            return self.store.get_range(ref.path, start, length)
        except NotFound:
            raise _missing(ref) from None
        except Invalid:
            raise Corrupt(f"{ref.path} is shorter than {ref.bytes} bytes") from None

    def _read_footer(self, ref: FileRef) -> bytes:
        raw = self._range(ref, ref.bytes - ref.footer_bytes, ref.footer_bytes)
        return verified(raw, ref.footer_sha256, ref.path)

    def _twice(self, read: Callable[[], T]) -> T:
        """A part of a file; read once more if it is damaged, since the connection may be."""
        try:
            return read()
        except Corrupt:
            return read()

    def _footer(self, ref: FileRef) -> _Footer:
        with self._lock:
            cached = self._footers.get(ref.path)
        if cached is not None:
            return cached
        raw = self._twice(lambda: self._read_footer(ref))
        # A footer alone will do: nothing else is looked at before a row group is read.
        metadata = pq.read_metadata(pa.BufferReader(raw))
        footer = _Footer(metadata, _groups(metadata))
        with self._lock:
            self._footers[ref.path] = footer
            while len(self._footers) > FOOTERS:
                self._footers.popitem(last=False)
        return footer


def decode(raw: bytes, ref: FileRef) -> pa.Table:
    """The rows of a file, from its bytes."""
    return _read(pa.BufferReader(raw), ref)


def _missing(ref: FileRef) -> Corrupt:
    return Corrupt(
        f"{ref.path} is missing",
        hint="the generation may have been collected: open a newer one; else run fsck",
    )


def real_bytes(batch: pa.RecordBatch) -> int:
    """What a batch costs in memory: for the small files of single commits more than its values."""
    return int(batch.nbytes + COLUMN_BYTES * batch.num_columns)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise Invalid(f"{table.nbytes} bytes do not fit into one batch", hint="use larger shards")
    if batches:
        return batches[0]
    return pa.RecordBatch.from_pylist([], schema=table.schema)


def _read(
    source: Any, ref: FileRef, metadata: Any = None, groups: list[int] | None = None
) -> pa.Table:
    try:
        file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
        return file.read() if groups is None else file.read_row_groups(groups)
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(f"{ref.path} cannot be read: {error}", hint="run fsck") from None


def _groups(metadata: pq.FileMetaData) -> tuple[Group, ...]:
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    bucket = names.index("_bucket")
    groups = []
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        columns = [group.column(c) for c in range(group.num_columns)]
        starts = [c.dictionary_page_offset or c.data_page_offset for c in columns]
        start = min(starts)
        end = max(s + c.total_compressed_size for s, c in zip(starts, columns, strict=True))
        stats = [c.statistics for c in columns]
        keys = []
        for s in stats[:bucket]:
            if s is None or not s.has_min_max:
                break  # statistics are written for the key alone, and the key comes first
            keys.append((s.min, s.max))
        low, high = stats[bucket].min, stats[bucket].max
        groups.append(Group((low, high), tuple(keys), start, end - start))
    return tuple(groups)


class _FetchedRange(PartialFile):
    """A file of which only one range of bytes is at hand."""

    def __init__(self, size: int, start: int, data: bytes) -> None:
        super().__init__(size)
        self._start = start
        self._data = data

    def bytes_between(self, start: int, end: int) -> bytes:
        first, last = start - self._start, end - self._start
        if first < 0 or last > len(self._data):
            raise OSError(f"bytes {start}..{end} were not fetched")
        return self._data[first:last]
