"""Compares two versions: by their records, and by key with their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

import msgspec

from arco.errors import Invalid
from arco.execution.duck_diff import compare_with_duckdb
from arco.execution.reader import ExecutionReader
from arco.execution.tables import MaterializationRow
from arco.execution.version_diff import (
    ColumnChange,
    DiffColumns,
    KeyChanges,
    column_changes,
    diff_columns,
)
from arco.spark.compare import compare_with_spark
from arco.spark.host import SparkHost
from arco.state.snapshot import Snapshot
from arco.storage.port import Store
from arco.worker.footers import columns_of, read_footers
from servo.contract.task import ColumnInfo, MaterializationRef

LARGE_BYTES: Final = 256 << 20
"""Two versions with more Parquet together are compared with Spark."""

ComparisonEngine = Literal["auto", "duckdb", "spark"]
SparkSource = Callable[[], SparkHost]


class VersionComparison(msgspec.Struct, frozen=True):
    before: MaterializationRow
    after: MaterializationRow
    columns: list[ColumnChange]
    keys: KeyChanges | None


def compare(
    store: Store,
    snapshot: Snapshot,
    asset: str,
    versions: tuple[MaterializationRow, MaterializationRow],
    *,
    key: Sequence[str] = (),
    examples: int = 5,
    engine: ComparisonEngine = "auto",
    hidden: Collection[str] = (),
    spark: SparkSource | None = None,
) -> VersionComparison:
    """Without a key no row is read. Personal columns (`hidden`) show neither bounds nor values.

    Without `spark`, versions that are large are refused.
    """
    before, after = versions
    old, new = (_columns(store, snapshot, version, hidden) for version in versions)
    keys = None
    if key:
        chosen = diff_columns(old, new, key)
        if not chosen.keys:
            raise Invalid("there is no key to compare by", hint="name columns with --key")
        keys = _by_key(store, asset, versions, chosen, examples, engine, hidden, spark)
    return VersionComparison(before, after, column_changes(old, new), keys)


def _columns(
    store: Store, snapshot: Snapshot, version: MaterializationRow, hidden: Collection[str]
) -> tuple[ColumnInfo, ...]:
    """As recorded; from the files, where the record was too large for the log."""
    recorded = ExecutionReader(snapshot).columns_of(version)
    if not recorded or version.details:
        footers = read_footers(store, version.path)
        recorded = columns_of(footers, None, lambda text: text)
    return tuple(
        msgspec.structs.replace(column, min=None, max=None)
        if column.name.lower() in hidden
        else column
        for column in recorded
    )


def _by_key(
    store: Store,
    asset: str,
    versions: tuple[MaterializationRow, MaterializationRow],
    chosen: DiffColumns,
    examples: int,
    engine: ComparisonEngine,
    hidden: Collection[str],
    spark: SparkSource | None,
) -> KeyChanges:
    size = sum(version.bytes for version in versions)
    if engine == "duckdb" or (engine == "auto" and size <= LARGE_BYTES):
        folders = versions[0].path, versions[1].path
        return compare_with_duckdb(store, folders, chosen, examples, hidden)
    if spark is None:
        raise Invalid(
            f"the two versions have {size:,} bytes, too many to compare their rows here",
            hint=f"run `servo compare {asset}` with --key, which uses Spark",
        )
    refs = _ref(versions[0]), _ref(versions[1])
    with spark().task("compare", f"compare {asset}", input_bytes=size) as task:
        return compare_with_spark(task, store, asset, refs, chosen, examples, hidden)


def _ref(version: MaterializationRow) -> MaterializationRef:
    return MaterializationRef(
        partition=version.partition_key,
        materialization_id=version.materialization_id,
        path=version.path,
    )
