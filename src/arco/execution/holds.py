"""Holds: what people decide about outputs that checks hold, and versions that people quarantine.

A good version that a person quarantines is held like an output that checks hold. If it was current,
the newest good version before it is current again; if there is none, the partition has no version.
A fold cannot read rows in history, so the command contains the rows of both versions, and the row
version of the partition that it read: if that row has changed since, the command is refused and
repeated. A newer output that came in between stays current: then the command's rows do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.execution.events import (
    HoldEnded,
    QuarantineDecided,
    RecordedVersion,
    SupersededHeld,
    VersionQuarantined,
    VersionWithdrawn,
)
from arco.execution.promotion import (
    attempt_failed,
    attempt_recovered,
    make_current,
    promote,
    version_count,
)
from arco.execution.states import (
    GOOD_PARTITIONS,
    HELD,
    HELD_VERSIONS,
    HoldStatus,
    PartitionStatus,
    VersionStatus,
)
from arco.execution.tables import (
    EXPIRATIONS,
    MATERIALIZATIONS,
    MAX_MESSAGE_CHARS,
    PARTITION_STATUS,
    PARTITIONS,
    QUARANTINE,
    MaterializationRow,
    QuarantineRow,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, Put, Rows
from arco.state.system import applied, refused

replace = msgspec.structs.replace

STALE = "partition_changed"
"""The code of a refusal after which the command may be repeated from the current rows."""


# -- decisions ----------------------------------------------------------------------------


def decide(rows: Rows, fact: Fact, e: QuarantineDecided) -> Iterator[Change]:
    held = rows.get(QUARANTINE, e.asset_id, e.materialization_id)
    row = rows.get(MATERIALIZATIONS, e.asset_id, e.materialization_id)
    if held is None or row is None:
        yield refused(fact, "not_held", f"{e.materialization_id} is not held")
        return
    if held.status not in HELD or row.status not in HELD_VERSIONS:
        decision = held.status.lower()
        yield refused(fact, "decided_already", f"{e.materialization_id} was {decision} already")
        return
    yield Put(
        QUARANTINE,
        replace(
            held,
            status=HoldStatus.APPROVED if e.approved else HoldStatus.REJECTED,
            decided_at=fact.received_at,
            decided_by=fact.actor,
            decision=e.reason,
        ),
    )
    if e.approved:
        yield from _approve(rows, fact, row, held.asset_key)
    else:
        yield from _reject(rows, fact, row, e.reason)
    yield Emit(
        HoldEnded(
            asset_id=e.asset_id,
            asset=held.asset_key,
            materialization_id=e.materialization_id,
            approved=e.approved,
            reason=e.reason,
            position=row.position,
        )
    )
    yield applied(fact)


def _approve(rows: Rows, fact: Fact, row: MaterializationRow, asset: str) -> Iterator[Change]:
    count = version_count(rows, row.asset_id, row.partition_key)
    # A version that was good before has a number already.
    good = replace(row, status=VersionStatus.GOOD, version=row.version or count + 1)
    current = rows.get(PARTITIONS, row.asset_id, row.partition_key)
    if current is not None and current.position > row.position:
        # Good, but not the newest: it was made before what is current.
        yield Put(MATERIALIZATIONS, replace(good, superseded_at=fact.received_at))
        yield Put(PARTITIONS, replace(current, versions=max(count, good.version)))
        return
    yield from promote(rows, fact, good, asset, again=bool(row.version))
    status = rows.get(PARTITION_STATUS, row.asset_id, row.partition_key)
    if status is None:
        return
    status = replace(status, current=row.materialization_id, good_at=row.created_at)
    if status.last == row.materialization_id:
        yield from attempt_recovered(rows, row.asset_id, row.partition_key, row.run_id)
        status = replace(status, status=PartitionStatus.GOOD, message="approved", error_code="")
    yield Put(PARTITION_STATUS, status)


def _reject(rows: Rows, fact: Fact, row: MaterializationRow, reason: str) -> Iterator[Change]:
    rejected = replace(row, status=VersionStatus.REJECTED, superseded_at=fact.received_at)
    yield Put(MATERIALIZATIONS, rejected)
    status = rows.get(PARTITION_STATUS, row.asset_id, row.partition_key)
    if status is not None and status.last == row.materialization_id:
        message = (reason or "rejected")[:MAX_MESSAGE_CHARS]
        status = replace(status, status=PartitionStatus.REJECTED, message=message, error_code="")
        yield Put(PARTITION_STATUS, status)


# -- quarantine by a person ---------------------------------------------------------------


def quarantine(rows: Rows, fact: Fact, e: VersionQuarantined) -> Iterator[Change]:
    row = _row_of(rows, e, e.version)
    problem = _not_good(rows, row)
    if row.status in HELD_VERSIONS and problem:
        yield applied(fact)  # as it is asked for
        return
    if problem:
        yield refused(fact, "version_not_good", f"{row.materialization_id} {problem}")
        return
    key = row.asset_id, row.partition_key
    current = rows.get(PARTITIONS, *key)
    is_current = current is not None and current.materialization_id == row.materialization_id
    previous = None if e.previous is None else _row_of(rows, e, e.previous)
    if is_current:
        is_unchanged = rows.version(PARTITIONS, *key) == e.partition_version
        if not is_unchanged or (previous is not None and _not_good(rows, previous)):
            text = f"the versions of {e.asset} {row.partition_key} have changed".replace("  ", " ")
            yield refused(fact, STALE, text)
            return
    yield Put(
        MATERIALIZATIONS,
        replace(row, status=VersionStatus.QUARANTINED, reason=e.reason, superseded_at=None),
    )
    yield Put(QUARANTINE, _hold(fact, e, row))
    if is_current:
        yield from _restore_previous(rows, fact, e, row, previous)
    else:
        if current is not None:
            yield Put(PARTITIONS, current)  # the command was built before this change
        yield Emit(
            SupersededHeld(
                asset_id=row.asset_id,
                partition=row.partition_key,
                materialization_id=row.materialization_id,
                position=row.position,
            )
        )
    yield applied(fact)


def _row_of(rows: Rows, e: VersionQuarantined, version: RecordedVersion) -> MaterializationRow:
    """The row of a version; from the command if it is in history."""
    row = rows.get(MATERIALIZATIONS, e.asset_id, version.materialization_id)
    if row is not None:
        return row
    return row_from(
        MaterializationRow, version, asset_id=e.asset_id, status=VersionStatus.GOOD, reason=""
    )


def _not_good(rows: Rows, row: MaterializationRow) -> str:
    if rows.get(EXPIRATIONS, row.asset_id, row.materialization_id) is not None:
        return "is expired: its files may have been deleted"
    return "" if row.status == VersionStatus.GOOD else f"is {row.status} and not a good version"


def _hold(fact: Fact, e: VersionQuarantined, row: MaterializationRow) -> QuarantineRow:
    return row_from(
        QuarantineRow,
        row,
        asset_key=e.asset,
        status=HoldStatus.QUARANTINED,
        reason=e.reason,
        held_at=fact.received_at,
        held_by=fact.actor or "unknown",
        decided_at=None,
        decided_by="",
        decision="",
    )


def _withdrawn(row: MaterializationRow, previous: MaterializationRow | None) -> VersionWithdrawn:
    return VersionWithdrawn(
        asset_id=row.asset_id,
        partition=row.partition_key,
        materialization_id=row.materialization_id,
        run_id=row.run_id,
        position=row.position,
        previous_id="" if previous is None else previous.materialization_id,
        previous_schema_hash="" if previous is None else previous.schema_hash,
        previous_position=0 if previous is None else previous.position,
    )


def _restore_previous(
    rows: Rows,
    fact: Fact,
    e: VersionQuarantined,
    row: MaterializationRow,
    previous: MaterializationRow | None,
) -> Iterator[Change]:
    """Make the version before the current one current, if there is one."""
    key = row.asset_id, row.partition_key
    count = version_count(rows, *key)
    status = rows.get(PARTITION_STATUS, *key)
    if previous is not None:
        yield from make_current(rows, fact, previous, e.asset, again=True)
    else:
        yield Delete(PARTITIONS, key)
    yield Emit(_withdrawn(row, previous))
    if status is None:
        return
    changed = replace(
        status,
        current="" if previous is None else previous.materialization_id,
        good_at=None if previous is None else previous.created_at,
        versions=count if previous is None else 0,
    )
    if status.last == row.materialization_id and status.status in GOOD_PARTITIONS:
        yield attempt_failed(rows, *key, row.run_id, held=True)
        message = (e.reason or "quarantined")[:MAX_MESSAGE_CHARS]
        changed = replace(
            changed,
            status=PartitionStatus.QUARANTINED,
            message=message,
            error_code="",
            position=fact.position,
        )
    yield Put(PARTITION_STATUS, changed)
