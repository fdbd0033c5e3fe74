"""Runs that are cancelled while a worker is at them."""

from __future__ import annotations

from collections.abc import Callable

from arco.orchestration.events import AttemptLost
from arco.storage.port import Store
from arco.worker.supervise import Control
from servo.contract.task import TaskRequest
from tests.kit.flows import (
    end_of,
)
from tests.kit.simulated_run import (
    StallingStore,
    append_noise,
    cancelled_world,
    check_cancelled,
    commits_fail,
    die_everywhere,
    make_world,
    noted,
    waiting,
)


def test_a_worker_that_hears_of_the_cancellation_stops() -> None:
    crowd, o, worker = cancelled_world()

    def cancel(request: TaskRequest, control: Control) -> None:
        crowd.fresh().commands.orchestration.cancel(crowd.run_id)
        o.step()
        assert not control.cancelled()
        worker.beat()
        assert control.cancelled()

    worker.executor.during = cancel
    crowd.finish()
    check_cancelled(crowd, late=0)


def test_a_worker_of_the_same_process_is_told_to_stop() -> None:
    crowd, o, worker = cancelled_world()
    o.interrupt = worker.worker.interrupt

    def cancel(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().commands.orchestration.cancel(crowd.run_id)
        o.step()
        assert control.cancelled()

    worker.executor.during = cancel
    crowd.finish()
    check_cancelled(crowd, late=0)


def test_a_success_after_a_forced_cancellation_is_recorded_and_never_current() -> None:
    crowd, o, worker = cancelled_world()

    def cancel(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().commands.orchestration.cancel(crowd.run_id, force=True)
        o.step()
        assert end_of(crowd.fresh(), crowd.run_id)

    worker.executor.during = cancel
    crowd.finish()
    check_cancelled(crowd, late=1)


def test_a_worker_that_does_not_stop_is_given_up_and_its_success_never_current() -> None:
    crowd, o, worker = cancelled_world()

    def ignore(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().commands.orchestration.cancel(crowd.run_id)
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
        crowd.fresh().commands.orchestration.cancel(crowd.run_id)
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
            crowd.fresh().commands.orchestration.cancel(crowd.run_id)
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
