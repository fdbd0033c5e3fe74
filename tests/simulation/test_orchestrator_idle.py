"""An orchestrator or a worker with nothing to do writes nothing."""

from __future__ import annotations

from datetime import datetime

from arco.dispatch.orchestrator import IDLE
from arco.orchestration.limits import Timing
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.flows import (
    CITY,
    OrchestratorProcess,
    deploy,
)
from tests.kit.hooks import HookStore
from tests.kit.simulated_run import (
    World,
)
from tests.kit.workspace import make_workspace


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


def test_a_thousand_schedules_of_which_none_is_due_cost_an_orchestrator_nothing() -> None:
    clock = SimClock(datetime(2026, 1, 5, 8))
    recording = HookStore(MemoryStore(clock))
    text = """
from servo import asset, schedule

@asset(namespace="city")
def alone() -> None: ...

nightly = [
    schedule(f"s{n}", cron=f"{n % 60} {n % 5} * * *", selection=[alone]) for n in range(999)
]
noon = schedule("noon", cron="0 12 * * *", selection=[alone])
"""
    names = "\n".join(f"s{n} = nightly[{n}]" for n in range(999))
    deploy(make_workspace(recording, 1, clock=clock), text + names)
    process = OrchestratorProcess(recording, clock, 2)
    process.step()
    check_idle(process, recording, clock)
    timing = Timing()
    assert process.orchestrator.pause_s() <= timing.interval_s * IDLE  # it looks at the inbox
    clock.sleep((datetime(2026, 1, 5, 11, 59, 59, 500_000) - clock.now()).total_seconds())
    assert process.step() == 0
    assert 0.4 < process.orchestrator.pause_s() <= 0.5  # and no later than the next tick
    clock.sleep(process.orchestrator.pause_s())
    assert process.step() == 1
