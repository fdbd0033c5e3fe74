"""Execution's fold: one key for each asset.

Whether a result counts was decided by the stage of runs. Here the newest good one by position
becomes current. A held output is never current; after its approval it is good, and current if no
newer one is (`holds.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from arco.execution.events import (
    AttemptRecorded,
    CostIncurred,
    OutputAccepted,
    OutputHeld,
    OutputMissed,
    OutputRecorded,
    OutputRejected,
    QuarantineDecided,
    VersionQuarantined,
    VersionsDamaged,
    VersionsExpired,
)
from arco.execution.holds import decide, quarantine
from arco.execution.promotion import attempt_failed, attempt_recovered, promote, version_count
from arco.execution.states import HELD_VERSIONS, PartitionStatus, VersionStatus
from arco.execution.tables import (
    EXPIRATIONS,
    MATERIALIZATIONS,
    MAX_MESSAGE_CHARS,
    PARTITION_STATUS,
    PARTITIONS,
    QUARANTINE,
    SCHEMAS,
    TASK_COSTS,
    ExpirationRow,
    MaterializationRow,
    PartitionRow,
    PartitionStatusRow,
    QuarantineRow,
    SchemaRow,
    TaskCostRow,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from servo.contract.task import Materialization

replace = msgspec.structs.replace


def _accept(rows: Rows, fact: Fact, e: OutputAccepted) -> Iterator[Change]:
    m = e.materialization
    if _is_settled(rows, m):
        return  # another attempt has adopted it
    version = version_count(rows, m.asset_id, m.partition) + 1
    yield from promote(rows, fact, _row(fact, m, VersionStatus.GOOD, "", version), m.asset)
    yield from _schema_row(fact, m)
    yield Emit(OutputRecorded(materialization=m, held=False))
    yield from attempt_recovered(rows, m.asset_id, m.partition, m.run_id)
    status = _status(
        fact,
        _attempt_of(m),
        PartitionStatus.WARNED if e.warnings else PartitionStatus.GOOD,
        current=m.materialization_id,
        good_at=fact.received_at,
        warnings=e.warnings,
        message=_warned(e.warnings),
    )
    yield Put(PARTITION_STATUS, status)


def _is_settled(rows: Rows, m: Materialization) -> bool:
    """Whether a version was folded before, other than as a late output."""
    key = m.asset_id, m.materialization_id
    version = rows.get(MATERIALIZATIONS, *key)
    if version is not None and version.status != VersionStatus.LATE:
        return True
    return rows.get(EXPIRATIONS, *key) is not None


def _warned(checks: int) -> str:
    if not checks:
        return ""
    return f"{checks} {'check' if checks == 1 else 'checks'} failed"


def _hold(rows: Rows, fact: Fact, e: OutputHeld) -> Iterator[Change]:
    m = e.materialization
    if _is_settled(rows, m):
        return
    yield Put(MATERIALIZATIONS, _row(fact, m, VersionStatus(e.status), e.reason, 0))
    yield from _schema_row(fact, m)
    yield Emit(OutputRecorded(materialization=m, held=True))
    yield Put(
        QUARANTINE,
        row_from(
            QuarantineRow,
            m,
            asset_key=m.asset,
            partition_key=m.partition,
            status=e.status,
            reason=e.reason,
            held_at=fact.received_at,
            decided_at=None,
            decided_by="",
            decision="",
        ),
    )
    current = rows.get(PARTITIONS, m.asset_id, m.partition)
    yield attempt_failed(rows, m.asset_id, m.partition, m.run_id, held=True)
    status = _status(
        fact,
        _attempt_of(m),
        PartitionStatus(e.status),
        current="" if current is None else current.materialization_id,
        good_at=_written_at(rows, current),
        message=e.reason,
        versions=_count_without_current(rows, current, m.asset_id, m.partition),
    )
    yield Put(PARTITION_STATUS, status)


def _come_late(rows: Rows, fact: Fact, e: OutputRejected) -> Iterator[Change]:
    m = e.materialization
    if rows.get(MATERIALIZATIONS, m.asset_id, m.materialization_id) is None:
        row = _row(fact, m, VersionStatus.LATE, e.reason, 0)
        yield Put(MATERIALIZATIONS, replace(row, superseded_at=fact.received_at))
        yield from _schema_row(fact, m)


def _miss(rows: Rows, fact: Fact, e: OutputMissed) -> Iterator[Change]:
    current = rows.get(PARTITIONS, e.asset_id, e.partition)
    before = rows.get(PARTITION_STATUS, e.asset_id, e.partition)
    # The same report may contain an output, which is held.
    last = before.last if before is not None and before.position == fact.position else ""
    yield attempt_failed(rows, e.asset_id, e.partition, e.run_id, held=False, code=e.error.code)
    row = _status(
        fact,
        (e.asset_id, e.partition, last, e.run_id),
        PartitionStatus.FAILED,
        current="" if current is None else current.materialization_id,
        good_at=_written_at(rows, current),
        error_code=e.error.code,
        message=e.error.message,
        versions=_count_without_current(rows, current, e.asset_id, e.partition),
    )
    yield Put(PARTITION_STATUS, row)


# -- files --------------------------------------------------------------------------------


def _expire(rows: Rows, fact: Fact, e: VersionsExpired) -> Iterator[Change]:
    """Expire versions. One whose row is in history was superseded long ago."""
    for version in e.versions:
        row = rows.get(MATERIALIZATIONS, e.asset_id, version.materialization_id)
        if row is None:
            continue
        current = rows.get(PARTITIONS, e.asset_id, row.partition_key)
        if current is not None and current.materialization_id == row.materialization_id:
            why = f"{row.materialization_id} is the current version of its partition"
            yield refused(fact, "version_is_current", why)
            return
        if row.status in HELD_VERSIONS:
            why = f"{row.materialization_id} is held and not decided yet"
            yield refused(fact, "version_is_held", why)
            return
    for version in e.versions:
        key = e.asset_id, version.materialization_id
        if rows.get(EXPIRATIONS, *key) is None:
            yield Put(EXPIRATIONS, ExpirationRow(*key, version.reason, fact.received_at))
    yield applied(fact)


def _damage(rows: Rows, fact: Fact, e: VersionsDamaged) -> Iterator[Change]:
    """Remove the fingerprint of a current version, so that no plan reuses it."""
    for version in e.versions:
        row = rows.get(MATERIALIZATIONS, e.asset_id, version.materialization_id)
        current = None if row is None else rows.get(PARTITIONS, e.asset_id, row.partition_key)
        if current is not None and current.materialization_id == version.materialization_id:
            yield Put(PARTITIONS, replace(current, fingerprint=""))
    yield applied(fact)


# -- rows ---------------------------------------------------------------------------------


def _written_at(rows: Rows, current: PartitionRow | None) -> datetime | None:
    """When the current version was written, which may be long before it became current."""
    if current is None:
        return None
    row = rows.get(MATERIALIZATIONS, current.asset_id, current.materialization_id)
    return current.updated_at if row is None else row.created_at


def _count_without_current(
    rows: Rows, current: PartitionRow | None, asset_id: str, partition: str
) -> int:
    """The number of good versions of a partition without a current one."""
    return version_count(rows, asset_id, partition) if current is None else 0


def _row(
    fact: Fact, m: Materialization, status: VersionStatus, reason: str, version: int
) -> MaterializationRow:
    return row_from(
        MaterializationRow,
        m,
        partition_key=m.partition,
        status=status,
        reason=reason,
        version=version,
        files=m.file_count or len(m.files),
        metadata={name: str(value) for name, value in m.metadata.items()},
        created_at=fact.received_at,
        position=fact.position,
        details="" if m.details is None else m.details.path,
    )


def _schema_row(fact: Fact, m: Materialization) -> Iterator[Change]:
    if m.schema:
        text = msgspec.json.encode(m.schema).decode()
        yield Put(SCHEMAS, SchemaRow(m.asset_id, m.materialization_id, text, fact.received_at))


def _attempt_of(m: Materialization) -> tuple[str, str, str, str]:
    return m.asset_id, m.partition, m.materialization_id, m.run_id


def _status(
    fact: Fact,
    last: tuple[str, str, str, str],
    status: PartitionStatus,
    *,
    current: str,
    good_at: datetime | None,
    warnings: int = 0,
    error_code: str = "",
    message: str = "",
    versions: int = 0,
) -> PartitionStatusRow:
    """`last` is the last attempt: its asset, partition, output and run."""
    asset_id, partition, materialization_id, run_id = last
    return PartitionStatusRow(
        asset_id=asset_id,
        partition_key=partition,
        status=status,
        current=current,
        last=materialization_id,
        last_run_id=run_id,
        last_at=fact.received_at,
        good_at=good_at,
        warnings=warnings,
        error_code=error_code,
        message=message[:MAX_MESSAGE_CHARS],
        position=fact.position,
        versions=versions,
    )


def _incur(rows: Rows, fact: Fact, e: CostIncurred) -> Iterator[Change]:
    if rows.get(TASK_COSTS, e.asset_id, e.attempt_id) is None:
        yield Put(TASK_COSTS, _cost(fact, e))
        yield Emit(
            AttemptRecorded(
                asset_id=e.asset_id,
                attempt=e.attempt,
                wall_ms=e.usage.wall_ms,
                run_id=e.run_id,
                cost=e.cost.total,
                currency=e.cost.currency,
            )
        )


def _cost(fact: Fact, e: CostIncurred) -> TaskCostRow:
    return row_from(
        TaskCostRow,
        e,
        e.usage,
        e.cost,
        asset_key=e.asset,
        partition_key=e.partition,
        cpu_cost=e.cost.cpu,
        memory_cost=e.cost.memory,
        storage_cost=e.cost.storage,
        total_cost=e.cost.total,
        finished_at=fact.received_at,
    )


_by_asset, _by_asset_of_output = by("asset_id"), by("materialization.asset_id")
OUTPUTS = Stage(
    "outputs",
    (MATERIALIZATIONS, EXPIRATIONS, SCHEMAS, PARTITIONS, PARTITION_STATUS, QUARANTINE, TASK_COSTS),
    (
        On(OutputAccepted, _by_asset_of_output, _accept),
        On(OutputHeld, _by_asset_of_output, _hold),
        On(OutputRejected, _by_asset_of_output, _come_late),
        On(OutputMissed, _by_asset, _miss),
        On(QuarantineDecided, _by_asset, decide),
        On(VersionQuarantined, _by_asset, quarantine),
        On(VersionsExpired, _by_asset, _expire),
        On(VersionsDamaged, _by_asset, _damage),
        On(CostIncurred, _by_asset, _incur),
    ),
)
STAGES = (OUTPUTS,)
