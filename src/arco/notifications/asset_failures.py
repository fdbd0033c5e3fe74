"""The fold of failing assets: one key for each.

An asset has failed when one of its partitions has, and recovered when none of them is bad any
more; it is stale when one of its series is. It has one row, however many partitions fail. Only of
an asset with a dynamic dimension there is one for each, too: they end when their key is removed.

When the partitions of an asset change, those that were bad may be removed, and would never recover.
So counting starts again, and the asset has recovered with the next good output if nothing has
failed after the change.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.automation.freshness_events import FreshnessChanged, FreshnessRestarted
from arco.automation.freshness_tables import FreshnessStatus
from arco.catalog.events import AssetLeft, AssetNotice, AssetReshaped
from arco.execution.events import PartitionFailed, PartitionMaterialized, PartitionRecovered
from arco.notifications.tables import (
    ASSET_FAILURES,
    FAILING_PARTITIONS,
    KEYED_ASSETS,
    AssetFailuresRow,
    FailingPartitionRow,
    KeyedAssetRow,
)
from arco.orchestration.derived import KeySetsDeclared, PartitionKeysRemoved
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by

replace = msgspec.structs.replace


def _fail(rows: Rows, fact: Fact, e: PartitionFailed) -> Iterator[Change]:
    row = _row(rows, e.asset_id)
    if not _is_counted(rows, row, e):
        yield _put(replace(row, failing=row.failing + 1))
        if _is_keyed(rows, e.asset_id):
            yield Put(FAILING_PARTITIONS, FailingPartitionRow(e.asset_id, e.partition))
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
    if _is_counted(rows, row, e):
        row = replace(row, failing=max(0, row.failing - 1))
        yield _put(row)
        if _is_keyed(rows, e.asset_id):
            yield Delete(FAILING_PARTITIONS, (e.asset_id, e.partition))
    if not row.failing:
        yield from _all_good(row, e.run_id)


def _is_counted(rows: Rows, row: AssetFailuresRow, e: PartitionFailed | PartitionRecovered) -> bool:
    if _is_keyed(rows, e.asset_id):
        return rows.get(FAILING_PARTITIONS, e.asset_id, e.partition) is not None
    return e.bad_since > row.since


def _is_keyed(rows: Rows, asset_id: str) -> bool:
    return any(True for _ in rows.scan(KEYED_ASSETS, asset_id))


# -- removed partitions --------------------------------------------------------------------


def _declare_sets(rows: Rows, fact: Fact, e: KeySetsDeclared) -> Iterator[Change]:
    if not e.dimensions:
        yield Delete(KEYED_ASSETS, (e.asset_id, e.keys))
        return
    if not _is_keyed(rows, e.asset_id):  # what failed before has no row
        yield from _restart(rows, fact, e.asset_id)
    yield Put(KEYED_ASSETS, KeyedAssetRow(e.asset_id, e.keys))


def _remove_keys(rows: Rows, fact: Fact, e: PartitionKeysRemoved) -> Iterator[Change]:
    """End the failures of removed partitions."""
    row = _row(rows, e.asset_id)
    removed = [
        each.partition_key
        for each in rows.scan(FAILING_PARTITIONS, e.asset_id)
        if e.takes(each.partition_key)
    ]
    for partition in removed:
        yield Delete(FAILING_PARTITIONS, (e.asset_id, partition))
    if removed:
        row = replace(row, failing=max(0, row.failing - len(removed)))
        yield _put(row)
        if not row.failing:
            yield from _all_good(row)


def _reshape(rows: Rows, fact: Fact, e: AssetReshaped) -> Iterator[Change]:
    return _restart(rows, fact, e.asset_id)


def _restart(rows: Rows, fact: Fact, asset_id: str) -> Iterator[Change]:
    row = rows.get(ASSET_FAILURES, asset_id)
    if row is not None and row.failing:
        yield _put(replace(row, failing=0, since=fact.position, unsure=True))
    yield from _forget_partitions(rows, asset_id)


def _leave(rows: Rows, fact: Fact, e: AssetLeft) -> Iterator[Change]:
    row = rows.get(ASSET_FAILURES, e.asset_id)
    if row is not None and (row.failing or row.unsure):
        yield from _all_good(replace(row, since=fact.position))
    yield from _forget_partitions(rows, e.asset_id)


def _forget_partitions(rows: Rows, asset_id: str) -> Iterator[Change]:
    for row in rows.scan(FAILING_PARTITIONS, asset_id):
        yield Delete(FAILING_PARTITIONS, (row.asset_id, row.partition_key))


# -- recovery ------------------------------------------------------------------------------


def _materialize(rows: Rows, fact: Fact, e: PartitionMaterialized) -> Iterator[Change]:
    row = rows.get(ASSET_FAILURES, e.asset_id)
    if row is not None and row.unsure and not row.failing:
        yield from _all_good(row)


def _all_good(row: AssetFailuresRow, run_id: str = "") -> Iterator[Change]:
    yield _put(replace(row, failing=0, unsure=False))
    yield Emit(AssetNotice(asset_id=row.asset_id, event="recovered", run_id=run_id))


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


def _restart_freshness(rows: Rows, fact: Fact, e: FreshnessRestarted) -> Iterator[Change]:
    row = _row(rows, e.asset_id)
    if row.stale:
        yield _put(replace(row, stale=0))
        yield Emit(AssetNotice(asset_id=e.asset_id, topic="freshness", event="recovered"))


def _row(rows: Rows, asset_id: str) -> AssetFailuresRow:
    return rows.get(ASSET_FAILURES, asset_id) or AssetFailuresRow(asset_id, 0)


def _put(row: AssetFailuresRow) -> Change:
    is_good = not (row.failing or row.stale or row.since)
    return Delete(ASSET_FAILURES, (row.asset_id,)) if is_good else Put(ASSET_FAILURES, row)


_by_asset = by("asset_id")
STAGE = Stage(
    "asset_failures",
    (ASSET_FAILURES, KEYED_ASSETS, FAILING_PARTITIONS),
    (
        On(PartitionFailed, _by_asset, _fail),
        On(PartitionRecovered, _by_asset, _recover),
        On(PartitionMaterialized, _by_asset, _materialize),
        On(AssetReshaped, _by_asset, _reshape),
        On(AssetLeft, _by_asset, _leave),
        On(KeySetsDeclared, _by_asset, _declare_sets),
        On(PartitionKeysRemoved, _by_asset, _remove_keys),
        On(FreshnessChanged, _by_asset, _change_freshness),
        On(FreshnessRestarted, _by_asset, _restart_freshness),
    ),
)
