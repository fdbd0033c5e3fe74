"""Reads some columns of Parquet files, and fetches no more than their bytes.

Three steps, each of them for all files at once:

1. the footers; a small file is fetched whole instead
2. the ranges of bytes in which the columns lie; those that are close to each other together
3. the rows, from what is at hand
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from arco.errors import Corrupt
from arco.storage import parallel
from arco.storage.footers import read_footer
from arco.storage.partial_file import PartialFile
from arco.storage.port import ObjectMeta, Store

WHOLE_BYTES: Final = 64 << 10
"""A file that is no larger is fetched whole, in one call."""
GAP_BYTES: Final = 64 << 10
"""Ranges that are no further apart are fetched with what lies between them."""


class ColumnsRead(NamedTuple):
    """What was read of one file."""

    table: pa.Table
    """The columns that it has, under its own names for them."""
    schema: pa.Schema
    """All that it has."""
    size: int
    """How many bytes were fetched."""


class ByteRange(NamedTuple):
    start: int
    end: int


class RangedFile(PartialFile):
    """A Parquet file of which some ranges are at hand. What else is read is fetched then."""

    def __init__(self, store: Store, meta: ObjectMeta) -> None:
        super().__init__(meta.size)
        self._store = store
        self.meta = meta
        self._parts: list[tuple[int, bytes]] = []
        self.fetched = 0
        self.metadata: Any = None

    def load_footer(self) -> None:
        if self.meta.size <= WHOLE_BYTES:
            self.fetch(ByteRange(0, self.meta.size))
            self.metadata = _metadata(self.meta, self._parts[0][1])
            return
        footer = read_footer(self._store, self.meta)
        self.fetched += footer.metadata.serialized_size
        self.metadata = footer.metadata

    def fetch(self, span: ByteRange) -> bytes:
        data = self._store.get_range(self.meta.path, span.start, span.end - span.start)
        self.fetched += len(data)
        self._parts.append((span.start, data))
        return data

    @property
    def is_whole(self) -> bool:
        """Whether all of it is at hand."""
        return self.meta.size <= WHOLE_BYTES

    def missing(self, columns: Collection[str]) -> list[ByteRange]:
        """What has to be fetched for these columns, by their names at the top."""
        if self._parts:
            return []
        spans = []
        for group in range(self.metadata.num_row_groups):
            row_group = self.metadata.row_group(group)
            for number in range(row_group.num_columns):
                chunk = row_group.column(number)
                if chunk.path_in_schema in columns or top_column(self.metadata, number) in columns:
                    spans.append(chunk_range(chunk))
        return joined_ranges(spans)

    def bytes_between(self, start: int, end: int) -> bytes:
        for first, data in self._parts:
            if first <= start and end <= first + len(data):
                return data[start - first : end - first]
        return self.fetch(ByteRange(start, end)) if end > start else b""


def read_columns(
    store: Store, metas: Sequence[ObjectMeta], columns: Sequence[str]
) -> list[ColumnsRead]:
    """Those of the columns that a file has, of each file. Case does not matter.

    Raises NotFound where a file is gone, and Corrupt where one is no Parquet file.
    """
    files = [RangedFile(store, meta) for meta in metas]
    parallel.each(store, RangedFile.load_footer, files)
    requested = {name.lower() for name in columns}
    schemas = [file.metadata.schema.to_arrow_schema() for file in files]
    names = [[n for n in schema.names if n.lower() in requested] for schema in schemas]
    spans = [
        (file, span)
        for file, own in zip(files, names, strict=True)
        for span in file.missing(set(own))
    ]
    parallel.each(store, lambda item: item[0].fetch(item[1]), spans)
    return [
        ColumnsRead(_table(file, own), schema, file.fetched)
        for file, own, schema in zip(files, names, schemas, strict=True)
    ]


def _table(file: RangedFile, names: list[str]) -> pa.Table:
    try:
        with pq.ParquetFile(
            pa.PythonFile(file, mode="r"), metadata=file.metadata, pre_buffer=False
        ) as parquet:
            # A name with a dot may be taken for a field of another column.
            return parquet.read(columns=names).select(names)
    except pa.ArrowException as error:
        raise Corrupt(f"{file.meta.path} is not a readable Parquet file: {error}") from None


def _metadata(meta: ObjectMeta, data: bytes) -> Any:
    try:
        return pq.read_metadata(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{meta.path} is not a readable Parquet file: {error}") from None


def top_column(metadata: Any, number: int) -> str:
    """The column at the top that a leaf belongs to."""
    return str(metadata.schema.column(number).path).partition(".")[0]


def chunk_range(chunk: Any) -> ByteRange:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return ByteRange(start, start + chunk.total_compressed_size)


def joined_ranges(spans: list[ByteRange]) -> list[ByteRange]:
    joined: list[ByteRange] = []
    for span in sorted(spans):
        if joined and span.start - joined[-1].end <= GAP_BYTES:
            joined[-1] = ByteRange(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined
