"""Upkeep that holds: pins, floors, compactors, small files, look-ups that skip days."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from arco.catalog.events import AssetObserved
from arco.catalog.tables import ASSET_STATS, NAMESPACES
from arco.errors import Contended, Corrupt, NotFound, Unavailable
from arco.log.head import Head
from arco.state.gc import LEASE
from arco.state.snapshot import AsOfRow
from arco.state.system import COMMANDS, SEGMENTS
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.keeping import keeping
from tests.kit.workspace import make_workspace

KEEP_LITTLE = keeping(
    generations=timedelta(0),
    at_least=1,
    rejected=timedelta(0),
)


def test_a_pin_that_fails_leaves_the_pin_of_that_name_as_it_was() -> None:
    w = make_workspace()
    for name in ("a", "b", "c"):
        w.commands.catalog.create_namespace(name)
    w.upkeep.pins.pin("keep", 2, "before the audit")
    with pytest.raises(NotFound, match="no generation 999"):
        w.upkeep.pins.pin("keep", 999, "a typing error")
    assert [(pin.name, pin.generation) for pin in w.upkeep.pins.all()] == [("keep", 2)]


def test_only_one_gc_works_at_a_time() -> None:
    w = make_workspace()
    w.commands.catalog.create_namespace("a")
    with w.core.leases.hold(LEASE, timedelta(minutes=1)), pytest.raises(Contended):
        w.upkeep.gc(KEEP_LITTLE, dry_run=False)
    assert not w.upkeep.gc(KEEP_LITTLE, dry_run=False).dry_run


def test_the_first_generation_of_a_thing_is_not_guessed_after_gc() -> None:
    clock = SimClock()
    w = make_workspace(clock=clock)
    w.commands.catalog.create_namespace("a")
    at = AsOfRow(NAMESPACES, ("a",), lambda row: True, "namespace a exists")
    assert w.read.snapshot(at).generation == 1
    for name in ("b", "c", "d"):
        clock.sleep(timedelta(days=2).total_seconds())
        w.commands.catalog.create_namespace(name)
    w.upkeep.gc(KEEP_LITTLE, dry_run=False)
    with pytest.raises(NotFound, match="collected"):
        w.read.snapshot(at)


def test_a_merger_that_fails_for_good_ends_the_compactor(monkeypatch: pytest.MonkeyPatch) -> None:
    w = make_workspace()

    def broken(*, everything: bool = False) -> Head | None:
        raise Corrupt("a file is damaged")

    monkeypatch.setattr(w.upkeep.merger, "merge", broken)
    compactor = w.upkeep.compactor(threading.Event(), interval_s=0.01, merge_interval_s=0.01)
    with pytest.raises(Corrupt, match="damaged"):
        compactor.run()


def test_draining_says_so_when_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    w = make_workspace()

    def dark(names: object = ()) -> None:
        raise Unavailable("the store does not respond")

    monkeypatch.setattr(w.committer, "commit", dark)
    with pytest.raises(Unavailable):
        w.upkeep.compactor(threading.Event()).drain()


def test_rows_that_leave_do_not_shatter_a_table_into_tiny_files() -> None:
    clock = SimClock()
    w = make_workspace(clock=clock)
    for day in range(12):
        for n in range(4):
            w.commands.catalog.create_namespace(f"n_{day}_{n}")
        w.upkeep.merger.merge(everything=True)
        clock.sleep(timedelta(days=1, minutes=1).total_seconds())
    snapshot = w.read.snapshot()
    for table in (COMMANDS, SEGMENTS):
        manifest = snapshot.manifest(table)
        assert len(manifest.base) <= 2 and len(manifest.history) > 5, table
    assert len(snapshot.all(COMMANDS)) == 48


def test_a_look_up_opens_only_the_days_that_can_hold_its_key() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, clock=clock)
    made = []
    for day in range(6):
        made.append(w.commands.catalog.create_namespace(f"n_{day}").event_id)
        w.upkeep.merger.merge(everything=True)
        clock.sleep(timedelta(days=1, minutes=1).total_seconds())
    snapshot = make_workspace(store, 9, clock=clock).read.snapshot()
    read: list[str] = []
    get = store.get

    def counting(path: str) -> object:
        read.append(path)
        return get(path)

    store.get = counting  # type: ignore[method-assign, assignment]
    assert snapshot.get(COMMANDS, made[0]) is not None
    old = [path for path in read if path.startswith(f"{paths.STATE}log/commands/history/")]
    assert len(old) == 1


def test_warm_state_stays_in_its_budget_while_it_loads() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    writer = make_workspace(store, 1, clock=clock)
    ids = [f"asset_{n:05d}" for n in range(3_000)]
    facts = [AssetObserved(asset_id=i, row_count=1, size_bytes=1) for i in ids]
    writer.ledger.append(facts)
    writer.committer.commit()
    writer.upkeep.merger.merge(everything=True)
    clock.sleep(1)  # of two observations, the one with the greater id counts
    small = make_workspace(store, 2, clock=clock, warm_budget_bytes=20_000)
    small.ledger.append([AssetObserved(asset_id=i, row_count=2, size_bytes=1) for i in ids])
    small.committer.commit()
    assert all(small.read.snapshot().get(ASSET_STATS, i).row_count == 2 for i in ids[::97])  # type: ignore[union-attr]
    projector = small.projector
    warm = projector.warm
    assert sum(bucket.nbytes for bucket in warm.buckets.values()) <= 20_000
