"""Execution's tables, sharded by the asset, and spread where an asset may have many rows.

A superseded version moves to history after a week. That is long after its task's row: no report of
it comes that late. Folds do not read history, so its expiry is a row of another table.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from arco.epoch import EPOCH
from arco.execution.states import (
    FAILED_CHECKS,
    HoldStatus,
    PartitionState,
    PartitionStatus,
    Quality,
    VersionStatus,
    quality_of,
    state_of,
)
from arco.state.table import LOOKED_UP_GROUP, History, Row, Table
from servo.contract.task import TaskOutcome

DECISIONS_KEPT_HOT = timedelta(days=30)
COSTS_KEPT_HOT = timedelta(days=7)
SCHEMAS_KEPT_HOT = timedelta(days=1)
SUPERSEDED_KEPT_HOT = timedelta(days=7)
EXPIRED_KEPT_HOT = timedelta(days=7)
MAX_MESSAGE_CHARS = 500
SPREAD = 32
"""An asset of a million partitions has some 30,000 rows in a bucket."""


class MaterializationRow(Row, frozen=True):
    asset_id: str
    materialization_id: str
    partition_key: str
    status: VersionStatus
    """`expirations` shows whether it has expired since."""
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
    position: int = 0
    """Of the report that brought it: what newest means."""
    superseded_at: datetime | None = None
    """When another version became current, or it was found not to be good."""
    details: str = ""
    """The object with all of its result, where that was too large for the log."""


class ExpirationRow(Row, frozen=True):
    """An expired version, whose files may be deleted."""

    asset_id: str
    materialization_id: str
    reason: str
    expired_at: datetime


class SchemaRow(Row, frozen=True):
    """The columns of a version. A separate table, because it is large, and folds do not read it."""

    asset_id: str
    materialization_id: str
    columns: str
    """With their statistics, as JSON."""
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
    position: int = 0
    """Of the report that brought the current version."""
    versions: int = 0
    """How many good ones there have been: the greatest version's number."""


class CurrentVersionRow(Row, frozen=True):
    """Which version of a partition is current."""

    asset_id: str
    partition_key: str
    materialization_id: str


class PartitionStatusRow(Row, frozen=True):
    """The status of a partition: its current version, and its last attempt."""

    asset_id: str
    partition_key: str
    status: PartitionStatus
    """Of its last attempt."""
    current: str
    """The current version, which may be older than that; empty if there is none."""
    last: str
    """The output of the last attempt; empty if it had none."""
    last_run_id: str
    last_at: datetime
    good_at: datetime | None
    """When the current version was written."""
    warnings: int
    error_code: str
    message: str
    position: int = 0
    versions: int = 0
    """How many good versions there have been, where none is current any more; else 0."""

    @property
    def state(self) -> PartitionState:
        """The state by its attempts; `orchestration/partition_status.py` adds the others."""
        return state_of(self.status, self.current)

    @property
    def quality(self) -> Quality:
        return quality_of(self.status, self.last, self.error_code)


class QuarantineRow(Row, frozen=True):
    """A held output, by checks or by a person, and the decision about it."""

    asset_id: str
    materialization_id: str
    asset_key: str
    partition_key: str
    status: HoldStatus
    """QUARANTINED or BLOCKED without a decision; then APPROVED or REJECTED."""
    reason: str
    run_id: str
    rows: int
    bytes: int
    path: str
    held_at: datetime
    decided_at: datetime | None
    decided_by: str
    decision: str
    """The reason that was given for the decision."""
    held_by: str = ""
    """The person who quarantined it; empty where checks did."""


class TaskCostRow(Row, frozen=True):
    """The usage of one attempt, and its cost, in 10⁻⁹ of the currency's unit."""

    asset_id: str
    attempt_id: str
    asset_key: str
    partition_key: str
    run_id: str
    task_id: str
    attempt: int
    outcome: TaskOutcome
    wall_ms: int
    cpu_ms: int
    executor_cpu_ms: int
    executor_run_ms: int
    peak_memory_kib: int
    bytes_read: int
    bytes_written: int
    shuffle_bytes: int
    spilled_bytes: int
    currency: str
    cpu_cost: int
    memory_cost: int
    storage_cost: int
    total_cost: int
    prices: str
    finished_at: datetime = EPOCH


class AttemptRow(Row, frozen=True):
    """What of the costs of an attempt tells how it went."""

    asset_id: str
    attempt_id: str
    partition_key: str
    run_id: str
    attempt: int
    outcome: TaskOutcome
    wall_ms: int
    bytes_read: int
    bytes_written: int
    spilled_bytes: int
    total_cost: int
    finished_at: datetime = EPOCH


MATERIALIZATIONS = Table(
    "execution",
    "materializations",
    MaterializationRow,
    key=["asset_id", "materialization_id"],
    spread=SPREAD,
    history=History("superseded_at", SUPERSEDED_KEPT_HOT),
    group_rows=LOOKED_UP_GROUP,
)
EXPIRATIONS = Table(
    "execution",
    "expirations",
    ExpirationRow,
    key=["asset_id", "materialization_id"],
    spread=SPREAD,
    history=History("expired_at", EXPIRED_KEPT_HOT),
)
SCHEMAS = Table(
    "execution",
    "schemas",
    SchemaRow,
    key=["asset_id", "materialization_id"],
    spread=SPREAD,
    history=History("created_at", SCHEMAS_KEPT_HOT),
)
PARTITIONS = Table(
    "execution",
    "partitions",
    PartitionRow,
    key=["asset_id", "partition_key"],
    spread=SPREAD,
    group_rows=LOOKED_UP_GROUP,
)
CURRENT_VERSIONS = PARTITIONS.view(CurrentVersionRow)


class PartitionStatusColumns(Row, frozen=True):
    """The columns of a partition's status for its state and quality."""

    asset_id: str
    partition_key: str
    status: PartitionStatus
    current: str
    last: str
    error_code: str


PARTITION_STATUS = Table(
    "execution",
    "partition_status",
    PartitionStatusRow,
    key=["asset_id", "partition_key"],
    spread=SPREAD,
    computed={
        "state": "CASE WHEN status = 'FAILED' THEN 'FAILED' WHEN current <> '' THEN 'MATERIALIZED' "
        "ELSE 'MISSING' END",
        "quality": "CASE WHEN status = 'GOOD' THEN 'PASSED' WHEN status <> 'FAILED' THEN status "
        "WHEN last <> '' THEN 'BLOCKED' "
        f"WHEN error_code IN {FAILED_CHECKS} THEN 'FAILED' ELSE 'UNKNOWN' END",
    },
    group_rows=LOOKED_UP_GROUP,
)
PARTITION_STATUS_ROWS = PARTITION_STATUS.view(PartitionStatusColumns)
QUARANTINE = Table(
    "execution",
    "quarantine",
    QuarantineRow,
    key=["asset_id", "materialization_id"],
    history=History("decided_at", DECISIONS_KEPT_HOT),
)
TASK_COSTS = Table(
    "execution",
    "task_costs",
    TaskCostRow,
    key=["asset_id", "attempt_id"],
    spread=SPREAD,
    history=History("finished_at", COSTS_KEPT_HOT),
    group_rows=LOOKED_UP_GROUP,
)
ATTEMPTS = TASK_COSTS.view(AttemptRow)
