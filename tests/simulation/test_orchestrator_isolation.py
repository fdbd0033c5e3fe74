"""A failure of one part must not stop the others."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from arco.orchestration.board import Board
from arco.orchestration.states import RunState, TaskState
from arco.storage import paths
from arco.transport.task_envelope import EnvelopeSigner
from arco.worker.supervise import Control
from servo.contract.task import ErrorInfo, TaskRequest, TaskResult
from tests.kit.bench import HereExecutor
from tests.kit.flows import (
    KEYS,
    board_state,
    check_run,
    tasks_of,
)
from tests.kit.hooks import HookStore
from tests.kit.simulated_run import (
    StallingStore,
    World,
    cancelled_world,
    check_cancelled,
    check_city,
    make_world,
)


def test_a_put_that_failed_is_made_again(one: World) -> None:
    crowd = one.crowd()
    hooks = HookStore(crowd.store)
    hooks.fail("put", paths.QUEUE)
    o = crowd.orchestrator(hooks)
    o.step()
    assert o.orchestrator.sender.sent == {}
    crowd.worker()
    crowd.finish()
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})


def test_listeners_that_fail_stop_nothing() -> None:
    crowd, o, worker = cancelled_world()

    def fails(_: str | Board) -> None:
        raise RuntimeError("listener")

    o.on_board = fails
    o.interrupt = fails

    def cancel(request: TaskRequest, control: Control) -> None:
        worker.flush()
        crowd.fresh().commands.orchestration.cancel(crowd.run_id)
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
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})
    assert tasks_of(crowd.fresh(), crowd.run_id)["city.alone"].attempt == 3


def test_a_result_that_cannot_be_written_down_fails_the_attempt(one: World) -> None:
    crowd = one.crowd()
    crowd.orchestrator()
    worker = crowd.worker()
    bad = ErrorInfo(category="user_code", code="user_code.X", message="\ud800")
    worker.executor.script = lambda request: bad if request.attempt == 1 else None
    crowd.finish()
    task = tasks_of(crowd.fresh(), crowd.run_id)["city.alone"]
    assert (task.state, task.attempt) == (TaskState.SUCCEEDED, 2)
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
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})
    assert tasks_of(crowd.fresh(), crowd.run_id)["city.alone"].attempt == 1


def test_a_worker_that_cannot_read_whether_to_stop_still_beats(one: World) -> None:
    crowd = one.crowd()
    worker = crowd.worker()

    def unreadable(runs: Collection[str]) -> set[str]:
        raise RuntimeError("no snapshot")

    worker.worker.cancelled = unreadable
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
    """The whole of `CITY` with real attempts: the stand-in is no kinder."""
    crowd = make_world().crowd()
    crowd.orchestrator()
    signer = EnvelopeSigner(KEYS, crowd.clock)
    crowd.worker(executor=lambda w: HereExecutor(w, signer, tmp_path))
    crowd.finish()
    check_city(crowd)
    assert board_state(crowd.orchestrators[0].board)["runs"] == {}
