"""Rebuild: fold the log again, beside the live state; compare; publish as one commit.

Both engines fold and return the rebuilt tables; the rest is the same. The embedded engine folds in
batches over its own files, so its memory is bounded too.

Commits during the rebuild are kept: their L0 files stay on top of the rebuilt base. A merge into
the base in the meantime drops tombstones that the rebuilt rows would need: then the rebuild is void
and has to start again. A rebuild that is to be published holds the lease that merges hold, so that
this is rare.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pyarrow.compute as pc

from arco.errors import Conflict, Contended
from arco.log.cleanup import delete_quietly
from arco.log.commit import publish
from arco.log.contents import GenerationTables, TableFiles
from arco.log.envelope import Recorded
from arco.log.head import Head
from arco.log.manifest import FileRef
from arco.log.projection import AddedFiles, write_files
from arco.log.publish import Proposal, Publisher, left_to_delete
from arco.state.core import Core
from arco.state.diff import diff_rows
from arco.state.fold import Chain, FoldFailure, fold
from arco.state.merge import LEASE
from arco.state.parquet import Files
from arco.state.projector import Projected
from arco.state.replay import ReportProgress, read_log, silent
from arco.state.rewrite import Rewriter, only_grew, write_file
from arco.state.snapshot import Snapshot, scan
from arco.state.table import Table
from arco.state.warm import Warm

BATCH = 20_000
LEASE_TTL = timedelta(minutes=10)
"""A stage of a large log on Spark may take minutes without progress."""
L0_FILES = 12

RebuiltTables = Mapping[Table[Any], TableFiles]
RebuildEngine = Callable[[Snapshot, ReportProgress], "Rebuilt"]


class Rebuilt(NamedTuple):
    tables: RebuiltTables
    events: int
    failures: Sequence[FoldFailure]


class Difference(msgspec.Struct, frozen=True):
    """How the rebuilt rows of a table differ from the live ones."""

    table: str
    rows: int
    missing: int
    """Keys that the rebuild has and the live table lacks."""
    extra: int
    changed: int
    samples: list[str]

    @property
    def same(self) -> bool:
        return not (self.missing or self.extra or self.changed)


class Rebuild(msgspec.Struct, frozen=True):
    generation: int
    """The generation that was rebuilt."""
    events: int
    differences: list[Difference]
    failures: list[str]
    published: int | None
    """The generation that holds the rebuilt state, if it was published."""

    @property
    def same(self) -> bool:
        return all(difference.same for difference in self.differences)


class EmbeddedRebuildEngine:
    """Folds the log in this process."""

    def __init__(self, core: Core, chain: Chain, *, batch: int = BATCH) -> None:
        self._core = core
        self._chain = chain
        self._files = core.files
        self._batch = batch
        self._rewriter = Rewriter(core)

    def __call__(self, snapshot: Snapshot, progress: ReportProgress) -> Rebuilt:
        tables = _Rebuilding(self._chain.tables)
        warm = Warm(self._files)
        failures: list[FoldFailure] = []
        events = 0
        log = read_log(snapshot, self._core.types, progress=progress)
        for batch in _batched(log, self._batch):
            folded = fold(self._chain, warm, batch)
            failures += folded.failures
            events += len(batch)
            projected = Projected(self._core, folded.changes, (), self._core.clock.now())
            tables.add(projected.table_changes, write_files(self._core, projected.files))
            warm.apply(folded.changes, tables.frozen(), batch[-1].position)
            self._merge(tables, batch[-1].received_at, above=L0_FILES)
            warm.advance(tables.frozen(), batch[-1].position)
        self._merge(tables, snapshot.head.manifest.log_time, above=0)
        delete_quietly(self._files.store, tables.change_files)
        return Rebuilt({t: tables.table(str(t)) for t in self._chain.tables}, events, failures)

    def _merge(self, tables: _Rebuilding, log_time: datetime, *, above: int) -> None:
        """Merge tables with more L0 files than `above`, and remove the replaced files."""
        for table in self._chain.tables:
            files = tables.table(str(table))
            if len(files.l0) <= above:
                continue
            swap = self._rewriter.into_base(table, files, files.l0, log_time)
            merged = swap.apply(files)
            assert merged is not None
            tables.set(str(table), merged)
            obsolete = (swap.removed | swap.removed_history) - tables.change_files
            delete_quietly(self._files.store, obsolete)


class _Rebuilding:
    """The files of every table during a rebuild."""

    def __init__(self, tables: Iterable[Table[Any]]) -> None:
        self._tables = {str(table): table.no_files() for table in tables}
        self.change_files: set[str] = set()
        """Each holds rows of several tables, and is deleted at the end."""

    def table(self, name: str) -> TableFiles:
        return self._tables[name]

    def set(self, name: str, files: TableFiles) -> None:
        self._tables[name] = files

    def add(self, tables: Iterable[Table[Any]], added: AddedFiles) -> None:
        """Files with changed rows of some tables."""
        self.change_files.update(ref.path for ref in added.changes)
        for name in map(str, tables):
            files = self._tables[name]
            self._tables[name] = files.with_files(l0=(*files.l0, added.ref(name)))

    def frozen(self) -> _Rebuilding:
        """A copy of the current state, for a comparison."""
        copy = _Rebuilding(())
        copy._tables = dict(self._tables)
        return copy


def _batched(log: Iterator[Recorded], size: int) -> Iterator[list[Recorded]]:
    while batch := list(itertools.islice(log, size)):
        yield batch


def _has_files(table: TableFiles) -> bool:
    return bool(table.base or table.l0)


class Rebuilder:
    def __init__(self, core: Core, publisher: Publisher, retired: Sequence[str] = ()) -> None:
        """`retired`: tables of older versions, which a rebuild leaves out."""
        self._core = core
        self._files = core.files
        self._publisher = publisher
        self._retired = retired

    def rebuild(
        self,
        snapshot: Snapshot,
        engine: RebuildEngine,
        *,
        publish: bool,
        progress: ReportProgress = silent,
    ) -> Rebuild:
        """Fold the log up to `snapshot` again; compare; publish if requested and different."""
        if not publish:
            return self._rebuild(snapshot, engine, False, progress)
        with self._core.leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                raise Contended(
                    "a merge or another rebuild is running", hint="try again when it has ended"
                )
            return self._rebuild(snapshot.refresh(), engine, True, hold.keeping(progress))

    def _rebuild(
        self, snapshot: Snapshot, engine: RebuildEngine, publishing: bool, progress: ReportProgress
    ) -> Rebuild:
        publication = self._publisher.begin()
        rebuilt = engine(snapshot, progress)
        differences = []
        for done, (table, manifest) in enumerate(rebuilt.tables.items(), 1):
            differences.append(compare(self._files, table, snapshot.manifest(table), manifest))
            progress("comparing", done, len(rebuilt.tables))
        published = None
        is_old = any(_has_files(snapshot.contents.table(name)) for name in self._retired)
        if publishing and (is_old or any(not difference.same for difference in differences)):
            head = publish(publication, lambda head: self._propose(head, snapshot, rebuilt.tables))
            published = None if head is None else head.generation
        else:
            for manifest in rebuilt.tables.values():
                delete_quietly(self._files.store, [ref.path for ref in manifest.files()])
        failures = [f"{f.stage} at {f.position} ({f.type}): {f.error}" for f in rebuilt.failures]
        return Rebuild(snapshot.generation, rebuilt.events, differences, failures, published)

    def _propose(self, head: Head, snapshot: Snapshot, tables: RebuiltTables) -> Proposal:
        self._check_only_grew(snapshot.generation, head)
        manifests = self._core.manifests
        live = GenerationTables(manifests, head)
        fresh: dict[str, TableFiles] = {}
        l0 = dict(head.manifest.l0)
        for table, rebuilt in tables.items():
            name = str(table)
            files = live.table(name, table.manifest())
            since = self._committed_since(table, snapshot.manifest(table), files, snapshot.position)
            fresh[name] = table.no_files().with_files(base=rebuilt.base, history=rebuilt.history)
            l0[name] = rebuilt.l0 + since
        for name in self._retired:
            l0.pop(name, None)
            if (files := live.table(name)).base:
                fresh[name] = files.with_files(base=(), l0=(), history=())
        own = {*map(str, tables), *self._retired}
        changes = []
        for ref in head.manifest.changes:
            remaining = {
                name: at
                for name, at in ref.tables.items()
                if name not in own or ref.versions[0] > snapshot.position
            }
            if remaining:
                changes.append(msgspec.structs.replace(ref, tables=remaining))
        return Proposal(
            kind="rebuild",
            changes=tuple(changes),
            l0={name: refs for name, refs in l0.items() if refs},
            tables=fresh,
            position=head.manifest.position,
            log_time=head.manifest.log_time,
            pending=left_to_delete(head),
        )

    def _check_only_grew(self, since: int, head: Head) -> None:
        """Raise Conflict if a rollback, or another rebuild, was published in between."""
        if self._core.manifests.rewritten(since, head):
            raise Conflict(
                f"generation {head.manifest.rewritten_at} is a rollback or a rebuild: the "
                "rebuilt state is out of date",
                hint="run the rebuild again",
            )

    def _committed_since(
        self, table: Table[Any], earlier: TableFiles, live: TableFiles, position: int
    ) -> tuple[FileRef, ...]:
        """L0 files of the table's own with what was committed after `position`.

        Change files with only newer rows are not included.
        """
        if not only_grew(earlier, live):
            raise Conflict(
                f"{table} was merged while the rebuild ran",
                hint="run the rebuild again; pause compactors if it happens again",
            )
        since = []
        for ref in live.l0:
            if ref.versions[0] > position:
                if not ref.table:
                    since.append(ref)
            elif ref.versions[1] > position:
                newer = self._only_after(table, ref, position)
                if newer is not None:
                    since.append(newer)
        return tuple(since)

    def _only_after(self, table: Table[Any], ref: FileRef, position: int) -> FileRef | None:
        rows = self._files.table(table, ref)
        newer = rows.filter(pc.greater(rows.column("row_version"), position))
        if newer.num_rows == 0:
            return None
        return write_file(self._files, table, newer, "l0", self._core.ids(), self._core.clock.now())


def compare(files: Files, table: Table[Any], live: TableFiles, rebuilt: TableFiles) -> Difference:
    """Row for row, versions included."""
    after = scan(files, rebuilt, table)
    difference = diff_rows(table, scan(files, live, table), after, versions=True)
    samples = [f"missing {key}" for key in difference.added[:3]]
    samples += [f"extra {key}" for key in difference.removed[:3]]
    samples += [
        f"changed {key}: {difference.before[key]} is not {difference.after[key]}"
        for key in difference.changed[:3]
    ]
    return Difference(
        str(table),
        after.num_rows,
        len(difference.added),
        len(difference.removed),
        len(difference.changed),
        samples,
    )
