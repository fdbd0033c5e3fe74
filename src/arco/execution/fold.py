"""Execution's fold: one key for each asset.

Whether a result counts was decided by the stage of runs; here the newest one by
position becomes current.
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.execution.events import OutputAccepted, OutputRejected
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, MaterializationRow, PartitionRow
from arco.state.fold import Change, Fact, Put, Rows, Stage
from arco.state.table import Key
from servo.contract.task import Materialization


def fold_outputs(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case OutputAccepted(materialization=m):
            yield from _accept(rows, fact, m)
        case OutputRejected(materialization=m, reason=reason):
            if rows.get(MATERIALIZATIONS, m.asset_id, m.materialization_id) is None:
                yield Put(MATERIALIZATIONS, _row(fact, m, "LATE", reason, 0))


def _accept(rows: Rows, fact: Fact, m: Materialization) -> Iterator[Change]:
    known = rows.get(MATERIALIZATIONS, m.asset_id, m.materialization_id)
    if known is not None and known.status == "GOOD":
        return  # another attempt has adopted it
    current = rows.get(PARTITIONS, m.asset_id, m.partition)
    version = 1 if current is None else current.version + 1
    yield Put(MATERIALIZATIONS, _row(fact, m, "GOOD", "", version))
    yield Put(
        PARTITIONS,
        PartitionRow(
            asset_id=m.asset_id,
            partition_key=m.partition,
            materialization_id=m.materialization_id,
            path=m.path,
            fingerprint=m.fingerprint,
            version=version,
            run_id=m.run_id,
            rows=m.rows,
            bytes=m.bytes,
            schema_hash=m.schema_hash,
            updated_at=fact.received_at,
        ),
    )


def _row(
    fact: Fact, m: Materialization, status: str, reason: str, version: int
) -> MaterializationRow:
    return MaterializationRow(
        asset_id=m.asset_id,
        materialization_id=m.materialization_id,
        partition_key=m.partition,
        status=status,
        reason=reason,
        version=version,
        run_id=m.run_id,
        task_id=m.task_id,
        attempt_id=m.attempt_id,
        path=m.path,
        files=len(m.files),
        rows=m.rows,
        bytes=m.bytes,
        schema_hash=m.schema_hash,
        fingerprint=m.fingerprint,
        metadata={name: str(value) for name, value in m.metadata.items()},
        created_at=fact.received_at,
    )


def _by_asset(fact: Fact) -> Key:
    match fact.payload:
        case OutputAccepted(materialization=m) | OutputRejected(materialization=m):
            return (m.asset_id,)
    raise TypeError(fact.payload)


OUTPUTS = Stage(
    "outputs",
    (MATERIALIZATIONS, PARTITIONS),
    dict.fromkeys((OutputAccepted, OutputRejected), _by_asset),
    fold_outputs,
)
STAGES = (OUTPUTS,)
