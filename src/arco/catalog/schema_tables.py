"""The schema registry's tables. All of them are keyed by the asset.

A *version* is a distinct schema of an asset, numbered from 1. The newest good output has the
current one; code declares the declared one; both may be the same. Outputs of a schema that is
current already write no rows here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from arco.columns.compatibility import RenameKind, SchemaChange
from arco.columns.schema_columns import SchemaColumn
from arco.state.table import LOOKED_UP_GROUP, Row, Table

VERSIONS_KEPT = 100
"""Of an asset, besides the current and the declared one."""


class SchemaRegistryRow(Row, frozen=True):
    """The current state of an asset's schemas."""

    asset_id: str
    current: int
    """The version that the newest good output has; 0 before the first."""
    current_hash: str
    position: int
    """A report of an output that has it: an older output does not make its schema current."""
    declared: int
    """The version that code declares; 0 if it declares no columns."""
    declared_hash: str
    versions: int
    """How many there have been."""
    held: int
    """Outputs that are held, whose schemas may still become current."""
    hashes: dict[str, int]
    """The kept versions, by their hashes."""
    repeated: bool = False
    """Whether outputs of partitions have had the current version since it became current."""


class SchemaVersionRow(Row, frozen=True):
    asset_id: str
    version: int
    schema_hash: str
    source: Literal["output", "declaration"]
    """What it was first seen in."""
    current: bool
    declared: bool
    columns: str
    """`SchemaColumn`s with their ids, as JSON."""
    changes: str
    """Since the version that was current, or was declared, before: `SchemaChange`s, as JSON."""
    run_id: str
    """The first run whose output has it; empty while there is none."""
    materialization_id: str
    registered_at: datetime
    registered_by: str
    position: int

    def decoded_columns(self) -> tuple[SchemaColumn, ...]:
        return _columns.decode(self.columns)

    def decoded_changes(self) -> tuple[SchemaChange, ...]:
        return _changes.decode(self.changes)


class HeldSchemaRow(Row, frozen=True):
    """The schema of a held output, until a decision."""

    asset_id: str
    materialization_id: str
    run_id: str
    columns: str
    """`ColumnInfo`s, as JSON."""
    held_at: datetime
    position: int
    version: int = 0
    """Its version, if the output was good before it was quarantined by a person."""


class ColumnRenameRow(Row, frozen=True):
    asset_id: str
    column_id: str
    number: int
    old_name: str
    new_name: str
    changed_in_version: int
    """0 while no schema has the new name."""
    change_type: RenameKind
    reason: str
    renamed_by: str
    renamed_at: datetime
    in_data_at: datetime | None = None
    """When an output had the new name first: until then outputs have the old one."""


class AcceptedBreakRow(Row, frozen=True):
    """An accepted change of a column that may break its readers."""

    asset_id: str
    column: str
    position: int
    up_to_version: int
    """Changes since this version, and since older ones, are accepted."""
    reason: str
    source: Literal["deploy", "approval", "rename"]
    reference: str
    """The deployment, the output that was approved, or the column's new name."""
    accepted_by: str
    accepted_at: datetime
    from_version: int = 0
    """The current one when it was accepted."""
    is_over: bool = False
    """Whether the column is as it was before: then it may not break again."""


def accepted_versions(rows: Iterable[AcceptedBreakRow]) -> dict[str, int]:
    """By column, the newest version whose break is accepted."""
    newest: dict[str, int] = {}
    for row in rows:
        if not row.is_over:
            newest[row.column] = max(row.up_to_version, newest.get(row.column, 0))
    return newest


_columns = msgspec.json.Decoder(tuple[SchemaColumn, ...])
_changes = msgspec.json.Decoder(tuple[SchemaChange, ...])

SCHEMA_REGISTRY = Table(
    "catalog", "schema_registry", SchemaRegistryRow, key=["asset_id"], group_rows=LOOKED_UP_GROUP
)
SCHEMA_VERSIONS = Table(
    "catalog",
    "schema_versions",
    SchemaVersionRow,
    key=["asset_id", "version"],
    group_rows=LOOKED_UP_GROUP,
)
HELD_SCHEMAS = Table(
    "catalog", "held_schemas", HeldSchemaRow, key=["asset_id", "materialization_id"]
)
COLUMN_RENAMES = Table(
    "catalog",
    "column_renames",
    ColumnRenameRow,
    key=["asset_id", "column_id", "number"],
    group_rows=LOOKED_UP_GROUP,
)
ACCEPTED_BREAKS = Table(
    "catalog", "accepted_breaks", AcceptedBreakRow, key=["asset_id", "column", "position"]
)
SCHEMA_TABLES = (
    SCHEMA_REGISTRY,
    SCHEMA_VERSIONS,
    HELD_SCHEMAS,
    COLUMN_RENAMES,
    ACCEPTED_BREAKS,
)
