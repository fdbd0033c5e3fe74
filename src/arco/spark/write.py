"""A frame into a folder of Parquet files, once.

The folder is this attempt's own, so nothing is ever overwritten, and concurrent attempts do not
conflict. Spark's other files (markers, checksums, temporary folders) are removed; after an error,
all files are. Files and folder are durable before this returns: a commit marker must not refer to
lost files.

Sizes: no shuffle is added for them. A partition that would make a file much larger than
the target is cut as it is written; a handful of small files, as few rows in many
partitions give, is joined afterwards without Spark.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.columns import types
from arco.columns.quoting import backticked
from arco.errors import Error
from arco.spark.location import hadoop_options, local_path, spark_url
from arco.spark.read import HasSession
from arco.storage import parallel
from arco.storage.footers import Footer, nan_columns, nan_metadata, read_footer
from arco.storage.port import Store
from arco.storage.unique_objects import put_own
from arco.tasks.failure import failed
from arco.tasks.output_columns import check_columns
from arco.tasks.write_options import COMPRESSIONS, SortKey, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET_FILE_BYTES: Final = 128 << 20
TINY_BYTES: Final = 4 << 20
"""Files with less than this in total become one."""
SMALL_BYTES: Final = 32 << 20
"""So do small files with less than this in total."""
SMALL_FILE_BYTES: Final = 1 << 20
JOINED_BYTES: Final = 512 << 20
"""Maximum memory of rows that are joined."""

_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"
_COMMITTER: Final = {
    # Files are moved as their tasks end. A job that fails half-way leaves some behind,
    # which nobody reads, for the folder is not committed.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_EXPANSION: Final = 2
"""How much larger rows are by their types than in a compressed file, at least."""


def write_frame(
    task: HasSession,
    store: Store,
    folder: str,
    frame: DataFrame,
    *,
    io: Mapping[str, str] | None = None,
    target_bytes: int = TARGET_FILE_BYTES,
    check: Callable[[], None] = lambda: None,
) -> tuple[Footer, ...]:
    """Write all rows below `folder`, which is new; the files' footers, by name.

    An empty frame makes one empty file that has its columns. Raises TaskFailed if Parquet cannot
    hold the columns or `io` is invalid; Spark's errors are raised as they are. `check` may raise to
    end it.
    """
    options = WriteOptions.of(io or {}, target_bytes)
    columns: list[types.SparkField] = frame.schema.jsonValue()["fields"]
    _check_frame(frame, columns, options)
    check()
    try:
        _run(store, folder, frame, columns, options)
        check()
        footers = _used_files(store, folder)
        if options.files is None and _is_small(footers, columns, options):
            footers = (_joined(store, folder, footers, options),)
        _settle(store, folder, footers)
    except BaseException:
        _remove(store, folder)
        raise
    return footers


def _run(
    store: Store,
    folder: str,
    frame: DataFrame,
    columns: Sequence[types.SparkField],
    options: WriteOptions,
) -> None:
    session = frame.sparkSession
    if session.conf.get(_TIMESTAMPS) != "TIMESTAMP_MICROS":
        session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    settings = {
        **_COMMITTER,
        **hadoop_options(store),
        "compression": COMPRESSIONS[options.compression],
    }
    if options.files is None:
        rows = _EXPANSION * options.target_bytes // row_bytes(columns)
        settings["maxRecordsPerFile"] = str(max(rows, 1))
    arranged = _arranged(frame, options)
    arranged.write.options(**settings).parquet(spark_url(store, folder), mode="error")


def _arranged(frame: DataFrame, options: WriteOptions) -> DataFrame:
    from pyspark.sql import functions as F

    columns = [F.col(backticked(key.column)) for key in options.sort_by]
    ordered = [
        column.desc() if key.descending else column.asc()
        for column, key in zip(columns, options.sort_by, strict=True)
    ]
    if options.files is not None:
        if ordered:
            frame = frame.repartitionByRange(options.files, *ordered)
        else:
            frame = frame.repartition(options.files)
    return frame.sortWithinPartitions(*ordered) if ordered else frame


def row_bytes(columns: Sequence[types.SparkField]) -> int:
    """A guess at a row's size, from the types alone."""
    return max(1, sum(_leaf_bytes(leaf) for f in columns for _, leaf in types.leaves(f["type"])))


def _leaf_bytes(type: types.ColumnType) -> int:
    name = str(type)
    if name in _BYTES:
        return _BYTES[name]
    return 16 if name.startswith("decimal") else 8


_BYTES: Final = {
    "boolean": 1,
    "byte": 1,
    "short": 2,
    "integer": 4,
    "float": 4,
    "date": 4,
    "string": 20,
    "binary": 100,
    "variant": 100,
}


# -- columns ------------------------------------------------------------------------------


def _check_frame(
    frame: DataFrame, columns: Sequence[types.SparkField], options: WriteOptions
) -> None:
    if frame.isStreaming:
        hint = "read it with spark.read instead of spark.readStream"
        raise failed("user_code", "output.type", "the asset returned a streaming DataFrame", hint)
    check_columns(columns)
    names = {field["name"] for field in columns}
    for key in options.sort_by:
        if key.column not in names:
            hint = f"the output has {', '.join(sorted(names))}"
            message = f"io: sort_by names {key.column!r}, which the output does not have"
            raise failed("configuration", "io.invalid", message, hint)


# -- files --------------------------------------------------------------------------------


def _used_files(store: Store, folder: str) -> tuple[Footer, ...]:
    """The files that have rows, or one without. All others are deleted."""
    files = []
    for meta in store.list(f"{folder}/"):
        if meta.path.endswith(".parquet") and "/_temporary/" not in meta.path:
            files.append(meta)
        else:
            store.delete(meta.path)
    local = local_path(store, folder)
    if local is not None:
        shutil.rmtree(f"{local}/_temporary", ignore_errors=True)
    footers = parallel.each(store, lambda meta: read_footer(store, meta), files)
    if not footers:
        raise failed(
            "configuration",
            "output.unseen",
            f"Spark has written the output, but there are no files at {spark_url(store, folder)}",
            "a cluster needs a store that all its machines can reach: a bucket, or a shared disk",
        )
    used = [footer for footer in footers if footer.metadata.num_rows] or footers[:1]
    names = {footer.path for footer in used}
    for footer in footers:
        if footer.path not in names:
            store.delete(footer.path)
    return tuple(used)


def _is_small(
    footers: Sequence[Footer], columns: Sequence[types.SparkField], options: WriteOptions
) -> bool:
    """Whether these are several files that should be one, and can be."""
    size, count = sum(footer.size for footer in footers), len(footers)
    limit = SMALL_BYTES if size < count * SMALL_FILE_BYTES else TINY_BYTES
    if count < 2 or size > min(limit, options.target_bytes):
        return False
    if any(leaf == "variant" for f in columns for _, leaf in types.leaves(f["type"])):
        return False  # which Arrow does not know
    rows: int = sum(footer.metadata.num_rows for footer in footers)
    return rows * row_bytes(columns) <= JOINED_BYTES


def _joined(store: Store, folder: str, footers: Sequence[Footer], options: WriteOptions) -> Footer:
    parts = parallel.each(
        store, lambda footer: pq.read_table(pa.BufferReader(store.get(footer.path).data)), footers
    )
    table = _sorted(pa.concat_tables(parts), options.sort_by)
    buffer = pa.BufferOutputStream()
    written: list[Any] = []
    codec = options.compression
    with pq.ParquetWriter(
        buffer, table.schema, compression=codec, metadata_collector=written
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(nan_metadata(nan_columns(table)))
    data = buffer.getvalue().to_pybytes()
    path = f"{folder}/part-00000.parquet"
    put_own(store, path, data)
    parallel.each(store, lambda footer: store.delete(footer.path), footers)
    return Footer(path, len(data), written[0])


def _sorted(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """In the order of Spark: nulls come first, and last where it descends."""
    for key in reversed(keys):
        order = "descending" if key.descending else "ascending"
        nulls = "at_end" if key.descending else "at_start"
        values = table.column(key.column)
        table = table.take(pc.array_sort_indices(values, order=order, null_placement=nulls))
    return table


def _settle(store: Store, folder: str, footers: Sequence[Footer]) -> None:
    """Sync the files, their names, and the folder's name to the disk. A bucket needs none of it.

    The names of the folders above are durable as soon as the marker is, which lies there too.
    """
    local = local_path(store, folder)
    if local is not None:
        files = [Path(local, footer.path.rpartition("/")[2]) for footer in footers]
        parallel.each(store, _sync, [*files, Path(local), Path(local).parent])


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(store: Store, folder: str) -> None:
    """Delete as much as possible: garbage collection deletes the rest later."""
    local = local_path(store, folder)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    with contextlib.suppress(Error):
        for meta in store.list(f"{folder}/"):
            store.delete(meta.path)
