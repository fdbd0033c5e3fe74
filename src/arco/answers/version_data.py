"""The files of a version: their statistics, and the first rows.

Both read footers, and only the beginning of the shown columns: the cost does not depend on the size
of the version. Personal columns are neither fetched nor shown, unless requested.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from arco.errors import Corrupt, Invalid, NotFound
from arco.execution.states import VersionStatus
from arco.execution.tables import MaterializationRow
from arco.orchestration.personal_data import PersonalDataReader
from arco.state.snapshot import Snapshot
from arco.storage import parallel
from arco.storage.footers import parquet_files, read_footer
from arco.storage.port import ObjectMeta, Store
from arco.worker.column_ranges import (
    ByteRange,
    RangedFile,
    chunk_range,
    joined_ranges,
    top_column,
)
from arco.worker.footers import columns_of
from arco.worker.inputs import with_dimensions
from arco.worker.secrets import MASK
from servo.contract.partition import PartitionKey
from servo.contract.task import ColumnInfo
from servo.suggest import did_you_mean

DESCRIBED: Final = 10
"""Maximum of files with rows and statistics; others have path and size."""
LISTED: Final = 1_000
HEAD_BYTES: Final = 256 << 10
"""Bytes of a column that are fetched at once."""


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size_bytes: int
    row_count: int | None = None
    columns: tuple[ColumnInfo, ...] = ()


class FileList(msgspec.Struct, frozen=True):
    files: list[FileEntry]
    total: int


class FirstRows(msgspec.Struct, frozen=True):
    table: pa.Table
    masked: list[str]
    """Columns whose values are not shown."""
    fetched: int
    """Bytes."""
    more_columns: int = 0
    """The number of columns that are left out."""


def personal_columns(asset_id: str, *snapshots: Snapshot) -> frozenset[str]:
    """The columns that are personal or restricted, by classification or inheritance.

    By all names that they have in files, in lower case. A field inside of a column hides the whole
    column: `customer.email` hides `customer`.
    """
    names = (name for each in snapshots for name in PersonalDataReader(each).hidden(asset_id))
    paths = (name.lower().split(".") for name in names)
    heads = (itertools.accumulate(path, "{}.{}".format) for path in paths)
    return frozenset(head for each in heads for head in each)


def files_of(store: Store, version: MaterializationRow, hidden: Collection[str] = ()) -> FileList:
    """The files of a version. No bound of a hidden column is among their statistics."""
    metas = _files(store, version)
    described = parallel.each(
        store, lambda meta: _described(store, version, meta, hidden), metas[:DESCRIBED]
    )
    rest = (_entry(version, meta) for meta in metas[DESCRIBED:LISTED])
    return FileList([*described, *rest], len(metas))


def _described(
    store: Store, version: MaterializationRow, meta: ObjectMeta, hidden: Collection[str]
) -> FileEntry:
    footer = read_footer(store, meta)
    return msgspec.structs.replace(
        _entry(version, meta),
        row_count=footer.metadata.num_rows,
        columns=columns_of([footer], None, lambda text: text, hidden),
    )


def _entry(version: MaterializationRow, meta: ObjectMeta) -> FileEntry:
    return FileEntry(path=meta.path.removeprefix(f"{version.path}/"), size_bytes=meta.size)


def _files(store: Store, version: MaterializationRow) -> list[ObjectMeta]:
    """In the order of their names. NotFound where they were deleted."""
    metas = parquet_files(store, version.path)
    if metas or not version.files:
        return metas
    expired = version.status == VersionStatus.EXPIRED
    why = f"it is expired: {version.reason}" if expired else "they are missing"
    raise NotFound(
        f"version {version.materialization_id} has no files: {why}",
        hint="choose another version" if expired else "see `servo admin fsck --data`",
    )


# -- rows ---------------------------------------------------------------------------------


def first_rows(
    store: Store,
    version: MaterializationRow,
    limit: int,
    columns: Sequence[str] = (),
    hidden: Collection[str] = (),
    *,
    max_columns: int | None = None,
) -> FirstRows:
    """The first rows of a version, in the order of its files: all columns, or these.

    Names are compared without case, as in Spark. Dimensions of the partition that the files do not
    have are columns too.
    """
    metas = _files(store, version)
    if not metas:
        return FirstRows(pa.table({}), [], 0)
    key = PartitionKey.parse(version.partition_key)
    parts: list[pa.Table] = []
    fetched = count = 0
    names: list[str] = []
    more = 0
    for meta in metas:
        file = RangedFile(store, meta)
        file.load_footer()
        schema = file.metadata.schema.to_arrow_schema()
        names = _chosen(with_dimensions(schema.empty_table(), key).column_names, columns)
        more = 0 if max_columns is None else max(len(names) - max_columns, 0)
        names = names[:max_columns]
        own = [n for n in names if n in schema.names and n.lower() not in hidden]
        table = _head(store, file, own, limit - count)
        parts.append(_masked(table, schema, key, names, hidden))
        fetched += file.fetched
        count += table.num_rows
        if count >= limit:
            break
    masked = [name for name in names if name.lower() in hidden]
    return FirstRows(pa.concat_tables(parts, promote_options="permissive"), masked, fetched, more)


def _chosen(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    if not columns:
        return list(names)
    by_name = {name.lower(): name for name in names}
    chosen = []
    for text in columns:
        # A name may have a comma in it.
        for name in [text] if text.lower() in by_name else text.split(","):
            if name.strip().lower() not in by_name:
                hint = did_you_mean(name, names) or f"its columns: {', '.join(names)}"
                raise Invalid(f"there is no column {name.strip()!r}", hint=hint)
            chosen.append(by_name[name.strip().lower()])
    return list(dict.fromkeys(chosen))


def _head(store: Store, file: RangedFile, names: list[str], limit: int) -> pa.Table:
    """The first rows of a file, from its first row groups."""
    metadata = file.metadata
    schema = metadata.schema.to_arrow_schema()
    if not names:
        rows = min(limit, metadata.num_rows)
        return pa.table({"": pa.nulls(rows)})
    fields = pa.schema([schema.field(name) for name in names])
    parts: list[pa.Table] = [fields.empty_table()]
    count = 0
    for group in range(metadata.num_row_groups):
        if count >= limit:
            break
        part = _group_head(store, file, group, names, limit - count)
        parts.append(part)
        count += part.num_rows
    return pa.concat_tables(parts, promote_options="permissive")


def _group_head(
    store: Store, file: RangedFile, group: int, names: list[str], limit: int
) -> pa.Table:
    heads = joined_ranges(list(_heads(file.metadata, group, set(names))))
    parallel.each(store, file.fetch, [] if file.is_whole else heads)
    try:
        with pq.ParquetFile(
            pa.PythonFile(file, mode="r"),
            metadata=file.metadata,
            pre_buffer=False,
            buffer_size=HEAD_BYTES,
        ) as parquet:
            first: list[pa.RecordBatch] = []
            for batch in parquet.iter_batches(limit, row_groups=[group], columns=names):
                first.append(batch)
                limit -= batch.num_rows
                if limit <= 0:
                    break
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{file.meta.path} is not a readable Parquet file: {error}") from None
    schema = file.metadata.schema.to_arrow_schema()
    if not first:
        return pa.schema([schema.field(name) for name in names]).empty_table()
    # A name with a dot may be taken for a field of another column.
    return pa.Table.from_batches(first).select(names)


def _heads(metadata: Any, group: int, names: Collection[str]) -> Iterable[ByteRange]:
    """Where the columns of a row group begin."""
    row_group = metadata.row_group(group)
    for number in range(row_group.num_columns):
        chunk = row_group.column(number)
        if chunk.path_in_schema in names or top_column(metadata, number) in names:
            start, end = chunk_range(chunk)
            yield ByteRange(start, min(end, start + HEAD_BYTES))


def _masked(
    table: pa.Table,
    schema: pa.Schema,
    key: PartitionKey,
    names: Sequence[str],
    hidden: Collection[str],
) -> pa.Table:
    """The columns in their order, with masks in place of what is hidden."""
    with_all = with_dimensions(
        pa.table({name: pa.nulls(table.num_rows) for name in schema.names}), key
    )
    columns = []
    for name in names:
        if name.lower() in hidden:
            columns.append(pa.array([MASK] * table.num_rows, pa.string()))
        else:
            columns.append((table if name in table.column_names else with_all).column(name))
    return pa.table(columns, names=list(names))
