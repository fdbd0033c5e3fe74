"""How often an orchestrator looks, and what it does while a part of its store fails."""

from __future__ import annotations

import pytest

from arco.dispatch.liveness import LivenessRecord, beat
from arco.dispatch.orchestrator import IDLE
from arco.dispatch.unsent import DAMAGE_S, SEND_AGAIN_S
from arco.errors import Denied, Error, Unavailable
from arco.orchestration import states
from arco.orchestration.events import TaskFinished
from arco.orchestration.tables import RUNS, RunRow
from arco.orchestration.window import ASSUMED_SLOTS
from arco.storage import paths
from arco.storage.memory import MemoryStore
from servo.contract.task import ErrorInfo, TaskResult
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
        orchestrator._round(())
        pauses.append(orchestrator._pause_s())
        clock.sleep(pauses[-1])
    assert pauses[0] == TIMING.interval_s
    assert pauses == sorted(pauses)
    assert pauses[-1] == IDLE * TIMING.interval_s
    trigger(client)
    orchestrator._round(())
    assert orchestrator._pause_s() <= TIMING.interval_s


def test_an_orchestrator_that_is_told_of_a_batch_looks_often_again() -> None:
    clock = SimClock()
    process = OrchestratorProcess(MemoryStore(clock), clock, 2)
    for _ in range(20):
        process.orchestrator._round(())
        clock.sleep(5)
    process.workspace.catalog.create_namespace("shop")
    process.orchestrator._round(())
    assert process.orchestrator._pause_s() == TIMING.interval_s


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
        pause_s = self.process.orchestrator._round(["names"])
        self.clock.sleep(1)
        return pause_s

    def ends(self) -> set[str]:
        tasks = tasks_of(self.client, self.run_id)
        return {key for key, task in tasks.items() if task.state in states.TERMINAL}

    def run_state(self) -> str:
        row = self.client.snapshot().get(RUNS, self.run_id)
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
    check_run(at.client, at.run_id, states.RUN_FAILED, CITY_ENDS)


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
    at.client.orchestration.cancel(at.run_id)
    for _ in range(10):
        at.round()
    assert at.run_state() == states.RUN_CANCELLED


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
    assert orchestrator._round(["names"]) == 0.0
    engine.worker.worker.work(*engine.queue.take(1, 0.0))
    engine.queue.put = lambda messages: _denied()  # type: ignore[method-assign]
    assert orchestrator._round(()) > 0.0
    assert orchestrator.outage.error is not None
    engine.queue.put = put  # type: ignore[method-assign]
    assert orchestrator._round(["names"]) == 0.0
    assert orchestrator.outage.error is None
    assert tasks_of(client, run_id)["city.alone"].state == states.SUCCEEDED
    assert len(engine.queue.take(1, 0.0)) == 1


# -- runs of others ------------------------------------------------------------------------


class Foreign:
    """A run of an engine that is gone, and an orchestrator that is about to adopt it."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.client = make_workspace(self.store, 1, clock=self.clock)
        deploy(self.client, CITY)
        self.run_id = trigger(self.client, pool="gone")
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
    ends = CITY_ENDS | {"city.alone": states.FAILED, "city.after": states.SKIPPED}
    check_run(at.client, at.run_id, states.RUN_FAILED, ends)


def test_run_that_is_cancelled_while_it_is_adopted_ends() -> None:
    at = Foreign()
    at.client.orchestration.cancel(at.run_id)
    at.finish()
    row = at.client.snapshot().get(RUNS, at.run_id)
    assert row is not None and row.state == states.RUN_CANCELLED
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
        client.orchestration.cancel(run_id, force=True)
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
    client.orchestration.cancel(run_id, force=True)
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
        row = self.client.snapshot().get(RUNS, self.run_id)
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
    assert (at.row().state, at.row().tasks_failed) == (states.RUN_FAILED, 100)


def test_run_whose_plan_is_gone_takes_no_place_of_others_and_is_looked_at_rarely() -> None:
    at = Planless()
    other = trigger(at.client)
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
    assert len(at.process.orchestrator._unsent) == 0
