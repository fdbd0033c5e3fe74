"""Quality's tables, sharded by the asset, and spread by its partitions or attempts.

Results move to history after a week, which is long after their run: a late report then derives
nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from arco.state.table import LOOKED_UP_GROUP, History, Row, Table
from servo.contract.manifest import GateAction, Phase
from servo.contract.task import CheckMethod, CheckStatus

KEPT_HOT = timedelta(days=7)
SPREAD = 32
"""Of the partitions and attempts of an asset over buckets; see `arco.state.table`."""


class CheckResultRow(Row, frozen=True):
    """The result of one check in one attempt."""

    asset_id: str
    attempt_id: str
    check_id: str
    """The check's name; of an input also that: `name@namespace.asset`, and, where it is not
    that of the asset, the parameter: `name@namespace.asset[parameter]`."""
    asset_key: str
    partition_key: str
    check_name: str
    kind: str
    phase: Phase
    input: str
    columns: list[str]
    severity: str
    status: CheckStatus
    action: GateAction
    message: str
    expected: str
    actual: str
    rows: int
    failing: int | None
    method: CheckMethod
    sample: list[str]
    wall_ms: int
    materialization_id: str
    run_id: str
    task_id: str
    evaluated_at: datetime


class CheckStatusRow(Row, frozen=True):
    """The status of one check for a partition: the newest result, and since when."""

    asset_id: str
    partition_key: str
    check_id: str
    asset_key: str
    check_name: str
    kind: str
    phase: Phase
    input: str
    severity: str
    status: CheckStatus
    action: GateAction
    message: str
    failing: int | None
    failing_since: datetime | None
    """Null while it passes."""
    consecutive_failures: int
    last_passed_at: datetime | None
    materialization_id: str
    run_id: str
    attempt_id: str
    evaluated_at: datetime


class EvaluationRow(Row, frozen=True):
    """The newest evaluation of a partition: how many checks passed, and their ids."""

    asset_id: str
    partition_key: str
    asset_key: str
    passed: int
    failed: int
    errors: int
    action: GateAction
    """The strongest."""
    before: list[str]
    after: list[str]
    """Ids of the checks of each phase, as they were last evaluated."""
    materialization_id: str
    run_id: str
    attempt_id: str
    evaluated_at: datetime


class CheckTotalsRow(Row, frozen=True):
    """The total results of a check of an asset, in all partitions."""

    asset_id: str
    check_id: str
    kind: str
    evaluations: int
    failures: int
    """Results that are not `passed`."""
    wall_ms: int
    first_at: datetime
    last_at: datetime
    last_failed_at: datetime | None


CHECK_RESULTS = Table(
    "quality",
    "check_results",
    CheckResultRow,
    key=["asset_id", "attempt_id", "check_id"],
    spread=SPREAD,
    history=History("evaluated_at", KEPT_HOT),
)
CHECK_STATUS = Table(
    "quality",
    "check_status",
    CheckStatusRow,
    key=["asset_id", "partition_key", "check_id"],
    spread=SPREAD,
)
EVALUATIONS = Table(
    "quality", "evaluations", EvaluationRow, key=["asset_id", "partition_key"], spread=SPREAD
)
CHECK_TOTALS = Table(
    "quality",
    "check_totals",
    CheckTotalsRow,
    key=["asset_id", "check_id"],
    group_rows=LOOKED_UP_GROUP,
)
