"""What was imported: the newest import of each source, and which asset each of its nodes is."""

from __future__ import annotations

from datetime import datetime

from arco.state.table import Row, Table


class ImportRow(Row, frozen=True):
    source: str
    """`dbt/jaffle_shop`."""
    import_id: str
    number: int
    nodes: int
    tool_version: str
    generated_at: str
    imported_at: datetime
    imported_by: str


class ImportPartRow(Row, frozen=True):
    source: str
    import_id: str
    number: int
    packed: str
    removed: list[str]
    received_at: datetime


class ImportedNodeRow(Row, frozen=True):
    source: str
    node: str
    asset_id: str
    asset_key: str
    fingerprint: str


IMPORTS = Table("catalog", "imports", ImportRow, key=["source"])
IMPORT_PARTS = Table(
    "catalog", "import_parts", ImportPartRow, key=["source", "import_id", "number"]
)
IMPORTED_NODES = Table("catalog", "imported_nodes", ImportedNodeRow, key=["source", "node"])
