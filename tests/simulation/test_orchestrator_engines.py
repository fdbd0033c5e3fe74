"""Which engine serves a run, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from arco.app import Workspace
from arco.orchestration.states import RunState
from arco.storage.memory import MemoryStore
from arco.transport.liveness import LivenessRecord, beat
from arco.transport.task_envelope import EnvelopeKey, EnvelopeSigner
from servo.contract.task import TaskRequest
from tests.kit.clocks import SimClock
from tests.kit.flows import (
    CITY,
    KEYS,
    Crowd,
    OrchestratorProcess,
    deploy,
    end_of,
    queued,
    trigger,
)
from tests.kit.workspace import make_workspace


def pooled(clock: SimClock) -> tuple[MemoryStore, str]:
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    deploy(w, CITY)
    return store, trigger(w, "city.alone", engine_id="local-1")


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
    assert ended.state == RunState.SUCCEEDED


def test_a_private_engine_serves_its_own_runs_and_those_it_is_given() -> None:
    clock = SimClock()
    store, run_id = pooled(clock)
    w = make_workspace(store, 3, clock=clock)
    mine = trigger(w, "city.alone", engine_id="local-3")
    signer = EnvelopeSigner(KEYS, clock)
    engine = w.runtime.orchestrator(
        w.runtime.memory_queue(), w.runtime.reports(), signer, engine_id="local-3"
    )
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
    assert ended.state == RunState.SUCCEEDED


class EnvelopeOpener:
    def __init__(self, keys: Sequence[EnvelopeKey], clock: SimClock, w: Workspace) -> None:
        self._signer = EnvelopeSigner(keys, clock)
        self._w = w

    def __call__(self, raw: bytes) -> TaskRequest:
        return self._signer.open(raw, tenant=self._w.tenant, workspace=self._w.name)
