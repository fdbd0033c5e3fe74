"""Merging files of a table, some buckets at a time.

The compressed bytes of the files are in memory, but only the rows of one window of buckets. So the
memory of a merge does not grow with the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.log.manifest import FileRef
from arco.state.file_encoder import ROWS_PER_GROUP
from arco.state.parquet import Files
from arco.state.sorted_rows import latest
from arco.state.table import BUCKETS, Table

GROUPS = 2
"""The size of a window in row groups, for tables with small row groups: their rows are wide."""
REDUCED_WINDOWS = 4
"""Rows of this many windows are read before they are reduced to the newest of each key."""
BucketWindow = tuple[int, int]
"""The first and the last bucket."""


class RecentRows:
    """The rows of L0 files: the newest of each key, including tombstones."""

    def __init__(self, files: Files, table: Table[Any], refs: Sequence[FileRef]) -> None:
        self._key = table.key
        self._window_rows = min(GROUPS * table.group_rows, ROWS_PER_GROUP) or ROWS_PER_GROUP
        self._files = [files.opened(table, ref) for ref in refs]
        self.schema = pa.unify_schemas([file.schema for file in self._files])
        self.counts: Counter[int] = Counter()
        """How many rows a bucket has in all files."""
        for file in self._files:
            self.counts.update(file.bucket_counts())
        self._window = (0, -1)
        self._rows = self.schema.empty_table()

    def windows(self, low: int, high: int, borders: Sequence[int] = ()) -> Iterator[BucketWindow]:
        """Parts of a range of buckets, of a few rows each; some start at given buckets."""
        starts, first, rows = set(borders), low, 0
        for bucket in range(low, high + 1):
            count = self.counts[bucket]
            if bucket > first and (bucket in starts or rows + count > self._window_rows):
                yield first, bucket - 1
                first, rows = bucket, 0
            rows += count
        yield first, high

    def between(self, window: BucketWindow) -> pa.Table:
        """Rows of some buckets. With calls in ascending order, files are read only a few times."""
        low, high = window
        if not self._window[0] <= low <= high <= self._window[1]:
            self._window = self._large_window(low, high)
            self._rows = self._read()
        if window == self._window:
            return self._rows
        bucket = self._rows.column("_bucket")
        inside = pc.and_(pc.greater_equal(bucket, low), pc.less_equal(bucket, high))
        return self._rows.filter(inside)

    def _read(self) -> pa.Table:
        """Limits the memory for rows that changed often: rows are reduced when there are twice as
        many as after the last reduction."""
        self._rows = self.schema.empty_table()  # what was there may go before
        least = REDUCED_WINDOWS * self._window_rows
        parts, limit = [self._rows], least
        for file in self._files:
            parts.append(file.between(*self._window))
            if sum(part.num_rows for part in parts) > limit:
                parts = [self.schema.empty_table(), latest(parts, self._key, keep_deleted=True)]
                limit = max(least, 2 * parts[1].num_rows)
        return latest(parts, self._key, keep_deleted=True)

    def _large_window(self, low: int, high: int) -> BucketWindow:
        rows = sum(self.counts[bucket] for bucket in range(low, high + 1))
        last = max(self.counts, default=high)
        while high < last and rows + self.counts[high + 1] <= self._window_rows:
            high += 1
            rows += self.counts[high]
        return low, high


def pieces(
    base: Sequence[FileRef], touched: set[int], most_rows: int
) -> Iterator[tuple[int, int, list[FileRef]]]:
    """Ranges of buckets to rewrite, each with the base files in it; together they cover
    every touched bucket, and never reach into a file that stays.

    Neighbours that fit into one file become one: otherwise deletions and moves to history would
    leave many files with few rows.
    """
    low = 0
    for group in _neighbours(base, most_rows):
        first, last = group[0].buckets[0], group[-1].buckets[1]
        if len(group) > 1 or any(first <= bucket <= last for bucket in touched):
            yield low, last, group
        elif any(low <= bucket < first for bucket in touched):
            yield low, first - 1, []
        low = last + 1
    if any(low <= bucket for bucket in touched):
        yield low, BUCKETS - 1, []


def _neighbours(base: Sequence[FileRef], most_rows: int) -> list[list[FileRef]]:
    groups: list[list[FileRef]] = []
    for ref in sorted(base, key=lambda ref: ref.buckets):
        if groups and sum(r.rows for r in groups[-1]) + ref.rows <= most_rows:
            groups[-1].append(ref)
        else:
            groups.append([ref])
    return groups
