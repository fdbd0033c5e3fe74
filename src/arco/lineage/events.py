"""The events of lineage: reported by tasks, declared by code, added by people.

Assets go by their ids, which no rename changes. Results of older versions have no ids of inputs:
the key is used instead.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from arco.lineage.tables import ImportOrigin
from arco.log.envelope import Payload
from servo.contract.task import Confidence, Influence, Lineage, LineageMethod


class LineageRecorded(Payload, frozen=True, kw_only=True):
    """Derived: the lineage of an output."""

    TYPE: ClassVar[str] = "lineage.recorded"
    asset: str
    """The key of the asset at that time."""
    asset_id: str
    materialization_id: str
    partition: str = ""
    run_id: str
    task_id: str
    rows: int = 0
    bytes: int = 0
    transform: str = ""
    """Fingerprint of the code and of what it read: what makes a later plan reuse the output."""
    held: bool = False
    """Whether the output is held: then its lineage counts after its approval."""
    lineage: Lineage


class HeldLineageDecided(Payload, frozen=True, kw_only=True):
    """Derived: a held output was approved or rejected."""

    TYPE: ClassVar[str] = "lineage.held_decided"
    asset_id: str
    materialization_id: str
    approved: bool
    position: int = 0
    """Of the report of the output."""


class LineageWithdrawn(Payload, frozen=True, kw_only=True):
    """Derived: a good version was quarantined by hand. If it was current, the one before it is
    now, if there is one."""

    TYPE: ClassVar[str] = "lineage.withdrawn"
    asset_id: str
    partition: str
    materialization_id: str
    position: int = 0
    """Of its report."""
    previous_id: str = ""
    previous_position: int = 0


class DeclaredInput(Struct, frozen=True, order=True):
    source: str
    parameter: str
    key: str = ""
    """Of the source, as code writes it: outputs of older versions name it so."""


class InputsDeclared(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: all that the code of an asset reads, or comes after."""

    TYPE: ClassVar[str] = "lineage.inputs_declared"
    asset_id: str
    inputs: tuple[DeclaredInput, ...] = ()


class LineageCommand(Payload, frozen=True, kw_only=True):
    COMMAND: ClassVar[bool] = True


class EdgeAdded(LineageCommand, frozen=True, kw_only=True):
    """A person adds an edge between two assets or two columns.

    Repeated for the same two, it replaces owner and description.
    """

    TYPE: ClassVar[str] = "lineage.edge_added"
    source_id: str
    target_id: str
    source_column: str = ""
    target_column: str = ""
    """Both or neither."""
    kind: Influence = "transformation"
    masked: bool = False
    owner: str = ""
    description: str = ""


class EdgeRemoved(LineageCommand, frozen=True, kw_only=True):
    """A manual edge is removed. Edges of code are not removed by this."""

    TYPE: ClassVar[str] = "lineage.edge_removed"
    source_id: str
    target_id: str
    source_column: str = ""
    target_column: str = ""


EVENTS: tuple[type[LineageCommand], ...] = (EdgeAdded, EdgeRemoved)


class LineageImported(Payload, frozen=True, kw_only=True):
    """Derived from an import, or a report: the sources of an asset; none if they were removed."""

    TYPE: ClassVar[str] = "lineage.imported"
    asset_id: str
    inputs: tuple[str, ...] = ()
    """Ids of assets."""
    lineage: Lineage | None = None
    """Of the columns; assets in it are ids."""
    origin: ImportOrigin = "dbt"


class Use(Struct, frozen=True, order=True):
    """One column of an asset, as another asset uses it."""

    column: str
    target_column: str
    """Empty where it decides about the rows as a whole."""
    kind: Influence
    masked: bool
    method: LineageMethod
    confidence: Confidence
    since: datetime
    said_at: datetime | None = None


class UsesChanged(Payload, frozen=True, kw_only=True):
    """Derived: all that one asset uses of another, now."""

    TYPE: ClassVar[str] = "lineage.uses_changed"
    source: str
    target: str
    uses: tuple[Use, ...] = ()
    left: tuple[Use, ...] = ()
    """What it used before and does not use now, so that the fold does not read other uses."""
    ended: bool = False
    """Whether the target does not depend on it any more."""
