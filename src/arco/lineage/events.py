"""What lineage is made of. All of it is derived from what tasks report."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from arco.log.envelope import Payload
from servo.contract.task import Confidence, Influence, Lineage, LineageMethod


class LineageRecorded(Payload, frozen=True, kw_only=True):
    """Derived: an output counts, and this is where it comes from.

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
    """Fingerprint of what made it, if that is known."""
    lineage: Lineage


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
    data: bool = True
    """Whether the target reads it; otherwise it only comes after it."""
    uses: tuple[Use, ...] = ()
