"""Every process has a clock of its own, which is wrong, drifts and jumps; the store's is right.

Ages are judged by the store's clock. A process whose clock is further from it than
`BOUND` is refused, as `Unavailable`, by all that commits or collects: it tries again
when its clock has come back. Within the bound nobody is refused. What must hold:
nothing is lost or doubled, no generation is destroyed, `published_at` is never further
ahead of the store's clock than the bound, and the floor never goes back.
"""

from __future__ import annotations

import contextlib
import random
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from arco.app import Workspace
from arco.catalog.events import NamespaceCreated
from arco.errors import Contended, Fenced, Unavailable
from arco.log.manifest import Floor, RootManifest, decode, decode_sealed
from arco.state.gc import LEASE_TTL
from arco.state.snapshot import AsOf
from arco.state.system import OUTCOMES
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from tests.kit.clocks import Machines, SimClock, SkewedClock
from tests.kit.depth import DEEP
from tests.kit.faults import Rule
from tests.kit.faulty import FaultyStore, StoreWrapper, UnreliableStore
from tests.kit.hooks import HookStore
from tests.kit.invariants import check_at_rest, check_chain
from tests.kit.keeping import keeping
from tests.kit.lake import KEPT, Lake, check_readable
from tests.kit.model import read_log
from tests.kit.scheduler import Actor
from tests.kit.workspace import make_workspace
from tests.simulation.test_interleaved import SEEDS, Simulation, check, replay, start

BOUND = timedelta(minutes=5)
"""How far a process's clock may be from the store's."""
NEAR = [timedelta(minutes=n) for n in (0, -1, 1, -3, 3)]
FAR = [
    *(timedelta(minutes=n) for n in (7, -7, 90, -90)),
    *(timedelta(hours=n) for n in (25, -25)),
    *(timedelta(days=n) for n in (9, -9, 400, -400)),
]
ERRORS = [*NEAR, *FAR] if DEEP else [NEAR[0], *NEAR[3:], *FAR[:2], *FAR[4:6], *FAR[8:]]
"""Of one process. Those of the minutes beside the bound, of a day and of a year are enough."""
GATE = timedelta(hours=1)
KEEP_LITTLE = keeping(generations=timedelta(hours=1), at_least=2)


class Published(NamedTuple):
    generation: int
    published_at: datetime
    at: datetime
    """By the store's clock."""


class Record(StoreWrapper):
    """Notes what is published, with the true time."""

    def __init__(self, inner: Store, clock: SimClock) -> None:
        super().__init__(inner)
        self._clock = clock
        self.published: list[Published] = []
        self.floors: list[int] = []

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        self.inner.put(path, data, mode)
        if paths.root_generation(path) is not None:
            root = decode(data, RootManifest, path)
            self.published.append(Published(root.generation, root.published_at, self._clock.now()))
        if paths.floor_number(path) is not None:
            self.floors.append(decode_sealed(data, Floor, path).generation)

    def _call(self, op: str, path: str, act: Any) -> Any:
        return act()

    def check(self) -> None:
        ahead = [p for p in self.published if p.published_at > p.at + BOUND]
        assert not ahead, f"published ahead of the store's clock: {ahead[:3]}"
        generations = [p.generation for p in self.published]
        assert len(set(generations)) == len(generations), "a generation was created twice"
        assert self.floors == sorted(self.floors), f"the floor went back: {self.floors}"


class SkewedSimulation(Simulation):
    def __init__(
        self, seed: int, *, faults: float, kills: float, errors: list[timedelta], jumps: float
    ) -> None:
        super().__init__(seed, faults=faults, kills=kills)
        self.record = Record(self.memory, self.clock)
        self.network = UnreliableStore(self.record, self.clock)
        self.faulty = FaultyStore(self.network, random.Random(seed + 1), faults, faults)
        self.patience = GATE / 2
        self.machines = Machines(
            self.clock, random.Random(seed + 5), errors, sane=len(NEAR), drift=0.002
        )
        self.scheduler.disturb("a clock", jumps, self.machines.disturb)

    def settings(self, actor: Actor) -> dict[str, Any]:
        return {"clock": self.machines.clock(actor.name), "age_gate": GATE}

    def _time_passes(self) -> None:
        super()._time_passes()
        if self._chance.random() < 0.003:
            self.clock.advance(timedelta(minutes=self._chance.choice([2, 10, 40])))

    def collector(self, actor: Actor) -> None:
        w = self.workspace(actor)
        self._repeat(lambda: w.upkeep.gc(KEEP_LITTLE, dry_run=False), 6)


CREW = {"writer": 2, "client": 2, "committer": 2, "merger": 1, "reader": 1, "collector": 2}


def simulate(seed: int, **settings: Any) -> SkewedSimulation:
    sim = SkewedSimulation(seed, **settings)
    start(sim, CREW)
    check(sim)
    try:
        sim.record.check()
        check_kept(make_workspace(sim.memory, 800_000 + seed, clock=sim.clock))
    except AssertionError as failure:
        failure.add_note(replay(seed))
        raise
    return sim


def check_kept(w: Workspace) -> None:
    """Every generation from the floor to the head is there."""
    check_chain(w)
    head = w.manifests.head().generation
    assert all(
        w.manifests.find(n) is not None for n in range(w.manifests.floor().generation, head + 1)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_clocks_within_the_bound_are_good_enough_for_everything(seed: int) -> None:
    sim = simulate(5000 + seed, faults=0.0, kills=0.0, errors=NEAR, jumps=0.01)
    refusals = [e for e in sim.passing if not isinstance(e, (Contended, Fenced))]
    assert [e for e in refusals if isinstance(e, Unavailable)] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_clocks_within_the_bound_with_faults_and_deaths_keep_every_promise(seed: int) -> None:
    simulate(6000 + seed, faults=0.02, kills=0.003, errors=NEAR, jumps=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_clocks_that_jump_by_minutes_to_years_keep_every_promise(seed: int) -> None:
    simulate(7000 + seed, faults=0.0, kills=0.0, errors=[*NEAR, *FAR], jumps=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_clocks_that_jump_with_faults_and_deaths_keep_every_promise(seed: int) -> None:
    simulate(8000 + seed, faults=0.02, kills=0.003, errors=[*NEAR, *FAR], jumps=0.02)


def test_same_seed_gives_the_same_jumps() -> None:
    def trace() -> list[tuple[str, str, str]]:
        sim = SkewedSimulation(5, faults=0.0, kills=0.0, errors=NEAR, jumps=0.05)
        start(sim, {"writer": 2, "committer": 1})
        return sim.scheduler.trace

    first = trace()
    assert first == trace()
    assert any(op == "disturbs" for _, op, _ in first)


# One process, one wrong clock


class World:
    """A store with the right time, and a workspace of some age on it."""

    def __init__(self) -> None:
        self.truth = SimClock()
        self.store = MemoryStore(self.truth)
        self.record = Record(self.store, self.truth)
        self._starts = 0
        w = self.open()
        self.acknowledged = [
            w.commands.catalog.create_namespace(f"n{n}").event_id for n in range(4)
        ]
        self.truth.advance(timedelta(days=3))
        self.acknowledged += [
            w.commands.catalog.create_namespace(f"m{n}").event_id for n in range(3)
        ]

    def open(self, error: timedelta = timedelta(0), store: Store | None = None) -> Workspace:
        self._starts += 1
        clock = SkewedClock(self.truth, offset=error)
        return make_workspace(store or self.record, self._starts, clock=clock)

    def check(self, *more: str) -> None:
        w = self.open()
        w.committer.commit()  # what a process that was refused has appended
        logged = [entry.id for entry in read_log(w)]
        check_at_rest(w, [*self.acknowledged, *more], logged)
        check_kept(self.open())
        self.record.check()


@pytest.fixture
def world() -> World:
    return World()


def gc(w: Workspace) -> bool:
    """Whether it was let."""
    try:
        w.upkeep.gc(KEEP_LITTLE, dry_run=False)
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_gc_with_a_wrong_clock_leaves_a_commit_in_flight_alone(
    world: World, error: timedelta
) -> None:
    collector = world.open(error)
    allowed: list[bool] = []
    hooks = HookStore(world.record)
    hooks.before("put", "manifests/000", lambda: allowed.append(gc(collector)))
    w = world.open(store=hooks)
    receipt = w.ledger.append([NamespaceCreated(namespace="in_flight")])
    w.committer.commit()
    world.check(*receipt.event_ids)
    if abs(error) <= BOUND:
        assert allowed == [True]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_commit_by_a_wrong_clock_leaves_the_time_of_the_workspace_alone(
    world: World, error: timedelta
) -> None:
    w = world.open(error)
    allowed = True
    try:
        world.acknowledged.append(w.commands.catalog.create_namespace("wrong").event_id)
    except Unavailable:
        allowed = False
    assert allowed or abs(error) > BOUND
    world.truth.advance(timedelta(minutes=30))
    done = world.open().commands.catalog.create_namespace("right")
    world.truth.advance(timedelta(minutes=30))
    later = world.open().commands.catalog.create_namespace("later")
    world.check(done.event_id, later.event_id)
    at = AsOf(world.truth.now() - timedelta(minutes=10))
    assert world.open().read.snapshot(at).generation == done.generation


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_lease_of_a_dead_holder_with_a_wrong_clock_ends_by_the_time_of_the_store(
    world: World, error: timedelta
) -> None:
    try:
        held = world.open(error).core.leases.acquire("gc", LEASE_TTL)
    except Unavailable:
        held = None
    world.truth.advance(2 * LEASE_TTL + BOUND)
    assert world.open().core.leases.acquire("gc", LEASE_TTL) is not None
    assert held is not None or abs(error) > BOUND


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_lease_that_is_held_is_not_taken_by_a_wrong_clock(world: World, error: timedelta) -> None:
    """It saves work only, so a clock within the bound may come too early."""
    assert world.open().core.leases.acquire("merge", timedelta(minutes=30)) is not None
    try:
        taken = world.open(error).core.leases.acquire("merge", timedelta(minutes=30))
    except Unavailable:
        taken = None
    assert taken is None


@pytest.mark.parametrize("error", [e for e in ERRORS if e not in NEAR], ids=str)
def test_collecting_data_with_a_wrong_clock_removes_nothing_that_is_young(
    error: timedelta,
) -> None:
    lake = Lake()
    lake.make("city.source")
    lake.settle()
    run_id = lake.begin("city.source")
    under_way = lake.write(run_id, "city.source", commit=False).materialization_id
    young = lake.leftover("city.derived")
    w = make_workspace(lake.memory, 9, clock=SkewedClock(lake.clock, offset=error))
    with contextlib.suppress(Unavailable):
        w.upkeep.collect_data(KEPT, dry_run=False)
    assert {under_way, young} <= lake.present()
    check_readable(lake.w)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_repeated_command_is_decided_once_whatever_the_clocks(
    world: World, error: timedelta
) -> None:
    first = world.open().commands.catalog.create_namespace("once", idempotency_key="key")
    again = world.open(error)
    try:
        answer = again.commands.catalog.create_namespace("once", idempotency_key="key")
    except Unavailable:
        assert abs(error) > BOUND
    else:
        assert (answer.event_id, answer.replayed) == (first.event_id, True)
    world.check(first.event_id)
    outcome = world.open().read.snapshot().get(OUTCOMES, "key")
    assert outcome is not None and outcome.event_id == first.event_id


def test_floor_that_arrives_late_does_not_lower_it(world: World) -> None:
    repeated = Rule("repeat", op="put", path="^manifests/floor")
    network = UnreliableStore(world.store, world.truth, [repeated])
    assert gc(world.open(store=network))
    world.truth.advance(timedelta(days=3))
    w = world.open()
    world.acknowledged += [w.commands.catalog.create_namespace(f"o{n}").event_id for n in range(4)]
    world.truth.advance(timedelta(days=3))
    world.acknowledged += [w.commands.catalog.create_namespace(f"p{n}").event_id for n in range(4)]
    assert gc(world.open())
    before = world.open().manifests.floor().generation
    assert network.held > 0
    network.release()
    assert gc(world.open())
    assert world.open().manifests.floor().generation >= before
    check_at_rest(world.open(), world.acknowledged, [e.id for e in read_log(world.open())])
    check_kept(world.open())
