"""Change files: the few rows that a commit changed, of all tables, in one Parquet file.

A table file has a column for each column of its table, which costs some 150 bytes each
before the first value. A commit changes one or two rows in each of a dozen tables, so its
rows go into one file with five columns instead:

    table         `domain.name`
    row           the row as a JSON object; of a row that was deleted, its key alone
    row_version   the position of the event that last changed it
    _deleted      whether that deleted it
    _bucket       its bucket in its table

Rows are sorted by table, then as in a table file. Any engine that reads Parquet and JSON
reads it; `arco.state.sql` does it with DuckDB alone. Merges turn change files into fewer
ones, and then into table files.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.errors import Corrupt
from arco.log.manifest import ChangesRef, FileRef, TableChanges, sha256
from arco.state.arrow_columns import values_of
from arco.state.table import Key, Table, Versioned
from arco.storage import paths

SCHEMA = pa.schema(
    [
        ("table", pa.string()),
        ("row", pa.string()),
        ("row_version", pa.int64()),
        ("_deleted", pa.bool_()),
        ("_bucket", pa.uint8()),
    ]
)
FEW = 256
"""Maximum of changed rows of a table in a change file; more get an L0 file."""

Changes = Mapping[Table[Any], Mapping[Key, Versioned[Any]]]


def belongs(table: Table[Any], rows: Mapping[Key, Versioned[Any]]) -> bool:
    """Whether a table's changed rows go into a change file."""
    return len(rows) <= FEW and table.fits_json(rows.values())


def encode(changes: Changes, nonce: str, now: datetime) -> tuple[bytes, ChangesRef]:
    """Changed rows as a change file, with its reference."""
    lines: list[tuple[str, bytes, int, bool, int]] = []
    tables: dict[str, TableChanges] = {}
    for name, table in sorted((str(table), table) for table in changes):
        rows = changes[table]
        order = sorted([(table.bucket(key), key) for key in rows])
        changed = [version for version, _ in rows.values()]
        tables[name] = TableChanges(
            len(order),
            (order[0][0], order[-1][0]),
            (min(changed), max(changed)),
            len(table.columns),
        )
        for bucket, key in order:
            version, row = rows[key]
            lines.append((name, table.to_json(key, row), version, row is None, bucket))
    columns = zip(*lines, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    raw = encoded(pa.table(arrays, schema=SCHEMA))
    versions = [line[2] for line in lines]
    last = max(versions)
    ref = ChangesRef(
        paths.changes(last, nonce), len(raw), sha256(raw), (min(versions), last), now, tables
    )
    return raw, ref


def encoded(rows: pa.Table) -> bytes:
    """Rows of a change file as the bytes of one."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression={"row": "zstd", "table": "zstd"},
        compression_level={"row": 1, "table": 1},
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


def parse(raw: bytes, path: str) -> pa.RecordBatch:
    """All rows of a change file."""
    try:
        # Not `read_table`, which uses other threads even for a small file.
        file = pq.ParquetFile(pa.BufferReader(raw), page_checksum_verification=True)
        table = file.read(use_threads=False).select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowInvalid, KeyError, OSError) as error:
        raise Corrupt(f"{path} is not a change file: {error}", hint="run fsck") from None
    return table.combine_chunks().to_batches()[0]


def rows_of(batch: pa.RecordBatch, table: Table[Any], ref: FileRef) -> pa.Table:
    """The rows of one table, in columns, in file order."""
    return table.to_arrow(versioned_rows(batch, table, ref))


def versioned_rows(
    batch: pa.RecordBatch, table: Table[Any], ref: FileRef
) -> dict[Key, Versioned[Any]]:
    """The rows of one table, by key."""
    own = batch.filter(pc.equal(batch.column("table"), ref.table))
    if own.num_rows != ref.rows:
        raise Corrupt(
            f"{ref.path} has {own.num_rows} rows of {ref.table}, not {ref.rows}", hint="run fsck"
        )
    rows: dict[Key, Versioned[Any]] = {}
    versions = values_of(own.column("row_version"))
    deleted = own.column("_deleted").to_pylist()
    try:
        for i, text in enumerate(own.column("row").to_pylist()):
            key, row = table.from_json(text, deleted[i])
            rows[key] = (versions[i], row)
    except (ValueError, KeyError) as error:  # msgspec's errors are ValueErrors
        raise Corrupt(f"{ref.path} has rows that are not of {table}: {error}") from None
    return rows
