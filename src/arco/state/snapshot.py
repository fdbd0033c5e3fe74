"""Snapshots: one generation, read without ever seeing another.

A snapshot is a root manifest. Everything it refers to is immutable, so what was
read once is kept, also across snapshots: opening the next generation reads only
the files that are new in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.errors import NotFound, NotYet
from arco.log.head import Head, Manifests
from arco.log.manifest import DomainManifest, FileRef, TableManifest
from arco.state.lookup import look_up, slices
from arco.state.parquet import Files
from arco.state.runs import latest, prefix_range
from arco.state.table import Key, Row, Table, Versioned

R = TypeVar("R", bound=Row)


class Current(msgspec.Struct, frozen=True):
    """The newest generation."""


class Generation(msgspec.Struct, frozen=True):
    number: int


class AsOf(msgspec.Struct, frozen=True):
    """The generation that was current at a time (UTC, without a zone)."""

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
        self.domains: dict[str, DomainManifest] = manifests.domains(head)

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
                return cls(manifests, files, _as_of(manifests, time))
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

    def tables(self) -> dict[str, TableManifest]:
        """Every table by its name, `domain.table`."""
        return {
            f"{domain}.{name}": table
            for domain, manifest in sorted(self.domains.items())
            for name, table in sorted(manifest.tables.items())
        }

    def manifest(self, table: Table[Any]) -> TableManifest:
        domain = self.domains.get(table.domain)
        found = None if domain is None else domain.tables.get(table.name)
        return table.manifest() if found is None else found

    def get(self, table: Table[R], *key: Any) -> R | None:
        """One row by its key, reading only the row groups that may hold it."""
        return self.versioned(table, key)[1]

    def versioned(self, table: Table[R], key: Key, *, history: bool = True) -> Versioned[R]:
        """A row with its version; (0, None) if it never was."""
        return look_up(self.files, self._refs(table, history), table, key)

    def rows(self, table: Table[R], *shard: Any) -> list[R]:
        """The rows of one shard key, or of a longer part of keys, in their order."""
        found = self.rows_versioned(table, shard)
        return [row for key in sorted(found) if (row := found[key][1]) is not None]

    def rows_versioned(
        self, table: Table[R], shard: Key, *, history: bool = True
    ) -> dict[Key, Versioned[R]]:
        """The rows of one shard key with their versions; None for those deleted."""
        best: dict[Key, Versioned[R]] = {}
        for batch in slices(self.files, self._refs(table, history), table, shard):
            start, end = prefix_range(batch, table.key, shard)
            for key, found in table.versioned(batch.slice(start, end - start)).items():
                if key not in best or best[key][0] < found[0]:
                    best[key] = found
        return best

    def _refs(self, table: Table[Any], history: bool) -> tuple[FileRef, ...]:
        manifest = self.manifest(table)
        return manifest.files() if history else manifest.base + manifest.l0

    def scan(self, table: Table[Any]) -> pa.Table:
        """All rows of a table, with their versions, in file order."""
        return scan(self.files, self.manifest(table), table)

    def since(self, table: Table[R], position: int) -> Iterator[tuple[Key, R]]:
        """The rows that changed after a position and are still there, each once.

        Reads only files that hold something newer. Rows that were deleted since do not
        show.
        """
        manifest = self.manifest(table)
        newest: dict[Key, Versioned[R]] = {}
        for ref in manifest.files():
            if ref.versions[1] <= position:
                continue
            for batch in self.files.batches(ref):
                newer = batch.filter(pc.greater(batch.column("row_version"), position))
                for key, found in table.versioned(newer).items():
                    if key not in newest or newest[key][0] < found[0]:
                        newest[key] = found
        for key, (_, row) in newest.items():
            if row is not None:
                yield key, row

    def all(self, table: Table[R]) -> list[R]:
        return list(table.rows_of(self.scan(table)))

    def recent(self, table: Table[R], since: datetime) -> list[R]:
        """Rows whose time, by which they leave for history, is not before `since`.

        Of history only the files of those days are read.
        """
        assert table.history is not None
        column = table.history.column
        manifest = self.manifest(table)
        old = [ref for ref in manifest.history if ref.day is not None and ref.day >= since.date()]
        parts = [self.files.table(ref) for ref in (*manifest.base, *manifest.l0, *old)]
        rows = table.rows_of(latest(parts, table.key, keep_deleted=False)) if parts else ()
        return [row for row in rows if (getattr(row, column) or since) >= since]

    def hot(self, table: Table[R]) -> list[R]:
        """All rows that have not left for history: what this costs does not grow with it."""
        manifest = self.manifest(table)
        parts = [self.files.table(ref) for ref in manifest.base + manifest.l0]
        return list(table.rows_of(latest(parts, table.key, keep_deleted=False))) if parts else []


def scan(files: Files, manifest: TableManifest, table: Table[Any]) -> pa.Table:
    """The live rows of a table: for each key the newest, tombstones left out."""
    parts = [files.table(ref) for ref in manifest.files()]
    if not parts:
        return table.schema.empty_table()
    return latest(parts, table.key, keep_deleted=False)


def _numbered(manifests: Manifests, number: int) -> Head:
    found = manifests.find(number) if number >= 0 else None
    if found is not None:
        return found
    head = manifests.head()
    if number > head.generation:
        raise NotYet(f"generation {number} does not exist yet; the newest is {head.generation}")
    raise NotFound(
        f"generation {number} was collected",
        hint=f"the oldest that is kept is {manifests.floor()}",
    )


def _as_of(manifests: Manifests, time: datetime) -> Head:
    head = manifests.head()
    if head.manifest.published_at <= time:
        return head
    floor = manifests.floor()
    after = manifests.first_where(lambda h: h.manifest.published_at > time, floor, head)
    assert after is not None
    if after.generation == floor and floor > 1:
        raise NotFound(
            f"history before {after.manifest.published_at} was collected",
            hint=f"the oldest generation that is kept is {floor}",
        )
    return manifests.read(after.generation - 1)


def _as_of_row(manifests: Manifests, files: Files, at: AsOfRow[Any]) -> Snapshot:
    def holds(head: Head) -> bool:
        row = Snapshot(manifests, files, head).get(at.table, *at.key)
        return row is not None and at.holds(row)

    floor = manifests.floor()
    found = manifests.first_where(holds, floor, manifests.head())
    if found is None:
        raise NotYet(f"not yet: {at.what}", retry_after_s=1.0)
    if found.generation == floor > 1:
        raise NotFound(
            f"the generation of this was collected: {at.what}",
            hint=f"it held at the oldest generation that is kept already, {floor}",
        )
    return Snapshot(manifests, files, found)
