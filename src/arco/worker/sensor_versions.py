"""The versions of an asset that are new since a position of a workspace's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from arco.catalog.reader import CatalogReader
from arco.clock import Clock
from arco.errors import Invalid, NotFound
from arco.execution.tables import PARTITIONS
from arco.log.head import Manifests
from arco.state.parquet import Files
from arco.state.snapshot import Snapshot
from arco.storage.http import HttpStore
from arco.storage.port import Store
from arco.tasks.failure import failed
from arco.transport.work_messages import NewVersions, WatchedVersion
from servo.contract.keys import AssetKey
from servo.sensor import AssetVersion

AT_A_TIME: Final = 1_000
FAR_BEHIND: Final = 10_000
"""A cursor that is this many positions behind is moved even if nothing was new: the cost of an
evaluation grows with the positions since the cursor."""


def new_versions(snapshot: Snapshot, workspace: str, asset: str, cursor: str) -> NewVersions:
    """Without a cursor, returns no versions and the position from which on versions are new.

    Raises NotFound for an asset that is not there, and Invalid for a cursor that is no position.
    """
    try:
        asset_id = CatalogReader(snapshot).asset_id(AssetKey.parse(asset))
    except NotFound:
        raise NotFound(
            f"there is no asset {asset} in the workspace {workspace}",
            hint="check its name, and that it is deployed there",
        ) from None
    if not cursor:
        return NewVersions(cursor=str(snapshot.position))
    position = int(cursor)
    if position > snapshot.position:
        raise Invalid(
            f"the cursor {cursor} is after the end of the log of {workspace}, which ends at "
            f"{snapshot.position}",
            hint="reset the sensor: servo sensors reset",
        )
    rows = snapshot.versions_since(PARTITIONS, position)
    new = sorted(
        (version, row.partition_key, row)
        for version, row in rows.values()
        if row is not None and row.asset_id == asset_id
    )
    page, remaining = new[:AT_A_TIME], new[AT_A_TIME:]
    while remaining and remaining[0][0] == page[-1][0]:  # of one event
        page.append(remaining.pop(0))
    versions = [
        WatchedVersion(
            asset=asset,
            partition=row.partition_key,
            materialization_id=row.materialization_id,
            version=row.version,
            rows=row.rows,
        )
        for _, _, row in page
    ]
    if remaining:
        return NewVersions(versions=versions, cursor=str(page[-1][0]), more=True)
    moves = bool(versions) or snapshot.position - position > FAR_BEHIND
    return NewVersions(versions=versions, cursor=str(snapshot.position) if moves else None)


def looked_at(
    store: Store, tenant: str, workspace: str, clock: Clock, asset: str, cursor: str
) -> NewVersions:
    """The same for a workspace at a store, or behind a server."""
    try:
        if isinstance(store, HttpStore):
            raw = store.look_up("versions", {"cursor": cursor})
            return msgspec.json.decode(raw, type=NewVersions)
        snapshot = Snapshot.open(Manifests(store, tenant, workspace, clock), Files(store))
        return new_versions(snapshot, workspace, asset, cursor)
    except NotFound as error:
        raise failed("configuration", "sensor.asset", error.message, error.hint) from None
    except Invalid as error:
        raise failed("configuration", "sensor.cursor", error.message, error.hint) from None


def of_context(versions: Sequence[WatchedVersion]) -> tuple[AssetVersion, ...]:
    """As functions of sensors have them."""
    return tuple(
        AssetVersion(v.asset, v.partition, v.materialization_id, v.version, v.rows)
        for v in versions
    )


def request_key(versions: Sequence[WatchedVersion]) -> str:
    """The key of the one run for these versions."""
    more = f" and {len(versions) - 1:,} more" if len(versions) > 1 else ""
    return f"{versions[-1].materialization_id}{more}"
