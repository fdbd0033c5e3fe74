"""A table file of which some buckets are read at a time, as merges do, or only the keys."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.errors import Corrupt
from arco.log.manifest import FileRef
from arco.state.row_groups import FetchedRange, Group, RowGroups
from arco.state.table import Key

MANY_BYTES = 1 << 20
"""What is smaller is read by one thread: others cost more than they save."""
PART_BYTES = 512 << 10
"""About this number of bytes of a larger file is fetched at once, and in memory."""


class FetchedParts:
    """Large files: row groups that follow each other are fetched together, and dropped when others
    are. With reads in ascending order, each is fetched once."""

    def __init__(
        self, ref: FileRef, metadata: pq.FileMetaData, fetch: Callable[[int, int], bytes]
    ) -> None:
        """`fetch` returns the bytes of the file from a place on."""
        self.metadata = metadata
        self.groups = RowGroups(metadata)
        self._ref = ref
        self._fetch = fetch
        self._numbers = range(0)
        self._source: FetchedRange | None = None

    def read(self, groups: Sequence[int], columns: Sequence[str] | None) -> pa.Table:
        parts = []
        while groups:
            try:
                part, rest = self._first(groups, columns)
            except Corrupt:  # once more: the connection may have damaged it
                self._numbers = range(0)
                part, rest = self._first(groups, columns)
            parts.append(part)
            groups = rest
        return pa.concat_tables(parts)

    def _first(
        self, groups: Sequence[int], columns: Sequence[str] | None
    ) -> tuple[pa.Table, Sequence[int]]:
        """The rows of those groups that are in memory, or are fetched together; and the others."""
        if groups[0] not in self._numbers:
            self._numbers, self._source = range(0), None  # free before the next is fetched
            self._numbers, self._source = self._fetched(groups[0])
        here = [i for i in groups if i in self._numbers]
        rest = [i for i in groups if i not in self._numbers]
        with corrupt_if_unreadable(self._ref):
            file = pq.ParquetFile(
                pa.PythonFile(self._source, mode="r"),
                metadata=self.metadata,
                page_checksum_verification=True,
            )
            return file.read_row_groups(here, columns, use_threads=False), rest

    def _fetched(self, first: int) -> tuple[range, FetchedRange]:
        start, last = self.groups[first].start, first
        while last + 1 < len(self.groups) and self._end(last + 1) - start <= PART_BYTES:
            last += 1
        data = self._fetch(start, self._end(last) - start)
        return range(first, last + 1), FetchedRange(self._ref.bytes, start, data)

    def _end(self, number: int) -> int:
        return self.groups[number].start + self.groups[number].length


class OpenedFile:
    """The rows of a table in a file, some buckets at a time."""

    def __init__(self, ref: FileRef, content: bytes | FetchedParts | pa.Table) -> None:
        self._ref = ref
        self.groups: Sequence[Group] = ()
        if isinstance(content, bytes):
            with corrupt_if_unreadable(ref):
                content = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
            self.groups = RowGroups(content.metadata)
            self.schema = content.schema_arrow
        elif isinstance(content, FetchedParts):
            self.groups = content.groups
            self.schema = content.metadata.schema.to_arrow_schema()
        else:
            self.schema = content.schema
        self._content: pq.ParquetFile | FetchedParts | pa.Table = content

    def bucket_counts(self) -> dict[int, int]:
        column = self._read(range(len(self.groups)), ["_bucket"]).column("_bucket")
        return {entry["values"]: entry["counts"] for entry in pc.value_counts(column).to_pylist()}

    def keys_of(self, buckets: Set[int], key: Sequence[str]) -> Iterator[tuple[int, Key]]:
        """The keys of the rows of some buckets, each with its bucket."""
        low, high = min(buckets), max(buckets)
        rows = self._read(self._within(low, high), ["_bucket", *key])
        numbers = rows.column("_bucket").to_pylist()
        keys = zip(*(rows.column(name).to_pylist() for name in key), strict=True)
        return ((n, k) for n, k in zip(numbers, keys, strict=True) if n in buckets)

    def between(self, low: int, high: int) -> pa.Table:
        """Rows of the buckets from `low` to `high`."""
        within = self._within(low, high)
        rows = self._read(within)
        if self.groups and all(
            low <= self.groups[i].buckets[0] and self.groups[i].buckets[1] <= high for i in within
        ):
            return rows  # as they are: a filter copies
        bucket = rows.column("_bucket")
        return rows.filter(pc.and_(pc.greater_equal(bucket, low), pc.less_equal(bucket, high)))

    def _within(self, low: int, high: int) -> list[int]:
        """The row groups that may hold these buckets."""
        return [
            i
            for i, group in enumerate(self.groups)
            if low <= group.buckets[1] and group.buckets[0] <= high
        ]

    def _read(self, groups: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        if isinstance(self._content, FetchedParts):
            return self._content.read(groups, columns) if groups else self.schema.empty_table()
        if isinstance(self._content, pa.Table):
            return self._content
        with corrupt_if_unreadable(self._ref):
            return self._content.read_row_groups(
                list(groups), columns, use_threads=self._ref.bytes > MANY_BYTES
            )


@contextlib.contextmanager
def corrupt_if_unreadable(ref: FileRef) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(f"{ref.path} cannot be read: {error}", hint="run fsck") from None
