"""Limits, pools and a pause, with orchestrators that die at every call of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from arco.automation.backfill_states import BackfillState
from arco.errors import Refused
from arco.orchestration import states
from arco.orchestration.limit_tables import LimitReached
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import RUNS, TASKS, TaskRow
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from servo.contract.task import ErrorInfo, TaskRequest
from tests.kit.backfills import DAYS, BackfillTown
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.flows import Crowd, check_store, deploy, queued, trigger
from tests.kit.schedules import START, Town, every, fired, project
from tests.kit.simulated_run import die_everywhere, noted
from tests.kit.workspace import make_workspace

POOL = """
from servo import Resources, Retry, asset, static

@asset(namespace='city', partitions=static('n', [str(n) for n in range(5)]),
       resources=Resources(pool='jdbc'), retry=Retry(max_attempts=9, delay='5s', max_delay='5s'))
def pooled() -> None: ...

@asset(namespace='city')
def alone() -> None: ...
"""


class Tasks:
    """What a worker does; it fails the first attempt of one task."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self.most = 0
        self.messages = 0
        """As many at a time were in the queue, or with a worker."""
        self.ran: list[str] = []

    def __call__(self, request: TaskRequest) -> ErrorInfo | None:
        pooled = [task for task in in_flight(self._crowd) if task.pool == "jdbc"]
        self.most = max(self.most, len(pooled))
        messages = [path for path in queued(self._crowd.store) if "/ready/" in path]
        self.messages = max(self.messages, len(messages))
        self.ran.append(request.asset)
        if request.partition.endswith("3") and request.attempt == 1:
            return ErrorInfo(category="transient", code="transient.x", message="x", retriable=True)
        return None


def in_flight(crowd: Crowd) -> list[TaskRow]:
    rows = crowd.looking.read.snapshot().all(TASKS)
    return [task for task in rows if task.state in states.IN_FLIGHT]


def pool_crowd(size: str = "2") -> Crowd:
    clock = SimClock()
    w = make_workspace(MemoryStore(clock), 1, clock=clock)
    deploy(w, POOL)
    w.commands.limits.set("pool:jdbc", "", size)
    return Crowd(w.store, clock, trigger(w, "*"))


def ends(crowd: Crowd) -> dict[str, str]:
    rows = crowd.fresh().read.snapshot().rows(TASKS, crowd.run_id)
    return {task.partition_key[-1:]: task.state for task in rows}


def test_a_pool_has_no_more_tasks_than_slots_whoever_dies() -> None:
    every_one = scaled(80, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every_one:
            return
        crowd = pool_crowd()
        tasks = Tasks(crowd)
        crowd.orchestrator(dying(crowd.store))
        crowd.orchestrator()
        crowd.worker(script=tasks)
        with noted(where):
            crowd.finish()
            assert set(ends(crowd).values()) == {TaskState.SUCCEEDED}
            assert tasks.most == 2
            assert tasks.messages <= 3, "with that of the other asset"
            assert tasks.ran.count("city.pooled") >= 6
            check_store(crowd.fresh())

    assert die_everywhere(story) > 30


def test_a_cancelled_run_keeps_no_slot_of_a_pool() -> None:
    crowd = pool_crowd()
    crowd.orchestrator()
    crowd.until(lambda: len(in_flight(crowd)) == 3)  # two of the pool, and the other asset
    crowd.fresh().commands.orchestration.cancel(crowd.run_id, force=True)
    crowd.run_id = trigger(crowd.fresh(), "city.pooled")
    tasks = Tasks(crowd)
    crowd.worker(script=tasks)
    crowd.finish()
    assert set(ends(crowd).values()) == {TaskState.SUCCEEDED}
    assert tasks.most == 2


def test_a_closed_pool_keeps_nobody_else_waiting() -> None:
    crowd = pool_crowd("0")
    crowd.orchestrator()
    tasks = Tasks(crowd)
    crowd.worker(script=tasks)
    crowd.until(lambda: tasks.ran == ["city.alone"])
    for _ in range(10):
        crowd.step()
    assert tasks.ran == ["city.alone"]
    assert [task.state for task in in_flight(crowd)] == []
    crowd.fresh().commands.limits.unset("pool:jdbc", "")
    crowd.finish()
    assert tasks.messages > 2, "without a size there is no limit"


def test_a_local_engine_and_an_orchestrator_share_a_pool() -> None:
    crowd = pool_crowd("1")
    crowd.orchestrator()
    crowd.until(lambda: in_flight(crowd))
    w = crowd.fresh()
    local = trigger(w, "city.pooled", engine_id="local-1")
    engine = w.runtime.orchestrator(
        w.runtime.memory_queue(), w.runtime.reports(), w.runtime.signer(), engine_id="local-1"
    )
    for _ in range(5):
        engine.tick()
        crowd.step()
    pooled = [task for task in in_flight(crowd) if task.pool]
    assert {task.run_id for task in pooled} == {crowd.run_id}
    assert len(pooled) == 1
    crowd.worker(script=Tasks(crowd))
    crowd.finish()
    for _ in range(3):
        engine.tick()
    assert [task.run_id for task in in_flight(crowd)] == [local]


def test_nothing_starts_while_dispatch_is_paused_whoever_dies() -> None:
    every_one = scaled(80, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every_one:
            return
        crowd = pool_crowd()
        crowd.orchestrator(dying(crowd.store))
        crowd.orchestrator()
        with noted(where):
            crowd.until(lambda: in_flight(crowd))
            crowd.fresh().commands.limits.pause(reason="an upgrade")
            tasks = Tasks(crowd)
            crowd.worker(script=tasks)
            crowd.until(lambda: not in_flight(crowd))
            for _ in range(20):
                crowd.step()
            before = list(tasks.ran)
            assert len(before) < 6
            waiting = [state for state in ends(crowd).values() if state == TaskState.READY]
            assert waiting, "tasks that are not with a worker wait"
            with pytest.raises(Refused, match=r"paused since .*: an upgrade") as refusal:
                trigger(crowd.fresh(), "city.alone")
            assert refusal.value.code == "dispatch_paused"
            assert tasks.ran == before
            crowd.fresh().commands.limits.resume()
            crowd.finish()
            assert set(ends(crowd).values()) == {TaskState.SUCCEEDED}

    assert die_everywhere(story) > 20


# -- runs ------------------------------------------------------------------------------------


def test_ticks_wait_for_a_limit_of_runs_and_none_is_lost_whoever_dies() -> None:
    every_one = scaled(140, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every_one:
            return
        town = Town(project("*/10 * * * *"))
        town.w.commands.limits.set("workspace", "max_concurrent_runs", "1")
        town.crowd.orchestrator(dying(town.store))
        town.crowd.orchestrator()
        until = START + timedelta(minutes=40)
        with noted(where):
            while town.clock.now() < until:
                town.crowd.step()
                town.clock.sleep(20.0)
                active = [run for run in town.runs() if run.state in states.RUN_ACTIVE]
                assert len(active) <= 1
            assert len(town.pending()) == 3, "nobody works yet: the others wait"
            town.crowd.worker()
            town.until(until + timedelta(minutes=5))
            times = every(10, START, until)
            assert town.states() == fired(*times)
            assert [run.state for run in town.runs()] == [RunState.SUCCEEDED] * len(times)

    assert die_everywhere(story) > 20


def test_requests_wait_for_the_next_day_where_the_runs_of_a_day_are_used_up() -> None:
    town = Town(project("0 * * * *"))
    town.w.commands.limits.set("workspace", "max_daily_runs", "2")
    town.crowd.orchestrator()
    town.crowd.worker()
    town.clock.sleep(12 * 3600)
    for _ in range(3):
        town.crowd.step()
    town.fresh().commands.orchestration.request(PlanRequest(selection=("city.alone",)))
    for _ in range(30):
        town.crowd.step()
    with pytest.raises(LimitReached, match=r"2 runs were started today.*max_daily_runs.* is 2"):
        trigger(town.fresh(), "city.alone")
        trigger(town.fresh(), "city.alone")
    while town.clock.now().date() == START.date():
        town.crowd.step()
        town.clock.sleep(1200)
    town.crowd.until(lambda: len([r for r in town.runs() if r.created_at.date() > START.date()]))
    assert len([run for run in town.runs() if run.created_at.date() == START.date()]) == 2


def test_a_request_waits_while_dispatch_is_paused_and_goes_on_after_it() -> None:
    town = Town(project())
    town.crowd.orchestrator()
    town.crowd.worker()
    town.fresh().commands.limits.pause()
    requested = town.fresh().commands.orchestration.request(PlanRequest(selection=("city.alone",)))
    for _ in range(30):
        town.crowd.step()
    assert requested.request_key in town.pending()
    assert town.runs() == []
    town.fresh().commands.limits.resume()
    town.crowd.until(lambda: not town.pending() and town.runs())
    town.crowd.until(lambda: all(run.state == RunState.SUCCEEDED for run in town.runs()))


def test_backfills_leave_one_place_to_others_and_keep_their_own_limit() -> None:
    town = BackfillTown()
    town.w.commands.limits.set("workspace", "max_concurrent_runs", "3")
    town.crowd.orchestrator()
    id = town.create("date=2025-01-01..2025-01-20", chunk_size=2, max_concurrent_runs=5)
    for _ in range(20):
        town.crowd.step()
    assert len(town.runs()) == 2
    scheduled = trigger(town.fresh(), "city.days")
    town.fresh().commands.limits.set("workspace", "max_backfill_concurrency", "1")
    town.crowd.worker(script=town.tasks)
    town.until_state(id, BackfillState.SUCCEEDED)
    row = town.fresh().read.snapshot().get(RUNS, scheduled)
    assert row is not None and row.state == RunState.SUCCEEDED


# -- fairness --------------------------------------------------------------------------------


def test_a_scheduled_run_overtakes_what_a_backfill_has_in_the_queue() -> None:
    town = BackfillTown(DAYS)
    town.crowd.orchestrator()
    worker = town.crowd.worker(script=town.tasks)
    town.create("date=2025-01-01..2025-06-30", chunk_size=50)
    order: list[str] = []
    worker.executor.during = lambda request, control: order.append(request.run_id)
    town.crowd.workers.clear()  # it works by hand, one task at a time

    def work(tasks: int) -> None:
        for _ in range(tasks):
            for delivery in worker.queue.take(1, 0.0):
                worker.work(delivery)
            worker.beat()
            town.crowd.step()

    town.crowd.until(lambda: len(in_flight(town.crowd)) > 2)
    work(20)
    assert len(order) == 20
    scheduled = trigger(town.fresh(), "city.days", "city.sums")
    town.crowd.step()
    waiting = [task for task in in_flight(town.crowd) if task.run_id != scheduled]
    assert waiting, "there are messages of the backfill in the queue"
    order.clear()
    work(3)
    assert order[:2] == [scheduled] * 2, "no task of the backfill starts before"
    work(20)
    assert any(run_id != scheduled for run_id in order), "and it goes on"
