"""The states of output versions, of partitions, and of holds."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class VersionStatus(StrEnum):
    """The status of an output. Only a good one can be its partition's current version."""

    GOOD = "GOOD"
    LATE = "LATE"
    """Its attempt was not the active one any more, or its task was cancelled."""
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    """Its files may be deleted. Set by readers; rows keep the status of before."""


class PartitionStatus(StrEnum):
    """The result of the last attempt for a partition."""

    GOOD = "GOOD"
    WARNED = "WARNED"
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


GOOD_PARTITIONS: Final = frozenset({PartitionStatus.GOOD, PartitionStatus.WARNED})


class PartitionState(StrEnum):
    """Whether a partition exists."""

    MISSING = "MISSING"
    """It has no current version."""
    MATERIALIZING = "MATERIALIZING"
    """A task for it is active."""
    MATERIALIZED = "MATERIALIZED"
    STALE = "STALE"
    """Its current version is out of date: a plan would run it again."""
    FAILED = "FAILED"
    """The last attempt failed. There may be a current version from before."""


class Quality(StrEnum):
    """The check results of the output of the last attempt for a partition."""

    UNKNOWN = "UNKNOWN"
    """There is none."""
    PASSED = "PASSED"
    """No check failed, or the output was approved."""
    WARNED = "WARNED"
    FAILED = "FAILED"
    """Checks ended the attempt before there was an output."""
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"


FAILED_CHECKS: Final = ("checks.failed", "checks.input")
"""Codes of the errors with which checks end an attempt."""


def state_of(status: PartitionStatus, current: str) -> PartitionState:
    """The state by its last attempt, if `current` is the current version."""
    if status == PartitionStatus.FAILED:
        return PartitionState.FAILED
    return PartitionState.MATERIALIZED if current else PartitionState.MISSING


def quality_of(status: PartitionStatus, last: str, error_code: str) -> Quality:
    """If `last` is the output of the last attempt, or `error_code` that of its error."""
    if status == PartitionStatus.GOOD:
        return Quality.PASSED
    if status != PartitionStatus.FAILED:
        return Quality(status)
    if last:
        return Quality.BLOCKED
    return Quality.FAILED if error_code in FAILED_CHECKS else Quality.UNKNOWN


class HoldStatus(StrEnum):
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"


HELD: Final = frozenset({HoldStatus.QUARANTINED, HoldStatus.BLOCKED})
"""Holds without a decision."""
HELD_VERSIONS: Final = frozenset({VersionStatus.QUARANTINED, VersionStatus.BLOCKED})
