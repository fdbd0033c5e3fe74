"""Publishing: creates root manifest n+1; retries until this writer or another one has.

commit.py says why in this order. Event commits, merges, rebuilds and rollbacks all
publish here; nothing else creates a root manifest.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import msgspec

from arco.clock import Clock
from arco.errors import AlreadyExists, Contended, Error, Fenced, Unavailable
from arco.log.head import Head, Manifests
from arco.log.manifest import (
    FORMAT,
    DomainManifest,
    Ref,
    RootManifest,
    SegmentRef,
    encode,
    encode_sealed,
    sha256,
)
from arco.storage import paths
from arco.storage.own import put_own
from arco.storage.parallel import each
from arco.storage.port import Store
from arco.storage.store_clock import StoreClock

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
    """Creates root manifest n+1; retries until this writer or another one has."""

    def __init__(
        self,
        store: Store,
        manifests: Manifests,
        clock: Clock,
        ids: Callable[[], str],
        store_clock: StoreClock,
        *,
        rng: random.Random | None = None,
        attempts: int = 20,
    ) -> None:
        self.store = store
        self.manifests = manifests
        self.clock = clock
        self._ids = ids
        self.store_clock = store_clock
        self._rng = rng or random.Random()
        self._aside: ThreadPoolExecutor | None = None
        self._attempts = attempts

    def begin(self) -> Began:
        """Start the clock that decides when an attempt is too old."""
        return (self.clock.monotonic(), self.clock.now())

    def publish(
        self, propose: Callable[[Head], Proposal | None], began: Began | None = None
    ) -> Head | None:
        """Publish what `propose` makes of the head; None if it finds nothing to do.

        `began` is when the first file of this work was written, if that was before.
        Raises Contended after too many lost races, Fenced if this took so long
        that its number may be gone, ClockSkew if this machine's clock is wrong, and
        Unavailable if the outcome stays unknown.
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
            self.clock.sleep(self._rng.uniform(0, 0.002 * 2 ** min(attempt, 7)))
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
            published_at=max(self.store_clock.now(), head.manifest.published_at),
            log_time=proposal.log_time,
            position=proposal.position,
            segment=proposal.segment,
            consumed=proposal.consumed,
            rejected=proposal.rejected,
            skipped=proposal.skipped,
            pending_cleanup=proposal.consumed + proposal.pending,
            domains={**head.manifest.domains, **changed},
        )
        raw = encode_sealed(root)
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
            put_own(self.store, ref.path, raw, self.clock)
            self.manifests.remember(ref, numbered)
            return name, ref

        return dict(each(self.store, put, domains.items()))

    def _late(self, began: Began) -> bool:
        """Whether an attempt is so old that its number may have been collected.

        Both clocks are asked: the monotonic one stands still while a machine sleeps.
        """
        limit = self.manifests.age_gate / 10
        return (
            self.clock.monotonic() - began[0] > limit.total_seconds()
            or self.clock.now() - began[1] > limit
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
            self.clock.sleep(0.02 * 2**attempt)
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
        if self._aside is None:
            self._tidy(created, hint=not late)
        else:
            self._aside.submit(self._tidy, created, hint=not late)

    def tidy_aside(self) -> None:
        """From now on write hints and delete batches beside the commits, on a thread.

        For a process that commits all the time: neither counts towards success.
        """
        if self._aside is None:
            self._aside = ThreadPoolExecutor(1, thread_name_prefix="tidy")

    def tidied(self) -> None:
        """Wait until everything is tidied up, and go on without the thread."""
        aside, self._aside = self._aside, None
        if aside is not None:
            aside.shutdown(wait=True)

    def _tidy(self, created: Head, *, hint: bool) -> None:
        try:
            if hint:
                self.manifests.write_hint(created)
        except Error as error:
            log.warning("the hint stays behind generation %d: %s", created.generation, error)
        # One by one: on another thread, the store's pool belongs to the commits.
        for name in created.manifest.pending_cleanup:
            delete_quietly(self.store, [paths.inbox(name)])

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
