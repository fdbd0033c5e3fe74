"""The versions of an asset that are new since a position of a workspace's log."""

from __future__ import annotations

from typing import Final, NamedTuple

from arco.catalog.reader import CatalogReader
from arco.clock import Clock
from arco.errors import NotFound
from arco.execution.tables import PARTITIONS
from arco.log.head import Manifests
from arco.state.parquet import Files
from arco.state.snapshot import Snapshot
from arco.storage.port import Store
from arco.tasks.failure import failed
from servo.contract.keys import AssetKey
from servo.sensor import AssetVersion

AT_A_TIME: Final = 1_000
FAR_BEHIND: Final = 10_000
"""A cursor that is so many positions behind is moved, also if nothing was new: what a look costs
follows what happened since the cursor."""


class NewVersions(NamedTuple):
    versions: tuple[AssetVersion, ...]
    """In the order of the log."""
    cursor: str | None
    """A position; None: as it was."""
    more: bool


def new_versions(
    store: Store, tenant: str, workspace: str, clock: Clock, asset: str, cursor: str
) -> NewVersions:
    """The first look sees nothing: it says from where on versions are new."""
    snapshot = Snapshot.open(Manifests(store, tenant, workspace, clock), Files(store))
    try:
        asset_id = CatalogReader(snapshot).asset_id(AssetKey.parse(asset))
    except NotFound:
        raise failed(
            "configuration",
            "sensor.asset",
            f"there is no asset {asset} in the workspace {workspace}",
            "check its name, and that it is deployed there",
        ) from None
    if not cursor:
        return NewVersions((), str(snapshot.position), False)
    position = int(cursor)
    if position > snapshot.position:
        raise failed(
            "configuration",
            "sensor.cursor",
            f"the cursor {cursor} is beyond the log of {workspace}, which ends at "
            f"{snapshot.position}",
            "reset the sensor: servo sensors reset",
        )
    rows = snapshot.versions_since(PARTITIONS, position)
    new = sorted(
        (version, row.partition_key, row)
        for version, row in rows.values()
        if row is not None and row.asset_id == asset_id
    )
    taken, rest = new[:AT_A_TIME], new[AT_A_TIME:]
    while rest and rest[0][0] == taken[-1][0]:  # of one event
        taken.append(rest.pop(0))
    versions = tuple(
        AssetVersion(asset, row.partition_key, row.materialization_id, row.version, row.rows)
        for _, _, row in taken
    )
    if rest:
        return NewVersions(versions, str(taken[-1][0]), True)
    moves = bool(versions) or snapshot.position - position > FAR_BEHIND
    return NewVersions(versions, str(snapshot.position) if moves else None, False)


def request_key(versions: tuple[AssetVersion, ...]) -> str:
    """The key of the one run for these versions."""
    more = f" and {len(versions) - 1:,} more" if len(versions) > 1 else ""
    return f"{versions[-1].materialization_id}{more}"
