"""The commit protocol: the one place that states the order of writes.

A commit turns inbox batches into positions, a segment and new table files, and
publishes all of it by creating one object:

    1. find the head, generation n                       (head.py)
    2. list the inbox; skip what n has under `pending_cleanup`; read the rest; drop
       what an earlier commit has consumed
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
  read, no longer shows it.* A delete that failed is thus repeated for ever.
- *A batch is consumed once, however late or often it arrives.* A client may send a
  put again, and a put may arrive minutes after its sender gave it up, when the batch
  has been consumed and deleted. So each commit records the names that it consumes, as
  rows of the table `log.batches`, and looks up the names that it is about to consume.
  Names begin with the time of their making, so files of other times are skipped
  unread. Rows leave for history, and are found there; a rollback keeps them.
- *The store's clock.* Times in a manifest are the store's. A process whose clock
  differs from it by more than a bound does not commit.
- *A writer that slept.* GC may have removed number n+1 in the meantime, and
  creating it again would fork history. An attempt older than a tenth of the age
  gate gives up. One that fell asleep right before its put lists the manifests
  afterwards (the hint will not do: it may be lost, or have gone back): if there
  are numbers beyond its own, and the next one is not its child, the commit is
  void; it withdraws its manifest and touches nothing else.

Steps 1, 4 and 5 are in publish.py. Merges, rebuilds and rollbacks publish there, too: they have no
events, and swap files instead.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from arco.errors import Unavailable
from arco.log import segment as segments
from arco.log.envelope import Recorded
from arco.log.head import Head
from arco.log.inbox import Inbox, Taken
from arco.log.manifest import SegmentRef, sha256
from arco.log.publish import Domains, Proposal, Publisher, delete_quietly
from arco.storage import paths
from arco.storage.own import put_own
from arco.storage.parallel import each

log = logging.getLogger(__name__)


class Projection(Protocol):
    """The files that a batch of events adds to the tables."""

    @property
    def files(self) -> Sequence[Callable[[], tuple[str, bytes]]]:
        """Each makes one file. All must be called before `domains` is asked."""

    @property
    def skipped(self) -> Mapping[str, int]:
        """Facts that a fold could not take, by kind."""

    def domains(self, current: Domains) -> Domains:
        """`current` with these files added; only the domains that change."""


class Projector(Protocol):
    """Folds events over the state of a head. Implemented by `arco.state`."""

    def consumed(self, head: Head, names: Iterable[str]) -> set[str]:
        """Those of `names` that commits up to `head` have consumed."""

    def prepare(
        self,
        head: Head,
        events: Sequence[Recorded],
        segment: SegmentRef | None,
        batches: Sequence[str],
        now: datetime,
    ) -> Projection: ...

    def committed(self, head: Head, projection: Projection) -> None: ...


class Committed(msgspec.Struct, frozen=True):
    head: Head
    events: int
    more: bool = False
    """Whether the inbox held more than one commit takes."""


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
        ids: Callable[[], str],
    ) -> None:
        self._publisher = publisher
        self._store = publisher.store
        self._manifests = publisher.manifests
        self._inbox = inbox
        self._projector = projector
        self._clock = publisher.clock
        self._store_clock = publisher.store_clock
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
                        raise Unavailable(
                            f"batch {name} is neither in the inbox nor in a commit yet",
                            hint="it is durable; the store's listing may lag behind: look again",
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
                taken = self._once(head, self._inbox.take(head, names))
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
        return Committed(created, len(attempt.events), attempt.taken.more)

    def _once(self, head: Head, taken: Taken) -> Taken:
        """Without the batches that an earlier commit has consumed: those are leftovers."""
        names = [batch.name for batch in taken.batches]
        names += [rejection.name for rejection in taken.rejections]
        again = self._projector.consumed(head, names)
        if not again:
            return taken
        log.warning("%d batches arrived again after they were consumed: %s", len(again), again)
        return msgspec.structs.replace(
            taken,
            batches=[batch for batch in taken.batches if batch.name not in again],
            rejections=[bad for bad in taken.rejections if bad.name not in again],
            leftovers=tuple(sorted({*taken.leftovers, *again})),
        )

    def _still_good(self, attempt: _Attempt, head: Head) -> bool:
        """Whether only merges were published since: they move no position and no row."""
        if head.manifest.position != attempt.position:
            return False
        between = range(attempt.base_generation + 1, head.generation + 1)
        kinds = [self._manifests.read(g).manifest for g in between]
        return all(m.kind == "merge" for m in kinds)

    def _write(self, head: Head, taken: Taken) -> _Attempt:
        now = self._store_clock.now()
        events = self._positioned(head, taken, now)
        segment, raw = self._segment(events)
        names = [batch.name for batch in taken.batches]
        projection = self._projector.prepare(head, events, segment, names, now)
        files = list(projection.files)
        if segment is not None:
            path = segment.path
            files.insert(0, lambda: (path, raw))
        # One file is made while the disk or the network has others.
        each(self._store, lambda make: put_own(self._store, *make(), self._clock), files)
        return _Attempt(head.manifest.position, head.generation, taken, events, segment, projection)

    def _positioned(self, head: Head, taken: Taken, now: datetime) -> list[Recorded]:
        """Give the events their positions, in one order whatever batches they came in.

        An object from the future, as a local disk may hold one, was received now.
        """
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
            log_time = max(log_time, min(received, now))
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
