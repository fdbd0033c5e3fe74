"""Partitions that wait for what partitions of all times read alike: no change leads to them."""

from __future__ import annotations

from collections.abc import Iterable

from arco.automation.asset_graph import AssetGraph, AutomatedPartition


class HeldPartitions:
    """Each with a position from which on a process that starts finds it again: the cursor of
    automation stays there."""

    def __init__(self) -> None:
        self._by_asset: dict[str, dict[AutomatedPartition, int]] = {}

    def of(self, asset: str) -> Iterable[AutomatedPartition]:
        return self._by_asset.get(asset, ())

    def add(self, node: AutomatedPartition, position: int) -> None:
        """What is held already stays at its position."""
        self._by_asset.setdefault(node.asset, {}).setdefault(node, position)

    def discard(self, node: AutomatedPartition) -> None:
        self._by_asset.get(node.asset, {}).pop(node, None)

    def discard_asset(self, asset: str) -> None:
        self._by_asset.pop(asset, None)

    def keep_fitting(self, graph: AssetGraph) -> None:
        """Forget partitions that are deployed no more."""
        for held in self._by_asset.values():
            for node in [node for node in held if not graph.fits(node)]:
                del held[node]

    def reachable(self, position: int) -> int:
        """How far the cursor may move, at most to a position."""
        return min([position, *(at for held in self._by_asset.values() for at in held.values())])
