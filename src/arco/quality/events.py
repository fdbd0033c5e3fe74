"""Events of check results. They are derived from what tasks report."""

from __future__ import annotations

from typing import ClassVar

from arco.log.envelope import Payload
from servo.contract.manifest import GateAction
from servo.contract.task import CheckResult


class ChecksEvaluated(Payload, frozen=True, kw_only=True):
    """Derived: the check results of an attempt, on its inputs, its output, or both."""

    TYPE: ClassVar[str] = "quality.checks_evaluated"
    asset_id: str
    asset: str
    partition: str
    materialization_id: str
    """Of the output; empty where the checks of the inputs ended the attempt."""
    run_id: str
    task_id: str
    attempt_id: str
    results: tuple[CheckResult, ...]
    is_reported: bool = False
    """Whether others have reported them: then results of other checks stay."""


class ChecksRecorded(Payload, frozen=True, kw_only=True):
    """Derived: the results of an attempt were recorded; once for each."""

    TYPE: ClassVar[str] = "quality.checks_recorded"
    asset_id: str
    checks: int
    passed: int
    action: GateAction
    """The strongest."""
