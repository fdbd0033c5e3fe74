"""What lineage is made of. All of it is derived from what tasks report."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from arco.log.envelope import Payload
from servo.contract.task import Confidence, Influence, Lineage, LineageMethod


class LineageRecorded(Payload, frozen=True, kw_only=True):
    """Derived: an output was made, and this is where it comes from.

    Assets go by their keys: an input is known by nothing else where it was read.
    """

    TYPE: ClassVar[str] = "lineage.recorded"
    asset: str
    """The key of what was put out."""
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
    """Whether checks hold the output back: then it counts once it is approved."""
    lineage: Lineage


class HeldLineageDecided(Payload, frozen=True, kw_only=True):
    """Derived: an output that was held back counts after all, or never will."""

    TYPE: ClassVar[str] = "lineage.held_decided"
    asset: str
    materialization_id: str
    approved: bool


class Use(Struct, frozen=True, order=True):
    """One column of an asset, as another asset uses it."""

    column: str
    target_column: str
    """Empty where it decides about the rows as a whole."""
    kind: Influence
    masked: bool
    method: LineageMethod
    confidence: Confidence


class UsesChanged(Payload, frozen=True, kw_only=True):
    """Derived: all that one asset uses of another, now."""

    TYPE: ClassVar[str] = "lineage.uses_changed"
    source: str
    target: str
    uses: tuple[Use, ...] = ()
    ended: bool = False
    """Whether the target does not depend on it any more."""
