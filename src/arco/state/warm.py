"""Warm state: the rows that a committer has at hand, keyed by generation.

Only the buckets that a batch touches are loaded. A bucket is a sorted slice of
the files, and on top of it the rows that changed since. What this process has committed in
a row is in the buckets that it loaded for that: of the files with nothing else, only those
buckets are read that were dropped, or changed without being loaded. When another process
commits, its L0 files are laid over the buckets that are loaded; when files are
merely merged, nothing changes here, because no row did. Everything is bounded:
the least recently used buckets go first, and come back from the files.

A large bucket (a run of many tasks, an asset of many partitions) is loaded only after a
number of looks. Until then each row is looked up in the files: a process that commits one
command, or a few reports, does not read all rows beside those that it changes.

What is kept follows what goes on, not what went on. Every `SWEEP` commits the buckets that
none of them looked at are dropped, and rows that have changed go back into columns. Of a
large bucket whose rows were hardly found (an asset's versions, which are all new) the hashes
of the keys remain: what is not among them is new, and the rest is looked up in the files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from arco.log.contents import TableFiles
from arco.log.manifest import FileRef
from arco.state.arrow_columns import values_of
from arco.state.changes import Changes
from arco.state.lookup import look_up
from arco.state.parquet import Files, one_batch, real_bytes
from arco.state.rewrite import only_grew
from arco.state.sorted_rows import bucket_slice, latest, prefix_range
from arco.state.table import Key, Table, Versioned

LOOKS = 128
"""So many rows of a large bucket are looked up one by one before it is loaded."""
ROW_BYTES = 1_500
"""What one changed row costs in memory, as measured for a task's."""
FOUND = 8
"""So many rows of a bucket of hashes are looked up one by one before it is loaded again."""
SWEEP = 48
"""After so many commits what was not looked at is dropped."""
LARGE = 1_024
"""A bucket of so many rows is worth reducing to the hashes of its keys."""
SETTLED = 250
"""So many changed rows of a bucket are worth turning into columns."""


class _Bucket:
    """Rows in columns, taken apart once for many looks, and the rows changed since.

    Keys are found by their hashes, eight bytes a row: a look then costs the same in a
    large bucket as in a small one.
    """

    __slots__ = (
        "_first",
        "_hashes",
        "_keys",
        "_nbytes",
        "_one",
        "_places",
        "_row_at",
        "_versions",
        "batch",
        "changed",
        "hits",
        "used_at",
    )

    def __init__(self, table: Table[Any], batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.changed: dict[Key, Versioned[Any]] = {}
        self.used_at = 0
        """The number of the commit that last looked at it."""
        self.hits = 0
        """How many looks have found a row, since the last sweep."""
        self._nbytes = 0
        if batch.num_rows == 0:  # as most are while a table is young
            self._places, self._hashes = array("I"), array("I")
            return
        self._keys = [values_of(batch.column(c)) for c in table.key]
        self._first, self._one = self._keys[0], len(self._keys) == 1
        self._versions = values_of(batch.column("row_version"))
        self._row_at = table.reader(batch)
        keys = zip(*(batch.column(c).to_pylist() for c in table.key), strict=True)
        hashes = [_hash(key) for key in keys]
        order = sorted(range(len(hashes)), key=hashes.__getitem__)
        self._places = array("I", order)
        self._hashes = array("I", map(hashes.__getitem__, order))
        self._nbytes = real_bytes(batch) + 8 * len(order)

    @property
    def nbytes(self) -> int:
        return self._nbytes + ROW_BYTES * len(self.changed)

    def get(self, key: Key) -> Versioned[Any] | None:
        """The row of a key among the columns."""
        hashed, hashes = hash(key) & _HASH_BITS, self._hashes
        at = bisect_left(hashes, hashed)
        while at < len(hashes) and hashes[at] == hashed:
            place = self._places[at]
            # Most keys have one column, and differ in it.
            if self._first[place] == key[0] and (self._one or self._key_at(place) == key):
                return self._versions[place], self._row_at(place, key)
            at += 1
        return None

    def entry(self, at: int) -> tuple[Key, Versioned[Any]]:
        """The row at an index of the columns, with its key."""
        key = self._key_at(at)
        return key, (self._versions[at], self._row_at(at, key))

    def _key_at(self, at: int) -> Key:
        return tuple([column[at] for column in self._keys])

    def index(self) -> _Index:
        """The bucket without its rows, all of which are in files by now."""
        return _Index([*self._hashes, *map(_hash, self.changed)], self.used_at)


class _Index:
    """The hashes of a bucket's keys, and the rows that were looked up or changed since."""

    __slots__ = ("_hashes", "changed", "hits", "used_at")

    def __init__(self, hashes: Iterable[int], used_at: int) -> None:
        self._hashes = array("I", sorted(hashes))
        self.changed: dict[Key, Versioned[Any]] = {}
        self.hits = 0
        self.used_at = used_at

    @property
    def nbytes(self) -> int:
        return 4 * len(self._hashes) + ROW_BYTES * len(self.changed)

    def may_hold(self, key: Key) -> bool:
        hashed = _hash(key)
        at = bisect_left(self._hashes, hashed)
        return at < len(self._hashes) and self._hashes[at] == hashed

    def index(self) -> _Index:
        return _Index([*self._hashes, *map(_hash, self.changed)], self.used_at)


_HASH_BITS = 0xFFFF_FFFF


def _hash(key: Key) -> int:
    return hash(key) & _HASH_BITS


class Tables(Protocol):
    """The files of every table, as a generation or a rebuild has them."""

    def table(self, name: str) -> TableFiles: ...


class Warm:
    def __init__(self, files: Files, *, budget_bytes: int = 192 << 20) -> None:
        self._files = files
        self._budget = budget_bytes
        self._loaded = 0
        """What all buckets take, or more: a bound that is worked out anew when it is reached."""
        self._commits = 0
        self._position = 0
        self._own_since = 0
        """All positions after this one were committed by this process."""
        self._incomplete: set[tuple[Table[Any], int]] = set()
        """Buckets that are not loaded, and that commits of this process have changed."""
        self._tables: Tables | None = None
        self.buckets: OrderedDict[tuple[Table[Any], int], _Bucket | _Index] = OrderedDict()
        self._looks: Counter[tuple[Table[Any], int]] = Counter()
        """How often rows of buckets that are not loaded were looked up."""
        self._too_large: set[tuple[Table[Any], int]] = set()
        """Buckets that would take most of the budget: their rows are looked up, always."""
        self._empty: dict[Table[Any], pa.RecordBatch] = {}

    def reset(self) -> None:
        """Forget everything, because history was rewritten or we do not know."""
        self._position = self._own_since = 0
        self._incomplete.clear()
        self._tables = None
        self.buckets.clear()
        self._looks.clear()
        self._too_large.clear()

    def advance(self, tables: Tables, position: int) -> None:
        """Bring what is loaded from the generation it is at to another, newer one."""
        if position != self._position:
            if self._tables is not None:
                self._overlay(self._tables, tables)
            self._own_since = position
            self._incomplete.clear()
        self._tables = tables
        self._position = position

    def _overlay(self, before: Tables, after: Tables) -> None:
        for table in dict.fromkeys(table for table, _ in self.buckets):
            files = after.table(str(table))
            if not only_grew(before.table(str(table)), files):
                self._drop(table)  # merged before we saw it: only the files know
                continue
            for ref in files.l0:
                if ref.versions[1] > self._position:
                    self._lay(table, ref)

    def _lay(self, table: Table[Any], ref: FileRef) -> None:
        for batch in self._files.batches(table, ref):
            for key, (version, row) in table.versioned(batch).items():
                bucket = self.buckets.get((table, table.bucket(key)))
                if bucket is not None and version > self._position:
                    before = bucket.changed.get(key)
                    if before is None or before[0] < version:
                        bucket.changed[key] = (version, row)
                        self._loaded += ROW_BYTES

    def _drop(self, table: Table[Any]) -> None:
        for at in [at for at in self.buckets if at[0] is table]:
            self._forget(at)

    def _forget(self, at: tuple[Table[Any], int]) -> _Bucket | _Index:
        """Drop a bucket; its rows are looked up one by one again before it is loaded."""
        self._looks.pop(at, None)
        self._incomplete.add(at)
        return self.buckets.pop(at)

    def apply(self, changes: Changes, tables: Tables, position: int) -> None:
        """Take over what this process itself has just committed on top of this state."""
        for table, changed in changes.items():
            for key, versioned in changed.items():
                at = (table, table.bucket(key))
                bucket = self.buckets.get(at)
                if bucket is None:
                    self._incomplete.add(at)
                else:
                    bucket.changed[key] = versioned
            self._loaded += ROW_BYTES * len(changed)
        self._position = position
        self.advance(tables, position)
        self._commits += 1
        if self._commits % SWEEP == 0:
            self._sweep()
        if self._loaded > self._budget:
            self._shrink()

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        number = table.bucket(key)
        bucket = self.buckets.get((table, number))
        if bucket is None and self._is_large(table, number):
            return self._look_up(table, key)
        if bucket is None or bucket.used_at != self._commits:
            bucket = self._bucket(table, number)
        versioned = bucket.changed.get(key)
        if versioned is not None:
            bucket.hits += 1
            return versioned
        if isinstance(bucket, _Index):
            if not bucket.may_hold(key):
                return None
            if bucket.hits < FOUND:
                versioned = self._look_up(table, key)
            else:
                bucket = self._whole(table, number)
        if versioned is None and isinstance(bucket, _Bucket):
            versioned = bucket.get(key)
        if versioned is not None:
            bucket.changed[key] = versioned  # the next look costs nothing
            bucket.hits += 1
            self._loaded += ROW_BYTES
        return versioned

    def _is_large(self, table: Table[Any], number: int) -> bool:
        """Whether a bucket is not worth loading yet."""
        if (table, number) in self._too_large:
            return True
        self._looks[table, number] += 1
        if self._looks[table, number] > LOOKS:
            return False
        return any(self._files.spans_groups(ref, number) for ref in self._refs(table))

    def _look_up(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        versioned = look_up(self._files, self._refs(table), table, key)
        return None if versioned[1] is None else versioned

    def scan(self, table: Table[Any], shard: Key) -> Iterator[tuple[Key, Versioned[Any]]]:
        bucket = self._whole(table, table.bucket(shard))
        bucket.hits += LOOKS  # all rows are needed
        rows: dict[Key, Versioned[Any]] = {}
        for at in range(*prefix_range(bucket.batch, table.key, shard)):
            of_key, versioned = bucket.entry(at)
            rows[of_key] = versioned
        for key, versioned in bucket.changed.items():
            if key[: table.shard] == shard:
                rows[key] = versioned
        yield from rows.items()

    def _whole(self, table: Table[Any], number: int) -> _Bucket:
        """A bucket with all of its rows."""
        bucket = self._bucket(table, number)
        if isinstance(bucket, _Index):
            self._incomplete.add((table, number))
            del self.buckets[table, number]
            bucket = self._bucket(table, number)
        assert isinstance(bucket, _Bucket)
        return bucket

    def _bucket(self, table: Table[Any], number: int) -> _Bucket | _Index:
        at = (table, number)
        bucket = self.buckets.get(at)
        if bucket is None:
            bucket = _Bucket(table, self._load(table, number))
            self._loaded += bucket.nbytes
            if bucket.nbytes > self._budget // 2:
                self._too_large.add(at)
            if self._loaded > self._budget:
                self._shrink()  # what goes is in the files; the fold has taken what it needs
            self.buckets[at] = bucket
            self._incomplete.discard(at)
        else:
            self.buckets.move_to_end(at)
        bucket.used_at = self._commits
        return bucket

    def _load(self, table: Table[Any], number: int) -> pa.RecordBatch:
        own_since = self._own_since
        if (table, number) in self._incomplete:
            own_since = self._position
        slices = [
            part
            for ref in self._refs(table)
            if ref.versions[0] <= own_since
            for batch in self._files.batches(table, ref, number)
            if (part := bucket_slice(batch, number)).num_rows
        ]
        if not slices:
            if table not in self._empty:
                self._empty[table] = one_batch(table.schema.empty_table())
            return self._empty[table]
        return one_batch(latest(slices, table.key, keep_deleted=False))

    def _refs(self, table: Table[Any]) -> tuple[FileRef, ...]:
        return () if self._tables is None else self._tables.table(str(table)).recent()

    def _sweep(self) -> None:
        """Drop what nobody looked at for a while, and settle what has changed.

        What that frees lies scattered between what stays: the allocator is told to give it back.
        """
        old = self._commits - SWEEP
        for at, bucket in list(self.buckets.items()):
            if bucket.used_at <= old:
                self._forget(at)
            else:
                self.buckets[at] = self._settled(at[0], bucket)
                self.buckets[at].hits = 0
        self._loaded = sum(bucket.nbytes for bucket in self.buckets.values())
        pa.default_memory_pool().release_unused()

    def _settled(self, table: Table[Any], bucket: _Bucket | _Index) -> _Bucket | _Index:
        if isinstance(bucket, _Index) or self._is_seldom_found(bucket):
            return bucket.index()
        if len(bucket.changed) > max(SETTLED, bucket.batch.num_rows // 16):
            return self._consolidated(table, bucket)
        return bucket

    def _is_seldom_found(self, bucket: _Bucket | _Index) -> bool:
        """Whether the hashes of its keys do instead of a bucket, since what is asked is new."""
        if isinstance(bucket, _Index):
            return bool(bucket.changed)
        return bucket.hits < LOOKS and bucket.batch.num_rows + len(bucket.changed) > LARGE

    def _shrink(self) -> None:
        total = self._loaded = sum(bucket.nbytes for bucket in self.buckets.values())
        if total <= self._budget:
            return
        for at, bucket in list(self.buckets.items()):
            if self._is_seldom_found(bucket):
                self.buckets[at] = bucket.index()
            elif bucket.changed:
                self.buckets[at] = self._consolidated(at[0], bucket)
        total = sum(bucket.nbytes for bucket in self.buckets.values())
        while total > self._budget and self.buckets:
            total -= self._forget(next(iter(self.buckets))).nbytes
        self._loaded = total

    def _consolidated(self, table: Table[Any], bucket: _Bucket | _Index) -> _Bucket | _Index:
        """Changed rows turned into columns: a tenth of the memory, a slower look."""
        if isinstance(bucket, _Index):
            return bucket.index()
        parts = [pa.Table.from_batches([bucket.batch]), table.to_arrow(bucket.changed)]
        settled = _Bucket(table, one_batch(latest(parts, table.key, keep_deleted=False)))
        settled.used_at = bucket.used_at
        return settled
