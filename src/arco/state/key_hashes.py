"""The hashes of keys: show which keys are not among some rows, with four bytes per row."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from arco.state.table import Key

_BITS = 0xFFFF_FFFF


def hash_of(key: Key) -> int:
    """Stable within one process only."""
    return hash(key) & _BITS


class KeyHashes:
    __slots__ = ("_hashes",)

    def __init__(self, keys: Iterable[Key]) -> None:
        self._hashes = array("I", sorted(map(hash_of, keys)))

    def __len__(self) -> int:
        return len(self._hashes)

    def may_hold(self, key: Key) -> bool:
        hashed, hashes = hash_of(key), self._hashes
        at = bisect_left(hashes, hashed)
        return at < len(hashes) and hashes[at] == hashed
