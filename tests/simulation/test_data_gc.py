"""Collecting data dies at every store call, and meets others at every store call.

Whatever happens in between, every version that a reader of a kept or pinned generation,
a run, or somebody who decides about quarantine could ask for has its files (TRAPS 20).
"""

from __future__ import annotations

import contextlib
import copy
import functools
import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from arco.app import Workspace
from arco.errors import Contended, Error, NotFound
from arco.execution.collect import DataGcReport
from arco.execution.tables import QUARANTINE
from arco.state.gc import LEASE_TTL
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import DEEP, scaled, seeds
from tests.kit.faulty import CHANGING, Crash, CrashStore, FaultyStore, StoreWrapper
from tests.kit.flows import trigger
from tests.kit.lake import KEPT, Lake, check_readable, versions_with_files
from tests.kit.workspace import clone, make_workspace

pytestmark = pytest.mark.xdist_group("data_gc")  # which makes its world once

T = TypeVar("T")
PLACES = scaled(2, 12)
"""Calls, of all that one collection makes, before which somebody else acts."""


class World:
    """A lake with something of everything that GC must tell apart."""

    def __init__(self) -> None:
        lake = Lake()
        self.clock, self.store = lake.clock, lake.memory
        for _ in range(3):
            lake.make("city.source")
            lake.wait(2)
        lake.w.upkeep.pins.pin("audit", lake.w.read.snapshot().generation, "audit")
        self.active = lake.begin("city.derived")
        lake.wait(1)
        rejected = lake.make("city.recent", gate="quarantine")
        self.waiting = lake.make("city.recent", gate="block")
        (held,) = (
            row
            for row in lake.w.read.snapshot().all(QUARANTINE)
            if row.materialization_id == rejected
        )
        lake.w.commands.execution.decide(held, approved=False)
        lake.leftover("city.source")
        lake.leftover("city.derived")
        for _ in range(3):
            lake.wait(3)
            lake.make("city.source")
        lake.settle()
        self.before = lake.w.read.snapshot().generation
        lake.wait(1)
        self.taken_back = lake.make("city.source")
        self.after = lake.w.read.snapshot().generation
        lake.w.upkeep.rollback(self.before, reason="a mistake")
        lake.wait(1.2)
        self.report = lake.w.upkeep.collect_data(KEPT)
        assert {d.why for d in self.report.deletable} >= {"version", "leftover", "commit marker"}
        assert {g.status for g in self.report.expired} == {"GOOD", "REJECTED"}
        self.calls = calls(self)

    def copy(self) -> tuple[SimClock, MemoryStore]:
        clock = copy.copy(self.clock)
        return clock, clone(self.store, clock)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def collect(w: Workspace) -> DataGcReport:
    return w.upkeep.collect_data(KEPT, dry_run=False)


def check_done(w: Workspace, world: World) -> None:
    """A last time, undisturbed; then what was to go is gone, and nothing else."""
    check_readable(w)
    assert not collect(w).failed
    check_readable(w)
    present = versions_with_files(w.store)
    assert {g.materialization_id for g in world.report.expired}.isdisjoint(present)
    paths = {meta.path for meta in w.store.list("data/")}
    assert {d.path for d in world.report.deletable}.isdisjoint(paths)
    assert {world.waiting, world.taken_back} <= present


def calls(world: World) -> list[tuple[str, str]]:
    """Those of one undisturbed collection."""
    clock, store = world.copy()
    counting = CrashStore(store, 10**9, False)
    w = make_workspace(counting, 600, clock=clock)
    collect(w)
    assert w.upkeep.rebuild(publish=False).same
    assert w.upkeep.fsck().clean
    return counting.calls


def test_death_at_any_call_leaves_all_that_is_needed(world: World) -> None:
    """After calls that change something: between two of them the store is the same.

    One delete is like the next, and puts into one folder are alike: the first and the last of
    them stand for all, unless the test looks deep: then it has all puts, and some deletes.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for number, (op, path) in enumerate(world.calls, 1):
        if op in CHANGING:
            places.setdefault((op, path.partition("/")[0]), []).append(number)
    assert sum(map(len, places.values())) > 20 and len(places) > 3, places
    chosen: list[int] = []
    for (op, _), alike in places.items():
        step = 1 if op == "put" else max(len(alike) // PLACES, 1)
        chosen += alike[::step] if DEEP else {alike[0], alike[-1]}
    for at in chosen:
        clock, store = world.copy()
        crashing = CrashStore(store, at, after_effect=True)
        with contextlib.suppress(Crash):
            collect(make_workspace(crashing, 600, clock=clock))
        clock.advance(LEASE_TTL)  # the dead one's lease ends
        try:
            check_done(make_workspace(store, 7_000, clock=clock), world)
        except BaseException as failure:
            failure.add_note(f"died after call {at}: {crashing.calls[:at][-1]}")
            raise


# -- with others ----------------------------------------------------------------------------


class Meanwhile(StoreWrapper):
    """Before call number `at`, somebody else does something."""

    def __init__(self, inner: MemoryStore, at: int, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self._at = at
        self._act = act

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((op, path))
        if len(self.calls) == self._at:
            self._act()
        return act()


Other = Callable[[Workspace, World], object]


def take_back(w: Workspace, world: World) -> object:
    """Back to before the rollback, or to the oldest that is kept."""
    return w.upkeep.rollback(world.after, reason="it was none")


def go_far_back(w: Workspace, world: World) -> object:
    return w.upkeep.rollback(w.manifests.floor().generation, reason="start again")


def pin_and_go_back(w: Workspace, world: World) -> object:
    try:
        w.upkeep.pins.pin("mine", world.before - 6, "look")
        return w.upkeep.rollback(world.before - 6, reason="look")
    except NotFound:
        return None  # collected: a reader was told so


def go_back_to_the_pin(w: Workspace, world: World) -> object:
    (pin,) = w.upkeep.pins.active()
    return w.upkeep.rollback(pin.generation, reason="audit")


def run(w: Workspace, world: World) -> object:
    return trigger(w, "city.derived")


def make_more(w: Workspace, world: World) -> object:
    lake = Lake.__new__(Lake)
    lake.w = w
    return lake.make("city.source")


def collect_too(w: Workspace, world: World) -> object:
    try:
        return collect(w)
    except Contended:
        return None


OTHERS: list[Other] = [
    take_back,
    go_far_back,
    pin_and_go_back,
    go_back_to_the_pin,
    run,
    make_more,
    collect_too,
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.__name__)
def test_whatever_others_do_meanwhile_finds_its_files(world: World, other: Other) -> None:
    total = len(world.calls)
    first = OTHERS.index(other)  # so that, together, they are at more places
    for at in range(first + 1, total, max(total // PLACES, 1)):
        clock, store = world.copy()
        someone = make_workspace(store, 900, clock=clock)
        act = functools.partial(other, someone, world)
        meanwhile = Meanwhile(store, at, act)
        try:
            collect(make_workspace(meanwhile, 600, clock=clock))
        except Contended:
            assert other is collect_too
        try:
            check_readable(make_workspace(store, 7_000, clock=clock))
            clock.advance(LEASE_TTL)
            collect(make_workspace(store, 7_001, clock=clock))
            check_readable(make_workspace(store, 7_002, clock=clock))
        except BaseException as failure:
            failure.add_note(f"{other.__name__} before call {at}: {meanwhile.calls[:at][-1]}")
            raise


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_store_that_fails_at_random_loses_nothing(world: World, seed: int) -> None:
    clock, store = world.copy()
    faulty = FaultyStore(store, random.Random(seed), 0.05, 0.05)
    for attempt in range(2):
        clock.advance(LEASE_TTL)
        with contextlib.suppress(Error):
            collect(make_workspace(faulty, 600 + attempt, clock=clock))
        check_readable(make_workspace(store, 7_000 + attempt, clock=clock))
    clock.advance(LEASE_TTL)
    check_done(make_workspace(store, 7_777, clock=clock), world)
