"""Reading what was put out, at one generation."""

from __future__ import annotations

from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, MaterializationRow, PartitionRow
from arco.state.snapshot import Snapshot


class ExecutionReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def partitions(self, asset_id: str) -> list[PartitionRow]:
        """The current version of each partition of an asset."""
        return self.snapshot.rows(PARTITIONS, asset_id)

    def partition(self, asset_id: str, partition_key: str) -> PartitionRow | None:
        return self.snapshot.get(PARTITIONS, asset_id, partition_key)

    def materializations(self, asset_id: str) -> list[MaterializationRow]:
        """Every version, good or not, oldest first."""
        rows = self.snapshot.rows(MATERIALIZATIONS, asset_id)
        return sorted(rows, key=lambda row: (row.created_at, row.materialization_id))
