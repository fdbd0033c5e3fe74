"""The assets that are out of date after a new version of an asset."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import msgspec

from arco.orchestration.selection import Graph, evaluate
from servo.contract.manifest import Asset, Identity, Manifest, TimeDimension


class OutOfDate(NamedTuple):
    same_partition: tuple[str, ...] = ()
    """Downstream assets, in the partition of the same key only."""
    other_partitions: tuple[str, ...] = ()


def out_of_date(manifest: Manifest, asset_key: str) -> OutOfDate:
    """All deployed assets downstream of an asset that read current versions."""
    manifest = msgspec.structs.replace(manifest, assets=tuple(map(_unpinned, manifest.assets)))
    assets = {asset.key: asset for asset in manifest.assets}
    if asset_key not in assets:
        return OutOfDate()
    downstream = evaluate(Graph(manifest), f"{asset_key}+")
    same = set(downstream)
    while different := {
        key for key in same if not _follows(assets[key], assets[asset_key], downstream, same)
    }:
        same -= different
    return OutOfDate(tuple(sorted(same - {asset_key})), tuple(sorted(downstream - same)))


def _unpinned(asset: Asset) -> Asset:
    if not any(each.is_pinned for each in asset.inputs):
        return asset
    inputs = tuple(each for each in asset.inputs if not each.is_pinned)
    return msgspec.structs.replace(asset, inputs=inputs)


def _follows(asset: Asset, top: Asset, downstream: Set[str], same: Set[str]) -> bool:
    """Whether a partition of `top` reaches the partition of the same key, and no other."""
    if asset.key == top.key:
        return True
    if _axes(asset) != _axes(top):
        return False
    return all(
        given.asset in same
        and all(isinstance(m, Identity) for m in (given.mapping, *given.dimensions.values()))
        for given in asset.inputs
        if given.asset in downstream
    )


def _axes(asset: Asset) -> list[tuple[str, str]]:
    """Names and units. Of two assets with equal ones, identity is of the same key."""
    return [
        (each.name, each.every if isinstance(each, TimeDimension) else "")
        for each in asset.partitions
    ]
