"""The versions that an input names: by number, by id, or as of a time.

As of a time, a partition's version is the newest good one that had been reported by then. A version
that was quarantined since is not read: the one before it is.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from arco.execution.reader import ExecutionReader
from arco.execution.states import VersionStatus
from arco.execution.tables import MATERIALIZATIONS, MaterializationRow
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot


def numbered_versions(
    snapshot: Snapshot, asset_id: str, number: int
) -> dict[str, MaterializationRow]:
    """The good version with a number of each partition that has one, by partition key."""
    return _newest(snapshot, asset_id, lambda rows: pc.equal(rows.column("version"), number), None)


def version_by_id(snapshot: Snapshot, asset_id: str, id: str) -> dict[str, MaterializationRow]:
    """A good version by its id, by its partition key."""
    row = ExecutionReader(snapshot).materialization(asset_id, id)
    is_good = row is not None and row.status == VersionStatus.GOOD
    return {row.partition_key: row} if row is not None and is_good else {}


def versions_as_of(
    snapshot: Snapshot, asset_id: str, time: datetime
) -> dict[str, MaterializationRow]:
    """The newest good version of each partition that was reported by then, by partition key."""

    def reported(rows: pa.Table) -> pa.Array:
        by_then = pc.less_equal(rows.column("created_at"), pa.scalar(time, pa.timestamp("us")))
        return pc.and_(by_then, pc.greater(rows.column("version"), 0))

    return _newest(snapshot, asset_id, reported, time)


def _newest(
    snapshot: Snapshot,
    asset_id: str,
    matches: Callable[[pa.Table], pa.Array],
    since: datetime | None,
) -> dict[str, MaterializationRow]:
    """Versions that were superseded before `since` are skipped, unless a newer one is held."""
    best: dict[str, MaterializationRow] = {}
    hot_ids: pa.Array | None = None
    is_shadowed = False
    for rows, rest_before in newest_first(snapshot, MATERIALIZATIONS, asset_id):
        ids = rows.column("materialization_id")
        chosen = matches(rows)
        if hot_ids is None:
            hot_ids = ids.combine_chunks()
        else:  # a row that came back has an older copy here
            chosen = pc.and_(chosen, pc.invert(pc.is_in(ids, hot_ids)))
        for row in MATERIALIZATIONS.rows_of(rows.filter(chosen)):
            if row.status != VersionStatus.GOOD:
                is_shadowed = True
            elif row.partition_key not in best or best[row.partition_key].position < row.position:
                best[row.partition_key] = row
        if rest_before and since and rest_before <= since and not is_shadowed:
            break
    good = ExecutionReader(snapshot).with_expirations(asset_id, list(best.values()))
    return {row.partition_key: row for row in good if row.status == VersionStatus.GOOD}
