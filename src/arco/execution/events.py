"""What becomes of outputs. All of it is derived from what tasks report."""

from __future__ import annotations

from typing import ClassVar

from arco.log.envelope import Payload
from servo.contract.task import Materialization


class OutputAccepted(Payload, frozen=True, kw_only=True):
    """Derived: a task succeeded, and its output is the partition's newest good version."""

    TYPE: ClassVar[str] = "execution.output_accepted"
    materialization: Materialization


class OutputRejected(Payload, frozen=True, kw_only=True):
    """Derived: an output came too late, after a cancellation or from a stale attempt."""

    TYPE: ClassVar[str] = "execution.output_rejected"
    materialization: Materialization
    reason: str
