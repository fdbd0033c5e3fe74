"""Reading outputs at one generation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from operator import attrgetter

import msgspec
import pyarrow.compute as pc

from arco.execution import tables
from arco.execution.states import HELD, VersionStatus
from arco.state.days import get_of_day, newest_first
from arco.state.snapshot import Snapshot
from servo.contract.task import ColumnInfo


class ExecutionReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def partitions(self, asset_id: str) -> list[tables.PartitionRow]:
        """The current version of each partition of an asset."""
        return self.snapshot.rows(tables.PARTITIONS, asset_id)

    def partition(self, asset_id: str, partition_key: str) -> tables.PartitionRow | None:
        return self.snapshot.get(tables.PARTITIONS, asset_id, partition_key)

    def status(self, asset_id: str) -> list[tables.PartitionStatusRow]:
        """The status of each partition of an asset."""
        return self.snapshot.rows(tables.PARTITION_STATUS, asset_id)

    def versions(
        self,
        asset_id: str,
        *,
        partition: str | None = None,
        matches: Callable[[tables.MaterializationRow], bool] = lambda row: True,
        limit: int | None = None,
    ) -> list[tables.MaterializationRow]:
        """The newest versions of an asset, or of its partition with this key, that match, good or
        not, newest first.

        History files with only older versions are not opened.
        """
        chosen: dict[str, tables.MaterializationRow] = {}
        newest: list[tables.MaterializationRow] = []
        for rows, rest_before in newest_first(self.snapshot, tables.MATERIALIZATIONS, asset_id):
            if partition is not None:
                rows = rows.filter(pc.equal(rows.column("partition_key"), partition))
            for row in tables.MATERIALIZATIONS.rows_of(rows):
                if matches(row):
                    chosen.setdefault(row.materialization_id, row)  # one may have come back
            creation = attrgetter("created_at", "materialization_id")
            newest = sorted(chosen.values(), key=creation, reverse=True)[:limit]
            if rest_before and len(newest) == limit and newest[-1].created_at >= rest_before:
                break
        return self.with_expirations(asset_id, newest)

    def materialization(self, asset_id: str, id: str) -> tables.MaterializationRow | None:
        row = self.snapshot.get(tables.MATERIALIZATIONS, asset_id, id)
        return None if row is None else self.with_expirations(asset_id, [row])[0]

    def with_expirations(
        self, asset_id: str, rows: list[tables.MaterializationRow]
    ) -> list[tables.MaterializationRow]:
        """The same versions; the status of expired ones is EXPIRED.

        A version is superseded before it expires: history files of earlier days are not opened.
        """
        ended = [row.superseded_at for row in rows if row.superseded_at is not None]
        if not ended:
            return rows
        reasons: dict[str, str] = {}
        for table, rest_before in newest_first(self.snapshot, tables.EXPIRATIONS, asset_id):
            reasons |= {
                row.materialization_id: row.reason for row in tables.EXPIRATIONS.rows_of(table)
            }
            if rest_before is not None and rest_before <= min(ended):
                break
        return [
            msgspec.structs.replace(
                row, status=VersionStatus.EXPIRED, reason=reasons[row.materialization_id]
            )
            if row.materialization_id in reasons
            else row
            for row in rows
        ]

    def columns(self, asset_id: str) -> tuple[ColumnInfo, ...]:
        """Those of the newest of an asset's current versions, with their statistics."""
        current = max(self.partitions(asset_id), key=lambda row: row.position, default=None)
        if current is None:
            return ()
        version = self.snapshot.get(tables.MATERIALIZATIONS, asset_id, current.materialization_id)
        if version is None:
            return ()
        return self.columns_of(version)

    def columns_of(self, version: tables.MaterializationRow) -> tuple[ColumnInfo, ...]:
        """Those of a version, with their statistics, as they were recorded with it."""
        key = version.asset_id, version.materialization_id
        row = get_of_day(self.snapshot, tables.SCHEMAS, key, version.created_at.date())
        return () if row is None else msgspec.json.decode(row.columns, type=tuple[ColumnInfo, ...])

    def quarantine(
        self, *, decided: bool = False, asset_key: str = "", since: datetime | None = None
    ) -> list[tables.QuarantineRow]:
        """Held outputs, the newest first.

        With `decided`, also those that were decided in the last days; with `since`, all that were
        decided since then.
        """
        if decided and since is not None:
            rows = self.snapshot.recent(tables.QUARANTINE, since)
        else:
            rows = self.snapshot.hot(tables.QUARANTINE)
        chosen = [
            row
            for row in rows
            if (decided or row.status in HELD) and asset_key in ("", row.asset_key)
        ]
        return sorted(chosen, key=lambda row: (row.held_at, row.materialization_id), reverse=True)

    def holds(self, asset_id: str) -> list[tables.QuarantineRow]:
        """Outputs of an asset that are held, or were decided in the last days."""
        rows = self.snapshot.rows_versioned(tables.QUARANTINE, (asset_id,), history=False)
        return [row for _, row in rows.values() if row is not None]

    def costs(self, since: datetime) -> list[tables.TaskCostRow]:
        """The costs of attempts that ended since then, the oldest first."""
        rows = self.snapshot.recent(tables.TASK_COSTS, since)
        return sorted(rows, key=lambda row: (row.finished_at, row.attempt_id))
