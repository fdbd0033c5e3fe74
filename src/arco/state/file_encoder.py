"""Writing table files: rows in file order become Parquet, with a reference that verifies it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.log.manifest import FileRef, sha256
from arco.state.group_index import LARGE_SHARD, LEAST_GROUPS, GroupKeys, encode_index
from arco.state.table import shard_text

ROWS_PER_GROUP = 8_192
SMALL_CELLS = 4_096
"""Below this, setting up the compression of each column takes longer than everything else."""


def encode(
    table: pa.Table,
    path: str,
    *,
    key: Sequence[str],
    shard: int,
    now: datetime,
    days: tuple[date, date] | None = None,
    group_rows: int = 0,
) -> tuple[bytes, FileRef]:
    """A table in file order as Parquet, with its reference."""
    rows = table.num_rows
    encoder = FileEncoder(path, key, shard, now, days, expected_rows=rows, group_rows=group_rows)
    encoder.add(table)
    return encoder.finish()


class FileEncoder:
    """Encodes a table file: its rows come in file order, some whole buckets at a time."""

    def __init__(
        self,
        path: str,
        key: Sequence[str],
        shard: int,
        now: datetime,
        days: tuple[date, date] | None = None,
        *,
        expected_rows: int,
        group_rows: int = 0,
    ) -> None:
        self._path = path
        self._key = key
        self._shard_columns = key[:shard]
        self._now = now
        self._days = days
        self._expected_rows = expected_rows
        self._group_rows = group_rows or ROWS_PER_GROUP
        # One copy of a large file: Arrow's own sink doubles its buffer and copies it at the end.
        is_large = expected_rows > ROWS_PER_GROUP
        self._sink: Any = io.BytesIO() if is_large else pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0
        self._buckets: list[int] = []
        self._versions: list[int] = []
        self._shards: list[str] = []
        self._has_index = is_large and bool(group_rows)  # single rows of the table are looked up
        self._group_keys: list[GroupKeys] = []

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        if self._writer is None:
            self._writer = self._open(table.schema)
        for rows in whole_buckets(table, self._group_rows):
            self._writer.write_table(rows, row_group_size=self._group_rows)
            if self._has_index:
                self._group_keys += self._keys_of(rows)
        self.rows += table.num_rows
        self._versions += pc.min_max(table.column("row_version")).as_py().values()
        self._buckets += pc.min_max(table.column("_bucket")).as_py().values()
        self._shards += _shard_range(table, self._shard_columns)

    def _keys_of(self, table: pa.Table) -> Iterator[GroupKeys]:
        """The keys of the row groups that a part of a table is written as."""
        for start in range(0, table.num_rows, self._group_rows):
            rows = table.slice(start, self._group_rows)
            shards = _texts(rows, self._shard_columns)
            is_large = len(shards) * LARGE_SHARD < rows.num_rows
            yield GroupKeys(shards, _texts(rows, self._key) if is_large else [])

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        small = self._expected_rows * len(schema) < SMALL_CELLS
        return pq.ParquetWriter(
            self._sink,
            schema,
            compression="none" if small else "zstd",
            compression_level=None if small else 1,
            use_dictionary=False,  # zstd finds what repeats, in less time and space
            write_statistics=[*self._key, "row_version", "_bucket"],
            write_page_checksum=True,
            store_schema=False,
        )

    def finish(self) -> tuple[bytes, FileRef]:
        assert self._writer is not None
        self._writer.close()
        sink, index = self._sink, b""
        if self._has_index:
            index = _put_index(sink, self._group_keys)
        raw = sink.getvalue() if isinstance(sink, io.BytesIO) else sink.getvalue().to_pybytes()
        footer = len(index) + int.from_bytes(raw[-8:-4], "little") + 8
        ref = FileRef(
            path=self._path,
            rows=self.rows,
            bytes=len(raw),
            sha256=sha256(raw),
            footer_bytes=footer,
            footer_sha256=sha256(raw[-footer:]),
            buckets=(min(self._buckets), max(self._buckets)),
            shard=(min(self._shards), max(self._shards)),
            versions=(min(self._versions), max(self._versions)),
            created_at=self._now,
            days=self._days,
            index_bytes=len(index),
        )
        return raw, ref


def _put_index(file: io.BytesIO, keys: Sequence[GroupKeys]) -> bytes:
    """Put the index of row groups before the footer of a file; empty if it has none."""
    if len(keys) < LEAST_GROUPS:
        return b""
    file.seek(-8, io.SEEK_END)
    footer_at = file.tell() - int.from_bytes(file.read(4), "little")
    file.seek(footer_at)
    footer = file.read()
    index = encode_index(footer, keys)
    file.seek(footer_at)
    file.write(index + footer)
    return index


def _texts(rows: pa.Table, columns: Sequence[str]) -> list[bytes]:
    """The texts of some columns of the key, each once."""
    values = pc.unique(rows.column(columns[0]))
    if len(columns) == 1 and values.type == pa.string():
        return values.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    keys = zip(*(rows.column(name).to_pylist() for name in columns), strict=True)
    return [shard_text(key).encode() for key in dict.fromkeys(keys)]


def whole_buckets(table: pa.Table, most_rows: int) -> Iterator[pa.Table]:
    """Parts with a maximum of rows, or of one bucket: a lookup reads one of them."""
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
