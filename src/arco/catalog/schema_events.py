"""What can happen to the schemas of an asset."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from arco.catalog.events import CatalogCommand, VersionOrUnset
from arco.log.envelope import Payload
from servo.contract.task import ColumnInfo


class ColumnRenamed(CatalogCommand, frozen=True, kw_only=True):
    """A command: a column is renamed, in the data or from the next output on.

    Declared columns are renamed in code. If one column was removed and another one added, this
    states that they are the same.
    """

    TYPE: ClassVar[str] = "catalog.column_renamed"
    VERSION: ClassVar[int] = 2
    asset_id: str
    asset_key: str
    column_id: str
    column_name: str
    new_name: str
    reason: str = ""
    expected_version: VersionOrUnset = msgspec.UNSET

    @property
    def lowest_version(self) -> int:
        return 1 if self.expected_version is msgspec.UNSET else 2

    """Of the row of the column."""


class SchemaObserved(Payload, frozen=True, kw_only=True):
    """Derived: the schema of an output. That of a held output counts after its approval."""

    TYPE: ClassVar[str] = "catalog.schema_observed"
    asset_id: str
    materialization_id: str
    run_id: str
    columns: tuple[ColumnInfo, ...]
    held: bool = False
    partition: str = ""


class HeldSchemaDecided(Payload, frozen=True, kw_only=True):
    """Derived: a decision about a held output."""

    TYPE: ClassVar[str] = "catalog.held_schema_decided"
    asset_id: str
    materialization_id: str
    approved: bool
    reason: str = ""


class SchemaWithdrawn(Payload, frozen=True, kw_only=True):
    """Derived: a person quarantined a current version; the one before it is current again."""

    TYPE: ClassVar[str] = "catalog.schema_withdrawn"
    asset_id: str
    partition: str
    materialization_id: str
    run_id: str
    position: int
    """Of the report that brought it."""
    previous_id: str
    previous_schema_hash: str
    previous_position: int


class BreakAccepted(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: changes of a column may break its readers."""

    TYPE: ClassVar[str] = "catalog.break_accepted"
    asset_id: str
    column: str
    reason: str
    deployment_id: str


WHOLE = "*"
"""Used as a column: the removal of the asset's whole contract."""

EVENTS: tuple[type[Payload], ...] = (ColumnRenamed,)
