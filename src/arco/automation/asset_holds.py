"""Partitions that wait for an input that does not depend on their time, or for planned work: no
change leads to them.

They are rows, so that the cursor of automation can move: a proposal that moves it stores the
partitions that are held, and removes others. While some are not stored, the cursor stays at the
position from which a new process finds them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from arco.automation.asset_events import HeldPartition
from arco.automation.asset_graph import AssetGraph, AutomatedPartition, Periods
from arco.automation.asset_tables import AutomationHoldRow

STORED_AT_ONCE: Final = 1_000
"""Maximum that one proposal stores or removes."""


class HoldChange(NamedTuple):
    """The changes of held partitions in a proposal."""

    held: tuple[HeldPartition, ...]
    released: tuple[HeldPartition, ...]
    position: int
    """How far the cursor may move with it."""


class HeldPartitions:
    def __init__(self) -> None:
        self._by_asset: dict[str, dict[AutomatedPartition, int]] = {}
        self._stored: dict[HeldPartition, AutomatedPartition | None] = {}
        """Partitions with a row; None until this process has evaluated them."""
        self.for_work: set[AutomatedPartition] = set()
        """Those that may wait for planned work: the others need no look when some of it ends."""
        self.has_new_rows = False

    def of(self, asset: str) -> Iterable[AutomatedPartition]:
        return self._by_asset.get(asset, ())

    def add(self, node: AutomatedPartition, position: int, *, for_work: bool) -> None:
        """A partition that is held already stays at its position."""
        self._by_asset.setdefault(node.asset, {}).setdefault(node, position)
        if for_work:
            self.for_work.add(node)
        else:
            self.for_work.discard(node)

    def discard(self, node: AutomatedPartition) -> None:
        self._by_asset.get(node.asset, {}).pop(node, None)
        self.for_work.discard(node)

    def discard_asset(self, asset: str) -> None:
        self.for_work.difference_update(self._by_asset.pop(asset, ()))

    def keep_fitting(self, graph: AssetGraph) -> None:
        """Forget partitions that are deployed no more."""
        for held in self._by_asset.values():
            for node in [node for node in held if not graph.fits(node)]:
                del held[node]
                self.for_work.discard(node)

    # -- rows ----------------------------------------------------------------------------

    def stored(self, rows: Iterable[AutomationHoldRow]) -> None:
        for row in rows:
            self._stored.setdefault(HeldPartition(row.asset_key, row.partition_key), None)
            self.has_new_rows = True

    def removed(self, rows: Iterable[HeldPartition]) -> None:
        for row in rows:
            self._stored.pop(row, None)

    def recover(self, periods: Periods, position: int) -> None:
        """Hold partitions with a row that this process has not evaluated."""
        self.has_new_rows = False
        for row in [row for row, node in self._stored.items() if node is None]:
            if row.asset not in periods.graph.automated:
                continue
            point = periods.space(row.asset).point(row.partition)
            if point is not None:
                node = self._stored[row] = AutomatedPartition(row.asset, point)
                if node not in self._by_asset.get(row.asset, ()):
                    self.add(node, position, for_work=True)

    def change(self, periods: Periods, position: int) -> HoldChange:
        """The changes for a proposal at a position."""
        current: dict[HeldPartition, int] = {}
        for asset, nodes in self._by_asset.items():
            space = periods.space(asset) if nodes else None
            for node, at in nodes.items():
                assert space is not None
                current[HeldPartition(asset, space.text(node.point))] = at
        new = sorted(current.keys() - self._stored.keys(), key=lambda each: current[each])
        removed = sorted(self._stored.keys() - current.keys())
        left = new[STORED_AT_ONCE:]
        return HoldChange(
            tuple(new[:STORED_AT_ONCE]),
            tuple(removed[:STORED_AT_ONCE]),
            min([position, *(current[each] for each in left[:1])]),
        )
