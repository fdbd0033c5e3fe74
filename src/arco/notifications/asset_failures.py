"""The fold of failing assets: one key for each.

An asset has failed when one of its partitions has, and recovered when none of them is bad any
more. It has one row, however many partitions fail, and none once all are good.
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.catalog.events import AssetNotice
from arco.execution.events import PartitionFailed, PartitionRecovered
from arco.notifications.tables import ASSET_FAILURES, AssetFailuresRow
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage


def _fail(rows: Rows, fact: Fact, e: PartitionFailed) -> Iterator[Change]:
    if not e.again:
        row = rows.get(ASSET_FAILURES, e.asset_id)
        failing = 1 if row is None else row.failing + 1
        yield Put(ASSET_FAILURES, AssetFailuresRow(e.asset_id, failing))
    yield Emit(
        AssetNotice(
            asset_id=e.asset_id,
            event="quarantined" if e.held else "asset_failed",
            run_id=e.run_id,
            code=e.code,
        )
    )


def _recover(rows: Rows, fact: Fact, e: PartitionRecovered) -> Iterator[Change]:
    row = rows.get(ASSET_FAILURES, e.asset_id)
    if row is not None and row.failing > 1:
        yield Put(ASSET_FAILURES, AssetFailuresRow(e.asset_id, row.failing - 1))
        return
    if row is not None:
        yield Delete(ASSET_FAILURES, (e.asset_id,))
    yield Emit(AssetNotice(asset_id=e.asset_id, event="recovered", run_id=e.run_id))


def _by_asset(fact: Fact, e: PartitionFailed | PartitionRecovered) -> str:
    return e.asset_id


STAGE = Stage(
    "asset_failures",
    (ASSET_FAILURES,),
    (On(PartitionFailed, _by_asset, _fail), On(PartitionRecovered, _by_asset, _recover)),
)
