"""Workspaces for tests: on memory, with a manual clock, seeded ids and seeded chance."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC
from typing import Any

from arco.app import Workspace
from arco.clock import Clock
from arco.log.envelope import Event, make_event
from arco.log.head import Head
from arco.log.manifest import TableManifest
from arco.log.publish import Proposal
from arco.state.project import with_table
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
    copy._objects = dict(store._objects)
    copy._names = list(store._names)
    return copy


def corrupt(store: MemoryStore, path: str, data: bytes) -> None:
    """Replace an object behind everybody's back, whatever its name."""
    meta = store._objects[path].meta if path in store._objects else None
    store.delete(path)
    store.put(path, data)
    if meta is not None:
        store._objects[path] = store._objects[path]._replace(meta=meta)


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
        )
        for step in steps
    ]


def sabotage(w: Workspace) -> None:
    """Publish a state that is not what the log says: two tables are empty."""

    def propose(head: Head) -> Proposal:
        domain = w.manifests.domains(head)["catalog"]
        for name in ("assets", "columns"):
            known = domain.tables[name]
            domain = with_table(domain, name, TableManifest(known.columns, known.key, known.shard))
        root = head.manifest
        return Proposal(
            kind="merge",
            domains={"catalog": domain},
            position=root.position,
            log_time=root.log_time,
            pending=root.pending_cleanup,
        )

    assert w.publisher.publish(propose) is not None
