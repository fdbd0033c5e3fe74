"""Reading the catalog at one generation."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from arco.catalog import tables
from arco.errors import NotFound
from arco.state.snapshot import Snapshot
from servo.contract.keys import AssetKey
from servo.suggest import did_you_mean


class CodeDeclaration(NamedTuple):
    """The declaration of an asset in deployed code."""

    project: str
    columns: frozenset[str]
    dimensions: frozenset[str] = frozenset()
    """Of its partitions."""


class AssetDetails(msgspec.Struct, frozen=True):
    row: tables.AssetRow
    version: int
    """What `expected_version` of an update is compared with."""
    columns: list[tables.ColumnRow]
    """Those that are declared, or are in the data; `SchemaReader` has the others."""
    stats: tables.AssetStatsRow | None


class CatalogReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def namespaces(self) -> list[tables.NamespaceRow]:
        return sorted(self.snapshot.all(tables.NAMESPACES), key=lambda row: row.namespace)

    def namespace(self, name: str) -> tables.NamespaceRow:
        row = self.snapshot.get(tables.NAMESPACES, name)
        if row is None:
            raise NotFound(f"there is no namespace {name}", hint=self._alike(name))
        return row

    def namespace_version(self, name: str) -> int:
        return self.snapshot.versioned(tables.NAMESPACES, (name,))[0]

    def asset_id(self, key: AssetKey) -> str:
        row = self.snapshot.get(tables.ASSET_NAMES, key.namespace, key.name)
        if row is None:
            raise NotFound(f"there is no asset {key}", hint=self._alike_asset(key))
        return row.asset_id

    def asset(self, key: AssetKey) -> AssetDetails:
        return self.asset_by_id(self.asset_id(key))

    def asset_by_id(self, asset_id: str) -> AssetDetails:
        version, row = self.snapshot.versioned(tables.ASSETS, (asset_id,))
        if row is None:
            raise NotFound(f"there is no asset {asset_id}")
        rows = self.snapshot.rows(tables.COLUMNS, asset_id)
        active = [column for column in rows if column.status == "Active"]
        columns = sorted(active, key=lambda c: c.ordinal)
        return AssetDetails(row, version, columns, self.snapshot.get(tables.ASSET_STATS, asset_id))

    def assets(self, namespace: str) -> list[tables.AssetRow]:
        """The assets of a namespace, by name."""
        names = self.snapshot.rows(tables.ASSET_NAMES, namespace)
        rows = [self.snapshot.get(tables.ASSETS, name.asset_id) for name in names]
        return [row for row in rows if row is not None]

    def _alike(self, name: str) -> str:
        names = [row.namespace for row in self.namespaces()]
        return did_you_mean(name, names) or "create it first"

    def _alike_asset(self, key: AssetKey) -> str:
        if self.snapshot.get(tables.NAMESPACES, key.namespace) is None:
            namespaces = [row.namespace for row in self.namespaces()]
            near = did_you_mean(key.namespace, namespaces)
            return (
                f"there is no namespace {key.namespace}: {near}" if near else "see `servo search`"
            )
        names = [row.name for row in self.snapshot.rows(tables.ASSET_NAMES, key.namespace)]
        keys = [f"{key.namespace}.{name}" for name in names]
        return did_you_mean(str(key), keys) or "see `servo search`"
