"""How often an orchestrator looks."""

from __future__ import annotations

from arco.dispatch.orchestrator import IDLE
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.flows import CITY, TIMING, OrchestratorProcess, deploy, trigger
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
