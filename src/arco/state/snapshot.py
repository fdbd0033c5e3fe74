"""Snapshots: one generation, read without ever seeing another.

A snapshot is a root manifest. Everything it refers to is immutable, so files are cached, also
across snapshots: opening the next generation reads only its new files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, Generic, Self, TypeVar, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.errors import NotFound, NotYet
from arco.log.contents import GenerationTables, TableFiles
from arco.log.head import Head, Manifests
from arco.log.manifest import FileRef, Floor
from arco.state.file_rows import ShardRange, may_hold, newest_versions, rows_of_files
from arco.state.lookup import look_up, look_up_many, slices
from arco.state.parquet import Files
from arco.state.sorted_rows import latest
from arco.state.table import Key, Row, Table, Versioned, keep_newest

R = TypeVar("R", bound=Row)
T = TypeVar("T")
log = logging.getLogger(__name__)


class Current(msgspec.Struct, frozen=True):
    """The newest generation."""


class Generation(msgspec.Struct, frozen=True):
    number: int


class AsOf(msgspec.Struct, frozen=True):
    """The generation that was current at a time (UTC, without a zone).

    Where that one was thinned out, the last one before it that is kept, with a warning.
    """

    time: datetime


class AsOfRow(Generic[R]):
    """The first generation at which a condition holds for a row, if it then holds for ever.

    "The run is terminal" is such a condition. Exact, since commits are atomic.
    """

    def __init__(self, table: Table[R], key: Key, holds: Callable[[R], bool], what: str) -> None:
        self.table = table
        self.key = key
        self.holds = holds
        self.what = what


At = Current | Generation | AsOf | AsOfRow[Any]


class Snapshot:
    def __init__(self, manifests: Manifests, files: Files, head: Head) -> None:
        self._manifests = manifests
        self.files = files
        self.head = head
        self.contents = GenerationTables(manifests, head)
        self._generations: dict[int, int] = {}
        self._cache: dict[str, Any] = {}

    @classmethod
    def open(cls, manifests: Manifests, files: Files, at: At | None = None) -> Self:
        """Resolve `at` to one generation.

        Raises NotFound for a missing or collected generation, and NotYet if the condition does not
        hold yet.
        """
        match at:
            case None | Current():
                return cls(manifests, files, manifests.head())
            case Generation(number):
                return cls(manifests, files, _numbered(manifests, number))
            case AsOf(time):
                return cls._as_of(manifests, files, time)
            case AsOfRow():
                return cls._as_of_row(manifests, files, at)

    @classmethod
    def _as_of(cls, manifests: Manifests, files: Files, time: datetime) -> Self:
        head = manifests.head()
        if head.manifest.published_at <= time:
            return cls(manifests, files, head)
        floor = manifests.floor()
        after, before = manifests.first_where(lambda h: h.manifest.published_at > time, floor, head)
        assert after is not None
        if before == 0 and after.generation > 1:
            raise NotFound(
                f"history before {after.manifest.published_at} was collected", hint=_oldest(floor)
            )
        snapshot = cls(manifests, files, manifests.read(before))
        if after.generation - before > 1:
            log.warning(
                "the generation of %s was collected: this is generation %d of %s; the next "
                "that is kept is %d of %s",
                time.isoformat(" ", "seconds"),
                before,
                snapshot.published_at.isoformat(" ", "seconds"),
                after.generation,
                after.manifest.published_at.isoformat(" ", "seconds"),
            )
        return snapshot

    @classmethod
    def _as_of_row(cls, manifests: Manifests, files: Files, at: AsOfRow[Any]) -> Self:
        def holds(head: Head) -> bool:
            row = cls(manifests, files, head).get(at.table, *at.key)
            return row is not None and at.holds(row)

        floor = manifests.floor()
        first, before = manifests.first_where(holds, floor, manifests.head())
        if first is None:
            raise NotYet(f"not yet: {at.what}", retry_after_s=1.0)
        if first.generation - before > 1:
            raise NotFound(
                f"the generation of this was collected: {at.what}",
                hint=f"generation {first.generation} is the first after it that is kept",
            )
        return cls(manifests, files, first)

    def refresh(self) -> Self:
        """The newest generation; itself if that has not changed."""
        head = self._manifests.head()
        if head.generation == self.generation:
            return self
        return type(self)(self._manifests, self.files, head)

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """A value derived from whole tables of this generation; computed once, never changed."""
        if name not in self._cache:
            self._cache[name] = make()  # two threads may both compute it; the values are equal
        return cast(T, self._cache[name])

    @property
    def generation(self) -> int:
        return self.head.generation

    @property
    def position(self) -> int:
        return self.head.manifest.position

    @property
    def published_at(self) -> datetime:
        return self.head.manifest.published_at

    def generation_of(self, position: int) -> int:
        """The first kept generation, up to this one, that has the event at a position."""
        if position not in self._generations:
            head, _ = self._manifests.first_where(
                lambda head: head.manifest.position >= position, self._manifests.floor(), self.head
            )
            assert head is not None
            self._generations[position] = head.generation
        return self._generations[position]

    def tables(self) -> dict[str, TableFiles]:
        """Every table by its name, `domain.table`."""
        return self.contents.tables()

    def manifest(self, table: Table[Any]) -> TableFiles:
        return self.contents.table(str(table), table.manifest())

    def get(self, table: Table[R], *key: Any) -> R | None:
        """One row by its key, reading only the row groups that may hold it."""
        return self.versioned(table, key)[1]

    def get_many(self, table: Table[R], keys: Sequence[Key]) -> dict[Key, R]:
        """Rows of a table without history, by their keys. Missing ones are left out."""
        versions = self.get_many_versioned(table, keys)
        return {key: row for key, (_, row) in versions.items() if row is not None}

    def get_many_versioned(self, table: Table[R], keys: Sequence[Key]) -> dict[Key, Versioned[R]]:
        assert table.history is None
        return look_up_many(self.files, self.manifest(table).recent(), table, keys)

    def versioned(self, table: Table[R], key: Key, *, history: bool = True) -> Versioned[R]:
        """A row with its version; (0, None) if it never existed."""
        manifest = self.manifest(table)
        recent = manifest.recent_with(table.bucket(key))
        if not history:
            return look_up(self.files, recent, table, key)
        return look_up(self.files, recent, table, key, manifest.history_since)

    def rows(self, table: Table[R], *shard: Any) -> list[R]:
        """The rows of one shard key, or of a longer part of keys, in their order."""
        versioned = self.rows_versioned(table, shard)
        return [row for key in sorted(versioned) if (row := versioned[key][1]) is not None]

    def rows_versioned(
        self, table: Table[R], shard: Key, *, history: bool = True
    ) -> dict[Key, Versioned[R]]:
        """The rows of one shard key with their versions; None for those deleted."""
        best: dict[Key, Versioned[R]] = {}
        manifest, buckets = self.manifest(table), table.buckets(shard)
        recent = manifest.recent_with(buckets[0]) if len(buckets) == 1 else manifest.recent()
        refs = recent + manifest.history if history else recent
        for batch in slices(self.files, refs, table, shard):
            keep_newest(best, table.versioned(batch))
        return best

    def files_with(self, table: Table[Any], shard: str) -> tuple[FileRef, ...]:
        """The files that may hold hot rows of a shard key. While they stay, rows do too."""
        (bucket,), text = table.buckets((shard,)), table.shard_text((shard,))
        refs = self.manifest(table).recent_with(bucket)
        return tuple([ref for ref in refs if ref.shard[0] <= text <= ref.shard[1]])

    def columns(self, table: Table[Any], shard: str, names: Sequence[str]) -> pa.Table:
        """Some columns of the hot rows of one shard key."""
        chosen = list(dict.fromkeys([*table.key, *names, "row_version", "_deleted", "_bucket"]))
        manifest = self.manifest(table)

        def read(refs: Sequence[FileRef]) -> list[pa.RecordBatch]:
            return [b.select(chosen) for b in slices(self.files, refs, table, (shard,))]

        base, newer = read(manifest.base), read(manifest.l0)
        if not newer and base:  # a row is in one file of the base: there is nothing to sort
            parts = [pa.Table.from_batches([part]) for part in base]
            rows = pa.concat_tables(parts, promote_options="default")
            return rows.filter(pc.invert(rows.column("_deleted"))).combine_chunks()
        if not newer:
            return table.schema.empty_table().select(chosen)
        return latest([*base, *newer], table.key, keep_deleted=False)

    def scan(self, table: Table[Any]) -> pa.Table:
        """All rows of a table, with their versions, in file order."""
        return scan(self.files, self.manifest(table), table)

    def since(self, table: Table[R], position: int) -> Iterator[tuple[Key, R]]:
        """The rows that changed after a position and still exist, each once.

        Reads only files that hold something newer. Rows that were deleted since do not
        show.
        """
        for key, (_, row) in self.versions_since(table, position).items():
            if row is not None:
                yield key, row

    def versions_since(self, table: Table[R], position: int) -> dict[Key, Versioned[R]]:
        """The same with their versions; None for rows that were deleted."""
        manifest = self.manifest(table)
        newest: dict[Key, Versioned[R]] = {}
        for ref in (*manifest.recent(), *manifest.history_since(position)):
            if ref.versions[1] <= position:
                continue
            for batch in self.files.batches(table, ref):
                newer = batch.filter(pc.greater(batch.column("row_version"), position))
                keep_newest(newest, table.versioned(newer))
        return newest

    def all(self, table: Table[R]) -> list[R]:
        return list(table.rows_of(self.scan(table)))

    def recent(self, table: Table[R], since: datetime) -> list[R]:
        """Rows whose history column is not before `since`.

        Of history only the files of those days are read.
        """
        return list(table.rows_of(self.recent_rows(table, since)))

    def recent_rows(self, table: Table[Any], since: datetime) -> pa.Table:
        """The same, with their versions."""
        assert table.history is not None
        manifest = self.manifest(table)
        old = [ref for ref in manifest.history if ref.days and ref.days[1] >= since.date()]
        rows = _live(self.files, table, (*manifest.recent(), *old))
        times = rows.column(table.history.column)
        return rows.filter(
            pc.fill_null(pc.greater_equal(times, pa.scalar(since, times.type)), True)
        )

    def hot(self, table: Table[R]) -> list[R]:
        """All hot rows: the cost does not grow with history."""
        return list(table.rows_of(_live(self.files, table, self.manifest(table).recent())))

    # -- history by its days: `arco.state.days` goes through it -------------------------

    def hot_rows(
        self, table: Table[Any], shard: Key, between: ShardRange
    ) -> tuple[pa.Table, datetime | None]:
        """The hot rows. Rows in history have a time before the second value, in the history column;
        None if there are none."""
        assert table.history is not None
        manifest = self.manifest(table)
        refs = [ref for ref in manifest.recent() if may_hold(ref, between)]
        # Rows in history were that old by the log's time when they moved.
        left = self.head.manifest.log_time - table.history.after if manifest.has_history else None
        return rows_of_files(self.files, table, refs, shard), left

    def history_days(self, table: Table[Any], between: ShardRange) -> list[date]:
        """The last days of the files of history, ascending."""
        history = self.manifest(table).history
        return sorted({ref.days[1] for ref in history if ref.days and may_hold(ref, between)})

    def rows_of_day(
        self, table: Table[Any], last: date, shard: Key, between: ShardRange
    ) -> pa.Table:
        """Rows of the files of history that end with a day."""
        history = self.manifest(table).history
        refs = [r for r in history if r.days and r.days[1] == last and may_hold(r, between)]
        return rows_of_files(self.files, table, refs, shard)

    def get_of_day(self, table: Table[R], key: Key, day: date) -> R | None:
        """A row by its key: among the hot ones, or in history of that day alone."""
        manifest = self.manifest(table)

        def left(version: int) -> list[FileRef]:
            return [r for r in manifest.history if r.days and r.days[0] <= day <= r.days[1]]

        return look_up(self.files, manifest.recent(), table, key, left)[1]

    def changed_keys(self, before: Snapshot, table: Table[Any]) -> set[Key]:
        """The keys of rows that may differ between another generation and this one.

        Only files that one of them has and the other has not are read: changes, and merges in
        between. A row that is in such files of both with one version is the same row.
        """
        a, b = before.manifest(table).files(), self.manifest(table).files()
        shared = {(ref.path, ref.table) for ref in a} & {(ref.path, ref.table) for ref in b}
        left, right = (
            newest_versions(self.files, table, [r for r in refs if (r.path, r.table) not in shared])
            for refs in (a, b)
        )
        return {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}


def scan(files: Files, manifest: TableFiles, table: Table[Any]) -> pa.Table:
    """The live rows of a table: the newest for each key, without tombstones."""
    return _live(files, table, manifest.files())


def _live(files: Files, table: Table[Any], refs: Iterable[FileRef]) -> pa.Table:
    """The live rows of some files. Columns are made once for all change files."""
    changed: dict[Key, Versioned[Any]] = {}
    parts = []
    for ref in refs:
        if ref.table:
            keep_newest(changed, files.changed_rows(table, ref))
        else:
            parts.append(files.table(table, ref))
    if changed:
        parts.append(table.to_arrow(changed))
    if not parts:
        return table.no_rows
    return latest(parts, table.key, keep_deleted=False)


def _numbered(manifests: Manifests, number: int) -> Head:
    generation_head = manifests.find(number) if number >= 0 else None
    if generation_head is not None:
        return generation_head
    head = manifests.head()
    if number > head.generation:
        raise NotYet(f"generation {number} does not exist yet; the newest is {head.generation}")
    raise NotFound(f"generation {number} was collected", hint=_oldest(manifests.floor()))


def _oldest(floor: Floor) -> str:
    oldest = min((*floor.thinned_numbers(), floor.generation))
    if oldest == floor.generation:
        return f"the oldest that is kept is {oldest}"
    count = len(floor.thinned)
    return f"all from {floor.generation} on are kept, and {count} older ones, from {oldest}"
