"""The row groups of a table file: which rows they may hold, and reading single ones of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, overload

import pyarrow.parquet as pq

from arco.state.table import Key
from arco.storage.partial_file import PartialFile


class Group(NamedTuple):
    """One row group: which rows it may hold, and where its bytes are."""

    buckets: tuple[int, int]
    keys: tuple[tuple[Any, Any], ...]
    """The minimum and maximum of key columns, if it holds only one bucket."""
    start: int
    length: int

    def may_hold(self, bucket: int, key: Key | None) -> bool:
        if not self.buckets[0] <= bucket <= self.buckets[1]:
            return False
        if key is None or self.buckets[0] != self.buckets[1]:
            return True
        # zip stops at the shorter one: a prefix of the key will do
        return all(low <= v <= high for v, (low, high) in zip(key, self.keys, strict=False))


def _last_bucket(group: Group) -> int:
    return group.buckets[1]


class RowGroups(Sequence[Group]):
    """The row groups of a file, in the order of their buckets.

    Each is created when needed: a search for a bucket reads few of them.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        self._bucket = metadata.schema.names.index("_bucket")
        self._groups: dict[int, Group] = {}
        self._of_buckets: dict[int, list[tuple[int, Group]]] = {}

    def of_bucket(self, bucket: int) -> list[tuple[int, Group]]:
        """The groups that may hold a bucket, with their numbers."""
        groups = self._of_buckets.get(bucket)
        if groups is None:
            first = bisect_left(self, bucket, key=_last_bucket)
            following = takewhile(
                lambda numbered: numbered[1].buckets[0] <= bucket,
                ((i, self[i]) for i in range(first, len(self))),
            )
            groups = self._of_buckets[bucket] = list(following)
        return groups

    def __len__(self) -> int:
        return int(self._metadata.num_row_groups)

    @overload
    def __getitem__(self, at: int) -> Group: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Group]: ...
    def __getitem__(self, at: int | slice) -> Group | Sequence[Group]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        group = self._groups.get(at)
        if group is None:
            number = range(len(self))[at]
            group = self._groups[at] = _group(self._metadata.row_group(number), self._bucket)
        return group


def _group(group: pq.RowGroupMetaData, bucket: int) -> Group:
    """`bucket` is the number of the column of buckets, which follows those of the key."""
    buckets = group.column(bucket).statistics
    keys = []
    for c in range(bucket if buckets.min == buckets.max else 0):
        stats = group.column(c).statistics
        if stats is None or not stats.has_min_max:
            break  # statistics are written for the key alone, and the key comes first
        keys.append((stats.min, stats.max))
    # The columns of a group lie one after the other.
    start, last = _start(group.column(0)), group.column(group.num_columns - 1)
    length = _start(last) + last.total_compressed_size - start
    return Group((buckets.min, buckets.max), tuple(keys), start, length)


def runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Ascending numbers, in parts without a gap."""
    run: list[int] = []
    for number in numbers:
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    yield run


def _start(column: pq.ColumnChunkMetaData) -> int:
    return int(column.dictionary_page_offset or column.data_page_offset)


class FetchedRange(PartialFile):
    """A file of which only one range of bytes is in memory."""

    def __init__(self, size: int, start: int, data: bytes) -> None:
        super().__init__(size)
        self._start = start
        self._data = data

    def bytes_between(self, start: int, end: int) -> bytes:
        first, last = start - self._start, end - self._start
        if first < 0 or last > len(self._data):
            raise OSError(f"bytes {start}..{end} were not fetched")
        return self._data[first:last]
