"""Orchestrators and workers whose store fails for a while, in every way that it can.

The parts of their real loops are called in turn, on a clock that moves only when told to:
what these loops do about errors is what is tested.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

import pytest

from arco.errors import Corrupt, Denied, Error, Invalid, NotFound, Unavailable, Unreadable
from arco.orchestration.states import RunState
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.outage import LONGEST_PAUSE_S, Outage
from arco.transport.liveness import orchestrator_signs, worker_signs
from tests.kit.clocks import SimClock
from tests.kit.flows import (
    CITY,
    CITY_ENDS,
    Crowd,
    OrchestratorProcess,
    WorkerProcess,
    check_attempts,
    check_run,
    check_store,
    deploy,
    end_of,
    tasks_of,
    trigger,
)
from tests.kit.outages import DownStore, Fails, everything, reads, writes
from tests.kit.workspace import clone, make_workspace


@pytest.fixture(scope="module")
def city() -> tuple[SimClock, MemoryStore, str]:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    deploy(w, CITY)
    return clock, store, trigger(w)


class Loops:
    """An orchestrator and two workers on one store that may fail."""

    def __init__(self, city: tuple[SimClock, MemoryStore, str]) -> None:
        clock, store, self.run_id = city
        self.clock = SimClock()
        self.clock.sleep((clock.now() - self.clock.now()).total_seconds())
        self.inner = clone(store, self.clock)
        self.store = DownStore(self.inner)
        self.crowd = Crowd(self.inner, self.clock, self.run_id)
        self.orchestrator = OrchestratorProcess(self.store, self.clock, 20)
        self.workers = [WorkerProcess(self.store, self.clock, seed) for seed in (21, 22)]
        self._reporting = [Outage(self.clock, "reports", patient=True) for _ in self.workers]
        self._renewing = [Outage(self.clock, "claims", patient=True) for _ in self.workers]
        self._stop = threading.Event()

    def round(self) -> None:
        """What the loops of these processes do within about five seconds."""
        self.orchestrator.orchestrator.run_round(())
        for process, reporting, renewing in zip(
            self.workers, self._reporting, self._renewing, strict=True
        ):
            worker = process.worker
            for _ in range(2):
                worker.take_one(self._stop)
            process.reports.try_to_flush(reporting)
            worker.once(worker.beat, worker.beating)
            worker.once(worker.renew, renewing)
        self.clock.sleep(2.0)

    def until(self, reached: Callable[[], object]) -> None:
        for _ in range(300):
            if reached():
                return
            self.round()
        raise AssertionError(f"stuck: {self.crowd.describe()}")

    def ended(self) -> bool:
        return end_of(self.crowd.looking, self.run_id) is not None


@pytest.mark.parametrize("fails", [everything, writes, reads])
@pytest.mark.parametrize("error", [Denied, Unavailable, Corrupt, NotFound])
@pytest.mark.parametrize("begins", [1, 4])
def test_orchestrator_and_workers_go_on_after_every_error_of_the_store(
    city: tuple[SimClock, MemoryStore, str], error: type[Error], fails: Fails, begins: int
) -> None:
    loops = Loops(city)
    for _ in range(begins):
        loops.round()
    assert not loops.ended()
    loops.store.error, loops.store.fails = error, fails
    for _ in range(100):
        loops.round()
    assert loops.store.failures > 0 and not loops.ended()
    loops.store.error = None
    loops.until(loops.ended)
    w = loops.crowd.fresh()
    check_run(w, loops.run_id, RunState.FAILED, CITY_ENDS, late=True)
    check_attempts(w, loops.run_id)
    check_store(w)


def test_a_read_that_is_refused_as_invalid_ends_nobody(
    city: tuple[SimClock, MemoryStore, str],
) -> None:
    loops = Loops(city)
    loops.round()
    loops.store.error, loops.store.fails = Invalid, reads
    for _ in range(20):
        loops.round()
    loops.store.error = None
    loops.until(loops.ended)
    check_store(loops.crowd.fresh())


@pytest.mark.parametrize("error", [Denied, Corrupt, NotFound])
def test_a_plan_that_cannot_be_had_for_a_moment_fails_no_task(
    city: tuple[SimClock, MemoryStore, str], error: type[Error]
) -> None:
    loops = Loops(city)
    loops.store.error, loops.store.fails = error, lambda op, path: path.startswith("plans/")
    for _ in range(4):
        loops.round()
    assert loops.store.failures > 0
    assert {task.attempt for task in tasks_of(loops.crowd.fresh(), loops.run_id).values()} <= {0, 1}
    loops.store.error = None
    loops.until(loops.ended)
    check_run(loops.crowd.fresh(), loops.run_id, RunState.FAILED, CITY_ENDS)


@pytest.mark.parametrize("error", [Denied, Corrupt])
def test_an_orchestrator_that_cannot_start_says_so_at_once(
    city: tuple[SimClock, MemoryStore, str], error: type[Error]
) -> None:
    loops = Loops(city)
    loops.store.error = error
    with pytest.raises(error, match="injected"):
        loops.orchestrator.orchestrator.run(threading.Event())


def test_an_orchestrator_ends_where_a_newer_program_has_written(
    city: tuple[SimClock, MemoryStore, str],
) -> None:
    loops = Loops(city)
    loops.round()
    loops.store.error = Unreadable
    with pytest.raises(Unreadable):
        loops.orchestrator.orchestrator.run_round(())


def test_pauses_grow_to_a_limit_while_the_store_fails(
    city: tuple[SimClock, MemoryStore, str],
) -> None:
    loops = Loops(city)
    loops.round()
    loops.store.error = Denied
    pauses = [loops.orchestrator.orchestrator.run_round(()) for _ in range(12)]
    assert pauses[0] < 1.0
    assert all(LONGEST_PAUSE_S / 2 <= pause <= LONGEST_PAUSE_S for pause in pauses[-3:])
    loops.store.error = None
    assert loops.orchestrator.orchestrator.run_round(()) == 0.0


# -- heartbeats ----------------------------------------------------------------------------


def test_records_tell_of_an_outage_that_is_over(city: tuple[SimClock, MemoryStore, str]) -> None:
    loops = Loops(city)
    loops.round()
    began = loops.clock.now()
    loops.store.error, loops.store.fails = Denied, writes
    for _ in range(5):
        loops.round()
    loops.store.error = None
    told: list[tuple[datetime, str]] = []

    def is_told() -> bool:
        for sign in orchestrator_signs(loops.inner):
            if sign.record.outage is not None:
                told.append((sign.record.outage.began, sign.record.outage.kind))
        return bool(told)

    loops.until(is_told)
    assert told[0][1] == "denied" and told[0][0] >= began


def test_an_orchestrator_has_heartbeats_while_runs_are_active_and_none_after(
    city: tuple[SimClock, MemoryStore, str],
) -> None:
    loops = Loops(city)
    loops.round()
    [first] = orchestrator_signs(loops.inner)
    assert first.record.runs == 1
    loops.clock.sleep(30)
    loops.round()
    [second] = orchestrator_signs(loops.inner)
    assert second.at > first.at and second.record.name == first.record.name
    loops.until(loops.ended)
    loops.round()
    assert orchestrator_signs(loops.inner) == []


def test_a_sign_of_an_orchestrator_is_taken_for_no_worker(
    city: tuple[SimClock, MemoryStore, str],
) -> None:
    loops = Loops(city)
    loops.orchestrator.orchestrator.run_round(())
    assert len(list(loops.inner.list(paths.LIVENESS))) == 1
    assert worker_signs(loops.inner) == []
