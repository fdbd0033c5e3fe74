"""Inputs: the files of an upstream's materializations, as one table.

What is read was planned: exact versions, by their folders. A version without files
is an error and not an empty table (TRAPS 4): either its asset returned nothing, or
somebody removed them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from arco.errors import NotFound
from arco.spark import types
from arco.storage import parallel
from arco.storage.footers import parquet_files
from arco.storage.port import Store
from arco.worker.failures import TaskFailed, failed
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import InputRef, MaterializationRef
from servo.suggest import did_you_mean


class _File(NamedTuple):
    version: MaterializationRef
    path: str


def read_input(
    store: Store,
    ref: InputRef,
    kind: str = "arrow",
    *,
    columns: Sequence[str] = (),
    on_bytes: Callable[[int], None] | None = None,
) -> Any:
    """All rows of an input, as an Arrow table or a pandas or polars frame.

    Columns are matched by name, and widened where versions differ. A dimension of
    the partition becomes a column where the files have none of that name. With `columns`,
    only those are read, in that order; case does not matter, as in Spark. `on_bytes` is
    told how much was read.
    """
    files = [file for version in ref.materializations for file in _files(store, ref, version)]
    if not files:
        raise _missing(ref, "no materialization of it was planned to be read")
    read = parallel.each(store, lambda file: _read(store, ref, file, columns), files)
    if on_bytes is not None:
        on_bytes(sum(size for _, size in read))
    table = _joined(ref, [table for table, _ in read])
    if columns:
        own = {name.lower(): name for name in table.column_names}
        for name in columns:
            if name.lower() not in own:
                raise _no_column(store, ref, files[-1], name)
        table = table.select([own[name.lower()] for name in columns])
    return _converted(table, kind)


def _no_column(store: Store, ref: InputRef, newest: _File, name: str) -> TaskFailed:
    schema = pq.read_schema(pa.BufferReader(store.get(newest.path).data))
    key = PartitionKey.parse(newest.version.partition)
    there = _with_dimensions(schema.empty_table(), key).column_names
    hint = did_you_mean(name, there) or f"it has {', '.join(there)}"
    return failed("user_code", "input.column", f"{ref.asset} has no column {name!r}", hint)


def _joined(ref: InputRef, tables: list[pa.Table]) -> pa.Table:
    plain = (types.plain(table.schema).remove_metadata() for table in tables)
    try:
        schema = types.unified(plain).with_metadata(tables[0].schema.metadata)
        return pa.concat_tables([_conformed(table, schema) for table in tables])
    except (ValueError, pa.ArrowException) as error:
        raise _differ(ref, str(error)) from None


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with the schema's columns, which are null where the table has none."""
    there = set(table.column_names)
    columns = [
        table.column(each.name).cast(each.type)
        if each.name in there
        else pa.nulls(table.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _differ(ref: InputRef, why: str) -> TaskFailed:
    return failed(
        "input",
        "input.schema",
        f"the versions of {ref.asset} do not go together: {why}",
        "materialize the older partitions again",
    )


def _files(store: Store, ref: InputRef, version: MaterializationRef) -> list[_File]:
    files = [_File(version, meta.path) for meta in parquet_files(store, version.path)]
    if not files:
        shown = f"partition {version.partition!r}" if version.partition else "its output"
        raise _missing(ref, f"{shown} has no files below {version.path}")
    return files


def _read(store: Store, ref: InputRef, file: _File, columns: Sequence[str]) -> tuple[pa.Table, int]:
    try:
        data = store.get(file.path).data
        source = pa.BufferReader(data)
        table = pq.read_table(source, columns=_wanted(source, columns) if columns else None)
    except NotFound:
        raise _missing(ref, f"{file.path} is gone") from None
    except pa.ArrowException as error:
        raise failed(
            "infrastructure",
            "input.corrupt",
            f"{file.path} is no readable Parquet file: {error}",
            f"materialize {ref.asset} again",
        ) from None
    return _with_dimensions(table, PartitionKey.parse(file.version.partition)), len(data)


def _wanted(source: pa.BufferReader, columns: Sequence[str]) -> list[str]:
    """Those that the file has, as it writes them."""
    asked = {name.lower() for name in columns}
    found = [name for name in pq.read_schema(source).names if name.lower() in asked]
    source.seek(0)
    return found


def _with_dimensions(table: pa.Table, key: PartitionKey) -> pa.Table:
    """As Spark has it, which does not tell names apart by case."""
    there = {name.lower() for name in table.column_names}
    for name, value in key.dimensions.items():
        if name.lower() not in there:
            column = pa.repeat(pa.scalar(value, _type_of(value)), table.num_rows)
            table = table.append_column(name, column)
    return table


def _type_of(value: Scalar) -> pa.DataType:
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64()
        case datetime():
            return pa.timestamp("us", tz="UTC")
        case date():
            return pa.date32()
        case str():
            return pa.string()


def _converted(table: pa.Table, kind: str) -> Any:
    match kind:
        case "arrow":
            return table
        case "pandas":
            _library(kind)
            return table.to_pandas()
        case "polars":
            return _library(kind).from_arrow(table)
    raise failed(
        "user_code", "input.kind", f"{kind!r} is no way to read", "arrow, pandas or polars"
    )


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise failed(
            "configuration",
            "import.missing",
            f"reading as {name} needs the package {name!r}",
            f"install the package {name!r} for the workers",
        ) from None


def _missing(ref: InputRef, why: str) -> TaskFailed:
    return failed(
        "input",
        "input.missing",
        f"the input {ref.asset} cannot be read: {why}",
        "materialize it first; if only its order matters, name it in deps=",
    )
