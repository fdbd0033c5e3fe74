"""Who reads which columns of an asset, by column lineage."""

from __future__ import annotations

from arco.orchestration.catalog_names import lineage_reader
from arco.state.snapshot import Snapshot


def column_consumers(snapshot: Snapshot, asset_key: str) -> dict[str, tuple[str, ...]]:
    """By column, the columns that come from it, and the assets whose rows it decides about."""
    readers: dict[str, list[str]] = {}
    for use in lineage_reader(snapshot).uses(asset_key):
        name = f"{use.target}.{use.target_column}" if use.target_column else use.target
        if use.source_column and use.target != asset_key:
            readers.setdefault(use.source_column, []).append(name)
    return {column: tuple(sorted(set(names))) for column, names in readers.items()}
