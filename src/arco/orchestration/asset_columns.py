"""The columns of an asset, from the best of several tables."""

from __future__ import annotations

from arco.catalog.reader import CatalogReader
from arco.catalog.tables import COLUMNS
from arco.errors import NotFound
from arco.execution.reader import ExecutionReader
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.reader import OrchestrationReader
from arco.state.snapshot import Snapshot
from servo.contract.keys import AssetKey
from servo.contract.task import ColumnInfo
from servo.suggest import did_you_mean


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
    coverage = lineage_reader(snapshot).coverage(asset)
    names = [*coverage.columns, *coverage.unmapped] if coverage else []
    return tuple(ColumnInfo(name=name, type="") for name in names)


def check_column(snapshot: Snapshot, asset: str, column: str) -> None:
    """NotFound for a column that neither the catalog, nor data, nor lineage has."""
    reader = lineage_reader(snapshot)
    coverage = reader.coverage(asset)
    names = {*coverage.columns, *coverage.unmapped} if coverage else set()
    names |= {each.name for each in columns_of(snapshot, asset)}
    names |= {row.name for row in snapshot.rows(COLUMNS, reader.names.id(asset))}
    names |= {row.target_column for row in reader.columns(asset)} - {""}
    if column in names or column in {use.source_column for use in reader.uses(asset)}:
        return
    raise NotFound(
        f"{asset} has no column {column!r}",
        hint=did_you_mean(column, names)
        or (f"its columns: {', '.join(sorted(names))}" if names else "run it, or declare columns"),
    )
