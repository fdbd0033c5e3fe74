"""Dispatchers and workers on one faulty store, interleaved at every call by a seed.

Calls fail with or without effect, processes die and start again, sleep past their
claims, and lose sight of what they have. Nothing that was put may be lost; everything
is done in the end, and nothing is left behind. Where nothing fails and nobody sleeps,
everything is done once.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from collections import Counter

import pytest

from arco.errors import Unavailable
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from arco.transport.queues.objectstore import ObjectStoreQueue
from arco.transport.queues.port import Delivery, Message
from tests.kit.clocks import SimClock
from tests.kit.depth import seeds
from tests.kit.faulty import FaultyStore
from tests.kit.scheduler import Actor, Scheduler, TurnStore

SEEDS = seeds(4, 100)
CLAIM_S = 30.0
DISPATCHERS = 2
WORKERS = 3
MESSAGES = 12


class Simulation:
    def __init__(self, seed: int, *, faults: float, kills: float, sleepy: bool) -> None:
        self.seed = seed
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.faulty = FaultyStore(self.memory, random.Random(seed + 1), faults, faults)
        self.scheduler = Scheduler(random.Random(seed + 2), kill_rate=kills)
        self.scheduler.between = self._time_passes
        self.sleepy = sleepy
        self.eventful = bool(faults or kills or sleepy)
        self.put: set[str] = set()
        self.done: Counter[str] = Counter()
        self.numbers: dict[str, list[int]] = {}
        self.dispatching = DISPATCHERS
        self._chance = random.Random(seed + 3)
        self._starts = itertools.count()

    def _time_passes(self) -> None:
        if self.sleepy and self._chance.random() < 0.05:
            self.clock.sleep(self._chance.choice([0.1, CLAIM_S / 4, CLAIM_S / 2]))
        elif self._chance.random() < 0.3:
            self.clock.sleep(0.01)

    def queue(self, store: Store, name: str) -> ObjectStoreQueue:
        count = itertools.count()
        start = next(self._starts)
        rng = random.Random(f"{self.seed} {start}")
        claim_s = CLAIM_S if self.eventful else 1e6
        return ObjectStoreQueue(
            store, self.clock, name, lambda: f"{start}-{next(count)}", rng=rng, claim_s=claim_s
        )

    # Actors

    def dispatcher(self, actor: Actor) -> None:
        """Puts each message until it is told that it is there, and some again."""
        queue = self.queue(TurnStore(self.faulty, actor), actor.name)
        rng = random.Random(f"{self.seed} {actor.name} {actor.incarnation}")
        wanted = [
            Message(f"{actor.name}-{n}", b"body", n % 3)
            for n in range(MESSAGES)
            if f"{actor.name}-{n}" not in self.put
        ]
        while wanted:
            some = wanted[: rng.randrange(1, 4)]
            try:
                queue.put(some)
            except Unavailable:
                continue
            self.put |= {message.name for message in some}
            wanted = wanted[len(some) :]
        self.dispatching -= 1

    def worker(self, actor: Actor) -> None:
        queue = self.queue(TurnStore(self.faulty, actor), actor.name)
        rng = random.Random(f"{self.seed} {actor.name} {actor.incarnation}")
        held: list[Delivery] = []
        while self.dispatching or self.put - self.done.keys():
            try:
                found = queue.take(rng.randrange(1, 4), rng.choice([0.0, 0.5]))
                self._note(found)
                held += found
                self._step(queue, held, rng)
            except Unavailable:
                continue
        for delivery in held:
            with contextlib.suppress(Unavailable):
                self._finish(queue, delivery)

    def _note(self, found: list[Delivery]) -> None:
        for delivery in found:
            self.numbers.setdefault(delivery.message.name, []).append(delivery.number)

    def _step(self, queue: ObjectStoreQueue, held: list[Delivery], rng: random.Random) -> None:
        """Something that workers do with what they have."""
        if not held:
            return
        draw = rng.random()
        delivery = held[rng.randrange(len(held))]
        if draw < 0.6:
            held.remove(delivery)
            self._finish(queue, delivery)
        elif draw < 0.75:
            queue.renew(held)
        elif draw < 0.9:
            held.remove(delivery)
            queue.release([delivery])
        elif self.sleepy:
            held.remove(delivery)  # and never came back to it

    def _finish(self, queue: ObjectStoreQueue, delivery: Delivery) -> None:
        """The result is in the log; then the message is done."""
        self.done[delivery.message.name] += 1
        queue.done([delivery])

    def run(self) -> None:
        for n in range(DISPATCHERS):
            self.scheduler.spawn(f"d{n}", self.dispatcher)
        for n in range(WORKERS):
            self.scheduler.spawn(f"w{n}", self.worker)
        try:
            self.scheduler.run()
            self.faulty.armed = False
            self._work_off()
        except BaseException as failure:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
            failure.add_note(f"replay with: pytest '{test}'   (seed {self.seed})")
            raise

    def _work_off(self) -> None:
        """One worker, on a store that works again, does what is left."""
        queue = self.queue(self.memory, "last")
        for _ in range(12):
            found = queue.take(100, 0)
            self._note(found)
            for delivery in found:
                self._finish(queue, delivery)
            self.clock.sleep(CLAIM_S / 2)


def simulate(seed: int, *, faults: float, kills: float, sleepy: bool) -> Simulation:
    sim = Simulation(seed, faults=faults, kills=kills, sleepy=sleepy)
    sim.run()
    wanted = {f"d{d}-{n}" for d in range(DISPATCHERS) for n in range(MESSAGES)}
    assert sim.put == wanted
    assert set(sim.done) == wanted, f"seed {seed}"
    left = [meta.path for meta in sim.memory.list("queue/")]
    assert left == [], f"seed {seed}"
    return sim


@pytest.mark.parametrize("seed", SEEDS)
def test_without_faults_everything_is_done_once(seed: int) -> None:
    sim = simulate(seed, faults=0.0, kills=0.0, sleepy=False)
    assert set(sim.done.values()) == {1}
    for numbers in sim.numbers.values():
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_among_faults(seed: int) -> None:
    simulate(seed, faults=0.08, kills=0.0, sleepy=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_when_processes_die(seed: int) -> None:
    simulate(seed, faults=0.02, kills=0.02, sleepy=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_when_workers_sleep_and_forget(seed: int) -> None:
    simulate(seed, faults=0.04, kills=0.01, sleepy=True)
