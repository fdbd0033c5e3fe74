"""What an engine does for checks: a few counts, and a look at the rows behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

from arco.worker.checks.needs import Misfits, Newest, Orphans, Repeated, Untrue
from servo.contract.task import CheckMethod

SAMPLED: Final = 5

Need: TypeAlias = Misfits | Untrue | Newest | Repeated | Orphans
Rowwise: TypeAlias = Misfits | Untrue | Repeated | Orphans
"""What is about single rows, which can be shown."""


class Unanswered(Exception):
    """The engine could not do it. The message is its own, in one line; `kind` quotes no value."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or message


class Engine(Protocol):
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
        """Rows that do not fit. Raises Unanswered."""

    def sample(self, need: Rowwise) -> list[dict[str, Any]]:
        """A few of the rows that do not fit. Raises Unanswered."""

    def stop(self) -> None:
        """End what is running; from another thread."""
