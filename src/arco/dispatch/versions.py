"""The outputs for requests, from one snapshot.

The snapshot is the newest at the first call, and shared by all tasks that are enqueued together:
reading the newest costs a round trip.
"""

from __future__ import annotations

from arco.catalog.contract_tables import CONTRACTS, ContractRow
from arco.catalog.schema_reader import SchemaReader, SchemaStamp
from arco.catalog.tables import COLUMNS
from arco.columns.schema_rules import packed_schema
from arco.dispatch.kept_lookups import KeptLookups
from arco.errors import NotFound
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, MaterializationRow, PartitionRow
from arco.log.head import Manifests
from arco.orchestration.personal_data import PersonalDataReader
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.schema_consumers import column_consumers
from arco.orchestration.tables import TaskRow
from arco.state.parquet import Files
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Asset
from servo.contract.task import MaterializationRef, SchemaRule


class CommittedVersions:
    def __init__(
        self, manifests: Manifests, files: Files, lookups: KeptLookups | None = None
    ) -> None:
        self._manifests = manifests
        self._files = files
        self._all: dict[str, list[MaterializationRef]] = {}
        self._newest: Snapshot | None = None
        self._lookups = lookups or KeptLookups()

    @property
    def _snapshot(self) -> Snapshot:
        # No cached_property: before Python 3.12 its lock is one for all instances.
        if self._newest is None:
            self._newest = Snapshot(self._manifests, self._files, self._manifests.head())
        return self._newest

    def of(self, asset_id: str, materialization_id: str) -> MaterializationRef:
        row = self._snapshot.get(MATERIALIZATIONS, asset_id, materialization_id)
        if row is None:
            raise NotFound(f"version {materialization_id} of {asset_id} is missing")
        return ref_of(row)

    def current(self, asset_id: str, partition: str) -> MaterializationRef | None:
        row = self._snapshot.get(PARTITIONS, asset_id, partition)
        return None if row is None else ref_of(row)

    def all_current(self, asset_id: str) -> list[MaterializationRef]:
        """Looked up once, and the same list again."""
        if asset_id not in self._all:
            rows = sorted(
                self._snapshot.rows(PARTITIONS, asset_id), key=lambda row: row.partition_key
            )
            self._all[asset_id] = [ref_of(row) for row in rows]
        return self._all[asset_id]

    def personal_columns(self, asset_key: str) -> dict[str, tuple[str, ...]]:
        labels = self._personal.names_in_files(asset_key)
        return {name: tuple(sorted(label.pii)) for name, label in labels.items() if label.pii}

    def classified_columns(self, asset_id: str) -> frozenset[str]:
        return self._lookups.get(
            self._snapshot, COLUMNS, asset_id, lambda: self._personal.classified(asset_id)
        )

    @property
    def _personal(self) -> PersonalDataReader:
        return PersonalDataReader(self._snapshot)

    def schema_rule(self, asset_id: str, asset: Asset) -> SchemaRule | None:
        """The schema rule of an asset's output; None before the first output."""
        reader = SchemaReader(self._snapshot)
        registry = reader.registry(asset_id)
        if registry is None or not registry.current:
            return None
        consumers = column_consumers(self._snapshot, asset.key)
        baseline = reader.baseline(registry, asset.compatibility, consumers)
        if baseline is None:
            return None
        return SchemaRule(schema_hash=registry.current_hash, packed=packed_schema(baseline))

    def schema_stamp(self, asset_id: str) -> SchemaStamp:
        return SchemaReader(self._snapshot).stamp(asset_id)

    def contract(self, asset_id: str) -> ContractRow | None:
        snapshot = self._snapshot
        return self._lookups.get(
            snapshot, CONTRACTS, asset_id, lambda: snapshot.get(CONTRACTS, asset_id)
        )

    def asset_id(self, asset_key: str) -> str:
        reader = DeploymentReader(self._snapshot)
        if (row := reader.deployed_asset(asset_key)) is not None:
            return row.asset_id
        deployed = reader.deployed_assets().values()
        renamed = next((row for row in deployed if asset_key in row.previous_keys), None)
        if renamed is None:
            raise NotFound(f"no asset has, or had, the name {asset_key}")
        return renamed.asset_id


def ref_of(row: MaterializationRow | PartitionRow | TaskRow) -> MaterializationRef:
    return MaterializationRef(
        partition=row.partition_key,
        materialization_id=row.materialization_id,
        path=row.path,
        rows=row.rows,
        bytes=row.bytes,
    )
