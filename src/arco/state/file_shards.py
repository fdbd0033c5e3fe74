"""Which shard keys the files of a table may hold, as texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from arco.log.manifest import FileRef


class FileShards(NamedTuple):
    """Of all files of a table: the ranges of table files, and the keys in change files."""

    ranges: list[tuple[str, str]]
    changed: set[str]

    def may_hold(self, shard: str) -> bool:
        return shard in self.changed or any(low <= shard <= high for low, high in self.ranges)


def may_hold_one(ref: FileRef, shards: Iterable[str] | None) -> bool:
    """Whether a file may hold rows of one of these shard keys; None: it may.

    The reference to a change file has no range of its own.
    """
    if shards is None or ref.table:
        return True
    return any(ref.shard[0] <= shard <= ref.shard[1] for shard in shards)
