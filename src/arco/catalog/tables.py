"""The catalog's tables.

The rows have the values in effect (`governance`) of descriptions, owners, tags and others;
statements are in `governance_tables`. Inherited values are not in an asset's row.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from arco.state.table import LOOKED_UP_GROUP, Row, Table

ColumnStatus = Literal["Active", "Inactive"]
DeclaredBy = Literal["code", "person", "dbt", ""]


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
    sla: str = ""
    """As JSON (`SlaSpec`); empty for none."""
    terms: list[str] = []
    links: dict[str, str] = {}


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
    """The project whose code declares it, or declared it last; empty if none did, or an import has
    brought it back since."""
    active: bool = True
    """False: its project, or the source of its import, does not have it any more."""
    sla: str = ""
    terms: list[str] = []
    links: dict[str, str] = {}
    deprecated: str = ""
    """What to use instead, or why; empty for an asset that is not deprecated."""
    imported_from: str = ""
    """`dbt/jaffle_shop`: the tool and project whose newest import has it; empty if none has."""


class AssetIdentityRow(Row, frozen=True):
    """The names of an asset, and columns that many readers need."""

    asset_id: str
    namespace: str
    name: str
    previous_names: list[str]
    sla: str = ""

    @property
    def keys(self) -> list[str]:
        """Today's name with the namespace, and those that it had before."""
        names = (self.name, *self.previous_names)
        return [name if "." in name else f"{self.namespace}.{name}" for name in names]


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
    terms: list[str] = []
    declared_by: DeclaredBy = "person"
    """The source of its declaration; empty: it is only in the data. Its type and nullability are
    declared, or else those of the data."""
    actual_type: str = ""
    """In the newest good output; empty where that does not have it."""
    actual_nullable: bool = True
    difference: Literal["", "missing", "undeclared", "type"] = ""
    """The difference between the declared and the actual column."""
    status: ColumnStatus = "Active"
    """Inactive: neither declared nor in the data any more."""
    first_version: int = 0
    """Of the schema, that has it; 0 before any."""
    last_version: int = 0
    """The last one that had it; 0 while it is there."""
    lacking_version: int = 0
    """The current one, if that lacks it although it is declared."""
    field_id: int | None = None
    """Of the Parquet file, where its writer gave one."""
    renaming_to: str = ""
    """The name that it gets with the next output that has it."""


class AssetCodeRow(Row, frozen=True):
    """The code of an asset, from its project's deployment."""

    asset_id: str
    kind: str
    """python or sql."""
    code: str
    """The query, or the function; of a long one the first part."""


class AssetStatsRow(Row, frozen=True):
    asset_id: str
    row_count: int
    size_bytes: int
    files: int
    observed_by: str
    """Id of the event that observed it; the greatest id counts."""
    observed_at: datetime


NAMESPACES = Table("catalog", "namespaces", NamespaceRow, key=["namespace"])
ASSET_NAMES = Table(
    "catalog", "asset_names", AssetNameRow, key=["namespace", "name"], group_rows=LOOKED_UP_GROUP
)
ASSETS = Table("catalog", "assets", AssetRow, key=["asset_id"], group_rows=LOOKED_UP_GROUP)
ASSET_IDENTITIES = ASSETS.view(AssetIdentityRow)
COLUMNS = Table(
    "catalog", "columns", ColumnRow, key=["asset_id", "column_id"], group_rows=LOOKED_UP_GROUP
)
ASSET_CODE = Table("catalog", "asset_code", AssetCodeRow, key=["asset_id"])
ASSET_STATS = Table("catalog", "asset_stats", AssetStatsRow, key=["asset_id"])
