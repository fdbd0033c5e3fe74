"""Plans, artifacts and messages that are missing, damaged, forged or expired."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from arco.orchestration.limits import Timing
from arco.orchestration.states import RunState, TaskState
from arco.storage import paths
from arco.transport.queues.port import Message
from arco.transport.task_envelope import EnvelopeKey, EnvelopeSigner
from tests.kit.flows import (
    CITY,
    CITY_ATTEMPTS,
    KEYS,
    check_run,
    end_of,
    project,
    tasks_of,
    trigger,
)
from tests.kit.simulated_run import (
    StallingStore,
    World,
    check_city,
    make_world,
)

EASY = {"city.alone": TaskState.SUCCEEDED, "city.after": TaskState.SUCCEEDED}


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
    assert {task.state for task in tasks.values()} == {TaskState.FAILED, TaskState.SKIPPED}
    failed = tasks["city.top"]
    assert (failed.error_code, failed.attempt) == ("configuration.unsendable", 1)
    assert "start a new run" in failed.error_hint
    crowd.until(lambda: end_of(w, other))
    check_run(crowd.fresh(), other, RunState.SUCCEEDED, EASY)


def test_a_plan_that_is_no_plan_fails_its_tasks(one: World) -> None:
    crowd = one.crowd()
    [plan] = [meta.path for meta in crowd.store.list("") if "/plans/" in f"/{meta.path}"]
    crowd.store.delete(plan)
    crowd.store.put(plan, b"{}")
    crowd.orchestrator()
    crowd.finish()
    task = tasks_of(crowd.fresh(), crowd.run_id)["city.alone"]
    assert (task.state, task.error_code) == (TaskState.FAILED, "configuration.unsendable")
    assert "is not a plan" in task.error_message


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
    check_run(crowd.fresh(), other, RunState.SUCCEEDED, EASY)
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
    worker.worker = w.runtime.worker(
        worker.worker_id, worker.queue, worker.reports, signer, tmp_path
    )
    crowd.finish()
    tasks = tasks_of(crowd.fresh(), crowd.run_id)
    failed = tasks["city.alone"]
    assert (failed.state, failed.error_code, failed.attempt) == (
        TaskState.FAILED,
        "artifact.invalid",
        1,
    )
    assert digest in failed.error_message
    assert tasks["city.after"].state == TaskState.SKIPPED


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
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})


def test_an_expired_envelope_is_dropped_and_sent_again(one: World) -> None:
    timing = Timing(linger_s=0.0, envelope_s=130.0)
    crowd = one.crowd()
    o = crowd.orchestrator(timing=timing)
    o.step()
    crowd.clock.sleep(200)  # nobody was there to take it
    worker = crowd.worker()
    crowd.finish()
    assert [(r.attempt, r.redelivery) for r in worker.executor.ran] == [(1, 1)]
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, {"city.alone": TaskState.SUCCEEDED})


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
