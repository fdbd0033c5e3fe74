"""What a check engine does: it counts failing rows, and returns a sample of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

from arco.worker.checks.needs import DuplicateRows, FailingRows, FalseRows, NewestValue, OrphanRows
from servo.contract.task import CheckMethod

SAMPLED: Final = 5
SAMPLED_COLUMNS: Final = 128
"""A sampled row is shown in 1 KiB, and a column takes at least eight bytes of that."""

EngineNeed: TypeAlias = FailingRows | FalseRows | NewestValue | DuplicateRows | OrphanRows
Rowwise: TypeAlias = FailingRows | FalseRows | DuplicateRows | OrphanRows
"""Needs about single rows, of which a sample can be shown."""


def sampled(first: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns of a sample: `first`, then others as long as they fit."""
    selected = {*first, *names[:SAMPLED_COLUMNS]}
    return [name for name in names if name in selected]


class CheckEngineError(Exception):
    """The engine failed. The message is the engine's, in one line; `kind` contains no value."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or message


class CheckEngine(Protocol):
    method: CheckMethod

    def can(self, need: EngineNeed) -> bool:
        """Whether it can express this, with the same result as the other engine."""

    def fuses(self, need: EngineNeed) -> bool:
        """Whether it is evaluated in one pass with others."""

    def fused(self, needs: Sequence[EngineNeed]) -> list[int | None]:
        """A number for each: failing rows, or the newest time. Raises CheckEngineError."""

    def apart(self, need: EngineNeed) -> int:
        """Number of failing rows. Raises CheckEngineError."""

    def sample(self, need: Rowwise, first: Sequence[str]) -> list[dict[str, Any]]:
        """Some failing rows, with the columns of `sampled`. Raises CheckEngineError."""

    def stop(self) -> None:
        """End what is running; from another thread."""
