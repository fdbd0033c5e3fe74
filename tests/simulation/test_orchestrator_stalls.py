"""A store that stops answering for minutes: nothing is lost, retried or fired for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from arco.orchestration.events import AttemptLost, TimerFired
from arco.orchestration.states import RunState, TaskState
from arco.storage import paths
from arco.worker.supervise import Control
from servo.contract.task import TaskRequest
from tests.kit.faulty import CHANGING
from tests.kit.flows import (
    check_run,
    tasks_of,
)
from tests.kit.hooks import HookStore
from tests.kit.simulated_run import (
    StallingStore,
    World,
    append_noise,
    check_city,
    commits_fail,
    waiting,
)


def writes_fail(op: str, path: str) -> bool:
    return op in CHANGING


def everything_fails(op: str, path: str) -> bool:
    return True


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
        assert tasks["city.left"].state == TaskState.RUNNING
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
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})
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
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})


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
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})
