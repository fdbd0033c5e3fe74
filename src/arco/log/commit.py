"""The commit protocol: the one place that states the order of writes.

A commit turns inbox batches into positions, a segment and new table files, and
publishes all of it by creating one object:

    1. find the head, generation n                       (head.py)
    2. list the inbox; skip what n has under `pending_cleanup`; read the rest
    3. order the events, give them positions; write the segment and one L0 file
       for each table that changed; write the changed domain manifests
    4. create root manifest n+1, only if absent          <- this is the commit
    5. as best effort: write the hint, delete the consumed batches

Why each step is where it is:

- *Head before inbox.* Number n+1 can be created only if nobody committed since
  the head was read, so nothing that the listing showed was consumed by others,
  except what n itself had not yet deleted, and that is in `pending_cleanup`.
  What was consumed is tracked by name; the order of ULIDs decides nothing.
- *Every path before step 4 carries this attempt's nonce.* What a crashed attempt
  left behind collides with nobody, is referred to by nobody, and goes with GC.
- *Step 4 is the only step that counts.* A crash before it changes nothing; a
  crash after it loses nothing. No reader can see half of it.
- *Created, exists, or unknown.* After a time-out the number is read back: our
  commit id there means that it was us. The same bytes are put again otherwise,
  never other bytes under the same number.
- *A batch leaves `pending_cleanup` only when a listing, made after the head was
  read, no longer shows it.* A delete that failed is thus repeated for ever, and
  never mistaken for a new batch.
- *A writer that slept.* GC may have removed number n+1 in the meantime, and
  creating it again would fork history. An attempt older than a tenth of the age
  gate gives up. One that fell asleep right before its put lists the manifests
  afterwards (the hint will not do: it may be lost, or have gone back): if there
  are numbers beyond its own, and the next one is not its child, the commit is
  void; it withdraws its manifest and touches nothing else.

Merges, rebuilds and rollbacks publish through the same `Publisher`: they have no
events, and swap files instead.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from arco.clock import Clock
from arco.errors import AlreadyExists, Contended, Error, Fenced, NotFound, Unavailable
from arco.log import segment as segments
from arco.log.envelope import Recorded
from arco.log.head import Head, Manifests
from arco.log.inbox import Inbox, Taken
from arco.log.manifest import (
    FORMAT,
    DomainManifest,
    Ref,
    RootManifest,
    SegmentRef,
    encode,
    sha256,
)
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import Store

log = logging.getLogger(__name__)

Domains = Mapping[str, DomainManifest]
Began = tuple[float, datetime]


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a new generation changes over its parent."""

    kind: str
    domains: Domains
    """The domain manifests that change; the others are carried over."""
    position: int
    log_time: datetime
    segment: SegmentRef | None = None
    consumed: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    skipped: dict[str, int] = {}
    pending: tuple[str, ...] = ()
    """Batches of earlier commits that are still there to be deleted."""


class Publisher:
    """Creates the next root manifest, again and again until it, or somebody, did."""

    def __init__(
        self,
        store: Store,
        manifests: Manifests,
        clock: Clock,
        ids: Callable[[], str],
        *,
        rng: random.Random | None = None,
        attempts: int = 20,
    ) -> None:
        self.store = store
        self.manifests = manifests
        self._clock = clock
        self._ids = ids
        self._rng = rng or random.Random()
        self._attempts = attempts

    def begin(self) -> Began:
        """Start the clock that decides when an attempt is too old."""
        return (self._clock.monotonic(), self._clock.now())

    def publish(
        self, propose: Callable[[Head], Proposal | None], began: Began | None = None
    ) -> Head | None:
        """Publish what `propose` makes of the head; None if it finds nothing to do.

        `began` is when the first file of this work was written, if that was before.
        Raises Contended after too many lost races, Fenced if this took so long
        that its number may be gone, Unavailable if the outcome stays unknown.
        """
        began = began or self.begin()
        for attempt in range(self._attempts):
            head = self.manifests.head()
            proposal = propose(head)
            if proposal is None:
                return None
            created = self._create(head, proposal, began)
            if created is not None:
                self._settle(created, began)
                return created
            self._clock.sleep(self._rng.uniform(0, 0.002 * 2 ** min(attempt, 7)))
        raise Contended(
            f"lost {self._attempts} races for the next generation in a row",
            hint="try again; fewer compactors on one workspace would help",
        )

    def _create(self, head: Head, proposal: Proposal, began: Began) -> Head | None:
        generation = head.generation + 1
        changed = self._put_domains(proposal.domains, generation)
        root = RootManifest(
            format=FORMAT,
            tenant_id=head.manifest.tenant_id,
            workspace_id=head.manifest.workspace_id,
            generation=generation,
            kind=proposal.kind,
            commit_id=self._ids(),
            parent_sha256=head.sha256,
            published_at=max(self._clock.now(), head.manifest.published_at),
            log_time=proposal.log_time,
            position=proposal.position,
            segment=proposal.segment,
            consumed=proposal.consumed,
            rejected=proposal.rejected,
            skipped=proposal.skipped,
            pending_cleanup=proposal.consumed + proposal.pending,
            domains={**head.manifest.domains, **changed},
        )
        raw = encode(root)
        if self._late(began):
            raise Fenced(
                f"this attempt at generation {generation} has run for more than a tenth of the "
                "age gate; its number may have been collected",
                hint="try again from a fresh head",
            )
        return Head(root, sha256(raw)) if self._put_root(root, raw) else None

    def _put_domains(self, domains: Domains, generation: int) -> dict[str, Ref]:
        def put(item: tuple[str, DomainManifest]) -> tuple[str, Ref]:
            name, manifest = item
            numbered = msgspec.structs.replace(manifest, generation=generation)
            raw = encode(numbered)
            ref = Ref(paths.domain(name, generation, self._ids()), sha256(raw), len(raw))
            self.store.put(ref.path, raw)
            self.manifests.remember(ref, numbered)
            return name, ref

        return dict(each(self.store, put, domains.items()))

    def _late(self, began: Began) -> bool:
        """Whether an attempt is so old that its number may have been collected.

        Both clocks are asked: the monotonic one stands still while a machine sleeps.
        """
        limit = self.manifests.age_gate / 10
        return (
            self._clock.monotonic() - began[0] > limit.total_seconds()
            or self._clock.now() - began[1] > limit
        )

    def _put_root(self, root: RootManifest, raw: bytes) -> bool:
        """Whether the generation is ours; False if it is somebody else's."""
        path = paths.root(root.generation)
        unknown: Error | None = None
        for attempt in range(5):
            try:
                self.store.put(path, raw)
                return True
            except (AlreadyExists, Unavailable) as error:
                unknown = error
            try:
                found = self.manifests.find(root.generation)
            except Unavailable as error:
                unknown, found = error, None
            if found is not None:
                return found.manifest.commit_id == root.commit_id
            self._clock.sleep(0.02 * 2**attempt)
        raise Unavailable(
            f"generation {root.generation} (commit {root.commit_id}) may or may not exist: "
            f"{unknown}",
            hint="look at the head before doing it again",
        )

    def _settle(self, created: Head, began: Began) -> None:
        late = self._late(began)
        if late:
            self._withdraw_if_void(created)
        self.manifests.advance(created)
        try:
            if not late:
                self.manifests.write_hint(created)
        except Error as error:
            log.warning("the hint stays behind generation %d: %s", created.generation, error)
        delete_quietly(self.store, map(paths.inbox, created.manifest.pending_cleanup))

    def _withdraw_if_void(self, created: Head) -> None:
        newest = self.manifests.listed(created)
        if newest is None or newest.generation == created.generation:
            return
        child = self.manifests.find(created.generation + 1)
        if child is None or child.manifest.parent_sha256 != created.sha256:
            self.store.delete(paths.root(created.generation))
            raise Fenced(
                f"generation {created.generation} was history already; this commit is void",
                hint="the process slept for too long; try again from a fresh head",
            )


def delete_quietly(store: Store, doomed: Iterable[str]) -> int:
    """Delete what can be deleted; one failure never stops the rest. Returns the failures."""

    def delete(path: str) -> int:
        try:
            store.delete(path)
            return 0
        except Error as error:
            log.warning("could not delete %s: %s", path, error)
            return 1

    return sum(each(store, delete, doomed))


class Projection(Protocol):
    """The files that a batch of events adds to the tables."""

    @property
    def files(self) -> Sequence[tuple[str, bytes]]: ...

    @property
    def skipped(self) -> Mapping[str, int]:
        """Facts that a fold could not take, by kind."""

    def domains(self, current: Domains) -> Domains:
        """`current` with these files added; only the domains that change."""


class Projector(Protocol):
    """Folds events over the state of a head. Implemented by `arco.state`."""

    def prepare(
        self, head: Head, events: Sequence[Recorded], segment: SegmentRef | None, now: datetime
    ) -> Projection: ...

    def committed(self, head: Head, projection: Projection) -> None: ...


class Committed(msgspec.Struct, frozen=True):
    head: Head
    events: int


class Nothing(msgspec.Struct, frozen=True):
    head: Head


Outcome = Committed | Nothing


class _Attempt(msgspec.Struct):
    """Files already written for a set of batches; good for any head with the same position."""

    position: int
    base_generation: int
    taken: Taken
    events: list[Recorded]
    segment: SegmentRef | None
    projection: Projection


class Committer:
    """Takes the inbox and publishes it. Any number of them may run on one workspace."""

    def __init__(
        self,
        publisher: Publisher,
        inbox: Inbox,
        projector: Projector,
        clock: Clock,
        ids: Callable[[], str],
    ) -> None:
        self._publisher = publisher
        self._store = publisher.store
        self._manifests = publisher.manifests
        self._inbox = inbox
        self._projector = projector
        self._clock = clock
        self._ids = ids
        # One commit at a time in this process: whoever waits here finds its batch
        # committed by the one before. Correctness does not depend on it.
        self._lock = threading.Lock()

    def commit(self, names: Sequence[str] = ()) -> Outcome:
        """Commit what is in the inbox; `names` are known to be there, or were."""
        with self._lock:
            return self._commit(names)

    def commit_batch(self, name: str, since: int) -> Head:
        """Commit until `name` is consumed, by whomever; the generation that did it.

        `since` is a generation from before the batch was appended.
        """
        with self._lock:
            while True:
                found, since = self._consumer_of(name, since)
                if found is not None:
                    return found
                if isinstance(outcome := self._commit((name,)), Nothing):
                    found, since = self._consumer_of(name, since)
                    if found is None:
                        raise NotFound(
                            f"batch {name} is neither in the inbox nor in a commit since {since}"
                        )
                    return found
                if name in outcome.head.manifest.consumed:
                    return outcome.head

    def _consumer_of(self, name: str, since: int) -> tuple[Head | None, int]:
        head = self._manifests.head()
        for generation in range(since + 1, head.generation + 1):
            found = self._manifests.read(generation)
            if name in found.manifest.consumed:
                return found, generation
        return None, max(since, head.generation)

    def _commit(self, names: Sequence[str]) -> Outcome:
        attempt: _Attempt | None = None
        seen: Head | None = None

        def propose(head: Head) -> Proposal | None:
            nonlocal attempt, seen
            seen = head
            if attempt is None or not self._still_good(attempt, head):
                taken = self._inbox.take(head, names)
                if not taken.batches and not taken.rejections:
                    delete_quietly(self._store, map(paths.inbox, taken.leftovers))
                    return None
                attempt = self._write(head, taken)
            return self._proposal(head, attempt)

        created = self._publisher.publish(propose)
        if created is None:
            assert seen is not None
            return Nothing(seen)
        assert attempt is not None
        self._projector.committed(created, attempt.projection)
        return Committed(created, len(attempt.events))

    def _still_good(self, attempt: _Attempt, head: Head) -> bool:
        """Whether only merges were published since: they move no position and no row."""
        if head.manifest.position != attempt.position:
            return False
        between = range(attempt.base_generation + 1, head.generation + 1)
        kinds = [self._manifests.read(g).manifest for g in between]
        return all(m.kind == "merge" for m in kinds)

    def _write(self, head: Head, taken: Taken) -> _Attempt:
        events = self._positioned(head, taken)
        segment, raw = self._segment(events)
        projection = self._projector.prepare(head, events, segment, self._clock.now())
        files = list(projection.files)
        if segment is not None:
            files.append((segment.path, raw))
        each(self._store, lambda file: self._store.put(*file), files)
        self._inbox.set_aside(taken.rejections)
        return _Attempt(head.manifest.position, head.generation, taken, events, segment, projection)

    def _positioned(self, head: Head, taken: Taken) -> list[Recorded]:
        """Give the events their positions, in one order whatever batches they came in."""
        arrivals = [
            (event.id, batch.received_at, event, payload)
            for batch in taken.batches
            for event, payload in batch.events
        ]
        arrivals.sort(key=lambda arrival: arrival[:2])
        log_time = head.manifest.log_time
        recorded = []
        for position, (_, received, event, payload) in enumerate(
            arrivals, head.manifest.position + 1
        ):
            log_time = max(log_time, received)
            recorded.append(Recorded(position, log_time, event, payload))
        return recorded

    def _segment(self, events: Sequence[Recorded]) -> tuple[SegmentRef | None, bytes]:
        if not events:
            return None, b""
        raw = segments.encode(events)
        first, last = events[0].position, events[-1].position
        path = paths.segment(first, last, self._ids())
        return SegmentRef(path, sha256(raw), len(raw), first, last), raw

    def _proposal(self, head: Head, attempt: _Attempt) -> Proposal:
        skipped = dict(attempt.projection.skipped)
        for recorded in attempt.events:
            if recorded.payload is None:
                kind = f"{recorded.event.type}@{recorded.event.version}"
                skipped[kind] = skipped.get(kind, 0) + 1
        taken = attempt.taken
        last = attempt.events[-1] if attempt.events else None
        rejected = tuple(r.name for r in taken.rejections)
        return Proposal(
            kind="events",
            domains=attempt.projection.domains(self._manifests.domains(head)),
            position=last.position if last else head.manifest.position,
            log_time=last.received_at if last else head.manifest.log_time,
            segment=attempt.segment,
            consumed=tuple(b.name for b in taken.batches) + rejected,
            rejected=rejected,
            skipped=skipped,
            pending=taken.leftovers,
        )
