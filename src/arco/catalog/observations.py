"""The fold of observations of an asset's size.

A separate stage: an observation changes no text and no column of an asset, so the stages after the
assets' stage need not process it.
"""

from __future__ import annotations

from collections.abc import Sequence

from arco.catalog.events import AssetObserved
from arco.catalog.tables import ASSET_STATS, AssetStatsRow
from arco.state.fold import Change, Fact, On, Put, Rows, Stage, by


def _observe(rows: Rows, fact: Fact, e: AssetObserved) -> Sequence[Change]:
    # Of all observations the one with the greatest id stays, whatever else happens to the
    # asset: so they may come in any order, late, and twice, and the row is the same.
    asset_id, id = e.asset_id, fact.id
    stats = rows.get(ASSET_STATS, asset_id)
    if stats is not None and stats.observed_by >= id:
        return []
    row = AssetStatsRow(asset_id, e.row_count, e.size_bytes, e.files, id, fact.received_at)
    return [Put(ASSET_STATS, row)]


STAGE = Stage("observations", (ASSET_STATS,), (On(AssetObserved, by("asset_id"), _observe),))
