"""Inputs of many versions: the list is an object, and requests and results refer to it.

Up to `INLINE` versions are in the envelope, and in the result. Of more, those have the first few,
the totals, and a reference with a checksum to `inputs/{run}/{sha256}.parquet`. It is written before
the first task that reads it is enqueued, and never changes.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from arco.errors import Corrupt, NotFound
from arco.lineage.tables import ExecutionRow
from arco.orchestration.input_refs import INLINE, shortened
from arco.storage import paths
from arco.storage.port import Mode, Store
from arco.storage.seal import read_checked
from arco.storage.unique_objects import put_own
from servo.contract.task import InputRef, MaterializationRef, ObjectRef

_SCHEMA = pa.schema(
    [
        ("partition", pa.string()),
        ("materialization_id", pa.string()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

replace = msgspec.structs.replace


def put_list(store: Store, run_id: str, ref: InputRef, *, overwrite: bool = False) -> InputRef:
    """The reference for a request; a long list is stored as an object.

    `overwrite` overwrites the stored list, which may be damaged.
    """
    if len(ref.materializations) <= INLINE:
        return ref
    body = encode(ref.materializations)
    digest = hashlib.sha256(body).hexdigest()
    path = paths.input_list(run_id, digest)
    if overwrite:
        store.put(path, body, Mode.OVERWRITE)
    else:
        put_own(store, path, body, mode=Mode.CREATE)
    return replace(shortened(ref), listed_in=ObjectRef(path, digest, len(body)))


def whole(store: Store, ref: InputRef) -> InputRef:
    """The reference with all of its versions. Raises NotFound or Corrupt for their list."""
    if ref.listed_in is None:
        return ref
    versions = read_list(store, ref.listed_in.path, ref.listed_in.sha256)
    if len(versions) != ref.count:
        raise Corrupt(f"{ref.listed_in.path} has {len(versions):,} versions, not {ref.count:,}")
    return replace(ref, materializations=versions)


def read_list(store: Store, path: str, sha256: str) -> tuple[MaterializationRef, ...]:
    """The versions of a list. Raises NotFound, or Corrupt where it has other bytes."""

    def checked(raw: bytes) -> tuple[MaterializationRef, ...]:
        if hashlib.sha256(raw).hexdigest() != sha256:
            raise Corrupt(f"{path} does not match its checksum")
        return decode(raw)

    return read_checked(store, path, checked)


class ReadVersions(NamedTuple):
    versions: tuple[MaterializationRef, ...]
    is_complete: bool
    problem: str = ""


def read_versions(store: Store, row: ExecutionRow) -> ReadVersions:
    """All input versions of a row; where their list is missing, those in the row itself."""
    pairs = zip(row.source_partitions, row.source_materializations, strict=True)
    own = tuple(MaterializationRef(partition=p, materialization_id=id) for p, id in pairs)
    if not row.source_count:
        return ReadVersions(own, True)
    if not row.source_list:
        return ReadVersions(own, False)
    try:
        digest = PurePosixPath(row.source_list).stem
        return ReadVersions(read_list(store, row.source_list, digest), True)
    except (NotFound, Corrupt) as error:
        return ReadVersions(own, False, error.message)


def encode(versions: Sequence[MaterializationRef]) -> bytes:
    columns = [[getattr(each, name) for each in versions] for name in _SCHEMA.names]
    table = pa.table(columns, schema=_SCHEMA)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False)
    return sink.getvalue()


def decode(raw: bytes) -> tuple[MaterializationRef, ...]:
    table = pq.ParquetFile(pa.BufferReader(raw)).read()
    columns = [table.column(name).to_pylist() for name in _SCHEMA.names]
    return tuple(
        [
            MaterializationRef(partition=p, materialization_id=id, path=path, rows=rows, bytes=size)
            for p, id, path, rows, size in zip(*columns, strict=True)
        ]
    )
