"""What an engine does for checks: a few counts, and a look at the rows behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

from arco.worker.checks.needs import DuplicateRows, FailingRows, FalseRows, NewestValue, OrphanRows
from servo.contract.task import CheckMethod

SAMPLED: Final = 5
SAMPLED_COLUMNS: Final = 128
"""A sampled row is shown in a kibibyte, and a column takes eight bytes of it or more."""

Need: TypeAlias = FailingRows | FalseRows | NewestValue | DuplicateRows | OrphanRows
Rowwise: TypeAlias = FailingRows | FalseRows | DuplicateRows | OrphanRows
"""What is about single rows, which can be shown."""


def sampled(first: Sequence[str], names: Sequence[str]) -> list[str]:
    """Of a subject's columns those that a sample can show: the `first`, and others if they fit."""
    selected = {*first, *names[:SAMPLED_COLUMNS]}
    return [name for name in names if name in selected]


class CheckEngineError(Exception):
    """The engine could not do it. The message is its own, in one line; `kind` quotes no value."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or message


class CheckEngine(Protocol):
    method: CheckMethod

    def can(self, need: Need) -> bool:
        """Whether it has the words for it, and answers as the other engine would."""

    def fuses(self, need: Need) -> bool:
        """Whether it is answered in one pass with others, and not in one of its own."""

    def fused(self, needs: Sequence[Need]) -> list[int | None]:
        """A number for each: rows that do not fit, or the newest moment, if there is one.

        Raises Unanswered.
        """

    def apart(self, need: Need) -> int:
        """Number of failing rows. Raises Unanswered."""

    def sample(self, need: Rowwise, first: Sequence[str]) -> list[dict[str, Any]]:
        """A few of the rows that do not fit, with the columns of `sampled`. Raises Unanswered."""

    def stop(self) -> None:
        """End what is running; from another thread."""
