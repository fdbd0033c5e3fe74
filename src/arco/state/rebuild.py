"""Rebuild: fold the log again, beside the live state; compare; publish as one commit.

Either engine may do the folding; both hand back the rebuilt tables, and the rest
is the same. The embedded engine folds in batches over files of its own, so its
memory is bounded too.

What was committed while the rebuild ran stays: L0 files that came since are kept
on top of the rebuilt base. A merge into the base in the meantime is different:
it has dropped tombstones that the rebuilt rows would need. Then the rebuild is
void and has to start again (the compactor stays out of the way while the lease
`merge` is held).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.clock import Clock
from arco.errors import Conflict
from arco.log.commit import Proposal, Publisher, delete_quietly
from arco.log.envelope import EventTypes, Recorded
from arco.log.head import Head
from arco.log.manifest import DomainManifest, FileRef, TableManifest
from arco.state.fold import Chain, Failure, fold
from arco.state.parquet import Files
from arco.state.project import Projected, with_table
from arco.state.replay import Progress, read_log, silent
from arco.state.rewrite import Rewriter, write_file
from arco.state.snapshot import Snapshot, scan
from arco.state.table import Key, Row, Table
from arco.state.warm import Warm
from arco.storage.parallel import each

BATCH = 20_000
L0_FILES = 12

Tables = Mapping[Table[Any], TableManifest]
Engine = Callable[[Snapshot, Progress], "Rebuilt"]


class Rebuilt(NamedTuple):
    tables: Tables
    events: int
    failures: Sequence[Failure]


class Difference(msgspec.Struct, frozen=True):
    """How the rebuilt rows of a table differ from the live ones."""

    table: str
    rows: int
    missing: int
    """Keys that the log gives and the live table has not."""
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


class EmbeddedEngine:
    """Folds the log in this process."""

    def __init__(
        self,
        chain: Chain,
        types: EventTypes,
        files: Files,
        clock: Clock,
        ids: Callable[[], str],
        *,
        batch: int = BATCH,
    ) -> None:
        self._chain = chain
        self._types = types
        self._files = files
        self._clock = clock
        self._ids = ids
        self._batch = batch
        self._rewriter = Rewriter(files, clock, ids)

    def __call__(self, snapshot: Snapshot, progress: Progress) -> Rebuilt:
        domains = {t.domain: DomainManifest(t.domain, 0, {}) for t in self._chain.tables}
        warm = Warm(self._files)
        failures: list[Failure] = []
        events = 0
        log = read_log(snapshot, self._types, progress=progress)
        for batch in _batched(log, self._batch):
            folded = fold(self._chain, warm, batch)
            failures += folded.failures
            events += len(batch)
            projected = Projected(folded.changes, (), self._ids, self._clock.now())
            each(self._files.store, lambda f: self._files.store.put(*f), projected.files)
            domains.update(projected.domains(domains))
            warm.apply(folded.changes, domains, batch[-1].position)
            self._merge(domains, batch[-1].received_at, above=L0_FILES)
            warm.advance(domains, batch[-1].position)
        self._merge(domains, snapshot.head.manifest.log_time, above=0)
        tables = {t: domains[t.domain].tables.get(t.name, t.manifest()) for t in self._chain.tables}
        return Rebuilt(tables, events, failures)

    def _merge(self, domains: dict[str, DomainManifest], log_time: datetime, *, above: int) -> None:
        """Merge tables with more L0 files than `above`, and remove what that replaces."""
        for table in self._chain.tables:
            manifest = domains[table.domain].tables.get(table.name)
            if manifest is None or len(manifest.l0) <= above:
                continue
            swap = self._rewriter.into_base(table, manifest, manifest.l0, log_time)
            merged = swap.apply(manifest)
            assert merged is not None
            domains[table.domain] = with_table(domains[table.domain], table.name, merged)
            delete_quietly(self._files.store, swap.removed)


def _batched(log: Iterator[Recorded], size: int) -> Iterator[list[Recorded]]:
    while batch := list(itertools.islice(log, size)):
        yield batch


class Rebuilder:
    def __init__(
        self, publisher: Publisher, files: Files, clock: Clock, ids: Callable[[], str]
    ) -> None:
        self._publisher = publisher
        self._files = files
        self._clock = clock
        self._ids = ids

    def rebuild(
        self, snapshot: Snapshot, engine: Engine, *, publish: bool, progress: Progress = silent
    ) -> Rebuild:
        """Fold the log up to `snapshot` again; compare; publish if asked and if different."""
        began = self._publisher.begin()
        rebuilt = engine(snapshot, progress)
        differences = []
        for done, (table, manifest) in enumerate(rebuilt.tables.items(), 1):
            differences.append(compare(self._files, table, snapshot.manifest(table), manifest))
            progress("comparing", done, len(rebuilt.tables))
        published = None
        if publish and any(not difference.same for difference in differences):
            head = self._publisher.publish(
                lambda head: self._propose(head, snapshot, rebuilt.tables), began
            )
            published = None if head is None else head.generation
        else:
            for manifest in rebuilt.tables.values():
                delete_quietly(self._files.store, [ref.path for ref in manifest.files()])
        return Rebuild(
            snapshot.generation,
            rebuilt.events,
            differences,
            [f"{f.stage} at {f.position} ({f.type}): {f.error}" for f in rebuilt.failures],
            published,
        )

    def _propose(self, head: Head, snapshot: Snapshot, tables: Tables) -> Proposal:
        domains = dict(self._publisher.manifests.domains(head))
        for table, rebuilt in tables.items():
            domain = domains.get(table.domain, DomainManifest(table.domain, 0, {}))
            live = domain.tables.get(table.name, table.manifest())
            since = self._committed_since(table, snapshot.manifest(table), live, snapshot.position)
            described = table.manifest()
            fresh = msgspec.structs.replace(
                described, base=rebuilt.base, l0=rebuilt.l0 + since, history=rebuilt.history
            )
            domains[table.domain] = with_table(domain, table.name, fresh)
        return Proposal(
            kind="rebuild",
            domains=domains,
            position=head.manifest.position,
            log_time=head.manifest.log_time,
            pending=head.manifest.pending_cleanup,
        )

    def _committed_since(
        self, table: Table[Any], then: TableManifest, live: TableManifest, position: int
    ) -> tuple[FileRef, ...]:
        """L0 files with what was committed after `position`."""
        known = {ref.path for ref in then.files()}
        if any(ref.path not in known for ref in live.base + live.history):
            raise Conflict(
                f"{table} was merged while the rebuild ran",
                hint="run the rebuild again; pause compactors if it happens again",
            )
        since = []
        for ref in live.l0:
            if ref.versions[0] > position:
                since.append(ref)
            elif ref.versions[1] > position:
                since.append(self._only_after(table, ref, position))
        return tuple(since)

    def _only_after(self, table: Table[Any], ref: FileRef, position: int) -> FileRef:
        rows = self._files.table(ref)
        kept = rows.filter(pc.greater(rows.column("row_version"), position))
        return write_file(self._files, table, kept, "l0", self._ids(), self._clock.now())


def compare(
    files: Files, table: Table[Any], live: TableManifest, rebuilt: TableManifest
) -> Difference:
    """Row for row, versions included."""
    columns = [*table.columns, "row_version"]
    a, b = (_comparable(scan(files, m, table), table, columns) for m in (live, rebuilt))
    if a.equals(b):
        return Difference(str(table), b.num_rows, 0, 0, 0, [])
    left, right = _by_key(table, a), _by_key(table, b)
    missing = sorted(right.keys() - left.keys())
    extra = sorted(left.keys() - right.keys())
    changed = sorted(k for k in left.keys() & right.keys() if left[k] != right[k])
    samples = [f"missing {k}" for k in missing[:3]] + [f"extra {k}" for k in extra[:3]]
    samples += [f"changed {k}: {left[k]} is not {right[k]}" for k in changed[:3]]
    return Difference(str(table), b.num_rows, len(missing), len(extra), len(changed), samples)


def _by_key(table: Table[Any], rows: pa.Table) -> dict[Key, tuple[int, Row]]:
    versions = rows.column("row_version").to_pylist()
    found = zip(versions, table.rows_of(rows), strict=True)
    return {table.key_of(row): (version, row) for version, row in found}


def _comparable(rows: pa.Table, table: Table[Any], columns: list[str]) -> pa.Table:
    for name in columns:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, table.schema.field(name).type))
    schema = pa.schema([table.schema.field(name) for name in columns])
    return rows.select(columns).cast(schema).combine_chunks()
