"""Reading what was put out, at one generation."""

from __future__ import annotations

from datetime import datetime

import msgspec

from arco.execution.fold import HELD
from arco.execution.tables import (
    MATERIALIZATIONS,
    PARTITION_STATUS,
    PARTITIONS,
    QUARANTINE,
    SCHEMAS,
    TASK_COSTS,
    MaterializationRow,
    PartitionRow,
    PartitionStatusRow,
    QuarantineRow,
    TaskCostRow,
)
from arco.state.snapshot import Snapshot
from servo.contract.task import ColumnInfo


class ExecutionReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def partitions(self, asset_id: str) -> list[PartitionRow]:
        """The current version of each partition of an asset."""
        return self.snapshot.rows(PARTITIONS, asset_id)

    def partition(self, asset_id: str, partition_key: str) -> PartitionRow | None:
        return self.snapshot.get(PARTITIONS, asset_id, partition_key)

    def status(self, asset_id: str) -> list[PartitionStatusRow]:
        """How each partition of an asset is doing."""
        return self.snapshot.rows(PARTITION_STATUS, asset_id)

    def materializations(self, asset_id: str) -> list[MaterializationRow]:
        """Every version, good or not, oldest first."""
        rows = self.snapshot.rows(MATERIALIZATIONS, asset_id)
        return sorted(rows, key=lambda row: (row.created_at, row.materialization_id))

    def materialization(self, asset_id: str, id: str) -> MaterializationRow | None:
        return self.snapshot.get(MATERIALIZATIONS, asset_id, id)

    def columns(self, asset_id: str) -> tuple[ColumnInfo, ...]:
        """Those of the newest of an asset's current versions, with their statistics."""
        current = max(self.partitions(asset_id), key=lambda row: row.position, default=None)
        if current is None:
            return ()
        newest = self.snapshot.get(SCHEMAS, asset_id, current.materialization_id)
        if newest is None:
            return ()
        return msgspec.json.decode(newest.columns, type=tuple[ColumnInfo, ...])

    def quarantine(self, *, decided: bool = False, asset_key: str = "") -> list[QuarantineRow]:
        """Outputs that are held back, the newest first; with `decided`, those of before too."""
        rows = [
            row
            for row in (self.snapshot.all if decided else self.snapshot.hot)(QUARANTINE)
            if (decided or row.status in HELD) and asset_key in ("", row.asset_key)
        ]
        return sorted(rows, key=lambda row: (row.held_at, row.materialization_id), reverse=True)

    def costs(self, since: datetime) -> list[TaskCostRow]:
        """What attempts took that ended since then, the oldest first."""
        rows = self.snapshot.recent(TASK_COSTS, since)
        return sorted(rows, key=lambda row: (row.finished_at, row.attempt_id))
