"""Messages of attempts that are over: put back into the queue, they do nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from arco.orchestration.tables import RUNS, TASKS
from arco.storage.memory import MemoryStore
from arco.transport.queues.port import Message
from arco.worker.staleness import RECENT_S, Staleness
from servo.contract.identity import attempt_id
from servo.contract.task import TaskRequest
from tests.kit.clocks import SimClock
from tests.kit.flows import CITY, Crowd, OrchestratorProcess, deploy, queued, trigger
from tests.kit.workspace import make_workspace


class City:
    """A run that has ended, and every message that was sent for it."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.w = make_workspace(self.store, 1, clock=self.clock)
        deploy(self.w, CITY)
        self.sent: list[Message] = []
        self.crowd = Crowd(self.store, self.clock, trigger(self.w))
        self.orchestrator = self.crowd.orchestrator()
        self._keep(self.orchestrator)
        self.worker = self.crowd.worker()

    def _keep(self, process: OrchestratorProcess) -> None:
        put = process.queue.put

        def keeping(messages: Sequence[Message]) -> None:
            self.sent += messages
            put(messages)

        process.queue.put = keeping  # type: ignore[method-assign]


@pytest.fixture
def city() -> City:
    made = City()
    made.crowd.finish()
    return made


def test_message_of_an_ended_attempt_runs_nothing_at_any_worker(city: City) -> None:
    stranger = city.crowd.worker()
    assert len(city.sent) == len(city.worker.executor.ran) == 8  # `flaky` took three attempts
    for worker in (city.worker, stranger):
        ran = len(worker.executor.ran)
        city.worker.queue.put(city.sent)
        assert worker.step() == len(city.sent)
        assert len(worker.executor.ran) == ran
        assert queued(city.store) == []


def test_message_of_a_replaced_attempt_runs_nothing_while_the_next_one_is_active() -> None:
    city = City()
    city.crowd.until(lambda: any(r.attempt == 2 for r in city.worker.executor.ran))
    old = [m for m in city.sent if _opened(city, m).asset == "city.flaky"][:1]
    city.clock.sleep(RECENT_S)
    stranger = city.crowd.worker()
    city.worker.queue.put(old)
    stranger.step()
    assert [r for r in stranger.executor.ran if r.attempt == 1] == []


def _opened(city: City, message: Message) -> TaskRequest:
    return city.worker.executor.open(message.body)


def test_attempts_sent_ahead_of_their_commit_are_not_over(city: City) -> None:
    staleness = Staleness(city.w.read.snapshot, city.clock)
    run = trigger(city.w)
    rows = {row.asset_key: row for row in city.w.read.snapshot().rows(TASKS, run)}
    base = city.worker.executor.ran[0]
    for key in ("city.top", "city.left"):  # one is ready, one waits for it
        request = _request(base, run, rows[key].task_id, 1)
        assert not staleness.is_over(request)
    assert not staleness.is_over(_request(base, run, rows["city.top"].task_id, 2))
    assert staleness.is_over(_request(base, "unknown", rows["city.top"].task_id, 1))


def test_task_of_a_cancelled_run_is_over(city: City) -> None:
    run = trigger(city.w)
    (row,) = [
        row for row in city.w.read.snapshot().rows(TASKS, run) if row.asset_key == "city.left"
    ]
    city.w.commands.orchestration.cancel(run, force=True)
    assert city.w.read.snapshot().get(RUNS, run) is not None
    request = _request(city.worker.executor.ran[0], run, row.task_id, 1)
    assert Staleness(city.w.read.snapshot, city.clock).is_over(request)


def test_first_deliveries_share_one_look_at_the_newest_snapshot(city: City) -> None:
    looks: list[int] = []

    def newest() -> object:
        looks.append(1)
        return city.w.read.snapshot()

    staleness = Staleness(newest, city.clock)  # type: ignore[arg-type]
    for _ in range(20):
        assert staleness.is_over(city.worker.executor.ran[0])
    assert len(looks) == 1
    city.clock.sleep(RECENT_S)
    staleness.recent()
    assert len(looks) == 2


def _request(base: TaskRequest, run_id: str, task_id: str, attempt: int) -> TaskRequest:
    id = attempt_id(run_id, task_id, attempt)
    return replace(base, run_id=run_id, task_id=task_id, attempt=attempt, attempt_id=id)
