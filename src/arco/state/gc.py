"""GC: removes what no kept generation refers to. A dry run unless told otherwise.

A generation is kept while it is above the floor, is pinned, or is the head. The
floor rises past generations that stopped being current longer ago than both the
retention and the age gate. Then, in this order:

    1. write the new floor      nobody may open what lies below it from now on
    2. read the pins, then the head again
                                see pins.py for why in this order; a rollback lets go of
                                its pin when what it pinned has become part of the head
    3. mark                     everything that kept generations refer to
    4. sweep                    root manifests, domain manifests, then files

An object is swept only if nothing marked it *and* it is older than the age gate:
what an attempt in flight has written is younger, because attempts give up at a
tenth of the gate. Ages are judged by the store's clock alone, which is measured at
the start; a machine whose clock differs from it does not collect. Segments are the
log: those that the head knows stay for ever. One delete that fails never stops the
others.

Processes that ended without tidying up leave more, which no generation refers to:
records of workers under `liveness/`, which go when they are older than the age gate
(a worker writes its own every few seconds), and messages and claims under `queue/`,
which go when neither the message nor any claim of it was written for a week. If the
message was still wanted after all, the orchestrator sees that it is gone, and sends
it again.

Nothing goes from `data/`, `logs/` and `plans/`: what may go there follows from versions
and runs, and is collected by `arco.execution.collect`, which raises the floor as this does.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from arco.errors import Contended
from arco.log.head import Head, Manifests
from arco.log.manifest import Ref
from arco.log.publish import delete_quietly
from arco.state.parquet import Files
from arco.state.pins import Pins
from arco.state.replay import Progress, segments, silent
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.lease import Leases
from arco.storage.parallel import each
from arco.storage.port import ObjectMeta, Store
from arco.storage.store_clock import StoreClock

LEASE = "gc"
LEASE_TTL = timedelta(minutes=1)


class Retention(msgspec.Struct, frozen=True):
    generations: timedelta = timedelta(days=7)
    """How long a generation stays after another took its place."""
    at_least: int = 10
    """Generations that stay however old they are."""
    rejected: timedelta = timedelta(days=30)
    queue: timedelta = timedelta(days=7)
    """How long a message stays in the queue that nobody has claimed or renewed."""


class Doomed(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    why: str


class GcReport(msgspec.Struct, frozen=True):
    dry_run: bool
    floor: int
    head: int
    kept_generations: int
    doomed: list[Doomed]
    failed: int

    @property
    def bytes(self) -> int:
        return sum(d.bytes for d in self.doomed)


class Collector:
    def __init__(
        self,
        manifests: Manifests,
        files: Files,
        pins: Pins,
        store_clock: StoreClock,
        leases: Leases,
    ) -> None:
        self._manifests = manifests
        self._leases = leases
        self._store: Store = manifests.store
        self._files = files
        self._pins = pins
        self._store_clock = store_clock

    def collect(
        self,
        retention: Retention | None = None,
        *,
        dry_run: bool = True,
        progress: Progress = silent,
    ) -> GcReport:
        if dry_run:
            return self._collect(retention or Retention(), True, progress)
        # Two at once would only do the same work twice.
        with self._leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                raise Contended("another gc is under way", hint="try again when it has ended")
            return self._collect(retention or Retention(), False, hold.keeping(progress))

    def _collect(self, retention: Retention, dry_run: bool, progress: Progress) -> GcReport:
        head = self._manifests.head()
        if head.generation == 0:
            return GcReport(dry_run, 0, 0, 0, [], 0)
        # A dry run decides nothing, and must write nothing.
        now = self._store_clock.estimate() if dry_run else self._store_clock.measure()
        floor = wanted_floor(self._manifests, head, retention, now)
        if not dry_run:
            self._manifests.raise_floor(floor)
        pinned = {pin.generation for pin in self._pins.active(now)}
        head = self._manifests.head()
        kept = self._kept({*range(floor, head.generation + 1)} | pinned, progress)
        marked = self._mark(kept, head, progress)
        doomed = list(self._sweepable(marked, retention, now))
        failed = 0
        if not dry_run:
            failed = self._sweep(doomed, progress)
        return GcReport(dry_run, floor, head.generation, len(kept), doomed, failed)

    def _kept(self, numbers: set[int], progress: Progress) -> list[Head]:
        found: list[Head] = []
        wanted = sorted(numbers)
        for start in range(0, len(wanted), 256):
            part = wanted[start : start + 256]
            found += [h for h in each(self._store, self._manifests.find, part) if h is not None]
            progress("reading kept generations", min(start + 256, len(wanted)), len(wanted))
        return found

    def _mark(self, kept: list[Head], head: Head, progress: Progress) -> set[str]:
        marked: set[str] = set()
        refs = {}
        for generation in kept:
            marked.add(paths.root(generation.generation))
            refs.update({ref.path: ref for ref in generation.manifest.domains.values()})
            if generation.manifest.segment is not None:
                marked.add(generation.manifest.segment.path)
        todo = list(refs.values())
        for start in range(0, len(todo), 256):
            for found in each(self._store, self._files_of, todo[start : start + 256]):
                marked |= found
            progress("marking what they refer to", min(start + 256, len(todo)), len(todo))
        snapshot = Snapshot(self._manifests, self._files, head)
        marked.update(row.path for row in segments(snapshot))
        return marked

    def _files_of(self, ref: Ref) -> set[str]:
        tables = self._manifests.domain(ref).tables.values()
        return {ref.path, *(file.path for table in tables for file in table.files())}

    def _sweepable(self, marked: set[str], retention: Retention, now: datetime) -> Iterator[Doomed]:
        limit = now - self._manifests.age_gate
        for meta in self._old(paths.MANIFESTS, limit):
            if meta.path in marked or meta.path == paths.HINT:
                continue
            if not meta.path.startswith((paths.PINS, paths.FLOORS)):
                why = "generation" if paths.root_generation(meta.path) else "domain manifest"
                yield Doomed(meta.path, meta.size, why)
        for prefix, why in ((paths.STATE, "table file"), (paths.SEGMENTS, "abandoned segment")):
            for meta in self._old(prefix, limit):
                if meta.path not in marked:
                    yield Doomed(meta.path, meta.size, why)
        yield from self._rejected(now - retention.rejected)
        for meta in self._old(paths.LIVENESS, limit):
            if meta.path.endswith(".json"):
                yield Doomed(meta.path, meta.size, "worker record")
        yield from self._queued(now - retention.queue)

    def _rejected(self, limit: datetime) -> Iterator[Doomed]:
        """Rejected objects with their records; a copy may be as old as its original."""
        listed = {meta.path: meta for meta in self._store.list(paths.REJECTED)}
        for path, record in listed.items():
            if path.endswith(".json") and record.last_modified < limit:
                yield Doomed(path, record.size, "rejection")
                copy = listed.get(path.removesuffix(".json") + ".object")
                if copy is not None:
                    yield Doomed(copy.path, copy.size, "rejected object")

    def _queued(self, limit: datetime) -> Iterator[Doomed]:
        """Messages with their claims: one that was renewed keeps its message, however old."""
        found: dict[str, list[ObjectMeta]] = {}
        for meta in self._store.list(paths.QUEUE):
            name = posixpath.basename(meta.path).partition(".")[0]
            found.setdefault(name, []).append(meta)
        for those in found.values():
            if all(meta.last_modified < limit for meta in those):
                # The message is listed last, and goes first: without claims, it would be taken.
                for meta in reversed(those):
                    yield Doomed(meta.path, meta.size, "queue leftover")

    def _old(self, prefix: str, limit: datetime) -> Iterator[ObjectMeta]:
        return (meta for meta in self._store.list(prefix) if meta.last_modified < limit)

    def _sweep(self, doomed: Iterable[Doomed], progress: Progress) -> int:
        todo = [d.path for d in doomed]
        failed = 0
        for start in range(0, len(todo), 256):
            failed += delete_quietly(self._store, todo[start : start + 256])
            progress("deleting", min(start + 256, len(todo)), len(todo))
        return failed


def wanted_floor(manifests: Manifests, head: Head, retention: Retention, now: datetime) -> int:
    """The lowest generation to keep: it was current as long ago as generations are kept."""
    current = manifests.floor()
    cutoff = now - max(retention.generations, manifests.age_gate)
    newer = manifests.first_where(lambda h: h.manifest.published_at > cutoff, current, head)
    # The generation before the first newer one was current at the cutoff.
    wanted = head.generation if newer is None else newer.generation - 1
    return max(current, min(wanted, head.generation - retention.at_least), 1)
