"""The commit protocol: the one place that states the order of writes.

A commit turns inbox batches into positions, a segment and new table files, and
publishes all of it by creating one object:

    1. find the head, generation n
    2. list the inbox; skip what n has consumed or still to delete; read the rest; drop
       what an earlier commit has consumed
    3. order the events, give them positions; write the segment and one change file
       with all changed rows (tables with many get an L0 file of their own)
    4. create root manifest n+1, only if absent          <- this is the commit
    5. as best effort: write the hint, delete the consumed batches

Why each step is where it is:

- *Head before inbox.* Number n+1 can be created only if nobody committed since the head was read,
  so nothing that the listing showed was consumed by others, except what n itself had not yet
  deleted, and that is in `consumed` and `pending_cleanup`. A process that has just created n need
  not read it: if n+1 exists by now, step 4 fails, and everything is repeated from the true head.
  What was consumed is tracked by name; the order of ULIDs decides nothing.
- *Every path before step 4 carries this attempt's nonce.* Files of a crashed attempt collide with
  no others, are not referred to, and are deleted by GC.
- *Step 4 is the only step that counts.* A crash before it changes nothing; a
  crash after it loses nothing. No reader can see half of it.
- *Created, exists, or unknown.* After a timeout the number is read back: with our commit id, the
  commit succeeded. The same bytes are put again otherwise, never other bytes under the same number.
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
- *A writer that slept.* GC may have removed number n+1 in the meantime, and creating it again would
  fork history. An attempt older than a tenth of the age gate is abandoned. After its put, a slow
  one lists the manifests (the hint is not enough: it may be lost or stale): if there are numbers
  beyond its own, and the next one is not its child, the commit is void; it withdraws its manifest
  and touches nothing else.

`Committer._commit` is these steps for events; `publish` is steps 1, 4 and 5 for merges, rebuilds
and rollbacks, which have no events, and swap files instead. The implementation of each step: the
head in head.py, the inbox in inbox.py, creating and settling in publish.py, deleting in cleanup.py.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter, itemgetter

import msgspec

from arco.errors import Unavailable
from arco.log import segment as segments
from arco.log.cleanup import delete_quietly
from arco.log.core import LogCore
from arco.log.envelope import Recorded
from arco.log.head import Head
from arco.log.inbox import Inbox, InboxBatches
from arco.log.manifest import SegmentRef, sha256
from arco.log.projection import AddedFiles, EncodedFile, Projection, Projector, write_files
from arco.log.publish import Proposal, Publication, Publisher
from arco.storage import paths

log = logging.getLogger(__name__)

OWN = 16
"""Maximum of own commits in memory, for the threads that wait for them."""


class Committed(msgspec.Struct, frozen=True):
    head: Head
    events: int
    more: bool = False
    """Whether the inbox held more than one commit takes."""


class NothingToCommit(msgspec.Struct, frozen=True):
    head: Head


CommitOutcome = Committed | NothingToCommit


class _Written(msgspec.Struct):
    """Files already written for a set of batches; valid for any head with the same position."""

    position: int
    base_generation: int
    inbox: InboxBatches
    events: list[Recorded]
    segment: SegmentRef | None
    projection: Projection
    added: AddedFiles


class Committer:
    """Takes the inbox and publishes it. Any number of them may run on one workspace."""

    def __init__(
        self, core: LogCore, publisher: Publisher, inbox: Inbox, projector: Projector
    ) -> None:
        self._core = core
        self._store = core.store
        self._manifests = core.manifests
        self._publisher = publisher
        self._inbox = inbox
        self._projector = projector
        # One commit at a time in this process: a thread that waits here finds its batch committed
        # by the one before. Correctness does not depend on it.
        self._lock = threading.Lock()
        self._own: deque[Head] = deque(maxlen=OWN)

    def commit(self, names: Sequence[str] = ()) -> CommitOutcome:
        """Commit the inbox; `names` are batches that are known to be there, or were."""
        with self._lock, _collector_paused():
            return self._commit(names)

    def _commit(self, names: Sequence[str]) -> CommitOutcome:
        publication = self._publisher.begin()
        written: _Written | None = None
        while True:
            head = publication.head()  # 1
            if written is None or not self._is_still_good(written, head):
                inbox = self._without_consumed(head, self._inbox.take(head, names))  # 2
                if not inbox.batches and not inbox.rejections:
                    if not publication.is_newest(head):
                        continue
                    delete_quietly(self._store, map(paths.inbox, inbox.leftovers))
                    return NothingToCommit(head)
                written = self._write(head, inbox)  # 3
            created = publication.try_create(head, _proposal(head, written))  # 4
            if created is not None:
                publication.settle(created)  # 5
                self._own.append(created)
                self._projector.committed(created, written.projection, written.added)
                return Committed(created, len(written.events), written.inbox.more)

    def commit_batch(self, name: str, since: int) -> Head:
        """Commit until `name` is consumed, by any process; returns the generation that consumed it.

        `since` is a generation from before the batch was appended.
        """
        with self._lock, _collector_paused():
            while True:
                for own in reversed(self._own):
                    if own.generation > since and name in own.manifest.consumed:
                        return own
                outcome = self._commit((name,))
                if isinstance(outcome, Committed) and name in outcome.head.manifest.consumed:
                    return outcome.head
                generation, since = self._consumer_of(name, since)
                if generation is not None:
                    return generation
                if isinstance(outcome, NothingToCommit):
                    raise Unavailable(
                        f"batch {name} is neither in the inbox nor in a commit yet",
                        hint="it is durable, but the store does not list it yet; try again",
                    )

    def _consumer_of(self, name: str, since: int) -> tuple[Head | None, int]:
        head = self._manifests.head()
        for generation in range(since + 1, head.generation + 1):
            candidate = self._manifests.read(generation)
            if name in candidate.manifest.consumed:
                return candidate, generation
        return None, max(since, head.generation)

    def _without_consumed(self, head: Head, inbox: InboxBatches) -> InboxBatches:
        """Without the batches that an earlier commit has consumed: those are leftovers."""
        names = [batch.name for batch in inbox.batches]
        names += [rejection.name for rejection in inbox.rejections]
        repeated = self._projector.consumed(head, names)
        if not repeated:
            return inbox
        log.warning(
            "%d batches arrived again after they were consumed: %s", len(repeated), repeated
        )
        return msgspec.structs.replace(
            inbox,
            batches=[batch for batch in inbox.batches if batch.name not in repeated],
            rejections=[bad for bad in inbox.rejections if bad.name not in repeated],
            leftovers=tuple(sorted({*inbox.leftovers, *repeated})),
        )

    def _is_still_good(self, written: _Written, head: Head) -> bool:
        """Whether only merges were published since: they move no position and no row."""
        return head.manifest.position == written.position and not self._manifests.rewritten(
            written.base_generation, head
        )

    def _write(self, head: Head, inbox: InboxBatches) -> _Written:
        now = self._core.store_clock.now()
        events = self._positioned(head, inbox, now)
        files: list[Callable[[], EncodedFile]] = []
        segment = None
        if events:
            encoded, segment = self._segment(events)
            files.append(lambda: encoded)
        names = [batch.name for batch in inbox.batches]
        projection = self._projector.prepare(head, events, segment, names, now)
        added = write_files(self._core, [*files, *projection.files])
        return _Written(
            head.manifest.position, head.generation, inbox, events, segment, projection, added
        )

    def _positioned(self, head: Head, inbox: InboxBatches, now: datetime) -> list[Recorded]:
        """Give the events their positions; the order does not depend on their batches.

        An object from the future, which a local disk may have, counts as received now.
        """
        arrivals = [
            (event.id, batch.received_at, event, payload)
            for batch in sorted(inbox.batches, key=attrgetter("received_at"))
            for event, payload in batch.events
        ]
        arrivals.sort(key=itemgetter(0))  # it is stable: of the same id, what came first
        log_time = head.manifest.log_time
        recorded = []
        for position, (_, received, event, payload) in enumerate(
            arrivals, head.manifest.position + 1
        ):
            if received > log_time < now:
                log_time = min(received, now)
            recorded.append(Recorded(position, log_time, event, payload))
        return recorded

    def _segment(self, events: Sequence[Recorded]) -> tuple[EncodedFile, SegmentRef]:
        raw = segments.encode(events)
        first, last = events[0].position, events[-1].position
        path = paths.segment(first, last, self._core.ids())
        ref = SegmentRef(path, sha256(raw), len(raw), first, last)
        return EncodedFile(path, raw, ref), ref


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Disable Python's garbage collector.

    A commit makes hundreds of thousands of objects and no cycles: the search would take a
    fifth of its time. Two threads may pause it at once; the last one to end leaves it on.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def publish(publication: Publication, propose: Callable[[Head], Proposal | None]) -> Head | None:
    """Publish a generation without events of its own; None if there is nothing to publish.

    `propose` makes it from the head, with files that are written already. Raises what
    `Publication` raises.
    """
    while True:
        head = publication.head()
        proposal = propose(head)
        if proposal is None:
            if publication.is_newest(head):
                return None
            continue
        created = publication.try_create(head, proposal)
        if created is not None:
            publication.settle(created)
            return created


def _proposal(head: Head, written: _Written) -> Proposal:
    skipped = dict(written.projection.skipped)
    for recorded in written.events:
        if recorded.payload is None:
            kind = f"{recorded.event.type}@{recorded.event.version}"
            skipped[kind] = skipped.get(kind, 0) + 1
    inbox, root = written.inbox, head.manifest
    last = written.events[-1] if written.events else None
    rejected = tuple(r.name for r in inbox.rejections)
    l0 = {table: (*root.l0.get(table, ()), ref) for table, ref in written.added.l0.items()}
    return Proposal(
        kind="events",
        changes=root.changes + written.added.changes,
        l0={**root.l0, **l0},
        position=last.position if last else root.position,
        log_time=last.received_at if last else root.log_time,
        segment=written.segment,
        consumed=tuple(b.name for b in inbox.batches) + rejected,
        rejected=rejected,
        skipped=skipped,
        pending=inbox.leftovers,
    )
