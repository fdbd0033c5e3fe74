"""Rollback: an older generation's state, as a new generation.

The log is not rewritten. It gets one more event, which says that the positions
after the older generation's count for nothing; a rebuild leaves them out, so the
state is still the fold of the log. What was in the inbox stays there and is
folded on top of the restored state.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar

import msgspec

from arco.clock import Clock
from arco.errors import Invalid
from arco.log import segment as segments
from arco.log.envelope import Payload, Recorded, make_event
from arco.log.head import Head
from arco.log.manifest import DomainManifest, SegmentRef, sha256
from arco.log.publish import Proposal, Publisher
from arco.state import system
from arco.state.pins import Pins
from arco.state.project import Projected, with_table
from arco.storage import paths
from arco.storage.own import put_own


class RolledBack(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "log.rolled_back"
    generation: int
    position: int
    reason: str


class Rollback:
    def __init__(
        self, publisher: Publisher, pins: Pins, clock: Clock, ids: Callable[[], str]
    ) -> None:
        self._publisher = publisher
        self._manifests = publisher.manifests
        self._pins = pins
        self._clock = clock
        self._ids = ids

    def roll_back(self, generation: int, *, reason: str, actor: str = "") -> Head:
        """Publish the state of `generation` again; the new head."""
        head = self._manifests.head()
        if not 0 < generation < head.generation:
            raise Invalid(
                f"cannot roll back to generation {generation}; the head is {head.generation}",
                hint="choose a generation below the head",
            )
        pin = self._pins.pin(f"rollback-{self._ids()}", generation, reason, ttl=timedelta(days=1))
        try:
            target = self._manifests.read(generation)
            published = self._publisher.publish(
                lambda head: self._propose(head, target, reason, actor)
            )
        finally:
            self._pins.release(pin.name)
        assert published is not None
        return published

    def _propose(self, head: Head, target: Head, reason: str, actor: str) -> Proposal:
        recorded = self._event(head, target, reason, actor)
        raw = segments.encode([recorded])
        position = recorded.position
        path = paths.segment(position, position, self._ids())
        ref = SegmentRef(path, sha256(raw), len(raw), position, position)
        put_own(self._publisher.store, path, raw)
        return Proposal(
            kind="rollback",
            domains=self._domains(head, target, ref, recorded),
            position=position,
            log_time=recorded.received_at,
            segment=ref,
            pending=head.manifest.pending_cleanup,
        )

    def _event(self, head: Head, target: Head, reason: str, actor: str) -> Recorded:
        payload = RolledBack(
            generation=target.generation, position=target.manifest.position, reason=reason
        )
        event = make_event(
            payload,
            id=self._ids(),
            time=self._clock.now(),
            source="arco",
            tenant=head.manifest.tenant_id,
            workspace=head.manifest.workspace_id,
            actor=actor,
        )
        # No batch, so no time of receipt from the store: the log's clock stands still.
        return Recorded(head.manifest.position + 1, head.manifest.log_time, event, payload)

    def _domains(
        self, head: Head, target: Head, ref: SegmentRef, recorded: Recorded
    ) -> dict[str, DomainManifest]:
        """The target's tables, except those of the log itself: it goes on.

        Batches that were consumed stay consumed: one that arrives again must not bring back
        what is rolled back.
        """
        current = self._manifests.domains(head)
        domains = {name: DomainManifest(name, 0, {}) for name in (*current, "log")}
        domains.update(self._manifests.domains(target))
        row = system.segment_row(
            ref, recorded.received_at, recorded.received_at, target.manifest.position
        )
        changes = {system.SEGMENTS: {(ref.first,): (ref.last, row)}}
        projected = Projected(changes, (), self._ids, self._clock.now())
        for make in projected.files:
            put_own(self._publisher.store, *make())
        log = projected.domains(current)[system.SEGMENTS.domain]
        for table in system.OWN_TABLES:
            if table.name in log.tables:
                domains["log"] = with_table(domains["log"], table.name, log.tables[table.name])
        return {n: msgspec.structs.replace(d, generation=0) for n, d in domains.items()}
