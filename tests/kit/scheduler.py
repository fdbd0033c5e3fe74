"""Several processes on one store, interleaved at every store call, as a seed decides.

Each actor runs in a thread of its own, but only one of them ever runs: at each
store call it hands the baton back, and the scheduler's seeded generator picks who
goes on. So an interleaving is a function of the seed, and a failure can be
replayed. An actor can be killed at any such point, like a process: from then on
its store answers nothing but `Crash`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from arco.storage.port import Store
from tests.kit.faulty import Crash, StoreWrapper

T = TypeVar("T")
_STUCK_S = 120.0
_MAX_CALLS = 200_000


class Actor:
    """One process. `incarnation` counts how often it was started."""

    def __init__(self, scheduler: Scheduler, name: str, body: Callable[[Actor], None]) -> None:
        self.name = name
        self.incarnation = 0
        self.killed = False
        self.ended = False
        self.failure: BaseException | None = None
        self.scheduler = scheduler
        self.body = body
        self.go = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        self.go.acquire()
        try:
            while True:
                self.incarnation += 1
                self.killed = False
                try:
                    self.body(self)
                    return
                except Crash:
                    continue  # a supervisor starts it again
        except BaseException as failure:
            self.failure = failure
        finally:
            self.ended = True
            self.scheduler.back.release()

    def pause(self) -> None:
        """Let others run; called by the actor itself."""
        if self.killed:
            raise Crash(self.name)
        self.scheduler.back.release()
        self.go.acquire()
        if self.killed:
            raise Crash(self.name)


class TurnStore(StoreWrapper):
    """The store as one actor sees it: every call is a chance for somebody else."""

    def __init__(self, inner: Store, actor: Actor) -> None:
        super().__init__(inner)
        self._actor = actor

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self._actor.pause()
        self._actor.scheduler.trace.append((self._actor.name, op, path))
        return act()


class _Disturbance(NamedTuple):
    name: str
    rate: float
    act: Callable[[random.Random], str]
    rng: random.Random


class Scheduler:
    def __init__(self, rng: random.Random, *, kill_rate: float = 0.0) -> None:
        self._rng = rng
        self._kill_rate = kill_rate
        self.back = threading.Semaphore(0)
        self._actors: list[Actor] = []
        self.trace: list[tuple[str, str, str]] = []
        self.between: Callable[[], None] = lambda: None
        """Called between any two steps, for example to move the clock."""
        self._disturbances: list[_Disturbance] = []

    def disturb(self, name: str, rate: float, act: Callable[[random.Random], str]) -> None:
        """Between any two steps, call `act` with a chance of `rate`; it says what it did.

        What it did is part of the trace: it follows from the seed, as all else does.
        """
        rng = random.Random(self._rng.random())
        self._disturbances.append(_Disturbance(name, rate, act, rng))

    def spawn(self, name: str, body: Callable[[Actor], None]) -> None:
        self._actors.append(Actor(self, name, body))

    def run(self) -> None:
        """Until every actor has ended. Raises the first failure."""
        for actor in self._actors:
            actor.thread.start()
        while waiting := [a for a in self._actors if not a.ended]:
            actor = self._rng.choice(waiting)
            if self._rng.random() < self._kill_rate:
                actor.killed = True
            actor.go.release()
            if not self.back.acquire(timeout=_STUCK_S):
                raise TimeoutError(f"{actor.name} does not give the baton back")
            if actor.failure is not None:
                self._stop()
                raise actor.failure
            if len(self.trace) > _MAX_CALLS:
                self._stop()
                raise TimeoutError(f"no end after {_MAX_CALLS} calls: {self.trace[-20:]}")
            self.between()
            self._disturb()

    def _disturb(self) -> None:
        for each in self._disturbances:
            if each.rng.random() < each.rate:
                self.trace.append((each.name, "disturbs", each.act(each.rng)))

    def _stop(self) -> None:
        """Let the other threads end, for the process must not keep them."""
        for actor in self._actors:
            actor.body = lambda _: None
        for actor in self._actors:
            while not actor.ended:
                actor.killed = True
                actor.go.release()
                self.back.acquire(timeout=_STUCK_S)
