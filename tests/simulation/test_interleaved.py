"""Writers, committers, mergers, readers and GC on one faulty store, interleaved by a seed.

Every store call is a point where another process may go on, where the call may
fail with or without effect, and where the process may die. What must hold at the
end: all that was acknowledged is in the log once, the tables are what the log
means, and fsck finds nothing. What must hold all the time: no reader sees half a
commit, or goes back in time.

The network may be worse than that: writes arrive late, or twice, and reads are spoilt.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from arco.app import Workspace
from arco.catalog.events import NamespaceCreated
from arco.errors import Conflict, Corrupt, Error, Fenced, NotFound, Refused, Unavailable
from arco.state.rewrite import Rewriter
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import seeds
from tests.kit.faults import Rule
from tests.kit.faulty import FaultyStore, UnreliableStore
from tests.kit.histories import History, random_draw
from tests.kit.invariants import check_at_rest, check_snapshot
from tests.kit.keeping import keeping
from tests.kit.model import check_against_model, read_log
from tests.kit.scheduler import Actor, Scheduler, TurnStore
from tests.kit.workspace import make_workspace, to_events

SEEDS = seeds(2, 40)
PASSING = (Unavailable, Conflict, Fenced)
"""What a process that works on may run into, and tries again."""
UNVERIFIED = "^(ledger/inbox/|manifests/[0-9]{20}.json$)"
"""Objects that no other object has a checksum of."""
LATE = (
    Rule("drop", op="put", rate=0.03),
    Rule("late", op="put", path="^ledger/inbox/", rate=0.1, delay_s=60),
    Rule("late", op="put", path="^manifests/", rate=0.05, delay_s=40),
    Rule("repeat", op="put", path="^ledger/inbox/", rate=0.2, delay_s=120),
    Rule("repeat", op="put", rate=0.05, delay_s=30),
)
SPOILT = (
    Rule("cut", rate=0.02),
    Rule("shorten", path=UNVERIFIED, rate=0.03, once_each=True),
    Rule("shorten", path=UNVERIFIED, rate=0.01, keep=0.0, once_each=True),
    Rule("page", path=UNVERIFIED, rate=0.02, once_each=True),
    Rule("flip", path=UNVERIFIED, rate=0.03, once_each=True),
)


class Simulation:
    def __init__(
        self,
        seed: int,
        *,
        faults: float,
        kills: float,
        sleepy: bool = False,
        rules: Sequence[Rule] = (),
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.network = UnreliableStore(self.memory, self.clock, rules, seed + 4)
        self.faulty = FaultyStore(self.network, random.Random(seed + 1), faults, faults)
        self.scheduler = Scheduler(random.Random(seed + 2), kill_rate=kills)
        self.scheduler.between = self._time_passes
        self.sleepy = sleepy
        self.patience = timedelta(hours=2)
        """Who took longer than this may find that GC has gone past."""
        self.acknowledged: list[str] = []
        self.attempted: list[str] = []
        self.answers: dict[str, str] = {}
        self.passing: list[Error] = []
        """What the processes ran into, and tried again after."""
        self.working = 0
        self._starts = 0
        self._chance = random.Random(seed + 3)

    def _time_passes(self) -> None:
        if self._chance.random() < 0.02:
            self.clock.sleep(self._chance.choice([0.001, 0.5, 30.0]))
        if self.sleepy and self._chance.random() < 0.004:
            self.clock.suspend(timedelta(hours=self._chance.choice([1, 5, 30, 80])))

    def workspace(self, actor: Actor) -> Workspace:
        """A process starts: nothing is warm, nothing is known."""
        self._starts += 1
        store = TurnStore(self.faulty, actor)
        return make_workspace(store, self.seed * 1000 + self._starts, **self.settings(actor))

    def settings(self, actor: Actor) -> dict[str, Any]:
        """What a process is started with."""
        return {"clock": self.clock}

    # Actors

    def writer(self, actor: Actor) -> None:
        w = self.workspace(actor)
        rng = random.Random(f"{self.seed} {actor.name} {actor.incarnation}")
        made = History(w.ids)
        for _ in range(8):
            steps = [made.step(random_draw(rng)) for _ in range(rng.randrange(1, 4))]
            events = to_events(w, steps, w.ids)
            self.attempted += [event.id for event in events]
            try:
                self.acknowledged += w.ledger.append(events).event_ids
            except Unavailable as error:
                self.passing.append(error)

    def client(self, actor: Actor) -> None:
        """A person: the same key until there is an answer, whatever happens in between."""
        w = self.workspace(actor)
        for n in range(4):
            key = f"{actor.name}-{n}"
            payload = NamespaceCreated(namespace=f"shared_{n}")
            while key not in self.answers:
                began = self.clock.now()
                try:
                    done = w.commands.tier1.execute(payload, idempotency_key=key)
                    self.answers[key] = "applied"
                    s = w.read.snapshot()
                    assert s.generation >= done.generation
                except Refused as refused:
                    self.answers[key] = refused.code
                except PASSING as error:
                    self.passing.append(error)
                    actor.pause()
                except (Corrupt, NotFound):
                    if not self.sleepy and self.clock.now() - began < self.patience:
                        raise

    def committer(self, actor: Actor) -> None:
        w = self.workspace(actor)
        self._repeat(lambda: w.committer.commit(), 10)

    def merger(self, actor: Actor) -> None:
        w = self.workspace(actor)
        rng = random.Random(f"{self.seed} {actor.name} {actor.incarnation}")

        def merge() -> None:
            if rng.random() < 0.5:
                w.upkeep.merger.merge(everything=True)
            else:
                self._merge_runs(w)

        self._repeat(merge, 5)

    def _merge_runs(self, w: Workspace) -> None:
        s = w.read.snapshot()
        swaps = [
            Rewriter(w.core).into_run(table, s.manifest(table).l0)
            for table in w.tables
            if len(s.manifest(table).l0) > 1
        ]
        if swaps:
            w.upkeep.merger.publish(swaps)

    def collector(self, actor: Actor) -> None:
        w = self.workspace(actor)
        retention = keeping(generations=timedelta(hours=1), at_least=2)
        self._repeat(lambda: w.upkeep.gc(retention, dry_run=False), 4)

    def reader(self, actor: Actor) -> None:
        w = self.workspace(actor)
        seen = 0

        def read() -> None:
            nonlocal seen
            s = w.read.snapshot()
            assert s.generation >= seen
            seen = s.generation
            check_snapshot(s)

        self._repeat(read, 6)

    def _repeat(self, act: Callable[[], object], times: int) -> None:
        for _ in range(times):
            began = self.clock.now()
            try:
                act()
            except PASSING as error:
                self.passing.append(error)
            except (Corrupt, NotFound):
                # Only who slept while GC went past may find its files gone.
                if self.clock.now() - began < self.patience:
                    raise

    def run(self) -> None:
        self.scheduler.run()
        self.faulty.armed = self.network.armed = False
        self.network.release()


def simulate(seed: int, **settings: Any) -> Simulation:
    sim = Simulation(seed, **settings)
    crew = {"writer": 2, "client": 2, "committer": 2, "merger": 1, "reader": 1}
    if sim.sleepy:
        crew["collector"] = 1
    start(sim, crew)
    return sim


def start(sim: Simulation, crew: Mapping[str, int]) -> None:
    """Have a crew of so many of each role work to its end."""
    for role, count in crew.items():
        for n in range(count):
            sim.scheduler.spawn(f"{role}{n}", getattr(sim, role))
    try:
        sim.run()
    except BaseException as failure:
        failure.add_note(replay(sim.seed))
        raise


def replay(seed: int) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    return f"replay with: pytest '{test}'   (seed {seed})"


def check(sim: Simulation) -> None:
    w = make_workspace(sim.memory, 900_000 + sim.seed, clock=sim.clock)
    try:
        while w.committer.commit().head.manifest.position < w.read.snapshot().position:
            pass
        w.committer.commit()
        logged = [entry.id for entry in read_log(w)]
        commands = [i for i in logged if i not in set(sim.attempted)]
        if sim.sleepy:
            # Who slept past all that is kept cannot find its batch, and says so or
            # puts it again; folds take it once.
            assert set(sim.acknowledged) <= set(logged)
            check_snapshot(w.read.snapshot())
            check_against_model(w)
            assert w.upkeep.fsck().clean, w.upkeep.fsck().findings
        else:
            check_at_rest(w, sim.acknowledged, [*sim.attempted, *commands])
        check_answers(sim)
        assert w.upkeep.rebuild(publish=False).same
    except BaseException as failure:
        failure.add_note(replay(sim.seed))
        raise


def check_answers(sim: Simulation) -> None:
    """Of those who raced for a name exactly one got it.

    A key is remembered for a day. Who sleeps for longer between two tries is
    refused by its own first try, at worst; never are there two winners.
    """
    for n in range(4):
        found = sorted(v for key, v in sim.answers.items() if key.endswith(f"-{n}"))
        expected = [["applied", "namespace_exists"]]
        if sim.sleepy:
            expected.append(["namespace_exists", "namespace_exists"])
        assert found in expected, (n, sim.answers)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_without_faults_keeps_every_promise(seed: int) -> None:
    check(simulate(seed, faults=0.0, kills=0.0))


@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_with_faults_and_deaths_keeps_every_promise(seed: int) -> None:
    check(simulate(1000 + seed, faults=0.03, kills=0.004))


@pytest.mark.parametrize("seed", SEEDS)
def test_processes_that_sleep_for_days_beside_gc_fork_nothing(seed: int) -> None:
    check(simulate(2000 + seed, faults=0.01, kills=0.002, sleepy=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_writes_that_arrive_late_or_twice_are_taken_once(seed: int) -> None:
    check(simulate(3000 + seed, faults=0.01, kills=0.002, rules=LATE))


@pytest.mark.parametrize("seed", SEEDS)
def test_spoilt_reads_lose_reject_and_break_nothing(seed: int) -> None:
    sim = simulate(4000 + seed, faults=0.0, kills=0.002, rules=SPOILT)
    check(sim)
    assert list(sim.memory.list(paths.REJECTED)) == []


def test_same_seed_gives_the_same_run_call_for_call() -> None:
    runs = [simulate(77, faults=0.03, kills=0.004).scheduler.trace for _ in range(2)]
    assert len(runs[0]) > 300
    assert runs[0] == runs[1]
