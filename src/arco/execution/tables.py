"""Execution's tables, sharded by the asset."""

from __future__ import annotations

from datetime import datetime

from arco.state.table import Row, Table


class MaterializationRow(Row, frozen=True):
    asset_id: str
    materialization_id: str
    partition_key: str
    status: str
    """GOOD, or LATE: recorded, and never current."""
    reason: str
    version: int
    """1, 2, 3 … among the good ones of its partition; 0 if it is not good."""
    run_id: str
    task_id: str
    attempt_id: str
    path: str
    files: int
    rows: int
    bytes: int
    schema_hash: str
    fingerprint: str
    metadata: dict[str, str]
    created_at: datetime


class PartitionRow(Row, frozen=True):
    asset_id: str
    partition_key: str
    materialization_id: str
    """The current version: the newest good one by position."""
    path: str
    fingerprint: str
    version: int
    run_id: str
    rows: int
    bytes: int
    schema_hash: str
    updated_at: datetime


MATERIALIZATIONS = Table(
    "execution",
    "materializations",
    MaterializationRow,
    key=["asset_id", "materialization_id"],
)
PARTITIONS = Table("execution", "partitions", PartitionRow, key=["asset_id", "partition_key"])
