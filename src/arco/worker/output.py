"""From the return value of an asset's function to Parquet files and a materialization.

A function may return nothing, an Arrow table, batch or reader, a pandas or polars
frame, a polars LazyFrame (`lazy_frames`), or an iterable of any of these or of rows
(dicts), each of them plain or inside
of an `AssetOut`. A generator is such an iterable: what it yields is written as it
comes, so that an output need not fit in memory. Files are cut at a target size. Rows,
sizes and statistics are those that the Parquet writer put into the footers. Times are
kept in microseconds, moments in UTC, half floats as floats and dictionaries as their
values, because that is what Spark can read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from arco.columns import types
from arco.columns.arrow import arrow_fields, rebuilt
from arco.storage.footers import NAN_METADATA, nan_columns, nan_metadata
from arco.storage.port import Store
from arco.storage.unique_objects import put_own
from arco.tasks.output_columns import check_columns
from arco.tasks.write_options import WriteOptions
from arco.worker.failures import TaskFailed, failed
from arco.worker.footers import Footer, columns_of, schema_hash
from arco.worker.frames import is_frame
from arco.worker.secrets import Redactor, SecretScalar
from servo.contract import canonical
from servo.contract.task import ColumnInfo, Materialization, TaskRequest

TARGET_FILE_BYTES: Final = 128 << 20
GROUP_BYTES: Final = 64 << 20
GROUP_ROWS: Final = 1 << 20
ROWS_AT_ONCE: Final = 10_000
"""Single rows are collected into tables of this many rows."""
MAX_METADATA_CHARS: Final = 4096
MAX_METADATA_VALUES: Final = 256
MAX_METADATA_NAME_CHARS: Final = 256
MAX_METADATA_BYTES: Final = 128 << 10
"""All names and values together: they are part of one event, and of one row."""

_ALLOWED = (
    "return a Spark DataFrame, a pyarrow Table, RecordBatch or reader, a pandas or polars "
    "DataFrame, a polars LazyFrame, an iterable of those (not of Spark DataFrames or "
    "LazyFrames) or of rows as dicts, or an AssetOut with one of them"
)


class Written(NamedTuple):
    """The files of one output, in the order of their names."""

    files: tuple[str, ...] = ()
    rows: int = 0
    bytes: int = 0
    schema: tuple[ColumnInfo, ...] = ()
    schema_hash: str = ""
    footers: tuple[Footer, ...] = ()


def summed_up(
    footers: Sequence[Footer],
    redact: Redactor,
    schema: pa.Schema | None = None,
    pii: Collection[str] = (),
) -> Written:
    """An output's files by their footers, which are in the order of the names.

    Of the columns in `pii`, in lower case, no value is kept.
    """
    columns = columns_of(footers, schema, redact, pii)
    return Written(
        files=tuple(footer.path.rpartition("/")[2] for footer in footers),
        rows=sum(footer.metadata.num_rows for footer in footers),
        bytes=sum(footer.size for footer in footers),
        schema=columns,
        schema_hash=schema_hash(columns),
        footers=tuple(footers),
    )


def materialization(
    request: TaskRequest, id: str, written: Written, metadata: dict[str, SecretScalar]
) -> Materialization:
    """The body of the commit marker."""
    return Materialization(
        materialization_id=id,
        asset=request.asset,
        asset_id=request.asset_id,
        partition=request.partition,
        run_id=request.run_id,
        task_id=request.task_id,
        attempt_id=request.attempt_id,
        path=folder(request, id),
        files=written.files,
        rows=written.rows,
        bytes=written.bytes,
        schema=written.schema,
        schema_hash=written.schema_hash,
        fingerprint=request.fingerprint,
        metadata=metadata,
    )


def folder(request: TaskRequest, id: str) -> str:
    return f"{request.output}/{id}"


def metadata_of(given: Mapping[str, object], redact: Redactor) -> dict[str, SecretScalar]:
    """What is recorded of an output's metadata: redacted, and what is no scalar as text.

    Redacted before it is cut, so that no half of a secret is left. Raises TaskFailed.
    """
    if len(given) > MAX_METADATA_VALUES:
        raise _too_much(f"{len(given):,} values", f"{MAX_METADATA_VALUES:,}")
    masked = redact.mapping({str(name): _scalar(value) for name, value in given.items()})
    longest = max(map(len, masked), default=0)
    if longest > MAX_METADATA_NAME_CHARS:
        raise _too_much(
            f"a name of {longest:,} characters", f"{MAX_METADATA_NAME_CHARS:,} characters"
        )
    metadata = {
        name: value[:MAX_METADATA_CHARS] if isinstance(value, str) else value
        for name, value in masked.items()
    }
    size = sum(len(f"{name}{value}".encode("utf-8", "replace")) for name, value in metadata.items())
    if size > MAX_METADATA_BYTES:
        raise _too_much(f"{size:,} bytes", f"{MAX_METADATA_BYTES:,} bytes")
    return metadata


def _too_much(what: str, limit: str) -> TaskFailed:
    return failed(
        "user_code",
        "output.metadata",
        f"the metadata of the output has {what}; the limit is {limit}",
        "metadata is for a few short values: put the rest into the data, "
        "or into a file and its path here",
    )


def _scalar(value: object) -> SecretScalar:
    if value is None or type(value) in (bool, str):
        return value  # type: ignore[return-value]
    if type(value) is int and abs(value) <= canonical.MAX_INT:
        return value
    return str(value)


# -- what was returned, as tables ---------------------------------------------------------


def tables_of(value: object) -> Iterator[pa.Table]:
    """The returned data as Arrow tables, created lazily. Raises TaskFailed for other types.

    Iterating may run user code: the body of a generator.
    """
    whole = table_of(value)
    if whole is not None:
        return iter((whole,))
    if isinstance(value, pa.RecordBatchReader):
        empty = value.schema.empty_table()
        return itertools.chain((empty,), (pa.Table.from_batches([batch]) for batch in value))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return _items(value)
    raise _unsuitable(value)


def _items(values: Iterable[object]) -> Iterator[pa.Table]:
    """A table for each item; rows in a row become tables together."""
    rows: list[Mapping[str, object]] = []
    names: dict[str, None] = {}
    for item in values:
        if isinstance(item, Mapping):
            rows.append(item)
        if rows and (len(rows) == ROWS_AT_ONCE or not isinstance(item, Mapping)):
            yield _table_of_rows(rows, names)
            rows = []
        if not isinstance(item, Mapping):
            yield _item(item)
    if rows:
        yield _table_of_rows(rows, names)


def _table_of_rows(rows: Sequence[Mapping[str, object]], names: dict[str, None]) -> pa.Table:
    """Columns in the order in which rows name them; `names` has those of earlier tables."""
    names |= dict.fromkeys(str(name) for row in rows for name in row)
    columns = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except pa.ArrowException as error:
            raise failed(
                "user_code",
                "output.type",
                f"the values of {name!r} in these rows are not of one type: {error}",
                "give the column one type in all rows, or yield tables with a schema",
            ) from None
    return pa.table(columns)


def _item(value: object) -> pa.Table:
    table = table_of(value)
    if table is None:
        raise _unsuitable(value, "an iterable with ")
    return table


def table_of(value: Any) -> pa.Table | None:
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    # A frame exists only if its library has been imported; we import neither.
    if is_frame(value, "pandas"):
        return _from_pandas(value)
    if is_frame(value, "polars"):
        return value.to_arrow()
    return None


def _from_pandas(frame: Any) -> pa.Table:
    """Levels of the index that have a name become columns; an index that counts rows is left out.

    Arrow would keep an index or not, depending on its content.
    """
    named = [at for at, name in enumerate(frame.index.names) if name is not None]
    try:
        frame = frame.reset_index(level=named) if named else frame
    except ValueError as error:
        hint = "rename the index, or drop it: reset_index(drop=True)"
        raise failed(
            "user_code",
            "output.columns",
            f"the frame's index cannot become a column: {error}",
            hint,
        ) from None
    return pa.Table.from_pandas(frame, preserve_index=False)


def _unsuitable(value: object, within: str = "") -> Exception:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    hint = "call .collect() on it" if kind.endswith("LazyFrame") else _ALLOWED
    return failed(
        "user_code", "output.type", f"the asset returned {within}a value of type {kind}", hint
    )


# -- writing ------------------------------------------------------------------------------


def write(
    store: Store,
    folder: str,
    tables: Iterable[pa.Table],
    *,
    redact: Redactor,
    io: Mapping[str, str] | None = None,
    target_bytes: int = TARGET_FILE_BYTES,
    check: Callable[[], None] = lambda: None,
    pii: Collection[str] = (),
) -> Written:
    """Put the tables under `folder` as `part-00000.parquet` and so on.

    All have the schema of the first one. `io` is the asset's: `compression` and `target_file_size`.
    `check` is called before each file is put, and may raise to end it. For `pii`, see `summed_up`.
    """
    sink = _Parts(store, folder, _options(io or {}, target_bytes), check)
    for group in _groups(tables, redact):
        sink.add(group)
    schema, footers = sink.finish()
    return Written() if schema is None else summed_up(footers, redact, schema, pii)


def _options(io: Mapping[str, str], target_bytes: int) -> WriteOptions:
    for key in ("files", "sort_by"):
        if key in io:
            raise failed(
                "configuration",
                "io.invalid",
                f"io: {key} is for Spark DataFrames",
                "sort or split the rows before you return them, or return a Spark DataFrame",
            )
    return WriteOptions.of(io, target_bytes)


def _groups(tables: Iterable[pa.Table], redact: Redactor) -> Iterator[pa.Table]:
    """The same rows in tables of a row group's size: small ones joined, big ones cut."""
    schema: pa.Schema | None = None
    waiting: list[pa.Table] = []
    size = rows = 0
    for table in tables:
        if schema is None:
            schema = _checked_schema(table.schema, redact)
            yield schema.empty_table()
        for part in _cut(table):  # first, so that little is cast at once
            waiting.append(conformed(part, schema))
            size, rows = size + waiting[-1].nbytes, rows + part.num_rows
            if size >= GROUP_BYTES or rows >= GROUP_ROWS:
                yield from _cut(pa.concat_tables(waiting))
                waiting, size, rows = [], 0, 0
    if waiting:
        yield from _cut(pa.concat_tables(waiting))


def _cut(table: pa.Table) -> Iterator[pa.Table]:
    width = max(table.nbytes // max(table.num_rows, 1), 1)
    step = max(min(GROUP_ROWS, GROUP_BYTES // width), 1)
    for start in range(0, max(table.num_rows, 1), step):
        yield table.slice(start, step)


def _checked_schema(schema: pa.Schema, redact: Redactor) -> pa.Schema:
    """The schema that is written; TaskFailed for what a frame of Spark's may not have either."""
    _check_depth(schema)
    columns = [each.with_type(rebuilt(each.type, _readable)) for each in schema]
    written = pa.schema(columns, _own_metadata(schema))
    try:
        fields = arrow_fields(written)
    except ValueError as error:
        raise failed("user_code", "output.columns", str(error), "cast it to another type") from None
    check_columns(fields)
    check_secrets(fields, redact)
    return written


def _check_depth(schema: pa.Schema) -> None:
    level, depth = list(schema), 0
    while level:
        depth += 1
        if depth > types.MAX_DEPTH:
            raise too_deep()
        level = [
            each.type.field(at)
            for each in level
            if pa.types.is_nested(each.type)
            for at in range(each.type.num_fields)
        ]


def too_deep() -> TaskFailed:
    return failed(
        "user_code",
        "output.columns",
        f"a column is nested more than {types.MAX_DEPTH} levels deep",
        "flatten it, or store the inner part as JSON text",
    )


def check_secrets(columns: Sequence[types.SparkField], redact: Redactor) -> None:
    """TaskFailed where a column, or a field inside of one, contains a secret in its name.

    Names are in events, tables and markers. Masking a name would rename the column.
    """
    for number, column in enumerate(columns, 1):
        if any(redact(name) != name for name in types.names(column)):
            raise failed(
                "user_code",
                "output.secret",
                f"the name of column {number} of the output, or of a field in "
                "it, contains a secret",
                "choose other names: names are stored and visible to everybody",
            )


def _own_metadata(schema: pa.Schema) -> dict[bytes, bytes]:
    """Without the metadata that an input's writer added about the input's columns."""
    return {
        key: value
        for key, value in (schema.metadata or {}).items()
        if key != NAN_METADATA.encode() and not key.startswith(b"org.apache.spark.")
    }


def _readable(type: pa.DataType) -> pa.DataType:
    """The nearest type that every reader of Parquet knows, Spark among them."""
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", None if type.tz is None else "UTC")
    if pa.types.is_time(type):
        return pa.time64("us")
    if pa.types.is_duration(type):
        return pa.duration("us")
    return pa.float32() if pa.types.is_float16(type) else type


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.equals(schema):
        return table
    more = [repr(name) for name in table.column_names if name not in schema.names]
    if more:
        raise failed(
            "user_code",
            "output.schema",
            f"a later batch has columns that the first does not have: {', '.join(more)}",
            "use the same schema for all batches of an output",
        )
    try:
        return table.select(schema.names).cast(schema)
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise failed(
            "user_code",
            "output.schema",
            f"these rows do not match the output's columns: {error}",
            "use the same schema for all batches of an output, and times with at most microseconds "
            "(pandas: column.dt.floor('us'))",
        ) from None


class _Parts:
    """The file under way, and the footers of the finished ones."""

    def __init__(
        self, store: Store, folder: str, options: WriteOptions, check: Callable[[], None]
    ) -> None:
        self._store = store
        self._folder = folder
        self._options = options
        self._check = check
        self._schema: pa.Schema | None = None
        self._metadata: list[Any] = []
        self._footers: list[Footer] = []
        self._nan: set[str] = set()
        self._writer: Any = None
        self._buffer: Any = None

    def add(self, table: pa.Table) -> None:
        self._schema = self._schema or table.schema
        if self._writer is None:
            self._open()
        if table.num_rows:
            self._nan |= nan_columns(table)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
            if self._buffer.tell() >= self._options.target_bytes:
                self._close()

    def finish(self) -> tuple[pa.Schema | None, list[Footer]]:
        if self._writer is not None:
            self._close()
        return self._schema, self._footers

    def _open(self) -> None:
        self._nan = set()
        self._buffer = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._buffer,
            self._schema,
            compression=self._options.compression,
            write_page_checksum=True,
            metadata_collector=self._metadata,
        )

    def _close(self) -> None:
        self._writer.add_key_value_metadata(nan_metadata(self._nan))
        self._writer.close()
        self._writer = None
        data = self._buffer.getvalue().to_pybytes()
        path = f"{self._folder}/part-{len(self._footers):05d}.parquet"
        self._check()
        put_own(self._store, path, data)
        self._footers.append(Footer(path, len(data), self._metadata[-1]))
