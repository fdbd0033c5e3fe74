"""What can happen to the schemas of an asset."""

from __future__ import annotations

from typing import ClassVar

from arco.catalog.events import CatalogCommand
from arco.log.envelope import Payload
from servo.contract.task import ColumnInfo


class ColumnRenamed(CatalogCommand, frozen=True, kw_only=True):
    """A command: what had one name has another one, in the data or from the next output on.

    Of a column that code declares, the code decides. A column that left the data when another
    one came may be said to be that one.
    """

    TYPE: ClassVar[str] = "catalog.column_renamed"
    VERSION: ClassVar[int] = 2
    asset_id: str
    asset_key: str
    column_id: str
    column_name: str
    new_name: str
    reason: str = ""
    expected_version: int | None = None
    """Of the row of the column."""


class SchemaObserved(Payload, frozen=True, kw_only=True):
    """Derived: an output has this schema. Of one that is held it counts once that is approved."""

    TYPE: ClassVar[str] = "catalog.schema_observed"
    asset_id: str
    materialization_id: str
    run_id: str
    columns: tuple[ColumnInfo, ...]
    held: bool = False
    partition: str = ""


class HeldSchemaDecided(Payload, frozen=True, kw_only=True):
    """Derived: it was decided about an output that was held."""

    TYPE: ClassVar[str] = "catalog.held_schema_decided"
    asset_id: str
    materialization_id: str
    approved: bool
    reason: str = ""


class SchemaWithdrawn(Payload, frozen=True, kw_only=True):
    """Derived: somebody quarantined a current version, and the one before it is current again."""

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
"""In the place of a column: the asset's contract as a whole, which is removed."""

EVENTS: tuple[type[Payload], ...] = (ColumnRenamed,)
