"""Several orchestrators, workers and engines on one store, in any order, with faults."""

from __future__ import annotations

import functools
import os
import random
from collections import deque
from collections.abc import Collection, Sequence

import pytest

from arco.transport.queues.port import Admission, Delivery, Message, Queue
from arco.worker import service
from arco.worker.staleness import Staleness
from tests.kit.depth import seeds
from tests.kit.faulty import FaultyStore
from tests.kit.flows import (
    EngineProcess,
    OrchestratorProcess,
    WorkerProcess,
    check_board,
    end_of,
)
from tests.kit.scheduler import Actor, Scheduler, TurnStore
from tests.kit.simulated_run import (
    World,
    check_city,
    noted,
)

Process = OrchestratorProcess | WorkerProcess
SEEDS = seeds(2, 20)


def replay(seed: int) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    return f"replay with: pytest '{test}'   (seed {seed})"


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_of_the_store_delay_and_change_nothing(city: World, seed: int) -> None:
    crowd = city.crowd()
    rate = (0.02, 0.05, 0.1)[seed % 3]
    stores = [FaultyStore(crowd.store, random.Random(f"{seed} {n}"), rate, rate) for n in range(3)]
    with noted(replay(seed)):
        crowd.orchestrator(stores[0])
        crowd.worker(stores[1])
        crowd.worker(stores[2])
        crowd.until(crowd.ended, steps=600)
        for store in stores:
            store.armed = False
        crowd.finish()
        check_city(crowd, exact=False, late=True, thorough=seed % 3 == 0)


class TwiceQueue:
    """Delivers every message once more, to whoever asks next, even after it is done."""

    def __init__(self, inner: Queue, again: deque[Delivery]) -> None:
        self._inner = inner
        self._again = again

    def take(
        self, limit: int, timeout_s: float, admission: Admission | None = None
    ) -> list[Delivery]:
        found = self._inner.take(limit, timeout_s, admission)
        self._again.extend(found)
        if not found and self._again:
            return [self._again.popleft()]
        return found

    def put(self, messages: Sequence[Message]) -> None:
        self._inner.put(messages)

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.renew(deliveries)

    def done(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.done(deliveries)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.release(deliveries)

    def withdraw(self, names: Sequence[str]) -> None:
        self._inner.withdraw(names)

    def held(self, names: Collection[str]) -> set[str]:
        return self._inner.held(names)


def test_two_orchestrators_and_a_queue_that_delivers_twice_count_once(
    city: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody looks whether an attempt is over: what runs twice counts once all the same.
    monkeypatch.setattr(service, "REMEMBERED", 0)
    monkeypatch.setattr(Staleness, "is_over", lambda self, request: False)
    crowd = city.crowd()
    again: deque[Delivery] = deque()
    crowd.orchestrator()
    crowd.orchestrator()
    for _ in range(2):
        crowd.worker(wrap=lambda queue: TwiceQueue(queue, again))
    crowd.finish()
    ran = [r.attempt_id for worker in crowd.workers for r in worker.executor.ran]
    assert len(ran) > len(set(ran)), "nothing was delivered twice"
    check_city(crowd)


class Interleaved:
    """Processes that may meet at every call of the store: two orchestrators and two workers,
    or two engines."""

    def __init__(
        self, world: World, seed: int, *, faults: float, kills: float, engines: bool = False
    ) -> None:
        self.crowd = world.crowd()
        self.seed = seed
        self.faulty = FaultyStore(self.crowd.store, random.Random(seed), faults, faults)
        self.scheduler = Scheduler(random.Random(seed + 1), kill_rate=kills)
        self.scheduler.between = lambda: self.crowd.clock.sleep(0.002)
        crew: dict[str, type[Process]] = {"e1": EngineProcess, "e2": EngineProcess}
        separate: dict[str, type[Process]] = {"o": OrchestratorProcess, "w": WorkerProcess}
        if not engines:
            crew = {f"{role}{n}": kind for n in (1, 2) for role, kind in separate.items()}
        for name, kind in crew.items():
            self.scheduler.spawn(name, functools.partial(self.live, kind))
        self._looking = self.crowd.fresh()

    def ended(self) -> bool:
        return end_of(self._looking, self.crowd.run_id) is not None

    def _seed(self, actor: Actor) -> int:
        return hash_of(self.seed, actor.name, actor.incarnation)

    def live(self, kind: type[Process], actor: Actor) -> None:
        """One life of a process, until the run has ended or it is killed."""
        process = kind(TurnStore(self.faulty, actor), self.crowd.clock, self._seed(actor))
        while not self.ended():
            if not process.step():
                self.crowd.clock.sleep(0.3)
            actor.pause()

    def run(self) -> None:
        self.scheduler.run()
        self.faulty.armed = False
        # What is left in the queue goes when nobody is killed any more.
        self.crowd.orchestrator()
        self.crowd.worker()
        self.crowd.finish()


def hash_of(*parts: object) -> int:
    return random.Random(repr(parts)).randrange(1000, 10**9)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_without_faults_costs_no_attempt(city: World, seed: int) -> None:
    with noted(replay(seed)):
        sim = Interleaved(city, seed, faults=0.0, kills=0.0)
        sim.run()
        check_city(sim.crowd, thorough=seed % 3 == 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_with_faults_and_deaths_ends_right(city: World, seed: int) -> None:
    with noted(replay(seed)):
        sim = Interleaved(city, 1000 + seed, faults=0.01, kills=0.005)
        sim.run()
        check_city(sim.crowd, exact=False, late=True, thorough=seed % 3 == 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_of_engines_costs_no_attempt(city: World, seed: int) -> None:
    with noted(replay(seed)):
        sim = Interleaved(city, 2000 + seed, faults=0.0, kills=0.0, engines=True)
        sim.run()
        check_city(sim.crowd, late=True, thorough=seed % 3 == 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_interleaving_of_engines_that_fail_and_die_ends_right(city: World, seed: int) -> None:
    with noted(replay(seed)):
        sim = Interleaved(city, 3000 + seed, faults=0.02, kills=0.01, engines=True)
        sim.run()
        check_city(sim.crowd, exact=False, late=True, thorough=seed % 3 == 0)


def test_a_board_of_another_lineage_is_loaded_anew(city: World) -> None:
    """A rollback in between: what was committed by this process is not applied on top."""
    crowd = city.crowd()
    o = crowd.orchestrator()
    worker = crowd.worker()
    o.step()
    worker.step()
    o.step()
    before = o.board.generation
    worker.step()
    other = crowd.fresh()
    other.upkeep.rollback(before - 1, reason="test")
    o.step()
    crowd.clock.sleep(1)
    o.step()
    check_board(o.board, crowd.fresh())
    assert o.board.generation > before + 1


def test_commits_of_others_between_our_own_are_seen(city: World) -> None:
    crowd = city.crowd()
    mine, other = crowd.orchestrator(), crowd.orchestrator()
    crowd.worker()
    for n in range(60):
        (mine if n % 3 else other).step()
        check_board((mine if n % 3 else other).board, crowd.fresh())
        crowd.workers[0].step()
        crowd.clock.sleep(1)
    crowd.finish()
    check_city(crowd)
