"""Workspaces for tests: on memory, with a manual clock, seeded ids and seeded chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

import msgspec

from arco.app import Workspace
from arco.clock import Clock
from arco.log.commit import publish
from arco.log.contents import GenerationTables
from arco.log.envelope import Event, Origin, make_event
from arco.log.head import Head
from arco.log.publish import Proposal, left_to_delete
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from servo.contract.ulid import UlidFactory
from tests.kit.clocks import SimClock
from tests.kit.histories import Step

TENANT = "acme"
NAME = "prod"


def seeded_ulids(clock: Clock, seed: int) -> UlidFactory:
    rng = random.Random(seed)
    return UlidFactory(
        lambda: int(clock.now().replace(tzinfo=UTC).timestamp() * 1000), rng.randbytes
    )


def make_workspace(
    store: Store | None = None, seed: int = 0, *, clock: Clock | None = None, **settings: Any
) -> Workspace:
    """A fresh process, so to speak: nothing is shared but the store and the clock.

    Two workspaces on one store need two seeds, as two processes have.
    """
    clock = clock or SimClock()
    store = MemoryStore(clock) if store is None else store
    settings.setdefault("ids", seeded_ulids(clock, seed))
    rng = random.Random(seed)
    return Workspace(store, TENANT, NAME, clock=clock, rng=rng, **settings)


def clone(store: MemoryStore, clock: Clock) -> MemoryStore:
    """The same objects, with the same times, in a store of their own."""
    copy = MemoryStore(clock)
    copy.objects = dict(store.objects)
    copy.names = list(store.names)
    return copy


def corrupt(store: MemoryStore, path: str, data: bytes) -> None:
    """Replace an object behind everybody's back, whatever its name."""
    meta = store.objects[path].meta if path in store.objects else None
    store.delete(path)
    store.put(path, data)
    if meta is not None:
        store.objects[path] = store.objects[path]._replace(meta=meta)


def inbox_names(store: Store) -> list[str]:
    return [paths.inbox_name(meta.path) for meta in store.list(paths.INBOX)]


def to_events(w: Workspace, steps: list[Step], ids: Callable[[], str]) -> list[Event]:
    """Wrap steps as events of this workspace, with ids that follow their order."""
    return [
        make_event(
            step.payload,
            id=step.event_id or ids(),
            time=w.clock.now(),
            source="tests",
            tenant=w.tenant,
            workspace=w.name,
            idempotency_key=step.idempotency_key,
            actor=step.actor,
            origin=Origin(kind="user", caller_id="7") if step.actor.endswith("1") else None,
        )
        for step in steps
    ]


def emptied(w: Workspace, head: Head, names: Sequence[str], kind: str) -> Proposal:
    """A generation in which some tables have no rows."""
    root = head.manifest
    contents = GenerationTables(w.manifests, head)
    changes = [
        msgspec.structs.replace(
            ref, tables={name: at for name, at in ref.tables.items() if name not in names}
        )
        for ref in root.changes
    ]
    return Proposal(
        kind=kind,
        changes=tuple(ref for ref in changes if ref.tables),
        l0={name: refs for name, refs in root.l0.items() if name not in names},
        tables={
            name: contents.table(name).with_files(base=(), l0=(), history=()) for name in names
        },
        position=root.position,
        log_time=root.log_time,
        pending=left_to_delete(head),
    )


def sabotage(w: Workspace) -> None:
    """Publish a state that is not what the log says: two tables are empty."""

    def propose(head: Head) -> Proposal:
        return emptied(w, head, ["catalog.assets", "catalog.columns"], "merge")

    assert publish(w.writer.publisher.begin(), propose) is not None
