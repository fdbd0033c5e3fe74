"""Processes that sleep while others merge, join, collect: what they keep must still be true."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetCreated, AssetDropped, NamespaceCreated, NamespaceUpdated
from arco.errors import Denied
from arco.log.envelope import MAX_BATCH_BYTES, Payload
from arco.log.head import Head
from arco.log.publish import Publication
from arco.orchestration.events import PartitionKeysChanged
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.workspace import make_workspace

MINUTE = timedelta(minutes=1)


def commit(w: Workspace, *payloads: Payload) -> None:
    w.ledger.append(list(payloads))
    w.committer.commit()


def test_row_deleted_and_merged_away_does_not_come_back_in_a_process_that_slept() -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    awake, asleep = (make_workspace(memory, n, clock=clock) for n in (1, 2))
    awake.commands.catalog.create_namespace("sales")
    awake.commands.catalog.create_namespace("other")
    commit(awake, PartitionKeysChanged(keys="d", added=("k",)))
    asleep.commands.catalog.create_asset("sales.gone")
    clock.advance(MINUTE)
    (row,) = awake.read.catalog().assets("sales")
    updates = [NamespaceUpdated(namespace="other", description=str(n)) for n in range(60)]
    commit(awake, AssetDropped(namespace="sales", name="gone", asset_id=row.asset_id), *updates)
    for n in range(13):
        commit(awake, NamespaceUpdated(namespace="other", description=f"x{n}"))
    clock.advance(20 * MINUTE)
    assert awake.upkeep.merger.merge() is not None  # change files are joined
    clock.advance(41 * MINUTE)
    assert awake.upkeep.merger.merge() is not None  # the drop goes into the base, and ends there
    for n in range(17):
        commit(awake, AssetCreated(namespace="sales", name=f"a{n}"))
    assert awake.upkeep.merger.merge() is not None
    asleep.commands.catalog.create_asset("sales.gone")
    assert make_workspace(memory, 9, clock=clock).upkeep.rebuild(publish=False).same


def test_a_large_object_that_cannot_be_set_aside_hides_no_batch() -> None:
    class NoCopies(MemoryStore):
        def copy(self, source: str, target: str) -> None:
            raise Denied("copies are not allowed")

    clock = SimClock()
    store = NoCopies(clock)
    w = make_workspace(store, 1, clock=clock)
    w.commands.catalog.create_namespace("first")
    store.put(paths.inbox("000-big"), b"x" * ((8 << 20) + MAX_BATCH_BYTES + 1))
    for n in range(3):
        w.ledger.append([NamespaceCreated(namespace=f"n{n}")])
        w.committer.commit()
    assert len(w.read.catalog().namespaces()) == 4


def test_commit_of_a_sleeper_that_was_thinned_to_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    sleeper, others = (make_workspace(memory, n, clock=clock) for n in (1, 2))
    others.commands.catalog.create_namespace("sales")
    clock.advance(50 * MINUTE)
    settle = Publication.settle

    def slept(publication: Publication, created: Head) -> None:
        monkeypatch.undo()
        for n in range(60):
            clock.advance(30 * MINUTE)
            others.commands.catalog.create_namespace(f"n{n}")
            clock.advance(30 * MINUTE)
            others.commands.catalog.create_namespace(f"m{n}")
        others.upkeep.gc(dry_run=False)
        assert created.generation in others.manifests.floor().thinned_numbers()
        settle(publication, created)

    monkeypatch.setattr(Publication, "settle", slept)
    sleeper.commands.catalog.create_namespace("mine")
    fresh = make_workspace(memory, 3, clock=clock)
    assert fresh.read.catalog().namespace("mine").namespace == "mine"
    assert fresh.upkeep.fsck().clean
