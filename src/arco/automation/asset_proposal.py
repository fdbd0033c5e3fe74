"""A pending proposal of the automation of assets, and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arco.automation.asset_events import AutomationAdvanced
from arco.automation.asset_graph import AssetGraph, AutomatedPartition
from arco.automation.asset_tables import AutomationCursorRow

REPEAT_S = 10.0
"""A proposal that is not in the log after this time is repeated."""


class AssetProposal(NamedTuple):
    events: Sequence[AutomationAdvanced]
    nodes: Sequence[AutomatedPartition]
    """The partitions that it requests."""
    at: float

    def may_arrive(self, monotonic_s: float) -> bool:
        return monotonic_s - self.at < REPEAT_S

    def fitting(self, graph: AssetGraph) -> AssetProposal:
        """Without partitions that are deployed no more."""
        return self._replace(nodes=[node for node in self.nodes if graph.fits(node)])

    def is_over(self, cursor: AutomationCursorRow) -> bool:
        """Whether all of it counted, or the rest of it cannot count any more."""
        return cursor.step > self.events[-1 if self._is_last(cursor) else 0].step

    def is_whole(self, cursor: AutomationCursorRow) -> bool:
        """Whether all of it counted."""
        return self._is_last(cursor) and cursor.step > self.events[-1].step

    def is_lost(self, cursor: AutomationCursorRow) -> bool:
        """Whether another one counted instead, which had seen less."""
        own = self.events[-1]
        is_behind = cursor.position < own.position or cursor.until < own.until
        return is_behind and not self._is_last(cursor)

    def _is_last(self, cursor: AutomationCursorRow) -> bool:
        return cursor.proposal == self.events[0].proposal
