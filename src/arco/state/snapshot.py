"""Snapshots: one generation, read without ever seeing another.

A snapshot is a root manifest. Everything it refers to is immutable, so what was
read once is kept, also across snapshots: opening the next generation reads only
the files that are new in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.errors import NotFound, NotYet
from arco.log.contents import TableFiles
from arco.log.head import Head, Manifests
from arco.log.manifest import FileRef, Floor
from arco.state.lookup import look_up, look_up_many, slices
from arco.state.parquet import Files
from arco.state.sorted_rows import latest, prefix_range
from arco.state.table import Key, Row, Table, Versioned, keep_newest

R = TypeVar("R", bound=Row)
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
    """The first generation at which something holds of a row, and then for ever.

    "The run is terminal" is such a thing. Exact, since commits are atomic.
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
        self.contents = manifests.contents(head)
        self._generations: dict[int, int] = {}

    @classmethod
    def open(cls, manifests: Manifests, files: Files, at: At | None = None) -> Snapshot:
        """Resolve `at` to one generation.

        Raises NotFound for a generation that never was or was collected, and
        NotYet for something that has not happened yet.
        """
        match at:
            case None | Current():
                return cls(manifests, files, manifests.head())
            case Generation(number):
                return cls(manifests, files, _numbered(manifests, number))
            case AsOf(time):
                return _as_of(manifests, files, time)
            case AsOfRow():
                return _as_of_row(manifests, files, at)

    def refresh(self) -> Snapshot:
        """The newest generation; itself if that has not changed."""
        head = self._manifests.head()
        if head.generation == self.generation:
            return self
        return Snapshot(self._manifests, self.files, head)

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
                lambda head: head.manifest.position >= position, self._manifests.kept(), self.head
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
        """Rows of a table without history, by their keys. Those that are not there are left out."""
        assert table.history is None
        versions = look_up_many(self.files, self.manifest(table).recent(), table, keys)
        return {key: row for key, (_, row) in versions.items() if row is not None}

    def versioned(self, table: Table[R], key: Key, *, history: bool = True) -> Versioned[R]:
        """A row with its version; (0, None) if it never was."""
        manifest = self.manifest(table)
        if not history:
            return look_up(self.files, manifest.recent(), table, key)
        return look_up(self.files, manifest.recent(), table, key, manifest.history_since)

    def rows(self, table: Table[R], *shard: Any) -> list[R]:
        """The rows of one shard key, or of a longer part of keys, in their order."""
        versioned = self.rows_versioned(table, shard)
        return [row for key in sorted(versioned) if (row := versioned[key][1]) is not None]

    def rows_versioned(
        self, table: Table[R], shard: Key, *, history: bool = True
    ) -> dict[Key, Versioned[R]]:
        """The rows of one shard key with their versions; None for those deleted."""
        best: dict[Key, Versioned[R]] = {}
        manifest = self.manifest(table)
        refs = manifest.files() if history else manifest.recent()
        for batch in slices(self.files, refs, table, shard):
            start, end = prefix_range(batch, table.key, shard)
            keep_newest(best, table.versioned(batch.slice(start, end - start)))
        return best

    def columns(self, table: Table[Any], shard: str, names: Sequence[str]) -> pa.Table:
        """Some columns of the rows of one shard key that have not left for history."""
        chosen = list(dict.fromkeys([*table.key, *names, "row_version", "_deleted", "_bucket"]))
        parts = [
            batch.filter(pc.equal(batch.column(table.key[0]), shard)).select(chosen)
            for batch in slices(self.files, self.manifest(table).recent(), table, (shard,))
        ]
        if not parts:
            return table.schema.empty_table().select(chosen)
        return latest(parts, table.key, keep_deleted=False)

    def scan(self, table: Table[Any]) -> pa.Table:
        """All rows of a table, with their versions, in file order."""
        return scan(self.files, self.manifest(table), table)

    def since(self, table: Table[R], position: int) -> Iterator[tuple[Key, R]]:
        """The rows that changed after a position and are still there, each once.

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
        """Rows whose time, by which they leave for history, is not before `since`.

        Of history only the files of those days are read.
        """
        assert table.history is not None
        column = table.history.column
        manifest = self.manifest(table)
        old = [ref for ref in manifest.history if ref.days and ref.days[1] >= since.date()]
        rows = table.rows_of(_live(self.files, table, (*manifest.recent(), *old)))
        return [row for row in rows if (getattr(row, column) or since) >= since]

    def hot(self, table: Table[R]) -> list[R]:
        """All rows that have not left for history: what this costs does not grow with it."""
        return list(table.rows_of(_live(self.files, table, self.manifest(table).recent())))


def scan(files: Files, manifest: TableFiles, table: Table[Any]) -> pa.Table:
    """The live rows of a table: for each key the newest, tombstones left out."""
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
    raise NotFound(f"generation {number} was collected", hint=_oldest(manifests.kept()))


def _as_of(manifests: Manifests, files: Files, time: datetime) -> Snapshot:
    head = manifests.head()
    if head.manifest.published_at <= time:
        return Snapshot(manifests, files, head)
    kept = manifests.kept()
    after, before = manifests.first_where(lambda h: h.manifest.published_at > time, kept, head)
    assert after is not None
    if before == 0 and after.generation > 1:
        raise NotFound(
            f"history before {after.manifest.published_at} was collected", hint=_oldest(kept)
        )
    snapshot = Snapshot(manifests, files, manifests.read(before))
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


def _oldest(kept: Floor) -> str:
    oldest = min((*kept.thinned_numbers(), kept.generation))
    if oldest == kept.generation:
        return f"the oldest that is kept is {oldest}"
    return (
        f"all from {kept.generation} on are kept, and {len(kept.thinned)} older ones, from {oldest}"
    )


def _as_of_row(manifests: Manifests, files: Files, at: AsOfRow[Any]) -> Snapshot:
    def holds(head: Head) -> bool:
        row = Snapshot(manifests, files, head).get(at.table, *at.key)
        return row is not None and at.holds(row)

    kept = manifests.kept()
    first, before = manifests.first_where(holds, kept, manifests.head())
    if first is None:
        raise NotYet(f"not yet: {at.what}", retry_after_s=1.0)
    if first.generation - before > 1:
        raise NotFound(
            f"the generation of this was collected: {at.what}",
            hint=f"generation {first.generation} is the first after it that is kept",
        )
    return Snapshot(manifests, files, first)
