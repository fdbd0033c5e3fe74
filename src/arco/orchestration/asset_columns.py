"""The columns of an asset, from whichever table knows them best."""

from __future__ import annotations

from arco.catalog.reader import CatalogReader
from arco.errors import NotFound
from arco.execution.reader import ExecutionReader
from arco.lineage.reader import LineageReader
from arco.orchestration.reader import OrchestrationReader
from arco.state.snapshot import Snapshot
from servo.contract.keys import AssetKey
from servo.contract.task import ColumnInfo


def columns_of(snapshot: Snapshot, asset: str) -> tuple[ColumnInfo, ...]:
    """Those of the newest version; else as declared; else the names that lineage knows."""
    deployed = OrchestrationReader(snapshot).deployed_asset(asset)
    columns = ExecutionReader(snapshot).columns(deployed.asset_id) if deployed else ()
    if columns:
        return columns
    try:
        rows = CatalogReader(snapshot).asset(AssetKey.parse(asset)).columns
    except NotFound:
        rows = []
    if rows:
        return tuple(ColumnInfo(name=row.name, type=row.type) for row in rows)
    coverage = LineageReader(snapshot).coverage(asset)
    names = [*coverage.columns, *coverage.unmapped] if coverage else []
    return tuple(ColumnInfo(name=name, type="") for name in names)
