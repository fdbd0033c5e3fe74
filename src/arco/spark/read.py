"""An input as one frame: exactly the versions that were planned to be read.

Their columns are known from the files' footers, so Spark infers nothing and lists
nothing. Versions are matched by column name; a column that some lack is null there, and
one whose type grew has the wider type. A dimension of the partition becomes a column
where the files have none of that name. A version without files is an error and never
an empty frame.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from arco.columns import types
from arco.columns.arrow import file_fields, from_arrow, scalar_type
from arco.columns.quoting import backticked
from arco.columns.widening import merged_fields
from arco.errors import Corrupt, NotFound
from arco.spark.location import hadoop_options, local_path, spark_url
from arco.spark.relation import DataFile, VersionFolder, relation
from arco.spark.schema import ddl, ddl_type, readable_as
from arco.storage import parallel
from arco.storage.footers import parquet_files, read_footer
from arco.storage.port import ObjectMeta, Store
from arco.tasks.input_failures import input_damaged, input_missing, versions_differ
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import InputRef, MaterializationRef

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NO_GLOB: Final = {"__globPaths__": "false"}
"""Paths are names, not patterns: Hadoop's patterns cannot have colons, as partitions do."""


class HasSession(Protocol):
    """What is needed of a `SparkTask`."""

    @property
    def session(self) -> SparkSession: ...
    @property
    def connect(self) -> bool: ...


class _VersionFiles(NamedTuple):
    path: str
    files: tuple[ObjectMeta, ...]
    columns: tuple[types.SparkField, ...]
    """Of the files."""
    dimensions: dict[str, Scalar]
    """Of the partition, as far as the files have no column of that name."""


def read_frame(task: HasSession, store: Store, ref: InputRef) -> DataFrame:
    """All rows of an input, under the alias `@namespace.asset`. Raises TaskFailed."""
    spark_url(store, "")  # first: raises for a store that Spark cannot reach
    if not ref.materializations:
        raise input_missing(ref, "the plan has no version of it to read")
    versions = parallel.each(store, lambda v: _version_files(store, ref, v), ref.materializations)
    schema = _schema(ref, versions)
    groups = _groups(versions, schema)
    frames = [_frame(task, store, group) for group in groups]
    if len(frames) > 1:
        frames = [_conformed(frame, schema) for frame in frames]
    whole = functools.reduce(lambda one, other: one.union(other), frames)
    return whole.alias(f"@{ref.asset}")


# -- files --------------------------------------------------------------------------------


def _version_files(store: Store, ref: InputRef, version: MaterializationRef) -> _VersionFiles:
    """The files of a version. They have one schema, so one footer is read."""
    files = parquet_files(store, version.path)
    key = PartitionKey.parse(version.partition)
    if not files:
        raise input_damaged(ref, version, f"there are no files below {version.path}")
    try:
        columns = file_fields(read_footer(store, files[0]).metadata)
    except NotFound:
        raise input_damaged(ref, version, f"file {files[0].path} is missing") from None
    except (Corrupt, ValueError) as error:
        message = error.message if isinstance(error, Corrupt) else f"{files[0].path}: {error}"
        raise input_damaged(ref, version, message, corrupt=True) from None
    column_names = {column["name"].lower() for column in columns}
    added = {
        name: value for name, value in key.dimensions.items() if name.lower() not in column_names
    }
    fields = tuple(types.nullable_field(column) for column in columns)
    return _VersionFiles(version.path, tuple(files), fields, added)


def _schema(ref: InputRef, versions: Iterable[_VersionFiles]) -> list[types.SparkField]:
    """The columns of all versions together: the files' own first, then the dimensions."""
    own: list[types.SparkField] = []
    added: list[types.SparkField] = []
    seen: set[str] = set()
    for version in versions:
        shape = repr((version.columns, sorted(version.dimensions.items(), key=str)))
        if shape not in seen:
            seen.add(shape)
            own = _merged(ref, own, version.columns)
            dimensions = version.dimensions.items()
            fields = [types.field(name, from_arrow(scalar_type(v))) for name, v in dimensions]
            added = _merged(ref, added, fields)
    merged = _merged(ref, own, added)
    flaw = types.ambiguous([field["name"] for field in merged])
    if flaw:
        raise versions_differ(ref, flaw)
    names = {field["name"] for field in added}
    return [_concrete(field, names) for field in merged]


def _merged(
    ref: InputRef, first: Sequence[types.SparkField], second: Sequence[types.SparkField]
) -> list[types.SparkField]:
    merged = merged_fields(first, second)
    if isinstance(merged, str):
        types_of = [types.text(f["type"]) for f in (*first, *second) if f["name"] == merged]
        raise versions_differ(
            ref, f"column {merged!r} is {' in one and '.join(types_of)} in another"
        )
    return merged


def _concrete(field: types.SparkField, dimensions: set[str]) -> types.SparkField:
    """A dimension that is null everywhere still needs a type."""
    is_typed = field["type"] != "void" or field["name"] not in dimensions
    return field if is_typed else {**field, "type": "string"}


# -- frames -------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Versions that one scan reads: `columns` from the files, `dimensions` from their folder."""

    columns: list[types.SparkField]
    dimensions: list[types.SparkField]
    versions: list[_VersionFiles]


def _groups(versions: Iterable[_VersionFiles], schema: Sequence[types.SparkField]) -> list[_Group]:
    """As few groups as possible: Spark's reader fills in missing columns, and widens most types."""
    fields = {field["name"]: field for field in schema}
    groups: dict[str, _Group] = {}
    for version in versions:
        dimensions = [fields[name] for name in version.dimensions]
        own = {field["name"]: field["type"] for field in version.columns}
        columns = [_as_read(f, own) for f in schema if f["name"] not in version.dimensions]
        key = repr((columns, sorted(version.dimensions)))
        groups.setdefault(key, _Group(columns, dimensions, [])).versions.append(version)
    return list(groups.values())


def _as_read(field: types.SparkField, own: dict[str, types.ColumnType]) -> types.SparkField:
    own_type = own.get(field["name"])
    return field if own_type is None else {**field, "type": readable_as(own_type, field["type"])}


def _frame(task: HasSession, store: Store, group: _Group) -> DataFrame:
    options = hadoop_options(store)
    if task.connect:
        return _without_jvm(task.session, store, group, options)
    folders = [_folder(store, version, group.dimensions) for version in group.versions]
    listed = local_path(store, "") is None
    return relation(task.session, group.columns, group.dimensions, folders, options, listed=listed)


def _folder(
    store: Store, version: _VersionFiles, dimensions: Sequence[types.SparkField]
) -> VersionFolder:
    values = tuple(version.dimensions[field["name"]] for field in dimensions)
    files = []
    for file in version.files:
        modified_ms = int(file.last_modified.replace(tzinfo=UTC).timestamp() * 1000)
        files.append(DataFile(spark_url(store, file.path), file.size, modified_ms))
    return VersionFolder(spark_url(store, version.path), values, tuple(files))


def _without_jvm(
    session: SparkSession, store: Store, group: _Group, options: dict[str, str]
) -> DataFrame:
    """Scans that share their dimensions' values, each with these as literals."""
    from pyspark.sql import functions as F

    alike: dict[str, list[_VersionFiles]] = {}
    for version in group.versions:
        alike.setdefault(repr(version.dimensions), []).append(version)
    frames = []
    for versions in alike.values():
        urls = [spark_url(store, v.path) for v in versions]
        reader = session.read.schema(ddl(group.columns)).options(**options, **_NO_GLOB)
        literals = [
            _literal(versions[0].dimensions[field["name"]], field).alias(field["name"])
            for field in group.dimensions
        ]
        frames.append(reader.parquet(*urls).select(F.col("*"), *literals))
    return functools.reduce(lambda one, other: one.union(other), frames)


def _literal(value: Scalar, field: types.SparkField) -> Column:
    from pyspark.sql import functions as F

    if isinstance(value, datetime):
        value = value.replace(tzinfo=UTC)
    return F.lit(value).cast(types.text(field["type"]))


def _conformed(frame: DataFrame, schema: Sequence[types.SparkField]) -> DataFrame:
    """The same rows with the schema's columns, in its order."""
    from pyspark.sql import functions as F

    present = set(frame.columns)
    return frame.select(
        [
            (F.col(backticked(f["name"])) if f["name"] in present else F.lit(None))
            .cast(ddl_type(f))
            .alias(f["name"])
            for f in schema
        ]
    )
