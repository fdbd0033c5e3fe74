"""One bucket of a table in warm state: its rows, or the hashes of their keys."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Set
from typing import Any, Final

import pyarrow as pa

from arco.state.arrow_columns import values_of
from arco.state.key_hashes import hash_of
from arco.state.parquet import one_batch, real_bytes
from arco.state.sorted_rows import latest
from arco.state.table import Key, Table, Versioned

ROW_BYTES = 1_500
"""The memory of one changed row, as measured for rows of tasks."""
ROW_BITS = 0xFFFF_FFFF
"""Of a slot: the number of the row. Its hash is above it."""


class LoadedBucket:
    """Rows in columns, prepared once for many lookups, and the rows changed since.

    Keys are found by their hashes, in slots of which at most half are used. Most lookups read one
    slot: the time of a lookup is that of reading cold memory.
    """

    __slots__ = (
        "_first",
        "_keys",
        "_mask",
        "_nbytes",
        "_one",
        "_row_at",
        "_slots",
        "_versions",
        "batch",
        "changed",
        "hits",
        "old_hits",
        "shards",
        "used_at",
    )

    def __init__(
        self, table: Table[Any], batch: pa.RecordBatch, shards: Set[Key] | None = None
    ) -> None:
        self.batch = batch
        self.shards = shards
        """The shard keys whose rows it has; None if it has all rows of the bucket."""
        self.changed: dict[Key, Versioned[Any]] = {}
        self.used_at = 0
        """The number of the commit that last used it."""
        self.hits = 0
        """How many lookups have found a row, since the last sweep."""
        self.old_hits = 0
        """How many of them have found it in the columns, for the first time."""
        self._nbytes = 0
        self._slots, self._mask = array("Q", (0,)), 0
        if batch.num_rows == 0:  # as most are while a table is young
            return
        self._keys = [values_of(batch.column(c)) for c in table.key]
        self._first, self._one = self._keys[0], len(self._keys) == 1
        self._versions = values_of(batch.column("row_version"))
        self._row_at = table.reader(batch)
        keys = zip(*(batch.column(c).to_pylist() for c in table.key), strict=True)
        size = 2 << batch.num_rows.bit_length()
        self._slots, self._mask = _slots(map(hash_of, keys), size), size - 1
        self._nbytes = real_bytes(batch) + 8 * size

    @property
    def nbytes(self) -> int:
        return self._nbytes + ROW_BYTES * len(self.changed)

    @property
    def num_rows(self) -> int:
        return int(self.batch.num_rows) + len(self.changed)

    def get(self, key: Key) -> Versioned[Any] | None:
        """The row of a key among the columns."""
        slots, mask = self._slots, self._mask
        if not mask:
            return None
        hashed = hash(key) & ROW_BITS  # `hash_of`, without a call
        at = hashed & mask
        while entry := slots[at]:
            if entry >> 32 == hashed:
                place = (entry & ROW_BITS) - 1
                # Most keys have one column, and differ in it.
                if self._first[place] == key[0] and (self._one or self._key_at(place) == key):
                    return self._versions[place], self._row_at(place, key)
            at = at + 1 & mask
        return None

    def has(self, shard: Key) -> bool:
        """Whether a row of this shard key that is not here does not exist."""
        return self.shards is None or shard in self.shards

    def with_rows(self, table: Table[Any], rows: pa.RecordBatch, shard: Key) -> LoadedBucket:
        """The bucket with the rows of one more shard key, as they are in files."""
        shards = {*(self.shards or ()), shard}
        if rows.num_rows == 0:
            self.shards = shards
            return self
        batches = latest([self.batch, rows], table.key, keep_deleted=False)
        larger = LoadedBucket(table, one_batch(batches), shards)
        larger.changed, larger.used_at = self.changed, self.used_at
        larger.hits, larger.old_hits = self.hits, self.old_hits
        return larger

    def entry(self, at: int) -> tuple[Key, Versioned[Any]]:
        """The row at an index of the columns, with its key."""
        key = self._key_at(at)
        return key, (self._versions[at], self._row_at(at, key))

    def _key_at(self, at: int) -> Key:
        return tuple([column[at] for column in self._keys])

    def index(self) -> BucketHashes:
        """The bucket without its rows, which are all in files."""
        hashes = [entry >> 32 for entry in self._slots if entry]
        return BucketHashes([*hashes, *map(hash_of, self.changed)], self.used_at)


def _slots(hashes: Iterable[int], size: int) -> array[int]:
    """Each hash, and the number of its row from 1 on, in the first free slot from its own on."""
    slots, mask = array("Q", bytes(8 * size)), size - 1
    for number, hashed in enumerate(hashes, start=1):
        at = hashed & mask
        while slots[at]:
            at = at + 1 & mask
        slots[at] = hashed << 32 | number
    return slots


class BucketHashes:
    """The hashes of a bucket's keys, and the rows that were looked up or changed since."""

    __slots__ = ("_hashes", "changed", "hits", "used_at")
    shards: Final = None

    def __init__(self, hashes: Iterable[int], used_at: int) -> None:
        self._hashes = array("I", sorted(hashes))
        self.changed: dict[Key, Versioned[Any]] = {}
        self.hits = 0
        self.used_at = used_at

    @property
    def nbytes(self) -> int:
        return 4 * len(self._hashes) + ROW_BYTES * len(self.changed)

    @property
    def num_rows(self) -> int:
        return len(self._hashes) + len(self.changed)

    def may_hold(self, key: Key) -> bool:
        hashed = hash_of(key)
        at = bisect_left(self._hashes, hashed)
        return at < len(self._hashes) and self._hashes[at] == hashed

    def index(self) -> BucketHashes:
        return BucketHashes([*self._hashes, *map(hash_of, self.changed)], self.used_at)
