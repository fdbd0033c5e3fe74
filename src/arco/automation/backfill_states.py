"""The states of backfills, and all transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class BackfillState(StrEnum):
    PENDING = "PENDING"
    """No chunk has been requested yet."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    """No further chunk is requested; active runs continue."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class ChunkState(StrEnum):
    PENDING = "PENDING"
    """Requested, and not planned yet."""
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """Its run failed, or it could not be planned."""
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"
    """All of its partitions were removed."""


class BackfillCause(StrEnum):
    """What may happen to a backfill."""

    ADVANCED = "chunks are asked for"
    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    ALL_GOOD = "all chunks have ended, and all is good"
    NOT_ALL_GOOD = "all chunks have ended, and not all is good"
    TOO_MANY_FAILED = "more failed than its threshold allows"


TRANSITIONS: Final[Mapping[BackfillState, Mapping[BackfillCause, BackfillState]]] = {
    BackfillState.PENDING: {
        BackfillCause.ADVANCED: BackfillState.RUNNING,
        BackfillCause.PAUSED: BackfillState.PAUSED,
        BackfillCause.CANCELLED: BackfillState.CANCELLED,
    },
    BackfillState.RUNNING: {
        BackfillCause.ADVANCED: BackfillState.RUNNING,
        BackfillCause.PAUSED: BackfillState.PAUSED,
        BackfillCause.CANCELLED: BackfillState.CANCELLED,
        BackfillCause.ALL_GOOD: BackfillState.SUCCEEDED,
        BackfillCause.NOT_ALL_GOOD: BackfillState.FAILED,
        BackfillCause.TOO_MANY_FAILED: BackfillState.FAILED,
    },
    BackfillState.PAUSED: {
        BackfillCause.RESUMED: BackfillState.RUNNING,
        BackfillCause.CANCELLED: BackfillState.CANCELLED,
    },
    BackfillState.FAILED: {BackfillCause.RETRIED: BackfillState.RUNNING},
    BackfillState.CANCELLED: {BackfillCause.RETRIED: BackfillState.RUNNING},
}
"""Other causes change nothing; a command that needs one is refused."""

ASKING: Final = frozenset({BackfillState.PENDING, BackfillState.RUNNING})
"""States in which chunks are requested."""
CHUNK_OPEN: Final = frozenset({ChunkState.PENDING, ChunkState.RUNNING})
CHUNK_BAD: Final = frozenset({ChunkState.FAILED, ChunkState.CANCELLED})


def backfill_after(state: BackfillState, cause: BackfillCause) -> BackfillState | None:
    """The state that a cause leads to, or None where it changes nothing."""
    return TRANSITIONS.get(state, {}).get(cause)


def allowed_in(cause: BackfillCause) -> list[BackfillState]:
    """The states in which something may happen."""
    return [state for state, causes in TRANSITIONS.items() if cause in causes]
