"""The catalog's tables."""

from __future__ import annotations

from datetime import datetime

from arco.state.table import Row, Table


class NamespaceRow(Row, frozen=True):
    namespace: str
    description: str
    owners: list[str]
    tags: dict[str, str]
    properties: dict[str, str]
    assets: int
    """How many assets it holds."""
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class AssetNameRow(Row, frozen=True):
    namespace: str
    name: str
    asset_id: str


class AssetRow(Row, frozen=True):
    asset_id: str
    namespace: str
    name: str
    kind: str
    format: str
    location: str
    description: str
    owners: list[str]
    tags: dict[str, str]
    properties: dict[str, str]
    previous_names: list[str]
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    project: str = ""
    """The project whose code declares it, or declared it last; empty if none ever did."""
    active: bool = True
    """False: the code of its project does not have it any more."""


class ColumnRow(Row, frozen=True):
    asset_id: str
    column_id: str
    name: str
    type: str
    ordinal: int
    nullable: bool
    description: str
    pii: str
    sensitivity: str
    created_at: datetime
    updated_at: datetime


class AssetStatsRow(Row, frozen=True):
    asset_id: str
    row_count: int
    size_bytes: int
    files: int
    observed_by: str
    """Id of the event that observed it; the greatest id counts."""
    observed_at: datetime


NAMESPACES = Table("catalog", "namespaces", NamespaceRow, key=["namespace"])
ASSET_NAMES = Table("catalog", "asset_names", AssetNameRow, key=["namespace", "name"])
ASSETS = Table("catalog", "assets", AssetRow, key=["asset_id"])
COLUMNS = Table("catalog", "columns", ColumnRow, key=["asset_id", "column_id"])
ASSET_STATS = Table("catalog", "asset_stats", AssetStatsRow, key=["asset_id"])
