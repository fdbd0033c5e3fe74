"""GC: deletes objects that no kept generation refers to. A dry run by default.

Generations are thinned as they grow old: all of them are kept for a day, then the last one of
each hour, then the last one of each day, and none after that (`GenerationRetention`). The head
is kept, and what is pinned. From the *floor* on all generations are kept; the floor's record
names the thinned ones below it. Then, in this order:

    1. write the new floor      nobody may open what it does not keep from now on
    2. read the pins, then the head again
                                see pins.py for why in this order; a rollback lets go of
                                its pin when what it pinned has become part of the head
    3. mark                     everything that the generations below the floor, the floor's
                                own and the head refer to; marks.py remembers the first
    4. sweep                    root manifests, domain manifests and lists, then files

Of the generations between the floor and the head none is read if there are many. What they refer to
is referred to by the floor's generation or by the head, or it was written for a generation after
the floor's, and is too young to be swept: nothing is swept that is not older than the first of
those by the time that an attempt may take (a tenth of the age gate), nor anything that is younger
than the age gate. Only a rollback or a rebuild brings back files that were unreferenced before:
those generations are read too, and each names the one before it. Ages are judged by the store's
clock alone, which is measured at the start; a machine whose clock differs from it does not collect.

Segments are the log: those of the head stay for ever. One that was joined into another is deleted
when the oldest kept generation is newer than that. One delete that fails never stops the others.

Processes that ended without a cleanup leave other objects: liveness records, which are deleted when
they are older than the age gate (a worker writes its own every few seconds), and messages and
claims under `queue/`, which are deleted when neither the message nor any claim of it was written
for a week. If the message was still needed, the orchestrator notices that it is missing, and
enqueues it again.

Nothing is deleted from `data/`, `logs/` and `plans/`: that depends on versions and runs, and is
done by `arco.execution.collect`, which raises the floor as this does.
"""

from __future__ import annotations

import functools
import posixpath
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from arco.errors import Contended
from arco.log.cleanup import delete_quietly
from arco.log.head import Head, Manifests
from arco.log.manifest import DomainManifest, FileRef, Floor, Thinned
from arco.state.core import Core
from arco.state.marks import LiveSegment, Marks, Referred, read_marks, write_marks
from arco.state.pins import Pins
from arco.state.replay import ReportProgress, silent
from arco.state.snapshot import Snapshot
from arco.state.system import SEGMENTS
from arco.storage import paths
from arco.storage.parallel import in_portions
from arco.storage.port import ObjectMeta
from arco.storage.store_clock import BOUND

LEASE = "gc"
QUEUED = "queue leftover"
FEW = 64
"""Up to this many generations above the floor are all read."""
LEASE_TTL = timedelta(minutes=1)


class GenerationRetention(msgspec.Struct, frozen=True):
    generations: timedelta = timedelta(days=1)
    """How long every generation is kept after a newer one was published."""
    hourly: timedelta = timedelta(days=3)
    """How long the last generation of each hour stays."""
    daily: timedelta = timedelta(days=30)
    """How long the last generation of each day stays."""
    at_least: int = 10
    """Generations that stay however old they are."""
    rejected: timedelta = timedelta(days=30)
    queue: timedelta = timedelta(days=7)
    """How long a message without a claim or renewal is kept in the queue."""

    @classmethod
    def of_days(
        cls, generations: float, hourly: float, daily: float, at_least: int
    ) -> GenerationRetention:
        every, hours, days = (timedelta(days=count) for count in (generations, hourly, daily))
        return cls(every, hours, days, at_least)


class DeletableObject(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    why: str


class GcReport(msgspec.Struct, frozen=True):
    dry_run: bool
    floor: int
    head: int
    kept_generations: int
    deletable: list[DeletableObject]
    failed: int

    @property
    def bytes(self) -> int:
        return sum(d.bytes for d in self.deletable)


class _Marked(NamedTuple):
    paths: set[str]
    floor: int
    above_floor_at: datetime | None
    """When the generation after the floor's was published; None if all above were read."""
    oldest_published_at: datetime
    """Of the oldest kept generation."""
    log: list[LiveSegment]
    """In the order of their positions."""


class Collector:
    def __init__(self, core: Core, pins: Pins) -> None:
        self._manifests = core.manifests
        self._leases = core.leases
        self._store = core.store
        self._files = core.files
        self._pins = pins
        self._store_clock = core.store_clock

    def collect(
        self,
        retention: GenerationRetention | None = None,
        *,
        dry_run: bool = True,
        progress: ReportProgress = silent,
    ) -> GcReport:
        if dry_run:
            return self._collect(retention or GenerationRetention(), True, progress)
        # Two concurrent ones would do the same work twice.
        with self._leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                raise Contended("another gc is running", hint="try again when it has ended")
            return self._collect(retention or GenerationRetention(), False, hold.keeping(progress))

    def _collect(
        self, retention: GenerationRetention, dry_run: bool, progress: ReportProgress
    ) -> GcReport:
        head = self._manifests.head()
        if head.generation == 0:
            return GcReport(dry_run, 0, 0, 0, [], 0)
        # A dry run decides nothing, and must write nothing.
        now = self._store_clock.estimate() if dry_run else self._store_clock.measure()
        floor = next_floor(self._manifests, head, retention, now)
        if not dry_run:
            self._manifests.raise_floor(floor)
        pinned = {pin.generation for pin in self._pins.active(now)}
        head = self._manifests.head()
        number = self._manifests.floor_number()
        last_marks = read_marks(self._store, number)
        referred = self._marks(last_marks.generations, floor, pinned, head, progress)
        log = SegmentsOfLog(Snapshot(self._manifests, self._files, head), last_marks.segments)
        thinned = {n: referred[n] for n in floor.thinned_numbers() if n in referred}
        marks = Marks(thinned, log.history)
        if not dry_run and marks != last_marks:
            write_marks(self._store, number, marks)
        marked = self._marked(referred, floor, pinned, head, log.live)
        deletable = list(self._sweepable(marked, retention, now))
        failed = 0
        if not dry_run:
            failed = self._sweep(deletable, progress)
        below = sum(number < floor.generation for number in referred)
        count = below + head.generation + 1 - floor.generation
        return GcReport(dry_run, floor.generation, head.generation, count, deletable, failed)

    def _marks(
        self, marked: Referred, floor: Floor, pinned: set[int], head: Head, progress: ReportProgress
    ) -> dict[int, frozenset[str]]:
        """The objects that marked generations refer to."""
        numbers = {floor.generation, *floor.thinned_numbers(), *pinned, head.generation}
        is_small = head.generation - floor.generation <= FEW
        if is_small:
            numbers.update(range(floor.generation, head.generation))
        heads = self._read(numbers - marked.keys(), progress)
        if not is_small:
            heads |= self._rewritten(floor.generation, head)
        marks = {number: marked[number] for number in numbers & marked.keys()}
        return marks | self._referred(heads, progress)

    def _read(self, numbers: set[int], progress: ReportProgress) -> dict[int, Head]:
        report = functools.partial(progress, "reading kept generations")
        heads = in_portions(self._store, self._manifests.find, sorted(numbers), report)
        return {head.generation: head for head in heads if head is not None}

    def _rewritten(self, floor: int, head: Head) -> dict[int, Head]:
        """The rollbacks and rebuilds above the floor, whose files may be older than it."""
        read: dict[int, Head] = {}
        at = head
        while at.manifest.rewritten_at > floor:
            rewritten = self._manifests.read(at.manifest.rewritten_at)
            read[rewritten.generation] = rewritten
            at = self._manifests.read(rewritten.generation - 1)
        return read

    def _referred(
        self, heads: dict[int, Head], progress: ReportProgress
    ) -> dict[int, frozenset[str]]:
        """The objects that generations refer to; a manifest that several have is read once."""
        refs = {ref.path: ref for head in heads.values() for ref in head.manifest.domains.values()}
        report = functools.partial(progress, "marking: domain manifests")
        read = in_portions(self._store, self._manifests.domain, [*refs.values()], report)
        domains = dict(zip(refs, read, strict=True))
        lists = {
            table.history.list.path: table.history
            for domain in domains.values()
            for table in domain.tables.values()
            if table.history is not None
        }
        report = functools.partial(progress, "marking: history")
        histories = in_portions(self._store, self._manifests.history, [*lists.values()], report)
        files = dict(zip(lists, histories, strict=True))
        return {
            number: frozenset(_paths_of(head, domains, files)) for number, head in heads.items()
        }

    def _marked(
        self, referred: Referred, floor: Floor, pinned: set[int], head: Head, log: list[LiveSegment]
    ) -> _Marked:
        published = [thinned.published_at for thinned in floor.thinned]
        lowest = [number for number in (*pinned, floor.generation) if number in referred]
        published.append(self._manifests.read(min(lowest)).manifest.published_at)
        above = None
        if head.generation - floor.generation > FEW:
            above = self._manifests.read(floor.generation + 1).manifest.published_at
        every: set[str] = set().union(*referred.values())
        return _Marked(every, floor.generation, above, min(published), log)

    def _sweepable(
        self, marked: _Marked, retention: GenerationRetention, now: datetime
    ) -> Iterator[DeletableObject]:
        gate = self._manifests.age_gate
        limit = now - gate
        young = limit
        if marked.above_floor_at is not None:
            young = min(limit, marked.above_floor_at - gate / 10 - BOUND)
        for meta in self._old(paths.MANIFESTS, limit):
            if meta.path in marked.paths or meta.path == paths.HINT:
                continue
            generation = paths.root_generation(meta.path)
            if generation is None and meta.path.startswith((paths.PINS, paths.FLOORS)):
                continue
            if generation is not None and generation < marked.floor:
                yield DeletableObject(meta.path, meta.size, "generation")
            elif generation is None and meta.last_modified < young:
                yield DeletableObject(meta.path, meta.size, "domain manifest")
        for meta in self._old(paths.STATE, young):
            if meta.path not in marked.paths:
                yield DeletableObject(meta.path, meta.size, "table file")
        yield from self._segments(marked, young)
        yield from self._rejected(now - retention.rejected)
        for meta in self._old(paths.LIVENESS, limit):
            if meta.path.endswith(".json"):
                yield DeletableObject(meta.path, meta.size, "worker record")
        yield from self._queued(now - retention.queue)

    def _segments(self, marked: _Marked, young: datetime) -> Iterator[DeletableObject]:
        """Segments that no kept generation refers to: abandoned, or joined into others."""
        live = {segment.path for segment in marked.log}
        firsts = [segment.first for segment in marked.log]
        joined_before = marked.oldest_published_at - self._manifests.age_gate / 10 - BOUND
        for meta in self._old(paths.SEGMENTS, young):
            if meta.path in live or meta.path in marked.paths:
                continue
            at = bisect_right(firsts, paths.segment_first(meta.path)) - 1
            joined_at = marked.log[at].joined_at if at >= 0 else None
            if joined_at is None:
                yield DeletableObject(meta.path, meta.size, "abandoned segment")
            elif joined_at < joined_before:
                yield DeletableObject(meta.path, meta.size, "joined segment")

    def _rejected(self, limit: datetime) -> Iterator[DeletableObject]:
        """Rejected objects with their records; a copy may be as old as its original."""
        listed = {meta.path: meta for meta in self._store.list(paths.REJECTED)}
        for path, record in listed.items():
            if path.endswith(".json") and record.last_modified < limit:
                yield DeletableObject(path, record.size, "rejection")
                copy = listed.get(path.removesuffix(".json") + ".object")
                if copy is not None:
                    yield DeletableObject(copy.path, copy.size, "rejected object")

    def _queued(self, limit: datetime) -> Iterator[DeletableObject]:
        """Messages with their claims: a renewed claim keeps its message."""
        messages: dict[str, list[ObjectMeta]] = {}
        for meta in self._store.list(paths.QUEUE):
            name = posixpath.basename(meta.path).partition(".")[0]
            messages.setdefault(name, []).append(meta)
        for parts in messages.values():
            if all(meta.last_modified < limit for meta in parts):
                for meta in parts:
                    yield DeletableObject(meta.path, meta.size, QUEUED)

    def _old(self, prefix: str, limit: datetime) -> Iterator[ObjectMeta]:
        return (meta for meta in self._store.list(prefix) if meta.last_modified < limit)

    def _sweep(self, deletable: Sequence[DeletableObject], progress: ReportProgress) -> int:
        # A message is deleted before its claims: without them, it could be claimed.
        first = [d.path for d in deletable if d.why == QUEUED and not _is_claim(d.path)]
        then = [d.path for d in deletable if d.why != QUEUED or _is_claim(d.path)]
        failed, done, total = 0, 0, len(first) + len(then)
        for todo in (first, then):
            for start in range(0, len(todo), 256):
                part = todo[start : start + 256]
                failed += delete_quietly(self._store, part)
                done += len(part)
                progress("deleting", done, total)
        return failed


class SegmentsOfLog:
    """The segments of a generation's log, with the marks of history files."""

    def __init__(self, snapshot: Snapshot, live: dict[str, list[LiveSegment]]) -> None:
        table = snapshot.manifest(SEGMENTS)
        self.history = {
            ref.path: live[ref.path] if ref.path in live else _segments_in(snapshot, ref)
            for ref in table.history
        }
        recent = [segment for ref in table.recent() for segment in _segments_in(snapshot, ref)]
        old = [segment for segments in self.history.values() for segment in segments]
        self.live = sorted({s.first: s for s in (*old, *recent)}.values(), key=lambda s: s.first)


def _segments_in(snapshot: Snapshot, ref: FileRef) -> list[LiveSegment]:
    rows = SEGMENTS.rows_of(snapshot.files.table(SEGMENTS, ref))
    return [LiveSegment(row.first_position, row.path, row.joined_at) for row in rows]


def _paths_of(
    head: Head, domains: dict[str, DomainManifest], files: dict[str, tuple[FileRef, ...]]
) -> Iterator[str]:
    root = head.manifest
    yield paths.root(root.generation)
    yield from (file.path for refs in root.l0.values() for file in refs)
    yield from (changes.path for changes in root.changes)
    if root.segment is not None:
        yield root.segment.path
    for ref in root.domains.values():
        yield ref.path
        for table in domains[ref.path].tables.values():
            yield from (file.path for file in table.base)
            if table.history is not None:
                yield table.history.list.path
                yield from (file.path for file in files[table.history.list.path])


def _is_claim(path: str) -> bool:
    """Claims are named after their message, and a number."""
    return posixpath.basename(path).count(".") > 1


def next_floor(
    manifests: Manifests, head: Head, retention: GenerationRetention, now: datetime
) -> Floor:
    """Which generations to keep: those that were current within the retention."""
    current = manifests.floor()
    cutoff = now - max(retention.generations, manifests.age_gate)
    newer, before = manifests.first_where(lambda h: h.manifest.published_at > cutoff, current, head)
    # The generation before the first newer one was current at the cutoff.
    lowest = head.generation if newer is None else before
    floor = max(current.generation, min(lowest, head.generation - retention.at_least), 1)
    return Floor(floor, tuple(_thinned(manifests, current, floor, head, retention, now)))


def _thinned(
    manifests: Manifests,
    current: Floor,
    floor: int,
    head: Head,
    retention: GenerationRetention,
    now: datetime,
) -> list[Thinned]:
    """Of the generations below the floor, the last of each hour, then of each day.

    For generations that come below the floor now, only the last of each period is searched and
    read.
    """
    by_period: dict[tuple[int, ...], Thinned] = {}
    for thinned in current.thinned:
        _keep(by_period, thinned, retention, now)
    low = current.generation
    top = manifests.read(floor - 1) if low < floor else head
    while low < floor:
        root = _last_of_hour(manifests, manifests.read(low), top).manifest
        thinned = Thinned(root.generation, root.published_at, root.position, root.log_time)
        _keep(by_period, thinned, retention, now)
        low = root.generation + 1
    return sorted(by_period.values(), key=lambda thinned: thinned.generation)


def _last_of_hour(manifests: Manifests, first: Head, top: Head) -> Head:
    """The last generation, up to `top`, that was published in the hour of `first`."""
    published = first.manifest.published_at
    ends = published.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    after, before = manifests.first_where(
        lambda head: head.manifest.published_at >= ends, Floor(first.generation), top
    )
    if after is None:
        return top
    return first if before <= first.generation else manifests.read(before)


def _keep(
    by_period: dict[tuple[int, ...], Thinned],
    thinned: Thinned,
    retention: GenerationRetention,
    now: datetime,
) -> None:
    published = thinned.published_at
    day = (published.year, published.month, published.day)
    if now - published <= retention.hourly:
        by_period[(*day, published.hour)] = thinned
    elif now - published <= retention.daily:
        by_period[day] = thinned
