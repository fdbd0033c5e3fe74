"""What an open run waits for is told from silence alone: nobody writes it down."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace

from arco.dispatch.waiting import Waiting, outages, read_liveness, waiting
from arco.errors import Denied
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import TaskRow
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.transport.queues.capacity import Capacity
from arco.transport.queues.objectstore import contents
from arco.transport.queues.port import Weight
from servo.contract.task import TaskRequest
from tests.kit.clocks import SimClock
from tests.kit.flows import CITY, Crowd, deploy, trigger
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace


class Setting:
    def __init__(self, *selection: str, engine_id: str = "", project: str = CITY) -> None:
        self.clock = SimClock()
        self.store = HookStore(MemoryStore(self.clock))
        w = make_workspace(self.store, 1, clock=self.clock)
        deploy(w, project)
        self.run_id = trigger(w, *selection, engine_id=engine_id)
        self.crowd = Crowd(self.store, self.clock, self.run_id)

    def reasons(self) -> list[Waiting]:
        reader = OrchestrationReader(self.crowd.fresh().read.snapshot())
        run, tasks = reader.run(self.run_id), reader.tasks(self.run_id)
        return waiting(run, tasks, read_liveness(self.store, run, tasks), self.clock.now())

    def texts(self) -> dict[str, str]:
        return {reason.what: reason.text for reason in self.reasons()}


@pytest.fixture
def at() -> Setting:
    return Setting("city.alone")


def test_a_run_that_was_just_triggered_waits_for_nobody(at: Setting) -> None:
    assert at.reasons() == []


def test_a_run_that_nobody_serves_waits_for_an_orchestrator(at: Setting) -> None:
    at.clock.sleep(60)
    assert at.texts() == {
        "orchestrator": "no orchestrator is running; start `servo orchestrator`",
    }


def test_the_silence_of_a_dead_orchestrator_has_a_beginning(at: Setting) -> None:
    at.crowd.orchestrator().step()
    died = at.clock.now()
    at.clock.sleep(60)
    [first, *_] = at.reasons()
    assert (first.what, first.since) == ("orchestrator", died)
    assert first.text == f"no orchestrator has been running since {died:%Y-%m-%d %H:%M:%S} UTC"


def test_tasks_that_no_worker_takes_wait_in_the_queue(at: Setting) -> None:
    orchestrator = at.crowd.orchestrator()
    for _ in range(3):
        orchestrator.step()
        at.clock.sleep(6)
    orchestrator.step()
    assert at.texts() == {
        "queue": "1 task dispatched, 0 claimed: "
        "no worker has a liveness record; start `servo worker`",
    }


def test_tasks_behind_others_wait_for_a_worker_with_free_slots() -> None:
    at = Setting("city.alone", "city.top", "city.flaky")
    orchestrator = at.crowd.orchestrator()
    worker = at.crowd.worker()
    worker.worker.capacity = Capacity(1, at.clock)
    texts: list[dict[str, str]] = []

    def long(request: TaskRequest, control: object) -> None:
        for _ in range(4):
            at.clock.sleep(5)
            worker.beat()
            orchestrator.step()
        texts.append(at.texts())

    worker.executor.during = long
    orchestrator.step()
    orchestrator.step()
    worker.step()
    assert texts[0] == {
        "queue": "2 tasks dispatched, 0 claimed: no worker with free slots (1 of 1 busy)"
    }


def test_tasks_that_are_not_sent_wait_for_others_or_for_room(at: Setting) -> None:
    reader = OrchestrationReader(at.crowd.fresh().read.snapshot())
    run, [task] = reader.run(at.run_id), reader.tasks(at.run_id)
    ready = replace(task, state=TaskState.READY, ready_at=at.clock.now())
    at.crowd.orchestrator().step()
    at.clock.sleep(10)
    [reason] = waiting(run, [ready], read_liveness(at.store, run, [ready]), at.clock.now())
    assert reason.what == "limits"
    assert reason.text == (
        "1 task ready and not dispatched: other tasks go first, or limits and the "
        "workers' capacity are reached"
    )


def test_a_worker_that_went_silent_is_named_with_its_tasks(at: Setting) -> None:
    orchestrator = at.crowd.orchestrator()
    worker = at.crowd.worker()

    def dies(request: TaskRequest, control: object) -> None:
        worker.beat()
        raise SystemExit

    worker.executor.during = dies
    orchestrator.step()
    with contextlib.suppress(SystemExit):
        worker.step()
    for _ in range(5):
        orchestrator.step()
        at.clock.sleep(5)
    orchestrator.step()
    assert at.texts() == {
        "worker": f"worker {worker.worker_id} has been silent for 25 s; 1 task running on it",
    }


def test_a_task_to_be_tried_again_is_waited_for_until_its_time() -> None:
    at = Setting("city.flaky")
    orchestrator = at.crowd.orchestrator()
    orchestrator.step()
    at.crowd.worker().step()
    orchestrator.step()
    [reason] = at.reasons()
    assert reason.what == "retry"
    assert reason.text.startswith("1 task waiting for a retry, the first at 20")


def in_state(state: str, count: int) -> list[TaskRow]:
    at = Setting("city.alone")
    reader = OrchestrationReader(at.crowd.fresh().read.snapshot())
    [task] = reader.tasks(at.run_id)
    return [replace(task, state=state, retry_not_before=at.clock.now())] * count


def cancelling(*tasks: TaskRow) -> list[Waiting]:
    """What a run with these tasks waits for, a minute after its cancellation."""
    at = Setting("city.alone")
    run = OrchestrationReader(at.crowd.fresh().read.snapshot()).run(at.run_id)
    run = replace(run, state=RunState.CANCELLING, cancel_requested_at=at.clock.now())
    at.clock.sleep(60)
    at.crowd.orchestrator().step()
    signs = read_liveness(at.store, run, tasks)
    return waiting(run, tasks, signs, at.clock.now())


def test_a_run_that_is_being_cancelled_waits_for_its_tasks_to_end() -> None:
    ready, retried = in_state(TaskState.READY, 1_200), in_state(TaskState.RETRY_WAIT, 34)
    sent = in_state(TaskState.DISPATCHED, 2)
    ended = in_state(TaskState.CANCELLED, 9)
    [reason] = cancelling(*ready, *retried, *sent, *ended)
    assert (reason.what, reason.tasks) == ("cancellation", 1_236)
    assert reason.text == "1,234 tasks still to be cancelled, 2 tasks being stopped"


def test_a_run_that_is_being_cancelled_waits_for_workers_to_stop() -> None:
    assert [reason.text for reason in cancelling(*in_state(TaskState.DISPATCHED, 1))] == [
        "1 task being stopped"
    ]


def test_a_run_of_a_process_that_is_gone_waits_for_that_process() -> None:
    at = Setting("city.alone", engine_id="local-x")
    at.clock.sleep(60)
    assert at.texts() == {
        "process": "its process local-x has no liveness record; "
        "`servo runs resume` or an orchestrator takes over",
    }


def test_an_outage_during_the_run_is_told_after_it(at: Setting) -> None:
    orchestrator = at.crowd.orchestrator().orchestrator
    orchestrator.run_round(())

    def denied() -> None:
        raise Denied("Permission denied")

    at.clock.sleep(10)
    at.store.before("list", paths.INBOX, denied, times=2)
    for _ in range(4):
        orchestrator.run_round(())
        at.clock.sleep(10)
    reader = OrchestrationReader(at.crowd.fresh().read.snapshot())
    run, tasks = reader.run(at.run_id), reader.tasks(at.run_id)
    [(name, past)] = outages(run, read_liveness(at.store, run, tasks))
    assert (name, past.kind, past.message) == (orchestrator.name, "denied", "Permission denied")


def test_a_run_that_has_ended_waits_for_nothing(at: Setting) -> None:
    at.crowd.orchestrator()
    at.crowd.worker()
    at.crowd.finish()
    at.clock.sleep(600)
    assert at.reasons() == []


def test_a_claim_that_was_released_is_no_claim(at: Setting) -> None:
    at.crowd.orchestrator().step()
    queue = at.crowd.worker().queue
    [delivery] = queue.take(1, 0.0)
    assert contents(at.store).claimed == {delivery.message.name}
    queue.release([delivery])
    assert contents(at.store).claimed == frozenset()
    assert contents(at.store).messages == {delivery.message.name: Weight()}


LARGE = """
from servo import Resources, asset

@asset(namespace="city", resources=Resources(cpu=16, memory_mib=64_000))
def large() -> None: ...

@asset(namespace="city")
def small() -> None: ...
"""


def test_task_that_is_larger_than_every_worker_waits_with_a_reason() -> None:
    at = Setting("*", project=LARGE)
    orchestrator, worker = at.crowd.orchestrator(), at.crowd.worker()
    capacity = worker.worker.capacity = Capacity(8, at.clock, memory_mib=32_000)
    for _ in range(3):
        orchestrator.step()
    (small,) = worker.queue.take(10, 0.0, capacity)
    at.clock.sleep(10)
    orchestrator.step()
    text = "1 task needs 16 slots and 64,000 MiB: no listed worker is large enough (idle "
    assert at.texts()["resources"] == (
        f"{text}workers are not listed); start `servo worker --slots 16 --memory-mib 64000`"
    )
    texts: list[dict[str, str]] = []

    def during(request: TaskRequest, control: object) -> None:
        worker.beat()
        texts.append(at.texts())

    worker.executor.during = during
    worker.work(small)
    text = "1 task needs 16 slots and 64,000 MiB: the largest busy worker has 8 slots and "
    assert texts[0]["resources"] == (
        f"{text}32,000 MiB; start `servo worker --slots 16 --memory-mib 64000`"
    )
    assert [d.message.weight for d in worker.queue.take(1, 0.0)] == [Weight(16, 64_000)]
