"""Publishing: repeated attempts to create the next root manifest.

commit.py states the order of these steps, and why. Event commits, merges, rebuilds and
rollbacks all publish with this; nothing else creates a root manifest.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime

import msgspec

from arco.errors import AlreadyExists, Contended, Error, Fenced, Unavailable
from arco.log.cleanup import Cleanup
from arco.log.contents import TableFiles
from arco.log.core import LogCore
from arco.log.head import Head
from arco.log.manifest import (
    FORMAT,
    ChangesRef,
    DomainManifest,
    FileRef,
    HistoryList,
    HistoryRef,
    Ref,
    RootManifest,
    SegmentRef,
    TableManifest,
    encode,
    encode_sealed,
    sha256,
)
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.unique_objects import put_own


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a new generation holds, as far as it differs from its parent."""

    kind: str
    position: int
    log_time: datetime
    changes: tuple[ChangesRef, ...]
    """All change files of the new generation."""
    l0: dict[str, tuple[FileRef, ...]]
    """All L0 files of the new generation."""
    tables: Mapping[str, TableFiles] = {}
    """The tables (`domain.name`) whose base or history differs."""
    domains: Mapping[str, Ref] | None = None
    """The domain manifests that `tables` are put into; the parent's by default."""
    segment: SegmentRef | None = None
    consumed: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    skipped: dict[str, int] = {}
    pending: tuple[str, ...] = ()
    """Batches of earlier commits that are still there to be deleted."""


def left_to_delete(head: Head) -> tuple[str, ...]:
    """Batches that a generation without events passes on to the next one."""
    return head.manifest.consumed + head.manifest.pending_cleanup


class Publisher:
    """What the publications of this process share. Thread-safe."""

    def __init__(
        self, core: LogCore, *, rng: random.Random | None = None, attempts: int = 20
    ) -> None:
        self.core = core
        self.cleanup = Cleanup(core.store, core.manifests)
        self.rng = rng or random.Random()
        self.attempts = attempts
        self.lost = True
        """Whether another process may be committing: then the head is read first."""

    def begin(self) -> Publication:
        """Start a publication, and the clock that decides when it is too old."""
        return Publication(self)


class Publication:
    """One new generation, from before its first file is written until it is settled."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._core = publisher.core
        self._store = publisher.core.store
        self._manifests = publisher.core.manifests
        self._clock = publisher.core.clock
        self._began = (self._clock.monotonic(), self._clock.now())
        self._attempts = 0
        self._assumed = False

    def head(self) -> Head:
        """The generation to build on. After a lost race, this waits and reads it again.

        After its own commit a process assumes that this is the head: if another process has
        committed meanwhile, the number exists and the create fails. Raises Contended after too many
        lost races.
        """
        if self._attempts == self._publisher.attempts:
            raise Contended(
                f"other writers created the next generation {self._attempts} times in a row",
                hint="try again, or run fewer compactors on this workspace",
            )
        if self._attempts:
            longest_s = 0.002 * 2 ** min(self._attempts - 1, 7)
            self._clock.sleep(self._publisher.rng.uniform(0, longest_s))
        self._attempts += 1
        assumed = None if self._publisher.lost else self._manifests.assumed()
        self._assumed = assumed is not None
        return assumed or self._manifests.head()

    def is_newest(self, head: Head) -> bool:
        """Whether `head`, as this publication was given it, was read from the store.

        An assumed one is compared with the store's.
        """
        if not self._assumed:
            return True
        self._publisher.lost = True
        return self._manifests.head().generation == head.generation

    def try_create(self, head: Head, proposal: Proposal) -> Head | None:
        """Create the generation after `head`; None if another writer has.

        Raises Fenced if this publication is so old that its number may have been collected,
        ClockSkew if this machine's clock is wrong, and Unavailable if the outcome stays unknown.
        """
        root = self._root(head, proposal)
        raw = encode_sealed(root)
        if self._is_late():
            raise Fenced(
                f"this attempt at generation {root.generation} has run for more than a tenth of "
                "the age gate; its number may have been collected",
                hint="try again from a fresh head",
            )
        self._publisher.lost = not self._put_root(root, raw)
        return None if self._publisher.lost else Head(root, sha256(raw))

    def settle(self, created: Head) -> None:
        """Withdraw a manifest that came too late; write the hint, delete the consumed batches."""
        late = self._is_late()
        if late:
            self._withdraw_if_void(created)
        self._manifests.advance(created)
        self._publisher.cleanup.after(created, hint=not late)

    def _root(self, head: Head, proposal: Proposal) -> RootManifest:
        generation = head.generation + 1
        domains = head.manifest.domains if proposal.domains is None else proposal.domains
        changed = self._put_domains(domains, proposal.tables, generation)
        rewrites = proposal.kind in ("rebuild", "rollback")
        return RootManifest(
            format=FORMAT,
            tenant_id=head.manifest.tenant_id,
            workspace_id=head.manifest.workspace_id,
            generation=generation,
            kind=proposal.kind,
            commit_id=self._core.ids(),
            parent_sha256=head.sha256,
            published_at=max(self._core.store_clock.now(), head.manifest.published_at),
            log_time=proposal.log_time,
            position=proposal.position,
            rewritten_at=generation if rewrites else head.manifest.rewritten_at,
            segment=proposal.segment,
            consumed=proposal.consumed,
            rejected=proposal.rejected,
            skipped=proposal.skipped,
            pending_cleanup=proposal.pending,
            changes=proposal.changes,
            l0=proposal.l0,
            domains={**domains, **changed},
        )

    def _put_domains(
        self, domains: Mapping[str, Ref], tables: Mapping[str, TableFiles], generation: int
    ) -> dict[str, Ref]:
        """Store the manifests of the domains that some tables belong to."""
        if not tables:
            return {}
        stored = dict(each(self._store, self._put_table, sorted(tables.items())))

        def put(name: str) -> tuple[str, Ref]:
            ref = domains.get(name)
            previous = {} if ref is None else self._manifests.domain(ref).tables
            fresh = {t: m for (domain, t), m in stored.items() if domain == name}
            manifest = DomainManifest(name, generation, {**previous, **fresh})
            return name, self._put(paths.domain(name, generation, self._core.ids()), manifest)

        return dict(each(self._store, put, sorted({domain for domain, _ in stored})))

    def _put_table(self, item: tuple[str, TableFiles]) -> tuple[tuple[str, str], TableManifest]:
        name, files = item
        domain, _, table = name.partition(".")
        history = files.history_ref
        if history is None and files.history:
            ref = self._put(
                paths.history_list(domain, table, self._core.ids()), HistoryList(files.history)
            )
            history = _summary(ref, files.history)
        manifest = TableManifest(
            files.columns, files.key, files.shard, files.base, history, files.merges
        )
        return (domain, table), manifest

    def _put(self, path: str, manifest: DomainManifest | HistoryList) -> Ref:
        raw = encode(manifest)
        ref = Ref(path, sha256(raw), len(raw))
        put_own(self._store, path, raw, self._clock)
        self._manifests.remember(ref, manifest)
        return ref

    def _put_root(self, root: RootManifest, raw: bytes) -> bool:
        """Whether this publication created the generation; False if another writer did."""
        path = paths.root(root.generation)
        unknown: Error | None = None
        for attempt in range(5):
            try:
                self._store.put(path, raw)
                return True
            except (AlreadyExists, Unavailable) as error:
                unknown = error
            try:
                existing = self._manifests.find(root.generation)
            except Unavailable as error:
                unknown, existing = error, None
            if existing is not None:
                return existing.manifest.commit_id == root.commit_id
            self._clock.sleep(0.02 * 2**attempt)
        raise Unavailable(
            f"generation {root.generation} (commit {root.commit_id}) may or may not exist: "
            f"{unknown}",
            hint="read the head before repeating the command",
        )

    def _is_late(self) -> bool:
        """Whether this is so old that its number may have been collected.

        Both clocks are compared: the monotonic one stops while a machine sleeps.
        """
        limit = self._manifests.age_gate / 10
        return (
            self._clock.monotonic() - self._began[0] > limit.total_seconds()
            or self._clock.now() - self._began[1] > limit
        )

    def _withdraw_if_void(self, created: Head) -> None:
        newest = self._manifests.listed(created)
        if newest is None or newest.generation == created.generation:
            return
        if created.generation in self._manifests.floor().thinned_numbers():
            return  # others committed after it, and GC has thinned those: a fork would not be kept
        child = self._manifests.find(created.generation + 1)
        if child is None or child.manifest.parent_sha256 != created.sha256:
            self._store.delete(paths.root(created.generation))
            raise Fenced(
                f"generation {created.generation} had already been collected; this commit is void",
                hint="the process was suspended for too long; try again from the current head",
            )


def _summary(ref: Ref, files: tuple[FileRef, ...]) -> HistoryRef:
    return HistoryRef(
        ref,
        len(files),
        sum(file.rows for file in files),
        (min(file.shard[0] for file in files), max(file.shard[1] for file in files)),
        (min(file.versions[0] for file in files), max(file.versions[1] for file in files)),
    )
