"""The content of a generation: the files of its tables, looked up when needed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from arco.log.head import Head, Manifests
from arco.log.manifest import ColumnSpec, DomainManifest, FileRef, HistoryRef, TableManifest


class TableFiles:
    """The files of a table at a generation. The list of history files is read when needed."""

    __slots__ = (
        "_history",
        "_last_buckets",
        "_load",
        "base",
        "columns",
        "history_ref",
        "key",
        "l0",
        "merges",
        "shard",
    )

    def __init__(
        self,
        columns: tuple[ColumnSpec, ...],
        key: tuple[str, ...],
        shard: int,
        base: tuple[FileRef, ...] = (),
        l0: tuple[FileRef, ...] = (),
        history: tuple[FileRef, ...] = (),
        *,
        merges: int = 0,
        history_ref: HistoryRef | None = None,
        load: Callable[[HistoryRef], tuple[FileRef, ...]] | None = None,
    ) -> None:
        self.columns = columns
        self.key = key
        self.shard = shard
        self.base = base
        self.l0 = l0
        self.merges = merges
        """How often L0 files went into the base."""
        self.history_ref = history_ref
        """Where the list of history files is stored; None if there are none, or it is not yet."""
        self._history: tuple[FileRef, ...] | None = None if history_ref and load else history
        self._load = load
        self._last_buckets: list[int] | None = None
        """Of the files of the base, which have no bucket in common and are in their order."""

    @property
    def history(self) -> tuple[FileRef, ...]:
        if self._history is None:
            assert self.history_ref is not None and self._load is not None
            self._history = self._load(self.history_ref)
        return self._history

    @property
    def has_history(self) -> bool:
        return self.history_ref is not None or bool(self._history)

    def recent(self) -> tuple[FileRef, ...]:
        """All files but history: what folds read."""
        return self.base + self.l0

    def recent_with(self, bucket: int) -> tuple[FileRef, ...]:
        """Those of the same that may hold a bucket. In the base that is one file at most."""
        if self._last_buckets is None:
            self._last_buckets = [ref.buckets[1] for ref in self.base]
        at = bisect_left(self._last_buckets, bucket)
        base = tuple(ref for ref in self.base[at : at + 1] if ref.buckets[0] <= bucket)
        if not self.l0:
            return base
        return base + tuple(r for r in self.l0 if r.buckets[0] <= bucket <= r.buckets[1])

    def files(self) -> tuple[FileRef, ...]:
        return self.base + self.l0 + self.history

    def history_since(self, version: int) -> tuple[FileRef, ...]:
        """The history files that may hold something newer than a version."""
        ref = self.history_ref
        if self._history is None and ref is not None and ref.versions[1] <= version:
            return ()
        return tuple(file for file in self.history if file.versions[1] > version)

    def history_with(self, low: str, high: str) -> tuple[FileRef, ...]:
        """The history files that may hold shard keys between two."""
        ref = self.history_ref
        unread = self._history is None and ref is not None
        if unread and ref is not None and (ref.shard[1] < low or high < ref.shard[0]):
            return ()
        return tuple(f for f in self.history if low <= f.shard[1] and f.shard[0] <= high)

    def with_files(
        self,
        *,
        base: tuple[FileRef, ...] | None = None,
        l0: tuple[FileRef, ...] | None = None,
        history: tuple[FileRef, ...] | None = None,
        merged: bool = False,
    ) -> TableFiles:
        """The same table with other files; what is not given stays."""
        changed = TableFiles(
            self.columns,
            self.key,
            self.shard,
            self.base if base is None else base,
            self.l0 if l0 is None else l0,
            () if history is None else history,
            merges=self.merges + merged,
            history_ref=self.history_ref if history is None else None,
            load=self._load,
        )
        if history is None:
            changed._history = self._history
        return changed


class GenerationTables:
    """The tables of one generation. A domain's manifest is read when one of its tables is."""

    def __init__(self, manifests: Manifests, head: Head) -> None:
        self._manifests = manifests
        self.head = head
        self._tables: dict[tuple[str, bool], TableFiles] = {}

    def names(self) -> list[str]:
        """Every table that has a file, as `domain.name`."""
        root = self.head.manifest
        names = {f"{d}.{t}" for d in root.domains for t in self._domain(d).tables}
        names.update(root.l0)
        names.update(name for changes in root.changes for name in changes.tables)
        return sorted(names)

    def _domain(self, name: str) -> DomainManifest:
        ref = self.head.manifest.domains.get(name)
        return DomainManifest(name, 0, {}) if ref is None else self._manifests.domain(ref)

    def table(self, name: str, described: TableManifest | None = None) -> TableFiles:
        """The files of a table, `domain.name`; `described` is how this program knows it."""
        at = (name, described is not None)
        files = self._tables.get(at)
        if files is None:
            files = self._tables[at] = self._compose(name, described)
        return files

    def _compose(self, name: str, described: TableManifest | None) -> TableFiles:
        domain, _, table = name.partition(".")
        stored = self._domain(domain).tables.get(table)
        shape = stored or described or TableManifest((), (), 1)
        root = self.head.manifest
        l0 = root.l0.get(name, ())
        l0 += tuple(changes.of(name) for changes in root.changes if name in changes.tables)
        return TableFiles(
            columns_of(described, stored),
            shape.key,
            shape.shard,
            () if stored is None else stored.base,
            l0,
            merges=shape.merges,
            history_ref=None if stored is None else stored.history,
            load=self._manifests.history,
        )

    def tables(self) -> dict[str, TableFiles]:
        return {name: self.table(name) for name in self.names()}


def columns_of(*tables: TableManifest | None) -> tuple[ColumnSpec, ...]:
    """All columns that some of the descriptions have.

    Columns are only ever added; an older program must not take one away.
    """
    specs: Iterable[ColumnSpec] = (c for table in tables if table for c in table.columns)
    return tuple(dict.fromkeys(specs))
