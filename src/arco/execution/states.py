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


class PartitionStatus(StrEnum):
    """The result of the last attempt to make a partition."""

    GOOD = "GOOD"
    WARNED = "WARNED"
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


GOOD_PARTITIONS: Final = frozenset({PartitionStatus.GOOD, PartitionStatus.WARNED})


class HoldStatus(StrEnum):
    QUARANTINED = "QUARANTINED"
    BLOCKED = "BLOCKED"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"


HELD: Final = frozenset({HoldStatus.QUARANTINED, HoldStatus.BLOCKED})
"""Holds that nobody has decided about."""
HELD_VERSIONS: Final = frozenset({VersionStatus.QUARANTINED, VersionStatus.BLOCKED})
