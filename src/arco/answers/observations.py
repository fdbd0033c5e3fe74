"""Observations about a version: it is empty, expensive, or different from another.

A version is compared with the one that it replaced, and with that of the period before. Costs are
compared with those of the asset's last attempts.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from statistics import median
from typing import Final

import msgspec

from arco.answers.shapes import Cause, FactValue, place, remedy
from arco.execution.tables import (
    ATTEMPTS,
    CURRENT_VERSIONS,
    MATERIALIZATIONS,
    PARTITION_STATUS,
    PARTITIONS,
    SCHEMAS,
    AttemptRow,
    MaterializationRow,
)
from arco.execution.version_lookup import VersionLookup
from arco.lineage.reader import LineageReader
from arco.lineage.tables import READ_VERSIONS, ReadVersionsRow
from arco.state.days import get_of_day, newest_rows
from arco.state.snapshot import Snapshot
from arco.tasks.input_failures import partition_text
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import ColumnInfo

LISTED_ATTEMPTS: Final = 10
"""Maximum of last runs of an asset that are compared."""
LOOKED_BACK: Final = timedelta(days=30)
MUCH_SLOWER: Final = 2.0
LEAST_SLOWER_MS: Final = 1_000
MUCH_DIFFERENT: Final = 0.5
"""A change of the number of rows by more than this share is an observation."""
LISTED: Final = 20


class ObservationReader:
    def __init__(self, snapshot: Snapshot, lineage: LineageReader) -> None:
        self.snapshot = snapshot
        self._lineage = lineage
        self.attempts = functools.lru_cache(maxsize=1)(self._read_attempts)
        """Of an asset, the newest first."""

    def of(self, asset: str, asset_id: str, partition: str) -> list[Cause]:
        current = self.snapshot.get(PARTITIONS, asset_id, partition)
        if current is None:
            return []
        version = self.snapshot.get(MATERIALIZATIONS, asset_id, current.materialization_id)
        if version is None:
            return []
        reads = self._reads(version)
        observations = [
            *self._warned(asset, asset_id, partition),
            *self._empty(asset, version, reads),
            *self._expensive(asset, asset_id, version),
        ]
        for other, what in self._others(asset, version, replaced=current.versions > 1):
            observations += self._different(asset, version, reads, other, what)
        return observations

    def _read_attempts(self, asset_id: str) -> list[AttemptRow]:
        since = self.snapshot.published_at - LOOKED_BACK
        return newest_rows(
            self.snapshot, ATTEMPTS, asset_id, limit=LISTED_ATTEMPTS + 1, since=since
        )

    def columns(self, version: MaterializationRow) -> dict[str, ColumnInfo]:
        key = version.asset_id, version.materialization_id
        row = get_of_day(self.snapshot, SCHEMAS, key, version.created_at.date())
        return {} if row is None else columns_by_name(row.columns)

    def _reads(self, version: MaterializationRow) -> list[ReadVersionsRow]:
        """The inputs of a version; sources by their names."""
        rows = self.snapshot.rows(READ_VERSIONS, version.asset_id, version.materialization_id)
        key = self._lineage.names.key
        return [msgspec.structs.replace(row, source=key(row.source)) for row in rows]

    # -- warned and empty -------------------------------------------------------------------

    def _warned(self, asset: str, asset_id: str, partition: str) -> Iterator[Cause]:
        status = self.snapshot.get(PARTITION_STATUS, asset_id, partition)
        if status is not None and status.warnings:
            yield Cause(
                kind="warned",
                asset=asset,
                partition=partition,
                text=f"{status.message} for {place(asset, partition)}; the gating policy allows it",
                at=status.last_at,
                facts={"run_id": status.last_run_id, "warnings": status.warnings},
                remedies=(remedy("see which", f"servo checks list {asset} --failing"),),
            )

    def _empty(
        self, asset: str, version: MaterializationRow, reads: Sequence[ReadVersionsRow]
    ) -> Iterator[Cause]:
        if version.rows or not version.files:
            return
        facts: dict[str, FactValue] = {"run_id": version.run_id, "rows": 0}
        facts |= {f"rows_read.{read.source}": read.rows_read for read in reads}
        empty = sorted({read.source for read in reads if not read.rows_read})
        if empty:
            why = f"{', '.join(empty)}, which it reads, had no rows"
            hints = [remedy("see why", f"servo explain {key}") for key in empty]
        elif reads:
            filters = self._filters(asset)
            facts["decided_by"] = filters
            by = f", by {', '.join(filters[:5])}" if filters else ""
            count = sum(read.rows_read for read in reads)
            why = f"its code left none of the {count:,} rows that it read{by}"
            hints = [remedy("see which columns filter rows", f"servo lineage show {asset}")]
        else:
            why = "it reads no asset: its source returned none"
            hints = [remedy("read the log", f"servo runs logs {version.run_id} --task {asset}")]
        yield Cause(
            kind="empty",
            asset=asset,
            partition=version.partition_key,
            text=f"{place(asset, version.partition_key)} has no rows: {why}",
            at=version.created_at,
            facts=facts,
            remedies=tuple(hints),
        )

    def _filters(self, asset: str) -> list[str]:
        rows = self._lineage.columns(asset)
        return sorted({f"{r.source}.{r.source_column}" for r in rows if not r.target_column})

    # -- expensive --------------------------------------------------------------------------

    def _expensive(self, asset: str, asset_id: str, version: MaterializationRow) -> Iterator[Cause]:
        rows = [row for row in self.attempts(asset_id) if row.outcome == "succeeded"]
        own = next((row for row in rows if row.attempt_id == version.attempt_id), None)
        earlier = [row for row in rows if own is not None and row.finished_at < own.finished_at]
        if own is None or len(earlier) < 3:
            return
        median_ms = median(row.wall_ms for row in earlier)
        if own.wall_ms < MUCH_SLOWER * median_ms or own.wall_ms - median_ms < LEAST_SLOWER_MS:
            return
        reasons = list(_cost_reasons(own, earlier))
        yield Cause(
            kind="expensive",
            asset=asset,
            partition=version.partition_key,
            text=f"{place(asset, version.partition_key)} took {own.wall_ms / 1000:.1f} s, "
            f"usually {median_ms / 1000:.1f} s"
            + (f": {'; '.join(reasons)}" if reasons else "; it read and wrote as much as usual"),
            at=own.finished_at,
            facts={
                "run_id": own.run_id,
                "wall_ms": own.wall_ms,
                "usual_wall_ms": int(median_ms),
                "bytes_read": own.bytes_read,
                "spilled_bytes": own.spilled_bytes,
                "total_cost": own.total_cost,
            },
            remedies=(remedy("compare with others", f"servo costs --by day --asset {asset}"),),
        )

    # -- different --------------------------------------------------------------------------

    def _others(
        self, asset: str, version: MaterializationRow, *, replaced: bool
    ) -> Iterator[tuple[MaterializationRow, str]]:
        asset_id = version.asset_id
        if replaced:
            before = VersionLookup(self.snapshot, asset, asset_id).before(version)
            if before is not None:
                yield before, "the version that it replaced"
        for key in periods_before(version.partition_key):
            current = self.snapshot.get(CURRENT_VERSIONS, asset_id, key)
            if current is not None:
                row_ = self.snapshot.get(MATERIALIZATIONS, asset_id, current.materialization_id)
                if row_ is not None:
                    yield row_, partition_text(key)
                break

    def _different(
        self,
        asset: str,
        version: MaterializationRow,
        reads: Sequence[ReadVersionsRow],
        other: MaterializationRow,
        what: str,
    ) -> Iterator[Cause]:
        differences = list(self._differences(version, reads, other))
        if not differences:
            return
        yield Cause(
            kind="different",
            asset=asset,
            partition=version.partition_key,
            text=f"{place(asset, version.partition_key)} differs from {what}: "
            f"{'; '.join(differences)}",
            at=version.created_at,
            facts={
                "materialization_id": version.materialization_id,
                "compared_with": other.materialization_id,
                "rows": version.rows,
                "rows_before": other.rows,
                "bytes": version.bytes,
                "bytes_before": other.bytes,
                "run_id": version.run_id,
                "run_id_before": other.run_id,
            },
        )

    def _differences(
        self,
        version: MaterializationRow,
        reads: Sequence[ReadVersionsRow],
        other: MaterializationRow,
    ) -> Iterator[str]:
        if _much_different(version.rows, other.rows):
            yield f"{version.rows:,} rows instead of {other.rows:,}"
            yield from self._inputs(reads, other)
        if version.schema_hash != other.schema_hash:
            changes = column_changes(self.columns(other), self.columns(version))
            yield from changes[:LISTED] or ["other columns"]

    def _inputs(self, reads: Sequence[ReadVersionsRow], other: MaterializationRow) -> Iterator[str]:
        before = {row.source: row for row in self._reads(other)}
        for read in reads:
            old = before.get(read.source)
            if old is None:
                yield f"it reads {read.source}, which the other did not"
            elif _much_different(read.rows_read, old.rows_read):
                yield f"it read {read.rows_read:,} rows of {read.source} instead of " + (
                    f"{old.rows_read:,}"
                )


def columns_by_name(text: str) -> dict[str, ColumnInfo]:
    columns = msgspec.json.decode(text, type=tuple[ColumnInfo, ...])
    return {column.name: column for column in columns}


def column_changes(before: dict[str, ColumnInfo], after: dict[str, ColumnInfo]) -> list[str]:
    """In words; the columns of the newer one first."""
    changes = [f"column {name} was added" for name in after if name not in before]
    changes += [f"column {name} was removed" for name in before if name not in after]
    changes += [
        f"column {name} was {before[name].type}, and is {after[name].type}"
        for name in after
        if name in before and before[name].type != after[name].type
    ]
    return changes


def _much_different(now: int, before: int) -> bool:
    return abs(now - before) > MUCH_DIFFERENT * max(before, 1)


def _cost_reasons(own: AttemptRow, earlier: Sequence[AttemptRow]) -> Iterator[str]:
    read = median(row.bytes_read for row in earlier)
    written = median(row.bytes_written for row in earlier)
    if own.bytes_read > MUCH_SLOWER * max(read, 1):
        yield f"it read {own.bytes_read:,} bytes, usually {int(read):,}"
    if own.bytes_written > MUCH_SLOWER * max(written, 1):
        yield f"it wrote {own.bytes_written:,} bytes, usually {int(written):,}"
    if own.spilled_bytes and not any(row.spilled_bytes for row in earlier):
        yield f"Spark spilled {own.spilled_bytes:,} bytes to disk"
    if own.attempt > 1:
        yield f"it is attempt {own.attempt}"


def periods_before(partition: str) -> Iterator[str]:
    """Keys with an earlier time: of a day yesterday, of longer periods the one before."""
    key = PartitionKey.parse(partition)
    times = [name for name, value in key.dimensions.items() if isinstance(value, date)]
    if len(times) != 1:
        return
    value = key.dimensions[times[0]]
    with contextlib.suppress(OverflowError):  # the first years of the calendar
        for earlier in _earlier(value):
            yield str(PartitionKey({**key.dimensions, times[0]: earlier}))


def _earlier(value: Scalar) -> Iterator[Scalar]:
    if isinstance(value, datetime):
        yield value - timedelta(hours=1)
    if isinstance(value, date):
        yield value - timedelta(days=1)
        yield value - timedelta(days=7)
        yield (value.replace(day=1) - timedelta(days=1)).replace(day=1)
