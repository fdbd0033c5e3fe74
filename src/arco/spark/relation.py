"""Files as a frame, without a listing by Spark.

`spark.read` lists folders (as a job of its own, if there are many), and takes columns
for the parts of a partition only from folders that are named as Hive names them. Here
the files, their columns and the values of their partition are known, so the relation
that `spark.read` would come to is built directly: Spark prunes by partition, and a
partition's value costs nothing per row.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from arco.columns import types
from arco.epoch import EPOCH
from servo.contract.partition import Scalar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MICROSECOND: Final = timedelta(microseconds=1)
_BLOCK: Final = 128 << 20
_THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MAX_LISTED_HERE: Final = 32


class DataFile(NamedTuple):
    url: str
    size: int
    modified_ms: int


class VersionFolder(NamedTuple):
    """One version's files, and the values that its rows have for the partition's columns."""

    url: str
    values: tuple[Scalar, ...]
    files: tuple[DataFile, ...]


def relation(
    session: SparkSession,
    columns: Sequence[types.SparkField],
    dimensions: Sequence[types.SparkField],
    folders: Sequence[VersionFolder],
    options: Mapping[str, str],
    *,
    listed: bool,
) -> DataFrame:
    """The Parquet files of the folders: `columns` from the files, `dimensions` from their folder.

    `listed`: the folders' files are complete; otherwise Spark lists them, which is cheap on a disk.
    Needs a JVM, which Spark Connect does not have.
    """
    from pyspark.sql import DataFrame

    jvm = _classes(session._jvm)
    data = jvm.DataType.fromJson(_json(columns))
    partition = jvm.DataType.fromJson(_json(dimensions))
    settings = jvm.PythonUtils.toScalaMap(_java_map(jvm, options))
    index = _index(session, jvm, data, partition, dimensions, folders, settings, listed)
    native: Any = session._jsparkSession
    jvm_relation = jvm.HadoopFsRelation(
        index, partition, data, jvm.Option.empty(), jvm.ParquetFileFormat(), settings, native
    )
    return DataFrame(native.baseRelationToDataFrame(jvm_relation), session)


def _json(fields: Sequence[types.SparkField]) -> str:
    return msgspec.json.encode(types.struct(fields)).decode()


def _index(
    session: SparkSession,
    jvm: _Classes,
    data: Any,
    partition: Any,
    dimensions: Sequence[types.SparkField],
    folders: Sequence[VersionFolder],
    settings: Any,
    listed: bool,
) -> Any:
    native: Any = session._jsparkSession
    paths = [jvm.Path(folder.url) for folder in folders]
    cache = jvm.no_cache
    if listed:
        cache = jvm.FileStatusCache.getOrCreate(native)
        for path, folder in zip(paths, folders, strict=True):
            cache.putLeafFiles(path, _statuses(session, jvm, folder))
    with _listing_here(session, len(folders)):
        return jvm.InMemoryFileIndex(
            native,
            _seq(jvm, paths),
            settings,
            jvm.Option.apply(data),
            cache,
            jvm.Option.apply(_spec(jvm, partition, dimensions, folders, paths)),
            jvm.Option.empty(),
        )


def _spec(
    jvm: _Classes,
    partition: Any,
    dimensions: Sequence[types.SparkField],
    folders: Sequence[VersionFolder],
    paths: Sequence[Any],
) -> Any:
    parts = []
    if dimensions:
        for folder, path in zip(folders, paths, strict=True):
            row = jvm.SpecificInternalRow(partition)
            for i, value in enumerate(folder.values):
                _set(jvm, row, i, value)
            parts.append(jvm.PartitionPath(row, path))
    return jvm.PartitionSpec(partition, _seq(jvm, parts))


def _set(jvm: _Classes, row: Any, i: int, value: Scalar) -> None:
    match value:
        case None:
            row.setNullAt(i)
        case bool():
            row.setBoolean(i, value)
        case int():
            row.setLong(i, value)
        case datetime():
            row.setLong(i, (value.replace(tzinfo=None) - EPOCH) // _MICROSECOND)
        case date():
            row.setInt(i, value.toordinal() - EPOCH.toordinal())
        case str():
            row.update(i, jvm.UTF8String.fromString(value))


def _statuses(session: SparkSession, jvm: _Classes, folder: VersionFolder) -> Any:
    gateway: Any = session.sparkContext._gateway
    array = gateway.new_array(jvm.FileStatus, len(folder.files))
    for i, file in enumerate(folder.files):
        path = jvm.Path(file.url)
        array[i] = jvm.FileStatus(file.size, False, 1, _BLOCK, file.modified_ms, path)
    return array


@contextlib.contextmanager
def _listing_here(session: SparkSession, folders: int) -> Iterator[None]:
    """List files without a Spark job: these are known folders with few files each."""
    if folders <= _MAX_LISTED_HERE:
        yield
        return
    before = str(session.conf.get(_THRESHOLD))
    session.conf.set(_THRESHOLD, str(folders))
    try:
        yield
    finally:
        session.conf.set(_THRESHOLD, before)


# -- the JVM's classes --------------------------------------------------------------------

_NAMES: Final = (
    "scala.Option",
    "java.util.ArrayList",
    "java.util.HashMap",
    "org.apache.hadoop.fs.Path",
    "org.apache.hadoop.fs.FileStatus",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.unsafe.types.UTF8String",
    "org.apache.spark.sql.types.DataType",
    "org.apache.spark.sql.catalyst.expressions.SpecificInternalRow",
    "org.apache.spark.sql.execution.datasources.FileStatusCache",
    "org.apache.spark.sql.execution.datasources.HadoopFsRelation",
    "org.apache.spark.sql.execution.datasources.InMemoryFileIndex",
    "org.apache.spark.sql.execution.datasources.PartitionPath",
    "org.apache.spark.sql.execution.datasources.PartitionSpec",
    "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat",
)
_NO_CACHE: Final = "org.apache.spark.sql.execution.datasources.NoopCache$"


class _Classes:
    """Handles by their last names: finding one takes a call for each dot in its name."""

    def __init__(self, jvm: Any) -> None:
        for name in _NAMES:
            setattr(self, name.rpartition(".")[2], _resolve(jvm, name))
        self.no_cache = getattr(_resolve(jvm, _NO_CACHE), "MODULE$")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def _resolve(jvm: Any, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), jvm)


@functools.lru_cache(maxsize=1)
def _classes(jvm: Any) -> _Classes:
    """Once for each JVM: a worker has one after the other."""
    return _Classes(jvm)


def _seq(jvm: _Classes, items: Sequence[Any]) -> Any:
    return jvm.PythonUtils.toSeq(_java_list(jvm, items))


def _java_list(jvm: _Classes, items: Sequence[Any]) -> Any:
    result = jvm.ArrayList()
    for item in items:
        result.add(item)
    return result


def _java_map(jvm: _Classes, items: Mapping[str, str]) -> Any:
    result = jvm.HashMap()
    for name, value in items.items():
        result.put(name, value)
    return result
