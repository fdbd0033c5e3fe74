"""What has been put out, for requests: one snapshot's answers.

The snapshot is the newest when the first question is asked, and all that are sent
together share it: looking for the newest costs a round trip.
"""

from __future__ import annotations

import functools

from arco.errors import NotFound
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, MaterializationRow, PartitionRow
from arco.log.head import Manifests
from arco.orchestration.projects import DeploymentReader
from arco.state.parquet import Files
from arco.state.snapshot import Snapshot
from servo.contract.task import MaterializationRef


class CommittedVersions:
    def __init__(self, manifests: Manifests, files: Files) -> None:
        self._manifests = manifests
        self._files = files
        self._all: dict[str, list[MaterializationRef]] = {}

    @functools.cached_property
    def _snapshot(self) -> Snapshot:
        return Snapshot(self._manifests, self._files, self._manifests.head())

    def of(self, asset_id: str, materialization_id: str) -> MaterializationRef:
        row = self._snapshot.get(MATERIALIZATIONS, asset_id, materialization_id)
        if row is None:
            raise NotFound(f"version {materialization_id} of {asset_id} is missing")
        return _ref(row)

    def current(self, asset_id: str, partition: str) -> MaterializationRef | None:
        row = self._snapshot.get(PARTITIONS, asset_id, partition)
        return None if row is None else _ref(row)

    def all_current(self, asset_id: str) -> list[MaterializationRef]:
        """Looked up once, and the same list again."""
        if asset_id not in self._all:
            rows = sorted(
                self._snapshot.rows(PARTITIONS, asset_id), key=lambda row: row.partition_key
            )
            self._all[asset_id] = [_ref(row) for row in rows]
        return self._all[asset_id]

    def asset_id(self, asset_key: str) -> str:
        reader = DeploymentReader(self._snapshot)
        if (row := reader.deployed_asset(asset_key)) is not None:
            return row.asset_id
        deployed = reader.deployed_assets().values()
        renamed = next((row for row in deployed if asset_key in row.previous_keys), None)
        if renamed is None:
            raise NotFound(f"no asset has, or had, the name {asset_key}")
        return renamed.asset_id


def _ref(row: MaterializationRow | PartitionRow) -> MaterializationRef:
    return MaterializationRef(
        partition=row.partition_key,
        materialization_id=row.materialization_id,
        path=row.path,
        rows=row.rows,
        bytes=row.bytes,
    )
