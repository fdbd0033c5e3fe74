"""Segments: the permanent, ordered log, as Parquet.

A segment holds the events of one commit, or of several that were joined, in the order of
their positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from arco.errors import Corrupt, NotFound
from arco.log.arrays import array_of
from arco.log.envelope import Event, EventTypes, Origin, Recorded
from arco.log.manifest import SegmentRef, verified
from arco.storage.port import Store
from arco.storage.seal import read_checked

SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("received_at", pa.timestamp("us")),
        ("id", pa.string()),
        ("type", pa.string()),
        ("version", pa.int32()),
        ("time", pa.timestamp("us")),
        ("source", pa.string()),
        ("tenant_id", pa.string()),
        ("workspace_id", pa.string()),
        ("idempotency_key", pa.string()),
        ("correlation_id", pa.string()),
        ("causation_id", pa.string()),
        ("actor", pa.string()),
        ("traceparent", pa.string()),
        ("data", pa.string()),
        ("origin", pa.string()),
    ]
)


_origins = msgspec.json.Decoder(Origin)

FEW = 50
"""Up to this number of events, only their data is prepared for compression."""


def to_table(events: Sequence[Recorded]) -> pa.Table:
    envelopes = [recorded.event for recorded in events]
    columns: dict[str, Sequence[Any]] = {
        field: list(map(attrgetter(field), envelopes)) for field in Event.__struct_fields__
    }
    columns["position"] = [recorded.position for recorded in events]
    columns["received_at"] = [recorded.received_at for recorded in events]
    columns["data"] = list(map(bytes, columns["data"]))
    columns["origin"] = [_origin_text(origin) for origin in columns["origin"]]
    return pa.table([array_of(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


def _origin_text(origin: Origin | None) -> str | None:
    return None if origin is None else msgspec.json.encode(origin).decode()


def encode(events: Sequence[Recorded]) -> bytes:
    return encode_table(to_table(events))


def encode_table(events: pa.Table) -> bytes:
    is_small = events.num_rows < FEW
    sink = pa.BufferOutputStream()
    pq.write_table(
        events,
        sink,
        compression={"data": "zstd"} if is_small else "zstd",
        compression_level={"data": 1} if is_small else 1,
        use_dictionary=not is_small and ["type", "source", "tenant_id", "workspace_id", "actor"],
        write_statistics=["position", "type", "received_at"],
        store_schema=False,
    )
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_table(store: Store, ref: SegmentRef) -> pa.Table:
    """A segment's events as Arrow, verified against its reference."""
    try:
        raw = read_checked(store, ref.path, lambda raw: verified(raw, ref.sha256, ref.path))
    except NotFound:
        raise Corrupt(f"{ref.path} is missing", hint="restore it from a backup") from None
    return parse(raw, ref)


def parse(raw: bytes, ref: SegmentRef) -> pa.Table:
    """A segment's events as Arrow, from bytes that were verified."""
    try:
        # The bytes are here already. Arrow's own threads would only outlive the call, and
        # abort a process that ends right after it (apache/arrow#34314).
        file = pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
        if file.schema_arrow.equals(SCHEMA):
            table = file.read(use_threads=False)
        else:  # of another version, with fewer columns or more; four times as slow
            table = pq.read_table(
                pa.BufferReader(raw), schema=SCHEMA, use_threads=False, pre_buffer=False
            )
    except pa.ArrowInvalid as error:
        raise Corrupt(f"{ref.path} is not a segment: {error}") from None
    if table.num_rows != ref.last - ref.first + 1:
        raise Corrupt(f"{ref.path} has {table.num_rows} events, not {ref.last - ref.first + 1}")
    return table


def decode(table: pa.Table, types: EventTypes) -> Iterator[Recorded]:
    """The events of a segment, with payloads of the types that are known."""
    names = table.column_names
    for batch in table.to_batches(max_chunksize=4096):
        columns = [batch.column(i).to_pylist() for i in range(batch.num_columns)]
        for values in zip(*columns, strict=True):
            row = dict(zip(names, values, strict=True))
            position, received_at = row.pop("position"), row.pop("received_at")
            row["time"] = row["time"].replace(tzinfo=UTC)
            row["data"] = msgspec.Raw(row["data"].encode())
            if row["origin"] is not None:
                row["origin"] = _origins.decode(row["origin"])
            event = Event(**row)
            payload = types.decode(event.type, event.version, event.data)
            yield Recorded(position, received_at, event, payload)
