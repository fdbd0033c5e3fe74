"""The footer of a table file: which row groups may hold a row, and how they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arco.state.group_index import GroupIndex
from arco.state.row_groups import RowGroups
from arco.state.table import Key, Table, shard_text


class FileFooter:
    """With an index of row groups, only those that are read are parsed."""

    def __init__(self, end: bytes, index_bytes: int) -> None:
        """`end` is the end of the file: the index, if it has one, and the footer."""
        self._end = end
        self._index = GroupIndex(end, index_bytes) if index_bytes else None
        self.reads: Counter[str] = Counter()
        """How many row groups were read one by one, by what is kept of them."""

    def __len__(self) -> int:
        """The number of row groups."""
        return len(self.groups if self._index is None else self._index)

    @property
    def nbytes(self) -> int:
        return len(self._end)

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        return pq.read_metadata(pa.BufferReader(self._end))

    @cached_property
    def groups(self) -> RowGroups:
        return RowGroups(self.metadata)

    def of_bucket(self, bucket: int) -> Sequence[int]:
        """The numbers of the row groups that may hold a bucket."""
        if self._index is not None:
            return self._index.of_bucket(bucket)
        return [i for i, _ in self.groups.of_bucket(bucket)]

    def may_hold(self, table: Table[Any], bucket: int, key: Key) -> list[int]:
        """Those that may hold a key, or what begins with it: a shard key, or more."""
        numbers = self.of_bucket(bucket)
        if self._index is not None:
            whole = shard_text(key) if len(key) == len(table.key) else ""
            numbers = self._index.with_key(numbers, table.shard_text(key), whole)
        if len(numbers) < 2:
            return list(numbers)
        if self._index is None:
            return [i for i in numbers if self.groups[i].may_hold(bucket, key)]
        groups = RowGroups(self._index.metadata(numbers))
        pairs = zip(numbers, groups, strict=True)
        return [i for i, group in pairs if group.may_hold(bucket, key)]

    def with_shard(self, table: Table[Any], buckets: Sequence[int], shard: Key) -> list[int]:
        """Those that may hold a shard key, which is spread over some buckets."""
        numbers = sorted({i for bucket in buckets for i in self.of_bucket(bucket)})
        if self._index is not None:
            return self._index.with_key(numbers, table.shard_text(shard))
        return numbers

    def extent(self, first: int, last: int) -> tuple[int, int]:
        """Where the bytes of some row groups, which follow each other, begin; and how many."""
        places = self.groups if self._index is None else self._index
        start, end = places[first].start, places[last].start + places[last].length
        return start, end - start

    def part(self, numbers: Sequence[int]) -> tuple[pq.FileMetaData, list[int]]:
        """What describes some row groups, and their numbers in it."""
        if self._index is None:
            return self.metadata, list(numbers)
        return self._index.metadata(numbers), list(range(len(numbers)))
