"""The fold of failing assets: one key for each.

An asset has failed when one of its partitions has, and recovered when none of them is bad any
more; it is stale when one of its series is. It has one row, however many partitions fail, and none
once all are good.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.automation.freshness_events import FreshnessChanged
from arco.automation.freshness_tables import FreshnessStatus
from arco.catalog.events import AssetNotice
from arco.execution.events import PartitionFailed, PartitionRecovered
from arco.notifications.tables import ASSET_FAILURES, AssetFailuresRow
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage

replace = msgspec.structs.replace


def _fail(rows: Rows, fact: Fact, e: PartitionFailed) -> Iterator[Change]:
    if not e.again:
        row = _row(rows, e.asset_id)
        yield _put(replace(row, failing=row.failing + 1))
    yield Emit(
        AssetNotice(
            asset_id=e.asset_id,
            event="quarantined" if e.held else "asset_failed",
            run_id=e.run_id,
            code=e.code,
        )
    )


def _recover(rows: Rows, fact: Fact, e: PartitionRecovered) -> Iterator[Change]:
    row = _row(rows, e.asset_id)
    row = replace(row, failing=max(0, row.failing - 1))
    yield _put(row)
    if not row.failing:
        yield Emit(AssetNotice(asset_id=e.asset_id, event="recovered", run_id=e.run_id))


def _change_freshness(rows: Rows, fact: Fact, e: FreshnessChanged) -> Iterator[Change]:
    row = _row(rows, e.asset_id)
    if e.status == FreshnessStatus.STALE:
        yield _put(replace(row, stale=row.stale + 1))
        yield Emit(AssetNotice(asset_id=e.asset_id, topic="freshness", event="stale", code=e.cause))
        return
    row = replace(row, stale=max(0, row.stale - 1))
    yield _put(row)
    if not row.stale:
        yield Emit(AssetNotice(asset_id=e.asset_id, topic="freshness", event="recovered"))


def _row(rows: Rows, asset_id: str) -> AssetFailuresRow:
    return rows.get(ASSET_FAILURES, asset_id) or AssetFailuresRow(asset_id, 0)


def _put(row: AssetFailuresRow) -> Change:
    is_good = not (row.failing or row.stale)
    return Delete(ASSET_FAILURES, (row.asset_id,)) if is_good else Put(ASSET_FAILURES, row)


def _by_asset(fact: Fact, e: PartitionFailed | PartitionRecovered | FreshnessChanged) -> str:
    return e.asset_id


STAGE = Stage(
    "asset_failures",
    (ASSET_FAILURES,),
    (
        On(PartitionFailed, _by_asset, _fail),
        On(PartitionRecovered, _by_asset, _recover),
        On(FreshnessChanged, _by_asset, _change_freshness),
    ),
)
