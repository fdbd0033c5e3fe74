"""Reading the schema registry at one generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arco.catalog.column_identity import governed_renames
from arco.catalog.schema_tables import (
    ACCEPTED_BREAKS,
    COLUMN_RENAMES,
    SCHEMA_REGISTRY,
    SCHEMA_VERSIONS,
    AcceptedBreakRow,
    ColumnRenameRow,
    SchemaRegistryRow,
    SchemaVersionRow,
    accepted_versions,
)
from arco.catalog.tables import COLUMNS, ColumnRow
from arco.columns.schema_rules import SHOWN, KnownSchema, KnownVersion
from arco.errors import NotFound
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Compatibility

Consumers = Mapping[str, tuple[str, ...]]
"""By column, what reads it."""


class AssetSchema(NamedTuple):
    """All that the registry has of an asset, the newest version first."""

    registry: SchemaRegistryRow
    versions: list[SchemaVersionRow]
    columns: list[ColumnRow]
    renames: list[ColumnRenameRow]
    accepted: list[AcceptedBreakRow]


class SchemaStamp(NamedTuple):
    """A value that changes with the baseline of an asset, without its consumers."""

    current: int
    accepted: dict[str, int]
    renames: int


class SchemaReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def registry(self, asset_id: str) -> SchemaRegistryRow | None:
        return self.snapshot.get(SCHEMA_REGISTRY, asset_id)

    def version(self, asset_id: str, number: int) -> SchemaVersionRow | None:
        return self.snapshot.get(SCHEMA_VERSIONS, asset_id, number)

    def columns(self, asset_id: str) -> list[ColumnRow]:
        """All that the asset has or had: active ones in their order, then the others."""
        rows = self.snapshot.rows(COLUMNS, asset_id)
        return sorted(rows, key=lambda row: (row.status == "Inactive", row.ordinal, row.name))

    def schema(self, asset_id: str, key: str) -> AssetSchema:
        """NotFound, with the asset's `key`, where there is none."""
        registry = self.registry(asset_id)
        if registry is None or not registry.versions:
            raise NotFound(f"{key} has no schema yet", hint="run it, or declare columns and deploy")
        versions = self.snapshot.rows(SCHEMA_VERSIONS, asset_id)
        accepted = self.snapshot.rows(ACCEPTED_BREAKS, asset_id)
        return AssetSchema(
            registry,
            sorted(versions, key=lambda row: -row.version),
            self.columns(asset_id),
            self.snapshot.rows(COLUMN_RENAMES, asset_id),
            sorted(accepted, key=lambda row: -row.position),
        )

    def baseline(
        self,
        registry: SchemaRegistryRow,
        rule: Compatibility,
        consumers: Consumers,
    ) -> KnownSchema | None:
        """What an output of the asset is compared with; None before the first.

        The first few consumers of a column are named, and the others counted.
        """
        current = self.version(registry.asset_id, registry.current) if registry.current else None
        if current is None:
            return None
        others: Sequence[SchemaVersionRow] = ()
        if rule.transitive:
            rows = self.snapshot.rows(SCHEMA_VERSIONS, registry.asset_id)
            others = [row for row in rows if row.run_id and row.version != current.version]
        columns = current.decoded_columns()
        return KnownSchema(
            rule=rule,
            versions=(
                KnownVersion(current.version, columns),
                *(
                    KnownVersion(row.version, row.decoded_columns())
                    for row in sorted(others, key=lambda row: -row.version)
                ),
            ),
            accepted=self.accepted(registry.asset_id),
            consumers={column: names[:SHOWN] for column, names in consumers.items()},
            more_consumers={
                column: len(names) - SHOWN
                for column, names in consumers.items()
                if len(names) > SHOWN
            },
            renames=governed_renames(columns, self.snapshot.rows(COLUMNS, registry.asset_id)),
        )

    def stamp(self, asset_id: str) -> SchemaStamp:
        registry = self.registry(asset_id)
        renames = self.snapshot.rows(COLUMN_RENAMES, asset_id)
        current = 0 if registry is None else registry.current
        return SchemaStamp(current, self.accepted(asset_id), len(renames))

    def accepted(self, asset_id: str) -> dict[str, int]:
        """By column, the newest version whose break was accepted."""
        return accepted_versions(self.snapshot.rows(ACCEPTED_BREAKS, asset_id))
