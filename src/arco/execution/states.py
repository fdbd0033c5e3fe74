"""The states of output versions, of partitions, and of holds."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class VersionStatus(StrEnum):
    """What became of an output. Only a good one can be its partition's current version."""

    GOOD = "GOOD"
    LATE = "LATE"
    """Its attempt was not the active one any more, or its task was cancelled."""
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    """Given up, so that its files may go. Readers show it; rows keep the status of before."""


class PartitionState(StrEnum):
    """Whether a partition is there. MATERIALIZING and STALE are worked out when it is read: they
    follow from tasks that run, and from what it reads."""

    MISSING = "MISSING"
    """It has no current version."""
    MATERIALIZING = "MATERIALIZING"
    """A task that makes it is active."""
    MATERIALIZED = "MATERIALIZED"
    STALE = "STALE"
    """Its current version is out of date: another plan would run it."""
    FAILED = "FAILED"
    """The last attempt to make it failed. It may have a current version, from before."""


class Quality(StrEnum):
    """What checks say about the newest output of a partition."""

    UNKNOWN = "UNKNOWN"
    """It has never had an output."""
    PASSED = "PASSED"
    """No check failed, or somebody approved it."""
    WARNED = "WARNED"
    FAILED = "FAILED"
    """Checks ended the attempt before there was an output."""
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"


class HoldStatus(StrEnum):
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"


HELD: Final = frozenset({HoldStatus.QUARANTINED, HoldStatus.BLOCKED})
"""Holds that nobody has decided about."""
HELD_VERSIONS: Final = frozenset({VersionStatus.QUARANTINED, VersionStatus.BLOCKED})
