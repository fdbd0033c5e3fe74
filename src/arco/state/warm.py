"""Warm state: the rows that a committer has in memory, at a generation.

Only the buckets that a batch touches are loaded, and where shard keys have several rows (the tasks
of a run), only the rows of the shard keys that it touches. A bucket is a sorted slice of the files,
and on top of it the rows that changed since. What this process has committed in a row is in the
buckets that it loaded for that: of the files with nothing else, only those buckets are read that
were dropped, or changed without being loaded. When another process commits, its L0 files are laid
over the buckets that are loaded; when files are merely merged, nothing changes here, because no row
did. Everything is bounded: the least recently used buckets go first, and come back from the files.

A large bucket (a run of many tasks, an asset of many partitions) is loaded only after a number of
looks. Until then each row is looked up in the files: a process that commits one command, or a few
reports, does not read all rows beside those that it changes.

What is kept follows what goes on, not what went on. Every `SWEEP` commits the buckets that none of
them looked at are dropped, and rows that have changed go back into columns. Where a table has many
rows here, of a bucket whose rows were hardly found (versions of a backfill, which are all new) the
hashes of the keys remain: what is not among them is new, and the rest is looked up in the files. A
process that takes over such work begins with hashes: after some new keys of an asset, the keys of
its other buckets are read from the files together, without rows. Where rows had to be dropped to
make room for others, the state is *tight*, and folds go bucket by bucket: each bucket is read once,
not once for each fact. A key that no file can hold (what a deployment adds to a large workspace)
then loads no bucket.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence, Set
from typing import Any, Protocol

import pyarrow as pa

from arco.log.contents import TableFiles
from arco.log.manifest import FileRef
from arco.state.buckets import ROW_BYTES, BucketHashes, LoadedBucket
from arco.state.changes import Changes
from arco.state.file_shards import FileShards, may_hold_one
from arco.state.key_hashes import hash_of
from arco.state.lookup import look_up
from arco.state.parquet import Files, one_batch
from arco.state.rewrite import only_grew
from arco.state.sorted_rows import bucket_slice, latest, prefix_range, shard_slices
from arco.state.table import Key, Table, Versioned

LOOKS = 128
"""Lookups of single rows of a large bucket before it is loaded."""
MISSES = 64
"""After this many lookups without a result, the hashes of files' keys decide which keys are new."""
NEW = 4
"""After this many new keys of a shard key that is spread over buckets, one after the other, those
of its buckets that are not loaded get only hashes; `MISSES` if each takes several row groups."""
FOUND = 8
"""Lookups of single rows of a bucket of hashes before it is loaded again."""
SWEEP = 24
"""After this many commits, unused buckets are dropped."""
LARGE = 1_024
"""For tables with more rows, unused buckets are reduced to the hashes of their keys."""
SELDOM = 8
"""A bucket is seldom used if fewer than one in this many rows was found since the last sweep."""
ROOM = 7 / 8
"""Buckets are dropped until the others take this part of the budget."""
SETTLED = 64
"""Minimum of changed rows of a bucket that are turned into columns."""


class FilesOfTables(Protocol):
    """The files of every table, as a generation or a rebuild has them."""

    def table(self, name: str) -> TableFiles: ...


class Warm:
    def __init__(self, files: Files, *, budget_bytes: int = 192 << 20) -> None:
        self._files = files
        self._budget = budget_bytes
        self._loaded = 0
        """An upper bound of the memory of all buckets; computed again when it is reached."""
        self.is_tight = False
        """Whether rows were dropped, since the last sweep, to make room for others."""
        self._commits = 0
        self._position = 0
        self._own_since = 0
        """All positions after this one were committed by this process."""
        self._incomplete: set[tuple[Table[Any], int]] = set()
        """Buckets that are not loaded, and that commits of this process have changed."""
        self._tables: FilesOfTables | None = None
        self._shards: dict[Table[Any], FileShards] = {}
        """The shard keys in files of `_tables`, for tables that needed them."""
        self.buckets: OrderedDict[tuple[Table[Any], int], LoadedBucket | BucketHashes] = (
            OrderedDict()
        )
        self._lookups: Counter[tuple[Table[Any], int]] = Counter()
        """How often rows of buckets that are not loaded were looked up."""
        self._misses: Counter[Table[Any]] = Counter()
        """How many look-ups in files have found nothing."""
        self._new: Counter[tuple[Table[Any], Key]] = Counter()
        """By spread shard key: how many lookups in a row have found nothing."""
        self._too_large: set[tuple[Table[Any], int]] = set()
        """Buckets that would take most of the budget: their rows are looked up, always."""
        self._empty: dict[Table[Any], pa.RecordBatch] = {}

    def reset(self) -> None:
        """Drop everything, because history was rewritten or may have been."""
        self._position = self._own_since = 0
        self._incomplete.clear()
        self._tables = None
        self._shards.clear()
        self.buckets.clear()
        self._lookups.clear()
        self._new.clear()
        self._too_large.clear()

    def advance(self, tables: FilesOfTables, position: int) -> None:
        """Advance the loaded rows to a newer generation."""
        if position != self._position:
            if self._tables is not None:
                self._overlay(self._tables, tables)
            self._own_since = position
            self._incomplete.clear()
        self._tables = tables
        self._shards.clear()
        self._position = position

    def _overlay(self, before: FilesOfTables, after: FilesOfTables) -> None:
        for table in dict.fromkeys(table for table, _ in self.buckets):
            files = after.table(str(table))
            if not only_grew(before.table(str(table)), files):
                self._drop(table)  # merged before it was read: only the files have it
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

    def _forget(self, at: tuple[Table[Any], int]) -> LoadedBucket | BucketHashes:
        """Drop a bucket; its rows are looked up one by one again before it is loaded."""
        self._lookups.pop(at, None)
        self._incomplete.add(at)
        return self.buckets.pop(at)

    def apply(self, changes: Changes, tables: FilesOfTables, position: int) -> None:
        """Apply what this process has just committed on top of this state."""
        is_too_much = ROW_BYTES * sum(map(len, changes.values())) > self._budget
        for table, changed in changes.items():
            numbers = table.bucket_numbers(changed)
            if is_too_much and len(changed) > LARGE:
                self._forget_changed(table, set(numbers))
                continue
            loaded = {n: b.changed for n in set(numbers) if (b := self.buckets.get((table, n)))}
            self._incomplete.update((table, n) for n in set(numbers) if n not in loaded)
            for number, (key, versioned) in zip(numbers, changed.items(), strict=True):
                if number in loaded:
                    loaded[number][key] = versioned
            self._loaded += ROW_BYTES * len(changed)
        self._position = position
        self.advance(tables, position)
        self._commits += 1
        if self._commits % SWEEP == 0:
            self._sweep()
        if self._loaded > self._budget:
            self._shrink()

    def _forget_changed(self, table: Table[Any], numbers: set[int]) -> None:
        """Drop the buckets that a large commit has changed: there is no room for its rows.

        Turning them into columns, to drop most of these, would take time and memory.
        """
        self.is_tight = True
        for number in numbers:
            if (table, number) in self.buckets:
                self._loaded -= self._forget((table, number)).nbytes
            self._incomplete.add((table, number))

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        number = table.bucket(key)
        bucket = self.buckets.get((table, number))
        if bucket is None:
            return self._get_cold(table, number, key)
        if bucket.used_at != self._commits:
            bucket = self._bucket(table, number, key[: table.shard])
        return self._get_from(bucket, table, number, key)

    def _get_cold(self, table: Table[Any], number: int, key: Key) -> Versioned[Any] | None:
        """A row of a bucket that is not loaded."""
        if self._is_not_worth_loading(table, key):
            return None
        shard, is_large = key[: table.shard], self._is_large(table, number)
        new = self._new[table, shard] if table.spread > 1 else 0
        if new >= (MISSES if is_large else NEW) and self._has_many_rows(table):
            self._hash_buckets(table, shard)
        elif is_large:
            return self._counted(table, shard, self._look_up(table, key))
        bucket = self._bucket(table, number, shard)
        return self._counted(table, shard, self._get_from(bucket, table, number, key))

    def _has_many_rows(self, table: Table[Any]) -> bool:
        return sum(ref.rows for ref in self._refs(table)) > LARGE

    def _counted(
        self, table: Table[Any], shard: Key, versioned: Versioned[Any] | None
    ) -> Versioned[Any] | None:
        if table.spread > 1:
            self._new[table, shard] = 0 if versioned is not None else self._new[table, shard] + 1
        return versioned

    def _hash_buckets(self, table: Table[Any], shard: Key) -> None:
        """Hash the keys of all buckets of a spread shard key that are not loaded. Each file is
        read once for all of them, and no row is kept: few of them will be looked up."""
        numbers = {n for n in table.buckets(shard) if (table, n) not in self.buckets}
        hashes = {number: array("I") for number in numbers}
        for ref in self._refs(table):
            if any(ref.buckets[0] <= number <= ref.buckets[1] for number in numbers):
                for number, key in self._files.opened(table, ref).keys_of(numbers, table.key):
                    hashes[number].append(hash_of(key))
        for number, hashed in hashes.items():
            self.buckets[table, number] = bucket = BucketHashes(hashed, self._commits)
            self._loaded += bucket.nbytes

    def _get_from(
        self, bucket: LoadedBucket | BucketHashes, table: Table[Any], number: int, key: Key
    ) -> Versioned[Any] | None:
        versioned = bucket.changed.get(key)
        if versioned is not None:
            bucket.hits += 1
            return versioned
        if isinstance(bucket, BucketHashes):
            if not bucket.may_hold(key):
                return None
            if bucket.hits < FOUND:
                versioned = self._look_up(table, key)
            else:
                bucket = self._rows_of(table, number, key[: table.shard])
        elif not bucket.has(key[: table.shard]):
            bucket = self._rows_of(table, number, key[: table.shard])
        if versioned is None and isinstance(bucket, LoadedBucket):
            versioned = bucket.get(key)
            if versioned is not None:
                bucket.old_hits += 1
        if versioned is not None:
            bucket.changed[key] = versioned  # the next look costs nothing
            bucket.hits += 1
            self._loaded += ROW_BYTES
        return versioned

    def _is_not_worth_loading(self, table: Table[Any], key: Key) -> bool:
        """Whether memory is tight, and no file has rows of this shard key."""
        if not self.is_tight:
            return False
        shards = self._shards.get(table)
        if shards is None:
            shards = self._shards[table] = self._shards_of(table)
        return not shards.may_hold(table.shard_text(key))

    def _shards_of(self, table: Table[Any]) -> FileShards:
        ranges, changed = [], set[str]()
        for ref in self._refs(table):
            if ref.table:  # the reference to a change file has no range of its own
                changed.update(map(table.shard_text, self._files.changed_rows(table, ref)))
            else:
                ranges.append(ref.shard)
        return FileShards(ranges, changed)

    def _is_large(self, table: Table[Any], number: int) -> bool:
        """Whether a bucket is not worth loading yet."""
        if (table, number) in self._too_large:
            return True
        self._lookups[table, number] += 1
        if self._lookups[table, number] > LOOKS:
            return False
        return any(self._files.spans_groups(ref, number) for ref in self._refs(table))

    def _look_up(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        refs: Sequence[FileRef] = self._refs(table)
        if self._misses[table] > MISSES:
            refs = [ref for ref in refs if self._files.key_hashes(table, ref).may_hold(key)]
        versioned = look_up(self._files, refs, table, key)
        self._misses[table] += versioned[1] is None
        return None if versioned[1] is None else versioned

    def scan(self, table: Table[Any], shard: Key) -> Iterator[tuple[Key, Versioned[Any]]]:
        number = table.bucket(shard)
        if (table, number) not in self.buckets and self._is_not_worth_loading(table, shard):
            return
        bucket = self._rows_of(table, number, shard)
        bucket.hits += LOOKS  # all rows are needed
        rows: dict[Key, Versioned[Any]] = {}
        for at in range(*prefix_range(bucket.batch, table.key, shard)):
            of_key, versioned = bucket.entry(at)
            rows[of_key] = versioned
        for key, versioned in bucket.changed.items():
            if key[: table.shard] == shard:
                rows[key] = versioned
        yield from rows.items()

    def _rows_of(self, table: Table[Any], number: int, shard: Key) -> LoadedBucket:
        """A bucket with all rows of a shard key. Rows of others that it has are not read again."""
        bucket, at = self._bucket(table, number, shard), (table, number)
        if isinstance(bucket, BucketHashes):
            self._incomplete.add(at)
            del self.buckets[at]
            bucket = self._bucket(table, number, shard, *(bucket.shards or ()))
        elif not bucket.has(shard):
            self._incomplete.add(at)
            larger = bucket.with_rows(table, self._load(table, number, {shard}), shard)
            self._incomplete.discard(at)
            self._loaded += larger.nbytes - bucket.nbytes
            self.buckets[at] = bucket = larger
        assert isinstance(bucket, LoadedBucket)
        return bucket

    def _bucket(self, table: Table[Any], number: int, *shards: Key) -> LoadedBucket | BucketHashes:
        """A bucket as it is here. One that is not gets the rows of these shard keys, if a shard
        key has several rows: those of other runs, say, are seldom needed; else all rows."""
        at = (table, number)
        bucket = self.buckets.get(at)
        if bucket is None:
            some = {*shards} if table.shard < len(table.key) and table.spread == 1 else None
            bucket = LoadedBucket(table, self._load(table, number, some), some)
            self._loaded += bucket.nbytes
            if bucket.nbytes > self._budget // 2:
                self._too_large.add(at)
            if self._loaded > self._budget:
                self._shrink()  # dropped rows are in the files; the fold has read what it needs
            self.buckets[at] = bucket
            self._incomplete.discard(at)
        else:
            self.buckets.move_to_end(at)
        bucket.used_at = self._commits
        return bucket

    def _load(self, table: Table[Any], number: int, shards: Set[Key] | None) -> pa.RecordBatch:
        own_since = self._own_since
        if (table, number) in self._incomplete:
            own_since = self._position
        texts = None if shards is None else [table.shard_text(shard) for shard in shards]
        slices = [
            part
            for ref in self._refs(table)
            if ref.versions[0] <= own_since and may_hold_one(ref, texts)
            for batch in self._files.batches(table, ref, number)
            for part in shard_slices(bucket_slice(batch, number), table.key, shards)
            if part.num_rows
        ]
        if not slices:
            if table not in self._empty:
                self._empty[table] = one_batch(table.schema.empty_table())
            return self._empty[table]
        return one_batch(latest(slices, table.key, keep_deleted=False))

    def _refs(self, table: Table[Any]) -> tuple[FileRef, ...]:
        return () if self._tables is None else self._tables.table(str(table)).recent()

    def _sweep(self) -> None:
        """Drop unused buckets, and turn changed rows into columns.

        The freed memory is scattered: the allocator is told to return it.
        """
        old = self._commits - SWEEP
        self._new.clear()
        rows = self._rows_of_tables()
        self.is_tight = False
        for at, bucket in list(self.buckets.items()):
            if bucket.used_at <= old:
                self._forget(at)
            else:
                self.buckets[at] = bucket = self._settled(at[0], bucket, rows)
                bucket.hits = 0
                if isinstance(bucket, LoadedBucket):
                    bucket.old_hits = 0
        self._loaded = sum(bucket.nbytes for bucket in self.buckets.values())
        pa.default_memory_pool().release_unused()

    def _rows_of_tables(self) -> Counter[Table[Any]]:
        rows: Counter[Table[Any]] = Counter()
        for (table, _), bucket in self.buckets.items():
            rows[table] += bucket.num_rows
        return rows

    def _settled(
        self, table: Table[Any], bucket: LoadedBucket | BucketHashes, rows: Counter[Table[Any]]
    ) -> LoadedBucket | BucketHashes:
        if isinstance(bucket, BucketHashes) or self._is_seldom_found(table, bucket, rows):
            return bucket.index()
        if len(bucket.changed) > max(SETTLED, bucket.batch.num_rows // 16):
            return self._consolidated(table, bucket)
        return bucket

    def _is_seldom_found(
        self, table: Table[Any], bucket: LoadedBucket | BucketHashes, rows: Counter[Table[Any]]
    ) -> bool:
        """Whether the hashes of its keys are enough, since most lookups are for new keys.

        Not if more old rows were found than are looked up before it is loaded again: the lookups
        and the loading would take longer than many commits.
        """
        if isinstance(bucket, BucketHashes):
            return bool(bucket.changed)
        if bucket.shards is not None:
            return False  # the hashes of all keys are not at hand
        if rows[table] <= LARGE or bucket.old_hits > FOUND:
            return False
        return SELDOM * bucket.hits < min(bucket.num_rows, SELDOM * LOOKS)

    def _shrink(self) -> None:
        total = self._loaded = sum(bucket.nbytes for bucket in self.buckets.values())
        if total <= self._budget:
            return
        rows = self._rows_of_tables()
        for at, bucket in list(self.buckets.items()):
            if self._is_seldom_found(at[0], bucket, rows):
                self.buckets[at] = bucket.index()
                self.is_tight = True
            elif bucket.changed:
                self.buckets[at] = self._consolidated(at[0], bucket)
        total = sum(bucket.nbytes for bucket in self.buckets.values())
        if total > self._budget:
            total = self._evict(total)
        self._loaded = total

    def _evict(self, total: int) -> int:
        """Drop buckets until there is room for more; rows before hashes."""
        self.is_tight = True
        for kind in (LoadedBucket, BucketHashes):
            for at in [at for at, bucket in self.buckets.items() if isinstance(bucket, kind)]:
                if total <= self._budget * ROOM:
                    return total
                total -= self._forget(at).nbytes
        return total

    def _consolidated(
        self, table: Table[Any], bucket: LoadedBucket | BucketHashes
    ) -> LoadedBucket | BucketHashes:
        """Changed rows turned into columns: a tenth of the memory, with slower lookups."""
        if isinstance(bucket, BucketHashes):
            return bucket.index()
        parts = [pa.Table.from_batches([bucket.batch]), table.to_arrow(bucket.changed)]
        rows = one_batch(latest(parts, table.key, keep_deleted=False))
        settled = LoadedBucket(table, rows, bucket.shards)
        settled.used_at = bucket.used_at
        return settled
