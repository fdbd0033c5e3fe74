"""The footers of Parquet files: schema and statistics, without reading rows.

A footer lies at a file's end: one ranged read fetches it, a second one where it is
longer than expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.errors import Corrupt
from arco.storage import parallel
from arco.storage.port import ObjectMeta, Store

TAIL_BYTES: Final = 32 << 10
NAN_METADATA: Final = "arco.nan_columns"
_MAGIC: Final = b"PAR1"
_TRAILER: Final = 8


class Footer(NamedTuple):
    path: str
    """In the store."""
    size: int
    """Of the whole file."""
    metadata: Any
    """A `pyarrow.parquet.FileMetaData`."""


def parquet_files(store: Store, folder: str) -> list[ObjectMeta]:
    """The data files right in or below a folder, in the order of their names."""
    return [meta for meta in store.list(f"{folder}/") if meta.path.endswith(".parquet")]


def read_footers(store: Store, folder: str) -> list[Footer]:
    """The footers of a folder's files, in the order of names. Raises Corrupt for other files."""
    return parallel.each(store, lambda meta: read_footer(store, meta), parquet_files(store, folder))


def read_footer(store: Store, file: ObjectMeta) -> Footer:
    """Raises NotFound for a missing file, and Corrupt for one that is not Parquet."""
    tail = _end(store, file, min(file.size, TAIL_BYTES))
    length = int.from_bytes(tail[-_TRAILER:-4], "little") + _TRAILER
    if tail[-4:] != _MAGIC or length > file.size:
        raise _corrupt(file, "it has no Parquet footer")
    if length > len(tail):
        tail = _end(store, file, length)
    try:
        metadata = pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError) as error:
        raise _corrupt(file, str(error)) from None
    return Footer(file.path, file.size, metadata)


def _end(store: Store, file: ObjectMeta, length: int) -> bytes:
    return store.get_range(file.path, file.size - length, length)


def _corrupt(file: ObjectMeta, why: str) -> Corrupt:
    return Corrupt(f"{file.path} is not a readable Parquet file: {why}")


# -- NaN ----------------------------------------------------------------------------------


def nan_columns(table: pa.Table) -> set[str]:
    """The columns of floats that have a NaN in them."""
    return {
        column.name
        for column in table.schema
        if pa.types.is_floating(column.type)
        and pc.any(pc.is_nan(table.column(column.name))).as_py()
    }


def nan_metadata(columns: Iterable[str]) -> dict[str, str]:
    """What a writer with pyarrow puts into a file's metadata, also if there are none."""
    return {NAN_METADATA: msgspec.json.encode(sorted(columns)).decode()}
