"""Inputs: the files of an upstream's materializations, as one table.

Inputs are the planned versions, by their folders. A version without files is an error and not an
empty table (TRAPS 4): its asset returned nothing, or its files were deleted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from arco.columns.arrow import plain, scalar_type
from arco.columns.widening import unified
from arco.errors import Corrupt, NotFound
from arco.storage import parallel
from arco.storage.footers import parquet_files
from arco.storage.port import ObjectMeta, Store
from arco.tasks.input_failures import input_damaged, input_missing, versions_differ
from arco.worker.column_ranges import ColumnsRead, read_columns
from arco.worker.failures import TaskFailed, failed
from servo.context import AssetIn, Reader
from servo.contract.partition import PartitionKey
from servo.contract.task import InputRef, MaterializationRef
from servo.suggest import did_you_mean


class _InputFile(NamedTuple):
    version: MaterializationRef
    meta: ObjectMeta


def asset_in(ref: InputRef, reader: Reader | None) -> AssetIn:
    """An input as a function is given it."""
    return AssetIn(
        ref.asset,
        parameter=ref.parameter,
        materializations=ref.materializations,
        paths=[version.path for version in ref.materializations],
        reader=reader,
    )


def read_input(
    store: Store,
    ref: InputRef,
    kind: str = "arrow",
    *,
    columns: Sequence[str] = (),
    on_bytes: Callable[[int], None] | None = None,
) -> Any:
    """All rows of an input, as an Arrow table or a pandas or polars frame.

    Columns are matched by name, and widened where versions differ. A dimension of the partition
    becomes a column where the files have none of that name. With `columns`, only the bytes of those
    are fetched, and they are in that order; case does not matter, as in Spark. `on_bytes` is called
    with the number of bytes read.
    """
    files = _planned_files(store, ref)
    read = _read(store, ref, files, columns)
    if on_bytes is not None:
        on_bytes(sum(each.size for each in read))
    tables = [
        with_dimensions(each.table, PartitionKey.parse(file.version.partition))
        for file, each in zip(files, read, strict=True)
    ]
    table = _joined(ref, tables)
    if columns:
        own = {name.lower(): name for name in table.column_names}
        for name in columns:
            if name.lower() not in own:
                raise _no_column(ref, files[-1].version, read[-1].schema, name)
        table = table.select([own[name.lower()] for name in columns])
    return _converted(table, kind)


def input_schema(store: Store, ref: InputRef) -> pa.Schema:
    """The columns that `read_input` would give, from the footers of the files."""
    files = _planned_files(store, ref)
    read = _read(store, ref, files, (), footers=True)
    tables = [
        with_dimensions(each.schema.empty_table(), PartitionKey.parse(file.version.partition))
        for file, each in zip(files, read, strict=True)
    ]
    return _joined(ref, tables).schema


def _planned_files(store: Store, ref: InputRef) -> list[_InputFile]:
    listed = parallel.each(store, lambda version: _files(store, ref, version), ref.materializations)
    files = [file for version in listed for file in version]
    if not files:
        raise input_missing(ref, "the plan has no version of it to read")
    return files


def _no_column(
    ref: InputRef, newest: MaterializationRef, schema: pa.Schema, name: str
) -> TaskFailed:
    key = PartitionKey.parse(newest.partition)
    names = with_dimensions(schema.empty_table(), key).column_names
    hint = did_you_mean(name, names) or f"its columns: {', '.join(names)}"
    return failed("user_code", "input.column", f"{ref.asset} has no column {name!r}", hint)


def _joined(ref: InputRef, tables: list[pa.Table]) -> pa.Table:
    schemas = (plain(table.schema).remove_metadata() for table in tables)
    try:
        schema = unified(schemas).with_metadata(tables[0].schema.metadata)
        return pa.concat_tables([_conformed(table, schema) for table in tables])
    except (ValueError, pa.ArrowException) as error:
        raise versions_differ(ref, str(error)) from None


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with the schema's columns, which are null where the table has none."""
    present = set(table.column_names)
    columns = [
        table.column(each.name).cast(each.type)
        if each.name in present
        else pa.nulls(table.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _files(store: Store, ref: InputRef, version: MaterializationRef) -> list[_InputFile]:
    files = [_InputFile(version, meta) for meta in parquet_files(store, version.path)]
    if not files:
        raise input_damaged(ref, version, f"there are no files below {version.path}")
    return files


def _read(
    store: Store,
    ref: InputRef,
    files: Sequence[_InputFile],
    columns: Sequence[str],
    *,
    footers: bool = False,
) -> list[ColumnsRead]:
    metas = [file.meta for file in files]
    try:
        if columns or footers:
            return read_columns(store, metas, columns)
        return parallel.each(store, lambda meta: _read_whole(store, meta), metas)
    except (NotFound, Corrupt) as error:
        named = (f.version for f in files if f.meta.path in error.message)
        version, corrupt = next(named, files[0].version), isinstance(error, Corrupt)
        raise input_damaged(ref, version, error.message, corrupt=corrupt) from None


def _read_whole(store: Store, meta: ObjectMeta) -> ColumnsRead:
    data = store.get(meta.path).data
    try:
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{meta.path} is not a readable Parquet file: {error}") from None
    return ColumnsRead(table, table.schema, len(data))


def with_dimensions(table: pa.Table, key: PartitionKey) -> pa.Table:
    """The table with the partition's dimensions as columns. As in Spark, case is ignored."""
    present = {name.lower() for name in table.column_names}
    for name, value in key.dimensions.items():
        if name.lower() not in present:
            column = pa.repeat(pa.scalar(value, scalar_type(value)), table.num_rows)
            table = table.append_column(name, column)
    return table


def _converted(table: pa.Table, kind: str) -> Any:
    match kind:
        case "arrow":
            return table
        case "pandas":
            library(kind)
            return table.to_pandas()
        case "polars":
            return library(kind).from_arrow(table)
    raise failed(
        "user_code",
        "input.kind",
        f"{kind!r} is not a way to read",
        "arrow, pandas, polars or lazy",
    )


def library(name: str) -> Any:
    """A module that only the code of assets needs. Raises TaskFailed where it is missing."""
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ImportError:
        raise failed(
            "configuration",
            "import.missing",
            f"reading as {name} needs the package {package!r}",
            f"install the package {package!r} for the workers",
        ) from None
