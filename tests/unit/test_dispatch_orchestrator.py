"""How often an orchestrator looks, and what it does while a part of its store fails."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from arco.dispatch.orchestrator import IDLE
from arco.dispatch.unsent import DAMAGE_S, SEND_AGAIN_S
from arco.errors import Denied, Error, Unavailable
from arco.orchestration import states
from arco.orchestration.board import Board
from arco.orchestration.events import AttemptLost, TaskFinished
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import RUNS, RunRow
from arco.orchestration.window import ASSUMED_SLOTS, UNPLACED
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.transport.liveness import LivenessRecord, beat
from arco.transport.queues.capacity import Capacity
from servo.contract.task import ErrorInfo, TaskRequest, TaskResult
from tests.kit.clocks import SimClock
from tests.kit.flows import (
    CITY,
    CITY_ENDS,
    TIMING,
    EngineProcess,
    OrchestratorProcess,
    WorkerProcess,
    check_run,
    deploy,
    tasks_of,
    trigger,
)
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace


def test_an_idle_orchestrator_looks_ever_more_rarely_until_something_happens() -> None:
    clock = SimClock()
    store = HookStore(MemoryStore(clock))
    client = make_workspace(store, 1, clock=clock)
    deploy(client, CITY)
    orchestrator = OrchestratorProcess(store, clock, 2).orchestrator
    pauses = []
    for _ in range(20):
        orchestrator.run_round(())
        pauses.append(orchestrator.pause_s())
        clock.sleep(pauses[-1])
    assert pauses[0] == TIMING.interval_s
    assert pauses == sorted(pauses)
    assert pauses[-1] == IDLE * TIMING.interval_s
    trigger(client)
    orchestrator.run_round(())
    assert orchestrator.pause_s() <= TIMING.interval_s


def test_an_orchestrator_that_is_told_of_a_batch_looks_often_again() -> None:
    clock = SimClock()
    process = OrchestratorProcess(MemoryStore(clock), clock, 2)
    for _ in range(20):
        process.orchestrator.run_round(())
        clock.sleep(5)
    process.workspace.commands.catalog.create_namespace("shop")
    process.orchestrator.run_round(())
    assert process.orchestrator.pause_s() == TIMING.interval_s


# -- a queue that fails --------------------------------------------------------------------


class Refusing:
    """A run of which some tasks were sent, and a store that takes no more messages."""

    def __init__(self, error: Error) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.store = HookStore(self.memory)
        self.error: Error | None = None
        self.store.before("put", paths.QUEUE, self._refuse, times=10_000)
        self.client = make_workspace(self.memory, 1, clock=self.clock)
        deploy(self.client, CITY)
        self.run_id = trigger(self.client)
        self.process = OrchestratorProcess(self.store, self.clock, 2)
        self.worker = WorkerProcess(self.memory, self.clock, 3)
        self.round()
        self.error = error

    def _refuse(self) -> None:
        if self.error is not None:
            raise self.error

    def round(self) -> float:
        pause_s = self.process.orchestrator.run_round(["names"])
        self.clock.sleep(1)
        return pause_s

    def ends(self) -> set[str]:
        tasks = tasks_of(self.client, self.run_id)
        return {key for key, task in tasks.items() if task.state in states.TERMINAL}

    def run_state(self) -> str:
        row = self.client.read.snapshot().get(RUNS, self.run_id)
        assert row is not None
        return row.state


REFUSALS = pytest.mark.parametrize("error", [Denied("403"), Unavailable("SlowDown")])


@REFUSALS
def test_results_are_committed_while_the_queue_takes_nothing(error: Error) -> None:
    at = Refusing(error)
    at.worker.step()
    pauses = [at.round() for _ in range(10)]
    assert all(pauses)
    assert at.ends() == {"city.top", "city.alone"}
    assert list(at.memory.list(paths.INBOX)) == []
    at.error = None
    assert at.round() == 0.0
    assert at.process.orchestrator.outage.error is None
    while at.run_state() in states.RUN_ACTIVE:
        at.worker.step()
        at.round()
    check_run(at.client, at.run_id, RunState.FAILED, CITY_ENDS)


@REFUSALS
def test_orchestrator_whose_queue_takes_nothing_is_seen_to_be_alive(error: Error) -> None:
    at = Refusing(error)
    at.worker.step()
    signs = set()
    for _ in range(20):
        at.round()
        signs |= {meta.last_modified for meta in at.memory.list(paths.ORCHESTRATORS)}
    assert len(signs) > 2


@REFUSALS
def test_cancelled_run_ends_while_the_queue_takes_nothing(error: Error) -> None:
    at = Refusing(error)
    at.worker.step()
    at.client.commands.orchestration.cancel(at.run_id)
    for _ in range(10):
        at.round()
    assert at.run_state() == RunState.CANCELLED


def test_queue_that_cannot_be_listed_keeps_nothing_from_being_done() -> None:
    at = Refusing(Denied("403"))
    at.error = None
    at.store.before("list", paths.QUEUE, _denied, times=10_000)
    at.round()
    at.clock.sleep(2 * TIMING.redeliver_after_s)
    now = at.clock.now()
    assert at.round() > 0.0
    assert [meta.last_modified >= now for meta in at.memory.list(paths.ORCHESTRATORS)] == [True]
    at.worker.step()
    at.round()
    assert at.ends() >= {"city.top", "city.alone"}


def _denied() -> None:
    raise Denied("403")


def test_hurry_whose_queue_fails_is_noted_and_leaves_its_batches_to_the_commit() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    client = make_workspace(store, 1, clock=clock)
    deploy(client, CITY)
    run_id = trigger(client, "city.alone", "city.after")
    engine = EngineProcess(store, clock, 2)
    orchestrator, put = engine.orchestrator, engine.queue.put
    assert orchestrator.run_round(["names"]) == 0.0
    engine.worker.worker.work(*engine.queue.take(1, 0.0))
    engine.queue.put = lambda messages: _denied()  # type: ignore[method-assign]
    assert orchestrator.run_round(()) > 0.0
    assert orchestrator.outage.error is not None
    engine.queue.put = put  # type: ignore[method-assign]
    assert orchestrator.run_round(["names"]) == 0.0
    assert orchestrator.outage.error is None
    assert tasks_of(client, run_id)["city.alone"].state == TaskState.SUCCEEDED
    assert len(engine.queue.take(1, 0.0)) == 1


# -- runs of others ------------------------------------------------------------------------


class Foreign:
    """A run of an engine that is gone, and an orchestrator that is about to adopt it."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.client = make_workspace(self.store, 1, clock=self.clock)
        deploy(self.client, CITY)
        self.run_id = trigger(self.client, engine_id="gone")
        self.process = OrchestratorProcess(self.store, self.clock, 2)
        self.worker = WorkerProcess(self.store, self.clock, 3)
        self.process.step()
        assert list(self.process.board.others) == [self.run_id]
        self.process.orchestrator.adopt(self.run_id)

    def finish(self) -> None:
        for _ in range(100):
            self.process.step()
            self.worker.step()
            self.clock.sleep(1)


def test_run_that_is_reported_on_while_it_is_adopted_is_served_with_all_its_tasks() -> None:
    at = Foreign()
    task = tasks_of(at.client, at.run_id)["city.alone"]
    result = TaskResult(
        run_id=at.run_id,
        task_id=task.task_id,
        attempt=task.attempt,
        attempt_id=task.attempt_id,
        outcome="failed",
        worker_id="gone",
        error=ErrorInfo(category="user_code", code="user_code.ValueError", message="no way"),
    )
    at.client.ledger.append([TaskFinished(result=result)])
    at.finish()
    ends = CITY_ENDS | {"city.alone": TaskState.FAILED, "city.after": TaskState.SKIPPED}
    check_run(at.client, at.run_id, RunState.FAILED, ends)


def test_run_that_is_cancelled_while_it_is_adopted_ends() -> None:
    at = Foreign()
    at.client.commands.orchestration.cancel(at.run_id)
    at.finish()
    row = at.client.read.snapshot().get(RUNS, at.run_id)
    assert row is not None and row.state == RunState.CANCELLED
    assert at.process.board.others == {}


# -- workers that are gone -----------------------------------------------------------------

MANY = "from servo import asset\n" + "\n".join(
    f"@asset(namespace='many')\ndef a{number}() -> None: ..." for number in range(100)
)


def test_dead_workers_add_nothing_to_what_is_sent_after_a_restart_or_a_pause() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    client = make_workspace(store, 1, clock=clock)
    for number in range(14):
        beat(store, LivenessRecord(f"dead{number}", 3, {}, slots=4))
    clock.sleep(3_600)
    deploy(client, MANY)
    process = OrchestratorProcess(store, clock, 2)
    for _ in range(2):
        run_id = trigger(client)
        for _ in range(4):
            process.step()
            clock.sleep(3)
        assert len(process.board.in_flight) == 2 * ASSUMED_SLOTS
        client.commands.orchestration.cancel(run_id, force=True)
        for _ in range(10):
            process.step()
            clock.sleep(1)
        assert process.board.runs == {}
        clock.sleep(600)


def test_workers_that_went_during_a_pause_add_nothing_to_what_is_sent_after_it() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    client = make_workspace(store, 1, clock=clock)
    deploy(client, MANY)
    process = OrchestratorProcess(store, clock, 2)
    run_id = trigger(client)
    for number in range(4):
        beat(store, LivenessRecord("large", number, {}, slots=40))
        process.step()
        clock.sleep(3)
    assert len(process.board.in_flight) == 80
    client.commands.orchestration.cancel(run_id, force=True)
    for _ in range(10):
        process.step()
        clock.sleep(10)
    store.delete(paths.liveness("large"))
    trigger(client)
    process.step()
    process.step()
    assert len(process.board.in_flight) == 2 * ASSUMED_SLOTS


# -- runs whose plan is gone ---------------------------------------------------------------


class Planless:
    """An urgent run of many tasks whose plan is gone."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.store = HookStore(self.memory)
        self.client = make_workspace(self.memory, 1, clock=self.clock)
        deploy(self.client, MANY)
        self.run_id = trigger(self.client, priority=5)
        row = self.row()
        self.plan = paths.plan(row.plan_id)
        self.kept = self.memory.get(self.plan).data
        self.memory.delete(self.plan)
        self.process = OrchestratorProcess(self.store, self.clock, 2)

    def row(self) -> RunRow:
        row = self.client.read.snapshot().get(RUNS, self.run_id)
        assert row is not None
        return row

    def steps(self, seconds: int) -> None:
        for _ in range(seconds):
            self.process.step()
            self.clock.sleep(1)


def test_run_whose_plan_is_gone_ends_when_its_time_is_over_however_many_tasks_it_has() -> None:
    at = Planless()
    at.steps(int(DAMAGE_S) - 1)
    assert at.row().tasks_failed == 0
    at.steps(12)
    assert (at.row().state, at.row().tasks_failed) == (RunState.FAILED, 100)


def test_run_whose_plan_is_gone_takes_no_place_of_others_and_is_looked_at_rarely() -> None:
    at = Planless()
    deploy(at.client, MANY + "\n" + MANY.replace("'many'", "'more'"))
    other = trigger(at.client, "more.*")
    at.steps(3)
    assert {run_id for run_id, _ in at.process.board.in_flight} == {other}
    assert len(at.process.board.in_flight) == 2 * ASSUMED_SLOTS
    at.steps(10)
    assert at.store.count("get", at.plan) <= 13 / SEND_AGAIN_S + 1


def test_run_whose_plan_comes_back_is_sent() -> None:
    at = Planless()
    at.steps(int(DAMAGE_S) - 5)
    at.memory.put(at.plan, at.kept)
    at.steps(6)
    assert len(at.process.board.in_flight) == 2 * ASSUMED_SLOTS
    assert len(at.process.orchestrator.sender.unsent) == 0


def test_stopped_orchestrator_listens_no_more() -> None:
    clock = SimClock()
    w = make_workspace(MemoryStore(clock), 1, clock=clock)
    stop = threading.Event()
    stop.set()
    for _ in range(3):
        orchestrator = w.runtime.orchestrator(
            w.runtime.memory_queue(), w.runtime.reports(), w.runtime.signer()
        )
        orchestrator.run(stop)
        w.commands.catalog.create_namespace(f"n{len(w.read.catalog().namespaces())}")
        assert not orchestrator.commits


def test_tick_that_took_long_is_soon_followed_by_the_next() -> None:
    clock = SimClock()
    store = HookStore(MemoryStore(clock))
    w = make_workspace(store, 1, clock=clock)
    deploy(w, CITY)
    trigger(w)
    process = OrchestratorProcess(store, clock, 2)
    orchestrator = process.orchestrator
    process.step()
    process.step()
    assert orchestrator.pause_s() == pytest.approx(TIMING.busy_interval_s)
    store.before("list", paths.INBOX, lambda: clock.sleep(5.0))
    process.step()
    assert orchestrator.pause_s() == pytest.approx(TIMING.commit_spacing_s)


# -- tasks of several slots ----------------------------------------------------------------

HALL = """
from servo import Resources, asset, static

@asset(
    namespace="hall",
    partitions=static("n", [str(n) for n in range(40)]),
    resources=Resources(cpu=16),
)
def large() -> None: ...

@asset(namespace="hall", partitions=static("n", [str(n) for n in range(4)]))
def small() -> None: ...
"""


class Hall:
    """A run of 40 tasks of 16 slots, and one of four small tasks that comes later."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.client = make_workspace(self.store, 1, clock=self.clock)
        deploy(self.client, HALL)
        self.large = trigger(self.client, "hall.large")
        self.orchestrator = OrchestratorProcess(self.store, self.clock, 2)

    def worker(self, seed: int, slots: int) -> WorkerProcess:
        worker = WorkerProcess(self.store, self.clock, seed)
        worker.worker.capacity = Capacity(slots, self.clock)
        return worker

    def look(self, times: int = 5) -> None:
        for _ in range(times):
            self.orchestrator.step()
            self.clock.sleep(1)

    def states(self, run_id: str) -> Counter[str]:
        reader = OrchestrationReader(self.client.read.snapshot())
        return Counter(task.state for task in reader.tasks(run_id))

    def work(self, worker: WorkerProcess) -> int:
        """Whatever the worker has room for, one after the other."""
        capacity, count = worker.worker.capacity, 0
        while taken := worker.queue.take(1, 0.0, capacity):
            worker.work(taken[0])
            capacity.release(taken[0].message.weight)
            count += 1
        return count


def test_tasks_too_large_for_every_worker_do_not_stop_the_others() -> None:
    hall = Hall()
    worker = hall.worker(3, slots=2)
    hall.look()
    assert hall.states(hall.large) == {
        TaskState.DISPATCHED: UNPLACED,
        TaskState.READY: 40 - UNPLACED,
    }
    small = trigger(hall.client, "hall.small")
    hall.look()
    assert hall.work(worker) == 4
    hall.look()
    assert hall.states(small) == {TaskState.SUCCEEDED: 4}


def test_large_tasks_behind_a_busy_worker_do_not_keep_small_ones_from_another() -> None:
    hall = Hall()
    busy, free = hall.worker(3, slots=16), hall.worker(4, slots=2)
    hall.look()
    [delivery] = busy.queue.take(1, 0.0, busy.worker.capacity)
    worked = []

    def during(request: TaskRequest, control: object) -> None:
        busy.beat()
        hall.look()
        small = trigger(hall.client, "hall.small")
        for _ in range(3):
            busy.beat()
            hall.look()
            worked.append(hall.work(free))
        hall.look()
        worked.append(hall.states(small)[TaskState.SUCCEEDED])

    busy.executor.during = during
    busy.work(delivery)
    assert worked[-1] == 4
    assert hall.states(hall.large)[TaskState.DISPATCHED] <= UNPLACED


def test_orchestrators_that_follow_each_other_send_no_more_large_tasks() -> None:
    hall = Hall()
    for seed in range(5, 9):
        hall.look()
        hall.orchestrator = OrchestratorProcess(hall.store, hall.clock, seed)
    hall.look()
    assert hall.states(hall.large)[TaskState.DISPATCHED] == UNPLACED


def test_large_tasks_all_run_once_there_is_a_large_worker() -> None:
    hall = Hall()
    hall.look()
    worker = hall.worker(3, slots=16)
    for _ in range(40):
        hall.work(worker)
        hall.look(1)
    assert hall.states(hall.large) == {TaskState.SUCCEEDED: 40}


def test_two_orchestrators_with_the_same_reports_both_hear_of_commits() -> None:
    clock = SimClock()
    w = make_workspace(MemoryStore(clock), 1, clock=clock)
    reports = w.runtime.reports()
    boards: list[Board] = []
    both = [
        w.runtime.orchestrator(
            w.runtime.memory_queue(), reports, w.runtime.signer(), on_board=boards.append
        )
        for _ in range(2)
    ]
    for orchestrator in both:
        orchestrator.tick()
    w.commands.catalog.create_namespace("sales")
    reports.submit([AttemptLost(run_id="r", task_id="t", attempt_id="a", reason="test")])
    for orchestrator in both:
        orchestrator.tick()
    generation = w.manifests.head().generation
    assert [orchestrator.board.generation for orchestrator in both] == [generation, generation]
    assert {id(board) for board in boards} == {id(orchestrator.board) for orchestrator in both}
