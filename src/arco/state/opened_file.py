"""A table file of which some buckets are read at a time, as merges do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.errors import Corrupt
from arco.log.manifest import FileRef
from arco.state.row_groups import Group, RowGroups

MANY_BYTES = 1 << 20
"""What is smaller is read by one thread: others cost more than they save."""


class OpenedFile:
    """The rows of a table in a file, some buckets at a time."""

    def __init__(self, ref: FileRef, content: bytes | pa.Table) -> None:
        self._ref = ref
        if isinstance(content, bytes):
            with corrupt_if_unreadable(ref):
                self._file: pq.ParquetFile | None = pq.ParquetFile(
                    pa.BufferReader(content), page_checksum_verification=True
                )
            self._rows: pa.Table | None = None
            self.groups: Sequence[Group] = RowGroups(self._file.metadata)
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
        if self.groups and all(
            low <= self.groups[i].buckets[0] and self.groups[i].buckets[1] <= high for i in within
        ):
            return rows  # as they are: a filter copies
        bucket = rows.column("_bucket")
        return rows.filter(pc.and_(pc.greater_equal(bucket, low), pc.less_equal(bucket, high)))

    def _read(self, groups: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        if self._file is None:
            return self._rows
        with corrupt_if_unreadable(self._ref):
            return self._file.read_row_groups(
                list(groups), columns, use_threads=self._ref.bytes > MANY_BYTES
            )


@contextlib.contextmanager
def corrupt_if_unreadable(ref: FileRef) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(f"{ref.path} cannot be read: {error}", hint="run fsck") from None
