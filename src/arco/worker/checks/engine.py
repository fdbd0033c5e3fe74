"""What an engine does for checks: a few counts, and a look at the rows behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

from arco.worker.checks.needs import Misfits, Newest, Orphans, Repeated, Untrue
from servo.contract.task import CheckMethod

SAMPLED: Final = 5

Fused: TypeAlias = Misfits | Untrue | Newest
"""All of these are answered in one pass over the data."""
Apart: TypeAlias = Repeated | Orphans
"""Each of these takes a pass of its own, over its own columns."""


class Unanswered(Exception):
    """The engine could not do it. The message is its own, in one line."""


class Engine(Protocol):
    method: CheckMethod

    def can(self, need: Fused | Apart) -> bool:
        """Whether it has the words for it, and answers as the other engine would."""

    def fused(self, needs: Sequence[Fused]) -> list[int | None]:
        """A number for each: rows that do not fit, or the newest moment, if there is one.

        Raises Unanswered.
        """

    def apart(self, need: Apart) -> int:
        """Rows that do not fit. Raises Unanswered."""

    def sample(self, need: Misfits | Untrue | Apart) -> list[dict[str, Any]]:
        """A few of the rows that do not fit. Raises Unanswered."""

    def stop(self) -> None:
        """End what is running; from another thread."""
