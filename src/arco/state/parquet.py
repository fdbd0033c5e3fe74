"""Table files: Parquet with a reference that verifies every byte that is read.

A small file is fetched completely and verified by its SHA-256. Of a larger file only the footer
(verified by its own SHA-256) and the needed row groups are fetched and verified by page checksums.
"""

from __future__ import annotations

import functools
import itertools
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.errors import Corrupt, Invalid, NotFound
from arco.log.manifest import ChangesRef, FileRef, verified
from arco.state import changes
from arco.state.file_footer import FileFooter
from arco.state.key_hashes import KeyHashes
from arco.state.opened_file import MANY_BYTES, FetchedParts, OpenedFile, corrupt_if_unreadable
from arco.state.row_groups import FetchedRange, runs
from arco.state.table import LOOKED_UP_GROUP, Key, Table, Versioned
from arco.storage.port import Store
from arco.storage.seal import read_checked

T = TypeVar("T")

COLUMN_BYTES = 1_500
"""The memory of a column of a batch besides its values, as measured: its field, array, buffers and
alignment."""
FOOTER_SHARE = 8
"""Footers are kept as long as their bytes are less than this part of the budget. In memory they
take 13 times as much, as measured: less than twice the budget."""
HASHED_ROWS = 4 << 20
"""Maximum of cached hashes of keys, of four bytes each."""
WHOLE_FILE_BYTES = 256 << 10
"""Up to this size one request for the whole file is cheaper than two for parts of it."""
WHOLE_FILE_ROWS = 2 * LOOKED_UP_GROUP
"""Up to this many rows, all rows of a completely fetched file are decoded for one of them."""
MANY_GROUPS = 8
"""After this many row groups of a file were read one by one, the others are read at once."""
FILE_SHARE = 6
"""Unless all of its rows take more than this part of the budget."""
_ALL, _BYTES = -1, -2
"""Used as a row group's number: all rows of a file, and its bytes."""


class Files:
    """Reads and caches table files, which never change. Bounded by real bytes."""

    def __init__(self, store: Store, *, budget_bytes: int = 16 << 20) -> None:
        self.store = store
        self._budget = budget_bytes
        self.used_bytes = 0
        self.cache: OrderedDict[tuple[str, int], Any] = OrderedDict()
        self._footers: OrderedDict[str, FileFooter] = OrderedDict()
        self._footer_bytes = 0
        self._hashes: OrderedDict[str, KeyHashes] = OrderedDict()
        self._hashed_rows = 0
        self._lock = threading.Lock()

    def batches(
        self, table: Table[Any], ref: FileRef, bucket: int | None = None, key: Key | None = None
    ) -> list[pa.RecordBatch]:
        """The row groups of a file that may hold a bucket (and a key in it), or all."""
        if bucket is not None and not ref.buckets[0] <= bucket <= ref.buckets[1]:
            return []
        if ref.table:
            return [self._changed(table, ref)]
        if ref.bytes <= WHOLE_FILE_BYTES and (bucket is None or ref.rows <= WHOLE_FILE_ROWS):
            return [self._cached((ref.path, _ALL), lambda: decode(self.raw(ref), ref))]
        if bucket is not None and (whole := self._get((_name(table, ref), _ALL))) is not None:
            return [whole]
        footer = self._footer(ref)
        if bucket is None:
            return [self._group(table, ref, footer, i) for i in range(len(footer))]
        if key is None:
            return [self._group(table, ref, footer, i) for i in footer.of_bucket(bucket)]
        numbers = footer.may_hold(table, bucket, key)
        return [self._group(table, ref, footer, i) for i in numbers]

    def shard_batches(
        self, table: Table[Any], ref: FileRef, shard: Key, buckets: Sequence[int]
    ) -> list[pa.RecordBatch]:
        """The row groups that may hold rows of a shard key that is spread over buckets.

        Few of the groups do: the columns of the shard key are read first.
        """
        if ref.table or (ref.bytes <= WHOLE_FILE_BYTES and ref.rows <= WHOLE_FILE_ROWS):
            return self.batches(table, ref, buckets[0])
        if (whole := self._get((_name(table, ref), _ALL))) is not None:
            return [whole]
        footer = self._footer(ref)
        candidates = footer.with_shard(table, buckets, shard)
        if len(candidates) > 1:
            at = (f"{ref.path}#{table.shard_text(shard)}", _ALL)
            columns = dict(zip(table.key, shard, strict=False))
            find = functools.partial(self._holding, table, ref, footer, candidates, columns)
            holding = self._cached_or(at, lambda: self._twice(find))
            candidates = list(memoryview(holding).cast("I"))
        return [self._group(table, ref, footer, i) for i in candidates]

    def _holding(
        self,
        table: Table[Any],
        ref: FileRef,
        footer: FileFooter,
        candidates: Sequence[int],
        columns: Mapping[str, Any],
    ) -> bytes:
        """Those of some row groups, by their numbers, that have rows with these values.

        Groups that follow each other are fetched by one request, and those with such rows kept.
        """
        holding = array("I")
        for run in runs(candidates):
            source = self._fetched(ref, *footer.extent(run[0], run[-1]))
            metadata, numbers_of_run = footer.part(run)
            keys = _read(source(), ref, metadata, numbers_of_run, tuple(columns))
            matches = [pc.equal(keys.column(name), value) for name, value in columns.items()]
            places = pc.indices_nonzero(functools.reduce(pc.and_, matches)).to_pylist()
            sizes = (metadata.row_group(i).num_rows for i in numbers_of_run)
            ends = list(itertools.accumulate(sizes))
            for i in sorted({run[bisect_right(ends, place)] for place in places}):
                holding.append(i)
                self._group(table, ref, footer, i, source)
        return holding.tobytes()

    def _fetched(self, ref: FileRef, start: int, length: int) -> Callable[[], Any]:
        """A range of bytes, as a file that can be opened."""
        if ref.bytes <= WHOLE_FILE_BYTES:
            raw = self._bytes(ref)
            return lambda: pa.BufferReader(raw)
        part = self._range(ref, start, length)
        return lambda: pa.PythonFile(FetchedRange(ref.bytes, start, part), mode="r")

    def spans_groups(self, ref: FileRef, bucket: int) -> bool:
        """Whether one bucket of a file takes more than one row group."""
        if (
            ref.table
            or ref.bytes <= WHOLE_FILE_BYTES
            or not ref.buckets[0] <= bucket <= ref.buckets[1]
        ):
            return False
        return len(self._footer(ref).of_bucket(bucket)) > 1

    def table(self, table: Table[Any], ref: FileRef) -> pa.Table:
        """All rows, verified; of a view the columns that it has. The cache is not filled."""
        if ref.table:
            return changes.rows_of(self._changes(ref), table, ref)
        return decode(self.raw(ref), ref, table.schema.names if table.is_view else None)

    def opened(self, table: Table[Any], ref: FileRef) -> OpenedFile:
        """A file whose rows are read when needed, without filling the cache."""
        if ref.table:
            return OpenedFile(ref, changes.rows_of(self._changes(ref), table, ref))
        if ref.bytes <= MANY_BYTES:
            return OpenedFile(ref, self.raw(ref))
        end = self._twice(lambda: self._read_footer(ref))
        metadata = pq.read_metadata(pa.BufferReader(end))
        return OpenedFile(ref, FetchedParts(ref, metadata, functools.partial(self._range, ref)))

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """A cached value, with `nbytes`, derived from files. A name begins with a file's path."""
        return self._cached_or((name, _ALL), make)

    def changed_rows(self, table: Table[Any], ref: FileRef) -> dict[Key, Versioned[Any]]:
        """All rows of a table in a change file, by key."""
        return changes.versioned_rows(self._changes(ref), table, ref)

    def key_hashes(self, table: Table[Any], ref: FileRef) -> KeyHashes:
        """Hashes that show which keys are not among the rows of a table in a file."""
        at = f"{ref.path}#{ref.table}"
        with self._lock:
            if (cached := self._hashes.get(at)) is not None:
                self._hashes.move_to_end(at)
                return cached
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
        """Cache a change file that this process has just written."""
        self._keep((ref.path, _ALL), changes.parse(raw, ref.path))

    def forget(self, paths: Set[str]) -> None:
        """Remove files from the cache, because they were replaced."""
        with self._lock:
            for at in [at for at in self.cache if at[0].partition("#")[0] in paths]:
                self.used_bytes -= real_bytes(self.cache.pop(at))
            for key in [key for key in self._hashes if key.partition("#")[0] in paths]:
                self._hashed_rows -= len(self._hashes.pop(key))
            for path in paths & self._footers.keys():
                self._footer_bytes -= self._footers.pop(path).nbytes

    def _changes(self, ref: FileRef) -> pa.RecordBatch:
        return self._cached_or((ref.path, _ALL), lambda: changes.parse(self.raw(ref), ref.path))

    def _changed(self, table: Table[Any], ref: FileRef) -> pa.RecordBatch:
        """The rows of one table in a change file."""
        at = (f"{ref.path}#{ref.table}#{table.row.__name__}", _ALL)
        return self._cached(at, lambda: changes.rows_of(self._changes(ref), table, ref))

    def raw(self, ref: FileRef) -> bytes:
        """The bytes of a file, verified."""
        try:
            return read_checked(
                self.store, ref.path, lambda raw: verified(raw, ref.sha256, ref.path)
            )
        except NotFound:
            raise _missing(ref) from None

    def _bytes(self, ref: FileRef) -> bytes:
        """The bytes of a small file."""
        return self._cached_or((ref.path, _BYTES), lambda: self.raw(ref))

    def _group(
        self,
        table: Table[Any],
        ref: FileRef,
        footer: FileFooter,
        i: int,
        source: Callable[[], Any] | None = None,
    ) -> pa.RecordBatch:
        """One row group; of a view the columns that it has."""
        at, columns = (ref.path, i), None
        cached = self._get(at)
        if cached is None and table.is_view:
            at, columns = (_name(table, ref), i), table.schema.names
            cached = self._get(at)
        if cached is not None:
            return cached

        def read() -> pa.Table:
            file = source or self._fetched(ref, *footer.extent(i, i))
            return _read(file(), ref, *footer.part([i]), columns)

        group = self._cached(at, lambda: self._twice(read))
        footer.reads[at[0]] += 1
        if footer.reads[at[0]] == MANY_GROUPS and self._has_room(ref, group):
            self._cached((at[0], _ALL), lambda: decode(self.raw(ref), ref, columns))
        return group

    def _has_room(self, ref: FileRef, group: pa.RecordBatch) -> bool:
        """Whether all rows of a file, of which this is a row group, are a small part of all that
        may be kept."""
        bytes_of_all = int(group.nbytes) * ref.rows
        return bytes_of_all <= self._budget // FILE_SHARE * int(group.num_rows)

    def _cached(self, at: tuple[str, int], read: Callable[[], pa.Table]) -> pa.RecordBatch:
        return self._cached_or(at, lambda: one_batch(read()))

    def _cached_or(self, at: tuple[str, int], read: Callable[[], T]) -> T:
        if (cached := self._get(at)) is not None:
            return cached  # type: ignore[no-any-return]
        value = read()
        self._keep(at, value)
        return value

    def _get(self, at: tuple[str, int]) -> Any:
        with self._lock:
            if (cached := self.cache.get(at)) is not None:
                self.cache.move_to_end(at)
            return cached

    def _keep(self, at: tuple[str, int], value: Any) -> None:
        with self._lock:
            if at not in self.cache:
                self.cache[at] = value
                self.used_bytes += real_bytes(value)
            while self.used_bytes > self._budget and len(self.cache) > 1:
                _, dropped = self.cache.popitem(last=False)
                self.used_bytes -= real_bytes(dropped)

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

    def _footer(self, ref: FileRef) -> FileFooter:
        with self._lock:
            if (cached := self._footers.get(ref.path)) is not None:
                self._footers.move_to_end(ref.path)
                return cached
        if ref.bytes <= WHOLE_FILE_BYTES:
            end = self._bytes(ref)[-ref.footer_bytes :]
        else:
            end = self._twice(lambda: self._read_footer(ref))
        footer = FileFooter(end, ref.index_bytes)
        with self._lock:
            if ref.path not in self._footers:
                self._footers[ref.path] = footer
                self._footer_bytes += footer.nbytes
            while self._footer_bytes > self._budget // FOOTER_SHARE and len(self._footers) > 1:
                self._footer_bytes -= self._footers.popitem(last=False)[1].nbytes
        return footer


def decode(raw: bytes, ref: FileRef, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file, from its bytes; some of the columns, or all."""
    return _read(pa.BufferReader(raw), ref, columns=columns)


def _name(table: Table[Any], ref: FileRef) -> str:
    """What is kept of a file under: of a view, some columns."""
    return f"{ref.path}#{table.row.__name__}" if table.is_view else ref.path


def _missing(ref: FileRef) -> Corrupt:
    hint = "the generation may have been collected: open a newer one; else run fsck"
    return Corrupt(f"{ref.path} is missing", hint=hint)


def real_bytes(value: Any) -> int:
    """What a batch costs in memory: for the small files of single commits more than its values."""
    if isinstance(value, bytes):
        return len(value)
    columns = value.num_columns if isinstance(value, pa.RecordBatch) else 0
    return int(value.nbytes + COLUMN_BYTES * columns)


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
    with corrupt_if_unreadable(ref):
        file = pq.ParquetFile(
            source, metadata=metadata, pre_buffer=False, page_checksum_verification=True
        )
        threads = ref.bytes > MANY_BYTES
        if groups is None:
            return file.read(columns, use_threads=threads)
        return file.read_row_groups(groups, columns, use_threads=threads)
