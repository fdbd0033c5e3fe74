"""Makes versions current, and emits the facts for other domains.

Shared by the folds of outputs and of holds.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.execution.events import PartitionFailed, PartitionMaterialized, PartitionRecovered
from arco.execution.states import GOOD_PARTITIONS
from arco.execution.tables import (
    MATERIALIZATIONS,
    PARTITION_STATUS,
    PARTITIONS,
    MaterializationRow,
    PartitionRow,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Emit, Fact, Put, Rows

replace = msgspec.structs.replace


def promote(
    rows: Rows, fact: Fact, row: MaterializationRow, asset: str, *, again: bool = False
) -> Iterator[Change]:
    """Make a good version the current one of its partition; the one before it is superseded.

    `again`: it was current before.
    """
    before = rows.get(PARTITIONS, row.asset_id, row.partition_key)
    if before is not None:
        old = rows.get(MATERIALIZATIONS, row.asset_id, before.materialization_id)
        if old is not None:
            yield Put(MATERIALIZATIONS, replace(old, superseded_at=fact.received_at))
    yield from make_current(rows, fact, row, asset, again=again)


def make_current(
    rows: Rows, fact: Fact, row: MaterializationRow, asset: str, *, again: bool
) -> Iterator[Change]:
    """The same; the caller handles the version before it."""
    count = max(row.version, version_count(rows, row.asset_id, row.partition_key))
    yield Put(MATERIALIZATIONS, replace(row, superseded_at=None))
    current = row_from(PartitionRow, row, updated_at=fact.received_at, versions=count)
    yield Put(PARTITIONS, current)
    yield Emit(
        PartitionMaterialized(
            asset_id=row.asset_id,
            asset=asset,
            partition=row.partition_key,
            materialization_id=row.materialization_id,
            made_at=row.created_at,
            run_id=row.run_id,
            rows=row.rows,
            bytes=row.bytes,
            files=row.files,
            schema_hash=row.schema_hash,
            again=again,
        )
    )


def version_count(rows: Rows, asset_id: str, partition: str) -> int:
    """How many good versions a partition has had."""
    current = rows.get(PARTITIONS, asset_id, partition)
    if current is not None:
        return max(current.version, current.versions)
    status = rows.get(PARTITION_STATUS, asset_id, partition)
    return 0 if status is None else status.versions


def attempt_failed(
    rows: Rows, asset_id: str, partition: str, run_id: str, *, held: bool, code: str = ""
) -> Emit:
    since = _bad_since(rows, asset_id, partition)
    return Emit(
        PartitionFailed(
            asset_id=asset_id,
            partition=partition,
            run_id=run_id,
            held=held,
            code=code,
            bad_since=since,
        )
    )


def attempt_recovered(rows: Rows, asset_id: str, partition: str, run_id: str) -> Iterator[Change]:
    if since := _bad_since(rows, asset_id, partition):
        yield Emit(
            PartitionRecovered(
                asset_id=asset_id, partition=partition, run_id=run_id, bad_since=since
            )
        )


def _bad_since(rows: Rows, asset_id: str, partition: str) -> int:
    """The position of the last attempt if it had no good output, or 0."""
    status = rows.get(PARTITION_STATUS, asset_id, partition)
    if status is None or status.status in GOOD_PARTITIONS:
        return 0
    return max(1, status.position)  # rows of long ago have none
