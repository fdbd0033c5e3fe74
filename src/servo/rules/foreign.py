"""Which assets may be another project's: those in namespaces where this one has none."""

from __future__ import annotations

from collections.abc import Iterable, Set

from servo.contract.keys import AssetKey
from servo.contract.manifest import Asset
from servo.errors import Invalid


def own_namespaces(assets: Iterable[Asset]) -> frozenset[str]:
    return frozenset(asset.key.partition(".")[0] for asset in assets)


def is_foreign(key: str, namespaces: Set[str]) -> bool:
    """Whether a valid key is in none of the project's own namespaces."""
    try:
        return AssetKey.parse(key).namespace not in namespaces
    except Invalid:
        return False
