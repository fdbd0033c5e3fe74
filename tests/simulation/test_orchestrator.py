"""Orchestrators and workers that die, stall, meet faults, and get in each other's way.

Whatever happens to them, a run ends as its code says: in the right state, each output
committed and counted once, nothing left over. Time is simulated; chance is seeded, and
ARCO_SIMULATION_SEEDS says with how many seeds.
"""

from __future__ import annotations

import copy
import functools
import os
import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from arco.app import Workspace
from arco.dispatch.liveness import LivenessRecord, beat
from arco.dispatch.queues.port import Delivery, Message, Queue
from arco.errors import Unavailable
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.log.envelope import Payload, decode_batch
from arco.orchestration import states
from arco.orchestration.board import Board
from arco.orchestration.events import AttemptLost, TaskStarted, TimerFired
from arco.orchestration.limits import Timing
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from arco.worker import service
from arco.worker.envelope import EnvelopeKey, EnvelopeSigner
from arco.worker.interrupt import Control
from arco.worker.staleness import Staleness
from servo.contract.task import ErrorInfo, TaskRequest, TaskResult
from tests.kit.clocks import SimClock
from tests.kit.faulty import CrashStore, FaultyStore, _Wrapper
from tests.kit.flows import (
    CITY,
    CITY_ATTEMPTS,
    CITY_ENDS,
    KEYS,
    Crowd,
    EngineProcess,
    OrchestratorProcess,
    WorkerProcess,
    board_state,
    check_attempts,
    check_board,
    check_run,
    check_store,
    city_script,
    deploy,
    end_of,
    project,
    queued,
    tasks_of,
    trigger,
)
from tests.kit.hooks import HookStore
from tests.kit.scheduler import Actor, Scheduler, TurnStore
from tests.kit.workspace import clone, make_workspace

T = TypeVar("T")
Process = OrchestratorProcess | WorkerProcess
SEEDS = range(int(os.environ.get("ARCO_SIMULATION_SEEDS", "3")))
CHANGING = ("put", "delete")


class World(NamedTuple):
    """A store with a run that was triggered, and nobody there yet to run it."""

    clock: SimClock
    store: MemoryStore
    run_id: str

    def crowd(self) -> Crowd:
        clock = copy.copy(self.clock)
        return Crowd(clone(self.store, clock), clock, self.run_id)


def make_world(*selection: str, text: str = CITY) -> World:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    deploy(w, text)
    return World(clock, store, trigger(w, *selection))


@pytest.fixture(scope="module")
def city() -> World:
    return make_world()


@pytest.fixture(scope="module")
def one() -> World:
    """A run of one task."""
    return make_world("city.alone")


def check_city(
    crowd: Crowd, *, exact: bool = True, late: bool = False, thorough: bool = True
) -> None:
    w = crowd.fresh()
    tasks = check_run(w, crowd.run_id, states.RUN_FAILED, CITY_ENDS, late=late)
    attempts = {key: task.attempt for key, task in tasks.items()}
    if exact:
        assert attempts == CITY_ATTEMPTS
    else:
        check_attempts(w, crowd.run_id)
    for o in crowd.orchestrators:
        check_board(o.board, w)
        assert o.orchestrator._sent == {}
    if thorough:
        check_store(w)


@contextmanager
def noted(text: str) -> Iterator[None]:
    try:
        yield
    except BaseException as failure:
        failure.add_note(text)
        raise


def replay(seed: int) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    return f"replay with: pytest '{test}'   (seed {seed})"


# -- death at every call -------------------------------------------------------------------


def die_everywhere(run: Callable[[Callable[[Store], Store], str, int], None]) -> int:
    """`run` a story with a store that dies at call 1, 2, 3 …; how many there were.

    A call that only reads leaves the store as the call before it did: to die there is to
    die after the last change.
    """
    wrapped: list[CrashStore] = []

    def dying_at(at: int) -> Callable[[Store], Store]:
        def wrap(store: Store) -> Store:
            wrapped.append(CrashStore(store, at, after_effect=True))
            return wrapped[-1]

        return wrap

    run(dying_at(10**9), "nobody dies", 0)
    calls = wrapped[-1].calls
    changing = [n for n, (op, _) in enumerate(calls, 1) if op in CHANGING]
    for count, at in enumerate([1, *changing]):
        run(dying_at(at), f"died after call {at}: {calls[at - 1]}", count)
    return len(changing)


def test_an_orchestrator_may_die_at_any_call(city: World) -> None:
    """Its worker goes on. To save time at every eighth place only; the next test has them all."""

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % 8:
            return
        crowd = city.crowd()
        crowd.orchestrator(dying(crowd.store))
        crowd.worker()
        with noted(where):
            crowd.finish()
            check_city(crowd, thorough=count % 32 == 0)

    assert die_everywhere(story) > 60


class Copying(_Wrapper):
    """Keeps a copy of the whole store as it is after each change."""

    def __init__(self, inner: MemoryStore, clock: SimClock) -> None:
        super().__init__(inner)
        self._memory = inner
        self._clock = clock
        self.copies: list[tuple[str, SimClock, MemoryStore]] = []

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((op, path))
        result = act()
        if op in CHANGING:
            clock = copy.copy(self._clock)
            self.copies.append((f"{op} {path}", clock, clone(self._memory, clock)))
        return result


def test_all_processes_may_die_with_the_orchestrator_at_any_call(city: World) -> None:
    crowd = city.crowd()
    assert isinstance(crowd.store, MemoryStore)
    copying = Copying(crowd.store, crowd.clock)
    crowd.orchestrator(copying)
    crowd.worker()
    crowd.finish()
    assert len(copying.copies) > 60
    for count, (where, clock, store) in enumerate(copying.copies):
        if "state/" in where and count % 4:
            continue  # one more file that nobody refers to
        after = Crowd(store, clock, city.run_id)
        after.orchestrator()
        after.worker()
        with noted(f"died after {where}"):
            after.finish()
            check_city(after, thorough=count % 30 == 0)


def test_a_worker_may_die_at_any_call(city: World) -> None:
    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        crowd = city.crowd()
        crowd.orchestrator()
        crowd.worker(dying(crowd.store))
        with noted(where):
            crowd.finish()
            check_city(crowd, exact=False, thorough=count % 15 == 0)
            tasks = tasks_of(crowd.fresh(), crowd.run_id)
            extra = sum(task.attempt - CITY_ATTEMPTS[key] for key, task in tasks.items())
            assert extra <= 1, "one death costs one attempt at most"

    assert die_everywhere(story) > 30


def test_an_engine_may_die_at_any_call(city: World) -> None:
    """Orchestrator, worker and queue in one process; tasks are sent ahead of the commit.
    To save time, at every third place."""

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % 3:
            return
        crowd = city.crowd()
        crowd.engine(dying(crowd.store))
        with noted(where):
            crowd.finish()
            check_city(crowd, exact=False, thorough=count % 15 == 0)
            tasks = tasks_of(crowd.fresh(), crowd.run_id)
            extra = sum(task.attempt - CITY_ATTEMPTS[key] for key, task in tasks.items())
            assert extra <= 3, "one death costs each of its tasks one attempt at most"

    assert die_everywhere(story) > 30


def test_engines_side_by_side_do_everything_once(city: World) -> None:
    crowd = city.crowd()
    for _ in range(3):
        crowd.engine()
    crowd.finish()
    check_city(crowd)


def test_what_was_sent_ahead_by_a_wrong_guess_is_sent_again_when_it_is_right() -> None:
    """Somebody declared the upstream's attempt lost before its success was appended."""
    crowd = make_world("city.alone", "city.after").crowd()
    engine = crowd.engine()
    lost = 0

    def lose(request: TaskRequest, control: Control) -> None:
        nonlocal lost
        if request.asset == "city.alone" and request.attempt == 1:
            lost += 1
            other = crowd.fresh()
            ids = {"task_id": request.task_id, "attempt_id": request.attempt_id}
            other.ledger.append([AttemptLost(run_id=request.run_id, reason="test", **ids)])
            other.committer.commit()

    engine.executor.during = lose
    crowd.finish()
    ran = [request.asset for request in engine.executor.ran]
    assert (lost, ran.count("city.after")) == (1, 2), "nothing was sent ahead"
    ends = {"city.alone": states.SUCCEEDED, "city.after": states.SUCCEEDED}
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, ends)
    check_store(crowd.fresh())


# -- faults --------------------------------------------------------------------------------


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


# -- two of everything ---------------------------------------------------------------------


class TwiceQueue:
    """Delivers every message once more, to whoever asks next, even after it is done."""

    def __init__(self, inner: Queue, again: deque[Delivery]) -> None:
        self._inner = inner
        self._again = again

    def take(self, limit: int, timeout_s: float) -> list[Delivery]:
        found = self._inner.take(limit, timeout_s)
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
        worker = crowd.worker()
        worker.queue = worker.worker._queue = TwiceQueue(worker.queue, again)
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
    other.rollback(before - 1, reason="test")
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


# -- stalls --------------------------------------------------------------------------------


class StallingStore(_Wrapper):
    """While `stalled`, calls that it says are unavailable."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.stalled: Callable[[str, str], bool] = lambda op, path: False

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        if self.stalled(op, path):
            raise Unavailable(f"{op} {path}: stalled")
        self.calls.append((op, path))
        return act()


def commits_fail(op: str, path: str) -> bool:
    return op == "put" and path.startswith((paths.SEGMENTS, paths.MANIFESTS, paths.STATE))


def writes_fail(op: str, path: str) -> bool:
    return op in CHANGING


def everything_fails(op: str, path: str) -> bool:
    return True


def waiting(crowd: Crowd) -> list[Payload | None]:
    """What lies in the inbox."""
    w = crowd.fresh()
    found: list[Payload | None] = []
    for meta in crowd.store.list(paths.INBOX):
        batch = decode_batch(
            crowd.store.get(meta.path).data, w.tenant, w.name, paths.inbox_name(meta.path)
        )
        found += [w.types.decode(e.type, e.version, e.data) for e in batch.events]
    return found


def append_noise(crowd: Crowd, times: int = 1) -> None:
    """Events that change nothing. While one waits, nobody knows what else does."""
    w = crowd.fresh()
    for _ in range(times):
        noise = TaskStarted(run_id="none", task_id="none", attempt_id="", worker_id="")
        w.ledger.append([noise])


@pytest.mark.parametrize("kind", [commits_fail, writes_fail, everything_fails])
def test_a_stall_of_ten_minutes_fires_loses_and_retries_nothing(
    city: World, kind: Callable[[str, str], bool]
) -> None:
    crowd = city.crowd()
    store = StallingStore(crowd.store)
    o = crowd.orchestrator(store)
    worker = crowd.worker(store)
    stalls = 0

    def stall(request: TaskRequest, control: Control) -> None:
        nonlocal stalls
        if request.asset != "city.left" or stalls:
            return
        stalls += 1
        worker.beat()  # it says that it works on this
        for _ in range(3):  # flaky waits for its retry by now, and this one is running
            o.step()
        assert o.board.timers, "no timer comes due"
        running = [task.asset_key for task in o.board.in_flight.values()]
        assert "city.left" in running
        append_noise(crowd)
        store.stalled = kind
        for _ in range(120):
            crowd.clock.sleep(5)
            if kind is commits_fail:
                worker.beat()
            o.step()
            found = [p for p in waiting(crowd) if isinstance(p, TimerFired | AttemptLost)]
            assert found == []
        store.stalled = lambda op, path: False
        # The orchestrator is back before the worker's next beat: it must not be rash.
        for _ in range(3):
            o.step()
            crowd.clock.sleep(1)
            worker.beat()
        tasks = tasks_of(crowd.fresh(), crowd.run_id)
        assert tasks["city.left"].state == states.RUNNING
        assert tasks["city.left"].attempt == 1

    worker.executor.during = stall
    crowd.finish()
    assert stalls == 1
    check_city(crowd)


def test_a_machine_that_slept_loses_no_attempt(one: World) -> None:
    """The wall clock jumps by an hour, for the worker and for whoever watches it."""
    crowd = one.crowd()
    o, worker = crowd.orchestrator(), crowd.worker()

    def sleep(request: TaskRequest, control: Control) -> None:
        for _ in range(20):
            worker.beat()
            o.step()
            crowd.clock.sleep(3)
        crowd.clock.suspend(timedelta(hours=1))
        for _ in range(5):
            o.step()
            crowd.clock.sleep(1)
        worker.beat()
        o.step()

    worker.executor.during = sleep
    crowd.finish()
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})
    assert tasks_of(crowd.fresh(), crowd.run_id)["city.alone"].attempt == 1


def test_what_a_worker_reported_before_it_let_go_is_not_lost(one: World) -> None:
    """It reports, and beats without the attempt, right after the orchestrator's commit."""
    crowd = one.crowd()
    hooks = HookStore(crowd.store)
    o, worker = crowd.orchestrator(hooks), crowd.worker()

    def long(request: TaskRequest, control: Control) -> None:
        for _ in range(20):
            worker.beat()
            o.step()
            crowd.clock.sleep(3)

    worker.executor.during = long
    o.step()
    [delivery] = worker.queue.take(1, 0)
    worker.worker.work(delivery)
    hooks.after("list", paths.INBOX, worker.beat)
    o.step()
    assert not any(isinstance(p, AttemptLost) for p in waiting(crowd))
    assert o.reports.due_in_s is None
    crowd.finish()
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})


def test_an_inbox_that_one_commit_cannot_empty_is_a_lag(one: World) -> None:
    """The worker's report lies behind 2,000 other batches."""
    crowd = one.crowd()
    o, worker = crowd.orchestrator(), crowd.worker()

    def flood(request: TaskRequest, control: Control) -> None:
        for _ in range(20):
            worker.beat()
            o.step()
            crowd.clock.sleep(3)
        append_noise(crowd, times=2_500)
        crowd.clock.sleep(1)  # what comes now has a later name

    worker.executor.during = flood
    o.step()
    [delivery] = worker.queue.take(1, 0)
    worker.worker.work(delivery)
    worker.beat()  # reported, and said to be at work on nothing
    o.step()
    assert list(crowd.store.list(paths.INBOX)), "it was emptied at once"
    assert o.reports.due_in_s is None, "it acted on what it could not know"
    crowd.finish()
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})


# -- cancelling ----------------------------------------------------------------------------


def cancelled_world() -> tuple[Crowd, OrchestratorProcess, WorkerProcess]:
    crowd = make_world("city.alone", "city.after").crowd()
    return crowd, crowd.orchestrator(), crowd.worker()


CANCELLED = {"city.alone": states.CANCELLED, "city.after": states.CANCELLED}


def check_cancelled(crowd: Crowd, *, late: int, thorough: bool = True) -> None:
    w = crowd.fresh()
    check_run(w, crowd.run_id, states.RUN_CANCELLED, CANCELLED, late=True)
    rows = [row.status for row in w.snapshot().all(MATERIALIZATIONS)]
    assert rows == ["LATE"] * late
    assert w.snapshot().all(PARTITIONS) == []
    for o in crowd.orchestrators:
        check_board(o.board, w)
    if thorough:
        check_store(w)


def test_a_worker_that_hears_of_the_cancellation_stops() -> None:
    crowd, o, worker = cancelled_world()

    def cancel(request: TaskRequest, control: Control) -> None:
        crowd.fresh().orchestration.cancel(crowd.run_id)
        o.step()
        assert not control.cancelled()
        worker.beat()
        assert control.cancelled()

    worker.executor.during = cancel
    crowd.finish()
    check_cancelled(crowd, late=0)


def test_a_worker_of_the_same_process_is_told_to_stop() -> None:
    crowd, o, worker = cancelled_world()
    o.orchestrator.interrupt = worker.worker.interrupt

    def cancel(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().orchestration.cancel(crowd.run_id)
        o.step()
        assert control.cancelled()

    worker.executor.during = cancel
    crowd.finish()
    check_cancelled(crowd, late=0)


def test_a_success_after_a_forced_cancellation_is_recorded_and_never_current() -> None:
    crowd, o, worker = cancelled_world()

    def cancel(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().orchestration.cancel(crowd.run_id, force=True)
        o.step()
        assert end_of(crowd.fresh(), crowd.run_id)

    worker.executor.during = cancel
    crowd.finish()
    check_cancelled(crowd, late=1)


def test_a_worker_that_does_not_stop_is_given_up_and_its_success_never_current() -> None:
    crowd, o, worker = cancelled_world()

    def ignore(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().orchestration.cancel(crowd.run_id)
        for _ in range(30):
            o.step()
            crowd.clock.sleep(3)
        assert end_of(crowd.fresh(), crowd.run_id), "the grace has passed"

    worker.executor.during = ignore
    crowd.finish()
    check_cancelled(crowd, late=1)


def test_a_grace_that_passes_during_a_stall_is_not_held_against_anybody() -> None:
    crowd, _, worker = cancelled_world()
    store = StallingStore(crowd.store)
    crowd.orchestrators.clear()
    o = crowd.orchestrator(store)

    def stall(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().orchestration.cancel(crowd.run_id)
        o.step()
        append_noise(crowd)
        store.stalled = commits_fail
        for _ in range(40):
            crowd.clock.sleep(5)
            o.step()
            worker.beat()
            assert not any(isinstance(p, AttemptLost) for p in waiting(crowd))
        assert control.cancelled()
        store.stalled = lambda op, path: False

    worker.executor.during = stall
    crowd.finish()
    check_cancelled(crowd, late=0)


def test_an_orchestrator_may_die_in_the_middle_of_a_cancellation() -> None:
    world = make_world("city.alone", "city.after")

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        crowd = world.crowd()
        first = crowd.orchestrator()
        worker = crowd.worker()

        def cancel(request: TaskRequest, control: Control) -> None:
            worker.flush()
            crowd.fresh().orchestration.cancel(crowd.run_id)
            crowd.orchestrators.remove(first)
            crowd.orchestrator(dying(crowd.store))
            crowd.workers.remove(worker)
            crowd.until(crowd.ended)
            crowd.workers.append(worker)

        worker.executor.during = cancel
        with noted(where):
            crowd.finish()
            check_cancelled(crowd, late=1, thorough=count % 30 == 0)

    assert die_everywhere(story) > 5


# -- nothing to do -------------------------------------------------------------------------


def test_an_orchestrator_with_nothing_to_do_writes_nothing() -> None:
    clock = SimClock()
    recording = HookStore(MemoryStore(clock))
    deploy(make_workspace(recording, 1, clock=clock), CITY)
    process = OrchestratorProcess(recording, clock, 2)
    process.step()
    check_idle(process, recording, clock)


def test_an_orchestrator_after_a_run_writes_nothing(city: World) -> None:
    crowd = city.crowd()
    recording = HookStore(crowd.store)
    process = crowd.orchestrator(recording)
    crowd.worker()
    crowd.finish()
    crowd.step()
    assert process.board.runs == {}
    check_idle(process, recording, crowd.clock)


def check_idle(process: OrchestratorProcess, recording: HookStore, clock: SimClock) -> None:
    for _ in range(5):
        recording.calls.clear()
        clock.sleep(30)
        assert process.step() == 0
        ops = [op for op, _ in recording.calls]
        assert not {"put", "delete"} & set(ops), recording.calls
        assert ops.count("list") <= 1, recording.calls
        assert len(ops) <= 4, recording.calls


def test_a_worker_with_nothing_to_do_writes_nothing(one: World) -> None:
    crowd = one.crowd()
    recording = HookStore(crowd.store)
    crowd.orchestrator()
    worker = crowd.worker(recording)
    crowd.finish()
    crowd.step()
    recording.calls.clear()
    for _ in range(5):
        crowd.clock.sleep(30)
        worker.step()
    assert {op for op, _ in recording.calls} <= {"list"}, recording.calls


# -- what cannot be done -------------------------------------------------------------------

EASY = {"city.alone": states.SUCCEEDED, "city.after": states.SUCCEEDED}


def test_a_task_whose_plan_is_gone_fails_and_says_so(city: World) -> None:
    crowd = city.crowd()
    [plan] = [meta.path for meta in crowd.store.list("") if "/plans/" in f"/{meta.path}"]
    crowd.store.delete(plan)
    w = crowd.fresh()
    other = trigger(w, "city.alone", "city.after")
    crowd.orchestrator()
    crowd.worker()
    crowd.finish()
    tasks = tasks_of(w, crowd.run_id)
    assert {task.state for task in tasks.values()} == {states.FAILED, states.SKIPPED}
    failed = tasks["city.top"]
    assert (failed.error_code, failed.attempt) == ("configuration.unsendable", 1)
    assert "plan a new run" in failed.error_hint
    crowd.until(lambda: end_of(w, other))
    check_run(crowd.fresh(), other, states.RUN_SUCCEEDED, EASY)


def test_a_plan_that_is_no_plan_fails_its_tasks(one: World) -> None:
    crowd = one.crowd()
    [plan] = [meta.path for meta in crowd.store.list("") if "/plans/" in f"/{meta.path}"]
    crowd.store.delete(plan)
    crowd.store.put(plan, b"{}")
    crowd.orchestrator()
    crowd.finish()
    task = tasks_of(crowd.fresh(), crowd.run_id)["city.alone"]
    assert (task.state, task.error_code) == (states.FAILED, "configuration.unsendable")
    assert "is no plan" in task.error_message


def test_a_plan_that_cannot_be_read_for_a_while_keeps_nobody_else(city: World) -> None:
    crowd = city.crowd()
    [plan] = [meta.path for meta in crowd.store.list("") if "/plans/" in f"/{meta.path}"]
    store = StallingStore(crowd.store)
    store.stalled = lambda op, path: path == plan
    w = crowd.fresh()
    other = trigger(w, "city.alone", "city.after")
    crowd.orchestrator(store)
    crowd.worker()
    crowd.until(lambda: end_of(w, other))
    check_run(crowd.fresh(), other, states.RUN_SUCCEEDED, EASY)
    assert end_of(w, crowd.run_id) is None
    store.stalled = lambda op, path: False
    crowd.finish()
    tasks = tasks_of(w, crowd.run_id)
    assert {key: task.attempt for key, task in tasks.items()} == CITY_ATTEMPTS


def test_an_artifact_with_another_digest_fails_its_tasks(tmp_path: Path) -> None:
    """With the real executor."""
    crowd = make_world("city.alone", "city.after").crowd()
    digest = project(CITY)[0].artifact
    crowd.store.delete(paths.artifact(digest))
    crowd.store.put(paths.artifact(digest), b"something else")
    crowd.orchestrator()
    worker = crowd.worker()
    w = worker.workspace
    signer = EnvelopeSigner(KEYS, crowd.clock)
    worker.worker = w.worker(worker.worker_id, worker.queue, worker.reports, signer, tmp_path)
    crowd.finish()
    tasks = tasks_of(crowd.fresh(), crowd.run_id)
    failed = tasks["city.alone"]
    assert (failed.state, failed.error_code, failed.attempt) == (
        states.FAILED,
        "artifact.invalid",
        1,
    )
    assert digest in failed.error_message
    assert tasks["city.after"].state == states.SKIPPED


def test_forged_and_unknown_messages_are_dropped(one: World) -> None:
    crowd = one.crowd()
    crowd.orchestrator().step()
    worker = crowd.worker()
    [real] = list(crowd.store.list(paths.QUEUE))
    body = crowd.store.get(real.path).data
    request = worker.executor.open(body)
    forger = EnvelopeSigner([EnvelopeKey("test", b"f" * 32)], crowd.clock)
    stranger = EnvelopeSigner([EnvelopeKey("who", b"f" * 32)], crowd.clock)
    hour = timedelta(hours=1)
    forged = [
        Message("forged", forger.seal(request, hour), 0),
        Message("stranger", stranger.seal(request, hour), 0),
        Message("garbage", b"\xff\x00", 0),
        Message("tampered", body.replace(b"city.alone", b"city.alona"), 0),
    ]
    worker.queue.put(forged)
    crowd.finish()
    assert [r.asset for r in worker.executor.ran] == ["city.alone"]
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})


def test_an_expired_envelope_is_dropped_and_sent_again(one: World) -> None:
    timing = Timing(linger_s=0.0, envelope_s=130.0)
    crowd = one.crowd()
    o = crowd.orchestrator(timing=timing)
    o.step()
    crowd.clock.sleep(200)  # nobody was there to take it
    worker = crowd.worker()
    crowd.finish()
    assert [(r.attempt, r.redelivery) for r in worker.executor.ran] == [(1, 1)]
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})


def test_a_queue_that_lost_everything_is_filled_again(city: World) -> None:
    crowd = city.crowd()
    o = crowd.orchestrator()
    o.step()
    crowd.clock.sleep(1)
    o.step()
    for meta in list(crowd.store.list(paths.QUEUE)):
        crowd.store.delete(meta.path)
    crowd.worker()
    crowd.finish()
    check_city(crowd)


# -- small things that must not stop the large ones -----------------------------------------


def test_a_put_that_failed_is_made_again(one: World) -> None:
    crowd = one.crowd()
    hooks = HookStore(crowd.store)
    hooks.fail("put", paths.QUEUE)
    o = crowd.orchestrator(hooks)
    o.step()
    assert o.orchestrator._sent == {}
    crowd.worker()
    crowd.finish()
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})


def test_listeners_that_fail_stop_nothing() -> None:
    crowd, o, worker = cancelled_world()

    def fails(_: str | Board) -> None:
        raise RuntimeError("listener")

    o.orchestrator.on_board = fails
    o.orchestrator.interrupt = fails

    def cancel(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().orchestration.cancel(crowd.run_id)
        o.step()
        worker.beat()

    worker.executor.during = cancel
    crowd.finish()
    check_cancelled(crowd, late=0)


def test_an_executor_that_raises_fails_the_attempt_and_lets_go(one: World) -> None:
    crowd = one.crowd()
    crowd.orchestrator()
    worker = crowd.worker()
    left = 2

    def broken(request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        nonlocal left
        left -= 1
        if left >= 0:
            raise RuntimeError("the executor is broken")
        return proper(request, control, again=again)

    proper, worker.executor.run = worker.executor.run, broken  # type: ignore[method-assign]
    crowd.finish()
    assert worker.worker.progress() == {}
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})
    assert tasks_of(crowd.fresh(), crowd.run_id)["city.alone"].attempt == 3


def test_a_result_that_cannot_be_written_down_fails_the_attempt(one: World) -> None:
    crowd = one.crowd()
    crowd.orchestrator()
    worker = crowd.worker()
    bad = ErrorInfo(category="user_code", code="user_code.X", message="\ud800")
    worker.executor.script = lambda request: bad if request.attempt == 1 else None
    crowd.finish()
    task = tasks_of(crowd.fresh(), crowd.run_id)["city.alone"]
    assert (task.state, task.attempt) == (states.SUCCEEDED, 2)
    assert worker.worker.progress() == {}


def test_reports_that_cannot_be_appended_wait_with_their_message(one: World) -> None:
    crowd = one.crowd()
    store = StallingStore(crowd.store)
    o = crowd.orchestrator()
    worker = crowd.worker(store)
    o.step()
    store.stalled = lambda op, path: op == "put" and path.startswith(paths.INBOX)
    for _ in range(40):  # three times as long as a claim, and as a worker may be silent
        worker.step()
        o.step()
        crowd.clock.sleep(5)
    assert len(worker.executor.ran) == 1
    assert len(worker.worker.progress()) == 1
    store.stalled = lambda op, path: False
    crowd.finish()
    assert len(worker.executor.ran) == 1
    check_run(crowd.fresh(), crowd.run_id, states.RUN_SUCCEEDED, {"city.alone": states.SUCCEEDED})
    assert tasks_of(crowd.fresh(), crowd.run_id)["city.alone"].attempt == 1


def test_a_worker_that_cannot_read_whether_to_stop_still_beats(one: World) -> None:
    crowd = one.crowd()
    worker = crowd.worker()

    def unreadable(runs: Collection[str]) -> set[str]:
        raise RuntimeError("no snapshot")

    worker.worker._cancelled = unreadable
    crowd.orchestrator().step()

    def long(request: TaskRequest, control: Control) -> None:
        for _ in range(20):
            crowd.clock.sleep(5)
            worker.beat()
            crowd.orchestrators[0].step()

    worker.executor.during = long
    crowd.finish()
    assert tasks_of(crowd.fresh(), crowd.run_id)["city.alone"].attempt == 1


def test_what_the_script_says_is_what_the_code_does(tmp_path: Path) -> None:
    """The whole of `CITY` with the real executor: the stand-in is no kinder."""
    crowd = make_world().crowd()
    crowd.orchestrator()
    worker = crowd.worker(script=city_script)
    signer = EnvelopeSigner(KEYS, crowd.clock)
    worker.worker = worker.workspace.worker(
        worker.worker_id, worker.queue, worker.reports, signer, tmp_path
    )
    crowd.finish()
    check_city(crowd)
    assert board_state(crowd.orchestrators[0].board)["runs"] == {}


# -- whose run it is -----------------------------------------------------------------------


def pooled(clock: SimClock) -> tuple[MemoryStore, str]:
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    deploy(w, CITY)
    return store, trigger(w, "city.alone", pool="local-1")


def test_a_run_of_another_engine_is_left_alone_while_that_is_alive() -> None:
    clock = SimClock()
    store, run_id = pooled(clock)
    process = OrchestratorProcess(store, clock, 2)
    for number in range(100):
        beat(store, LivenessRecord("local-1", number))
        process.step()
        clock.advance(timedelta(seconds=1))
    assert (list(process.board.others), process.board.runs) == ([run_id], {})
    assert queued(store) == []


def test_a_run_whose_engine_is_gone_is_taken_over_and_ends() -> None:
    clock = SimClock()
    store, run_id = pooled(clock)
    beat(store, LivenessRecord("local-1", 1))
    crowd = Crowd(store, clock, run_id)
    process = crowd.orchestrator()
    process.step()
    assert list(process.board.others) == [run_id]
    crowd.worker()
    crowd.finish()
    ended = end_of(crowd.fresh(), run_id)
    assert ended is not None
    assert ended.state == states.RUN_SUCCEEDED


def test_a_private_engine_serves_its_own_runs_and_those_it_is_given() -> None:
    clock = SimClock()
    store, run_id = pooled(clock)
    w = make_workspace(store, 3, clock=clock)
    mine = trigger(w, "city.alone", pool="local-3")
    signer = EnvelopeSigner(KEYS, clock)
    engine = w.orchestrator(w.memory_queue(), w.reports(), signer, pool="local-3")
    for _ in range(3):
        engine.tick()
        clock.advance(timedelta(minutes=5))
    assert (list(engine.board.runs), list(engine.board.others)) == ([mine], [run_id])
    engine.adopt(run_id)
    engine.tick()
    assert set(engine.board.runs) == {mine, run_id}
    assert len(engine.board.tasks[run_id]) == 1


def test_a_message_that_its_worker_cannot_open_is_left_to_others() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    deploy(w, CITY)
    run_id = trigger(w, "city.alone")
    crowd = Crowd(store, clock, run_id)
    crowd.orchestrator().step()
    stranger = crowd.worker()
    keys = [EnvelopeKey("other", b"another secret of a worker")]
    stranger.executor.open = EnvelopeOpener(keys, clock, w)  # type: ignore[method-assign]
    (taken,) = stranger.queue.take(1, 0.0)
    stranger.work(taken)
    assert [path for path in queued(store) if "/ready/" in path]
    crowd.workers.remove(stranger)
    crowd.worker()
    crowd.finish()
    ended = end_of(crowd.fresh(), run_id)
    assert ended is not None
    assert ended.state == states.RUN_SUCCEEDED


class EnvelopeOpener:
    def __init__(self, keys: Sequence[EnvelopeKey], clock: SimClock, w: Workspace) -> None:
        self._signer = EnvelopeSigner(keys, clock)
        self._w = w

    def __call__(self, raw: bytes) -> TaskRequest:
        return self._signer.open(raw, tenant=self._w.tenant, workspace=self._w.name)
