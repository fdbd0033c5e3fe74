"""Rebuild: fold the log again, beside the live state; compare; publish as one commit.

Either engine may do the folding; both hand back the rebuilt tables, and the rest
is the same. The embedded engine folds in batches over files of its own, so its
memory is bounded too.

What was committed while the rebuild ran stays: L0 files that came since are kept
on top of the rebuilt base. A merge into the base in the meantime is different:
it has dropped tombstones that the rebuilt rows would need. Then the rebuild is
void and has to start again. A rebuild that is to be published holds the lease
that merges hold, so that this is rare.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pyarrow.compute as pc

from arco.clock import Clock
from arco.errors import Conflict, Contended
from arco.log.envelope import EventTypes, Recorded
from arco.log.head import Head
from arco.log.manifest import DomainManifest, FileRef, TableManifest
from arco.log.publish import Proposal, Publisher, delete_quietly
from arco.state.diff import diff_rows
from arco.state.fold import Chain, Failure, fold
from arco.state.merge import LEASE
from arco.state.parquet import Files
from arco.state.project import Projected, with_table
from arco.state.replay import Progress, read_log, silent
from arco.state.rewrite import Rewriter, only_grew, write_file
from arco.state.snapshot import Snapshot, scan
from arco.state.table import Table
from arco.state.warm import Warm
from arco.storage.lease import Leases
from arco.storage.own import put_own
from arco.storage.parallel import each

BATCH = 20_000
LEASE_TTL = timedelta(minutes=10)
"""A stage of a large log on Spark may take minutes without a sign of progress."""
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
            each(
                self._files.store, lambda make: put_own(self._files.store, *make()), projected.files
            )
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
        self,
        publisher: Publisher,
        files: Files,
        clock: Clock,
        ids: Callable[[], str],
        leases: Leases,
    ) -> None:
        self._publisher = publisher
        self._leases = leases
        self._files = files
        self._clock = clock
        self._ids = ids

    def rebuild(
        self, snapshot: Snapshot, engine: Engine, *, publish: bool, progress: Progress = silent
    ) -> Rebuild:
        """Fold the log up to `snapshot` again; compare; publish if asked and if different."""
        if not publish:
            return self._rebuild(snapshot, engine, False, progress)
        with self._leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                raise Contended("a merge or another rebuild is under way", hint="try again soon")
            return self._rebuild(snapshot.refresh(), engine, True, hold.keeping(progress))

    def _rebuild(
        self, snapshot: Snapshot, engine: Engine, publish: bool, progress: Progress
    ) -> Rebuild:
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
        failures = [f"{f.stage} at {f.position} ({f.type}): {f.error}" for f in rebuilt.failures]
        return Rebuild(snapshot.generation, rebuilt.events, differences, failures, published)

    def _propose(self, head: Head, snapshot: Snapshot, tables: Tables) -> Proposal:
        self._check_only_grew(snapshot.generation, head.generation)
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

    def _check_only_grew(self, since: int, until: int) -> None:
        """Raise Conflict if a rollback, or another rebuild, was published in between."""
        for generation in range(since + 1, until + 1):
            kind = self._publisher.manifests.read(generation).manifest.kind
            if kind not in ("events", "merge"):
                raise Conflict(
                    f"generation {generation} is a {kind}: what was rebuilt counts no more",
                    hint="run the rebuild again",
                )

    def _committed_since(
        self, table: Table[Any], then: TableManifest, live: TableManifest, position: int
    ) -> tuple[FileRef, ...]:
        """L0 files with what was committed after `position`."""
        if not only_grew(then, live):
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
    after = scan(files, rebuilt, table)
    found = diff_rows(table, scan(files, live, table), after, versions=True)
    samples = [f"missing {key}" for key in found.added[:3]]
    samples += [f"extra {key}" for key in found.removed[:3]]
    samples += [
        f"changed {key}: {found.before[key]} is not {found.after[key]}" for key in found.changed[:3]
    ]
    return Difference(
        str(table),
        after.num_rows,
        len(found.added),
        len(found.removed),
        len(found.changed),
        samples,
    )
