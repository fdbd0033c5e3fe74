"""Execution's tables, sharded by the asset, and spread by what an asset may have very many of.

A version that is not current any more leaves for history a week after it was superseded.
That is long after its task's row has left: no report of it comes that late. Folds do not
see it from then on, so what becomes of it (`EXPIRED`) is a row of its own.
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
from servo.contract.task import Outcome

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
    """Whether its files were given up since is told by `expirations`."""
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
    """A version that was given up, so that its files may go."""

    asset_id: str
    materialization_id: str
    reason: str
    expired_at: datetime


class SchemaRow(Row, frozen=True):
    """What a version looks like. Apart from it: this is long, and folds never ask."""

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
    """How a partition is doing: what is current, and what was last tried."""

    asset_id: str
    partition_key: str
    status: PartitionStatus
    """Of the last attempt to make it."""
    current: str
    """The current version, which may be older than that; empty if there is none."""
    last: str
    """The materialization that the last attempt made; empty if it made none."""
    last_run_id: str
    last_at: datetime
    good_at: datetime | None
    """When the current version was made."""
    warnings: int
    error_code: str
    message: str
    position: int = 0
    versions: int = 0
    """How many good versions there have been, where none is current any more; else 0."""

    @property
    def state(self) -> PartitionState:
        """As far as attempts tell: `orchestration/partition_status.py` knows the rest."""
        return state_of(self.status, self.current)

    @property
    def quality(self) -> Quality:
        return quality_of(self.status, self.last, self.error_code)


class QuarantineRow(Row, frozen=True):
    """An output that is held back, by checks or by a person, and what was decided about it."""

    asset_id: str
    materialization_id: str
    asset_key: str
    partition_key: str
    status: HoldStatus
    """QUARANTINED or BLOCKED while nobody has decided; then APPROVED or REJECTED."""
    reason: str
    run_id: str
    rows: int
    bytes: int
    path: str
    held_at: datetime
    decided_at: datetime | None
    decided_by: str
    decision: str
    """Why, in the words of whoever decided."""
    held_by: str = ""
    """The person who quarantined it; empty where checks did."""


class TaskCostRow(Row, frozen=True):
    """What one attempt took, and what it came to, in 10⁻⁹ of the currency's unit."""

    asset_id: str
    attempt_id: str
    asset_key: str
    partition_key: str
    run_id: str
    task_id: str
    attempt: int
    outcome: Outcome
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
    outcome: Outcome
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
    """What of a partition's status tells its state and its quality."""

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
