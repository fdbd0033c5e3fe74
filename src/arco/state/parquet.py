"""Table files: Parquet with a reference that verifies every byte that is read.

A small file is fetched whole and checked against its SHA-256. Of a larger one
only the footer (checked against a SHA-256 of its own) and the row groups that a
question needs are fetched; their pages carry checksums, which are verified too.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.errors import Corrupt, Invalid, NotFound
from arco.log.manifest import ChangesRef, FileRef, verified
from arco.state import changes
from arco.state.key_hashes import KeyHashes
from arco.state.table import Key, Table, Versioned
from arco.storage.partial_file import PartialFile
from arco.storage.port import Store
from arco.storage.seal import read_checked

T = TypeVar("T")

_MANY_BYTES = 1 << 20
"""What is smaller is read by one thread: others cost more than they save."""
COLUMN_BYTES = 1_500
"""What a column of a batch costs in memory besides its values, as measured: its field, its
array, its buffers and what they waste by alignment."""
FOOTERS = 1_024
"""How many footers of large files are kept."""
HASHED_ROWS = 4 << 20
"""The hashes of so many keys are kept, of four bytes each."""
WHOLE_FILE_BYTES = 256 << 10
"""Up to this size one request for the whole file is cheaper than two for parts of it."""


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

    def __init__(self, store: Store, *, budget_bytes: int = 16 << 20) -> None:
        self.store = store
        self._budget = budget_bytes
        self._used = 0
        self._batches: OrderedDict[tuple[str, int], pa.RecordBatch] = OrderedDict()
        self._footers: OrderedDict[str, _Footer] = OrderedDict()
        self._hashes: OrderedDict[str, KeyHashes] = OrderedDict()
        self._hashed_rows = 0
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

    def opened(self, table: Table[Any], ref: FileRef) -> OpenedFile:
        """A file of which rows are read as they are asked for, without filling the cache."""
        if ref.table:
            return OpenedFile(ref, changes.rows_of(self._changes(ref), table, ref))
        return OpenedFile(ref, self.raw(ref))

    def changed_rows(self, table: Table[Any], ref: FileRef) -> dict[Key, Versioned[Any]]:
        """All rows of a table in a change file, by key."""
        return changes.versioned_rows(self._changes(ref), table, ref)

    def key_hashes(self, table: Table[Any], ref: FileRef) -> KeyHashes:
        """Tells which keys are not among the rows of a table in a file."""
        at = f"{ref.path}#{ref.table}"
        with self._lock:
            if (kept := self._hashes.get(at)) is not None:
                self._hashes.move_to_end(at)
                return kept
        hashes = KeyHashes(self._keys(table, ref))
        with self._lock:
            if at not in self._hashes:
                self._hashes[at] = hashes
                self._hashed_rows += ref.rows
            while self._hashed_rows > HASHED_ROWS and len(self._hashes) > 1:
                self._hashed_rows -= len(self._hashes.popitem(last=False)[1])
        return hashes

    def _keys(self, table: Table[Any], ref: FileRef) -> Iterable[Key]:
        if ref.table:
            return self.changed_rows(table, ref)
        keys = _read(pa.BufferReader(self.raw(ref)), ref, columns=table.key)
        return zip(*(keys.column(name).to_pylist() for name in table.key), strict=True)

    def written(self, ref: ChangesRef, raw: bytes) -> None:
        """Keep a change file that this process has just written."""
        self._keep((ref.path, -1), pa.Table.from_batches([changes.parse(raw, ref.path)]))

    def forget(self, paths: Collection[str]) -> None:
        """Drop what is kept of files, because others have taken their place."""
        with self._lock:
            for at in [at for at in self._batches if at[0].partition("#")[0] in paths]:
                self._used -= real_bytes(self._batches.pop(at))
            for key in [key for key in self._hashes if key.partition("#")[0] in paths]:
                self._hashed_rows -= len(self._hashes.pop(key))
            for path in paths:
                self._footers.pop(path, None)

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


class OpenedFile:
    """The rows of a table in a file, some buckets at a time."""

    def __init__(self, ref: FileRef, content: bytes | pa.Table) -> None:
        self._ref = ref
        if isinstance(content, bytes):
            with _corrupt_if_unreadable(ref):
                self._file: pq.ParquetFile | None = pq.ParquetFile(
                    pa.BufferReader(content), page_checksum_verification=True
                )
            self._rows: pa.Table | None = None
            self.groups = _groups(self._file.metadata)
            self.schema = self._file.schema_arrow
        else:
            self._file, self._rows, self.groups, self.schema = None, content, (), content.schema

    def bucket_counts(self) -> dict[int, int]:
        column = self._read(range(len(self.groups)), ["_bucket"]).column("_bucket")
        return {entry["values"]: entry["counts"] for entry in pc.value_counts(column).to_pylist()}

    def between(self, low: int, high: int) -> pa.Table:
        """Rows of the buckets from `low` to `high`."""
        within = [
            i
            for i, group in enumerate(self.groups)
            if low <= group.buckets[1] and group.buckets[0] <= high
        ]
        rows = self._read(within)
        bucket = rows.column("_bucket")
        return rows.filter(pc.and_(pc.greater_equal(bucket, low), pc.less_equal(bucket, high)))

    def _read(self, groups: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        if self._file is None:
            return self._rows
        with _corrupt_if_unreadable(self._ref):
            return self._file.read_row_groups(list(groups), columns)


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
    source: Any,
    ref: FileRef,
    metadata: Any = None,
    groups: list[int] | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    with _corrupt_if_unreadable(ref):
        file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
        threads = ref.bytes > _MANY_BYTES
        if groups is None:
            return file.read(columns, use_threads=threads)
        return file.read_row_groups(groups, use_threads=threads)


@contextlib.contextmanager
def _corrupt_if_unreadable(ref: FileRef) -> Iterator[None]:
    try:
        yield
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
