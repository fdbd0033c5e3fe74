"""Rollback: an older generation's state, as a new generation.

The log is not rewritten. It gets one more event, which states that the positions after the older
generation's do not count; a rebuild leaves them out, so the state is still the fold of the log.
What was in the inbox stays there and is folded on top of the restored state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import ClassVar, TypeVar

import msgspec

from arco.errors import Invalid
from arco.log import segment as segments
from arco.log.commit import publish
from arco.log.contents import GenerationTables
from arco.log.envelope import Payload, Recorded, make_event
from arco.log.head import Head
from arco.log.manifest import ChangesRef, SegmentRef, sha256
from arco.log.projection import write_files
from arco.log.publish import Proposal, Publisher, left_to_delete
from arco.state import system
from arco.state.core import Core
from arco.state.pins import Pins
from arco.state.projector import Projected
from arco.storage import paths
from arco.storage.unique_objects import put_own

T = TypeVar("T")


class RolledBack(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "log.rolled_back"
    generation: int
    position: int
    reason: str


class Rollback:
    def __init__(self, core: Core, publisher: Publisher, pins: Pins) -> None:
        self._core = core
        self._publisher = publisher
        self._pins = pins

    def roll_back(self, generation: int, *, reason: str, actor: str = "") -> Head:
        """Publish the state of `generation` again; the new head."""
        head = self._core.manifests.head()
        if not 0 < generation < head.generation:
            raise Invalid(
                f"cannot roll back to generation {generation}; the head is {head.generation}",
                hint="choose a generation below the head",
            )
        pin = self._pins.pin(
            f"rollback-{self._core.ids()}", generation, reason, ttl=timedelta(days=1)
        )
        try:
            target = self._core.manifests.read(generation)
            published = publish(
                self._publisher.begin(), lambda head: self._propose(head, target, reason, actor)
            )
        finally:
            self._pins.release(pin.name)
        assert published is not None
        return published

    def _propose(self, head: Head, target: Head, reason: str, actor: str) -> Proposal:
        recorded = self._event(head, target, reason, actor)
        raw = segments.encode([recorded])
        position = recorded.position
        path = paths.segment(position, position, self._core.ids())
        ref = SegmentRef(path, sha256(raw), len(raw), position, position)
        put_own(self._core.store, path, raw)
        row = system.segment_row(
            ref, recorded.received_at, recorded.received_at, target.manifest.position
        )
        changes = {system.SEGMENTS: {(ref.first,): (ref.last, row)}}
        projected = Projected(self._core, changes, (), self._core.clock.now())
        added = write_files(self._core, projected.files)
        current = GenerationTables(self._core.manifests, head)
        return Proposal(
            kind="rollback",
            changes=_mixed(head.manifest.changes, target.manifest.changes) + added.changes,
            l0=_own(head.manifest.l0) | _not_own(target.manifest.l0),
            domains=target.manifest.domains,
            tables={
                str(table): current.table(str(table), table.manifest())
                for table in system.OWN_TABLES
            },
            position=position,
            log_time=recorded.received_at,
            segment=ref,
            pending=left_to_delete(head),
        )

    def _event(self, head: Head, target: Head, reason: str, actor: str) -> Recorded:
        payload = RolledBack(
            generation=target.generation, position=target.manifest.position, reason=reason
        )
        event = make_event(
            payload,
            id=self._core.ids(),
            time=self._core.clock.now(),
            source="arco",
            tenant=head.manifest.tenant_id,
            workspace=head.manifest.workspace_id,
            actor=actor,
        )
        # No batch, so no time from the store: the log's time does not change.
        return Recorded(head.manifest.position + 1, head.manifest.log_time, event, payload)


_OWN = {str(table) for table in system.OWN_TABLES}
"""The tables of the log itself are not rolled back: consumed batches stay consumed, so that one
that arrives again has no effect."""


def _own(tables: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in tables.items() if name in _OWN}


def _not_own(tables: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in tables.items() if name not in _OWN}


def _mixed(current: Iterable[ChangesRef], target: Iterable[ChangesRef]) -> tuple[ChangesRef, ...]:
    """The target's change files, and the current ones for the log's own tables."""
    refs: dict[str, ChangesRef] = {}
    chosen = [(ref, _not_own(ref.tables)) for ref in target]
    chosen += [(ref, _own(ref.tables)) for ref in current]
    for ref, tables in chosen:
        both = {**refs[ref.path].tables, **tables} if ref.path in refs else tables
        if both:
            refs[ref.path] = msgspec.structs.replace(ref, tables=both)
    return tuple(refs.values())
