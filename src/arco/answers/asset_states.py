"""The fold of asset states: the newest version and failure of each asset, and recent outputs.

A row has a fixed size, however many partitions and runs an asset has: of outputs, evaluations and
attempts it keeps the last few. So the health of all assets is one scan of this table.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal

import msgspec

from arco.execution.events import AttemptRecorded, PartitionFailed, PartitionMaterialized
from arco.lineage.events import LineageRecorded
from arco.orchestration.derived import AssetSkipped
from arco.quality.events import ChecksRecorded
from arco.state.fold import Change, Fact, On, Put, Rows, Stage, by
from arco.state.table import LOOKED_UP_GROUP, Row, Table

RECENT: Final = 20
"""Maximum of outputs, evaluations and attempts in a row."""

AttemptOutcome = Literal["", "succeeded", "failed", "held"]


class AssetStateRow(Row, frozen=True):
    asset_id: str
    updated_at: datetime
    last_materialization_id: str = ""
    """The version that became current last, of any partition."""
    last_materialization_at: datetime | None = None
    last_partition_key: str = ""
    last_schema_hash: str = ""
    last_run_id: str = ""
    """Of the last task that ended with or without an output."""
    last_outcome: AttemptOutcome = ""
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None
    last_failure_partition: str = ""
    last_failure_run_id: str = ""
    last_failure_code: str = ""
    consecutive_failures: int = 0
    last_check_passed: bool | None = None
    last_gating_decision: str = ""
    recent_rows: list[int] = []
    """Of the last outputs, the newest last; so are the next two."""
    recent_bytes: list[int] = []
    recent_files: list[int] = []
    recent_checks: list[int] = []
    """Of the last evaluations, how many checks each had; the newest last."""
    recent_passed: list[int] = []
    recent_attempts: list[int] = []
    """Of the last attempts, their number within the task; the newest last."""
    recent_wall_ms: list[int] = []
    widest_input: str = ""
    """The asset of which the newest output read the most versions."""
    widest_input_versions: int = 0
    last_skipped_at: datetime | None = None
    """When a run skipped a task of it, because an upstream task had no good output."""
    last_skipped_run_id: str = ""


class AssetOutcomeRow(Row, frozen=True):
    """The columns of an asset's state for its health."""

    asset_id: str
    last_materialization_id: str = ""
    last_materialization_at: datetime | None = None
    last_partition_key: str = ""
    last_run_id: str = ""
    last_outcome: AttemptOutcome = ""
    last_failure_at: datetime | None = None
    last_failure_partition: str = ""
    last_failure_code: str = ""
    consecutive_failures: int = 0
    last_skipped_run_id: str = ""
    recent_checks: list[int] = []
    recent_passed: list[int] = []


ASSET_STATES = Table(
    "answers", "asset_states", AssetStateRow, key=["asset_id"], group_rows=LOOKED_UP_GROUP
)
ASSET_OUTCOMES = ASSET_STATES.view(AssetOutcomeRow)
AssetOutcome = AssetStateRow | AssetOutcomeRow


def _materialize(rows: Rows, fact: Fact, e: PartitionMaterialized) -> Iterator[Change]:
    row = _row(rows, fact, e.asset_id)
    current = msgspec.structs.replace(
        row,
        last_materialization_id=e.materialization_id,
        last_materialization_at=e.made_at,
        last_partition_key=e.partition,
        last_schema_hash=e.schema_hash,
    )
    if e.again:  # counted when it was made
        is_released = row.last_outcome == "held" and row.last_run_id == e.run_id
        ended = {"last_outcome": "succeeded", "consecutive_failures": 0} if is_released else {}
        yield _put(fact, current, **ended)
        return
    yield _put(
        fact,
        current,
        last_run_id=e.run_id,
        last_outcome="succeeded",
        last_success_at=fact.received_at,
        consecutive_failures=0,
        recent_rows=_recent(row.recent_rows, e.rows),
        recent_bytes=_recent(row.recent_bytes, e.bytes),
        recent_files=_recent(row.recent_files, e.files),
    )


def _fail(rows: Rows, fact: Fact, e: PartitionFailed) -> Iterator[Change]:
    row = _row(rows, fact, e.asset_id)
    yield _put(
        fact,
        row,
        last_run_id=e.run_id,
        last_outcome="held" if e.held else "failed",
        last_failure_at=fact.received_at,
        last_failure_partition=e.partition,
        last_failure_run_id=e.run_id,
        last_failure_code=e.code,
        consecutive_failures=row.consecutive_failures + 1,
    )


def _evaluate(rows: Rows, fact: Fact, e: ChecksRecorded) -> Iterator[Change]:
    row = _row(rows, fact, e.asset_id)
    yield _put(
        fact,
        row,
        last_check_passed=e.passed == e.checks,
        last_gating_decision=e.action,
        recent_checks=_recent(row.recent_checks, e.checks),
        recent_passed=_recent(row.recent_passed, e.passed),
    )


def _attempt(rows: Rows, fact: Fact, e: AttemptRecorded) -> Iterator[Change]:
    row = _row(rows, fact, e.asset_id)
    yield _put(
        fact,
        row,
        recent_attempts=_recent(row.recent_attempts, e.attempt),
        recent_wall_ms=_recent(row.recent_wall_ms, e.wall_ms),
    )


def _record(rows: Rows, fact: Fact, e: LineageRecorded) -> Iterator[Change]:
    counts = [(ref.count or len(ref.materializations), ref.asset) for ref in e.lineage.read]
    widest, asset = max(counts, default=(0, ""))
    row = _row(rows, fact, e.asset_id)
    if not e.held and (row.widest_input, row.widest_input_versions) != (asset, widest):
        yield _put(fact, row, widest_input=asset, widest_input_versions=widest)


def _skip(rows: Rows, fact: Fact, e: AssetSkipped) -> Iterator[Change]:
    row = _row(rows, fact, e.asset_id)
    yield _put(fact, row, last_skipped_at=fact.received_at, last_skipped_run_id=e.run_id)


def _row(rows: Rows, fact: Fact, asset_id: str) -> AssetStateRow:
    return rows.get(ASSET_STATES, asset_id) or AssetStateRow(asset_id, fact.received_at)


def _put(fact: Fact, row: AssetStateRow, **fields: object) -> Change:
    new = msgspec.structs.replace(row, updated_at=fact.received_at, **fields)
    return Put(ASSET_STATES, new)


def _recent(values: list[int], value: int) -> list[int]:
    return [*values, value][-RECENT:]


_by_asset = by("asset_id")
STAGE = Stage(
    "asset_states",
    (ASSET_STATES,),
    (
        On(PartitionMaterialized, _by_asset, _materialize),
        On(PartitionFailed, _by_asset, _fail),
        On(ChecksRecorded, _by_asset, _evaluate),
        On(AttemptRecorded, _by_asset, _attempt),
        On(LineageRecorded, _by_asset, _record),
        On(AssetSkipped, _by_asset, _skip),
    ),
)
