"""An orchestrator, a worker or an engine that dies at any call of the store.

Whatever happens to them, a run ends as its code says: in the right state, each output
committed and counted once, nothing left over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from arco.orchestration.events import AttemptLost
from arco.orchestration.states import RunState, TaskState
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from arco.worker.supervise import Control
from servo.contract.task import TaskRequest
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.faulty import CHANGING, StoreWrapper
from tests.kit.flows import (
    CITY_ATTEMPTS,
    Crowd,
    check_run,
    check_store,
    tasks_of,
)
from tests.kit.simulated_run import (
    T,
    World,
    check_city,
    die_everywhere,
    make_world,
    noted,
)
from tests.kit.workspace import clone


def test_an_orchestrator_may_die_at_any_call(city: World) -> None:
    """Its worker goes on. In `make test`, at every 16th place."""

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % scaled(16, 1):
            return
        crowd = city.crowd()
        crowd.orchestrator(dying(crowd.store))
        crowd.worker()
        with noted(where):
            crowd.finish()
            check_city(crowd, thorough=count % 32 == 0)

    assert die_everywhere(story) > 40


class Copying(StoreWrapper):
    """Keeps a copy of the whole store as it is after each change."""

    def __init__(self, inner: MemoryStore, clock: SimClock) -> None:
        super().__init__(inner)
        self._memory = inner
        self._clock = clock
        self.copies: list[tuple[str, SimClock, MemoryStore]] = []

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((op, path))
        result = act()
        if op in CHANGING:
            clock = copy.copy(self._clock)
            self.copies.append((f"{op} {path}", clock, clone(self._memory, clock)))
        return result


def test_all_processes_may_die_with_the_orchestrator_at_any_call(city: World) -> None:
    crowd = city.crowd()
    assert isinstance(crowd.store, MemoryStore)
    copying = Copying(crowd.store, crowd.clock)
    crowd.orchestrator(copying)
    crowd.worker()
    crowd.finish()
    assert len(copying.copies) > 40
    for count, (where, clock, store) in enumerate(copying.copies):
        # Mostly one more file that nobody refers to.
        if count % (scaled(12, 2) if "state/" in where else scaled(4, 1)):
            continue
        after = Crowd(store, clock, city.run_id)
        after.orchestrator()
        after.worker()
        with noted(f"died after {where}"):
            after.finish()
            check_city(after, thorough=count % 30 == 0)


def test_a_worker_may_die_at_any_call(city: World) -> None:
    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % scaled(4, 1):
            return
        crowd = city.crowd()
        crowd.orchestrator()
        crowd.worker(dying(crowd.store))
        with noted(where):
            crowd.finish()
            check_city(crowd, exact=False, thorough=count % 15 == 0)
            tasks = tasks_of(crowd.fresh(), crowd.run_id)
            extra = sum(task.attempt - CITY_ATTEMPTS[key] for key, task in tasks.items())
            assert extra <= 1, "one death costs one attempt at most"

    assert die_everywhere(story) > 30


def test_an_engine_may_die_at_any_call(city: World) -> None:
    """Orchestrator, worker and queue in one process; tasks are sent ahead of the commit.
    In `make test`, at every eighth place."""

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % scaled(8, 1):
            return
        crowd = city.crowd()
        crowd.engine(dying(crowd.store))
        with noted(where):
            crowd.finish()
            check_city(crowd, exact=False, thorough=count % 15 == 0)
            tasks = tasks_of(crowd.fresh(), crowd.run_id)
            extra = sum(task.attempt - CITY_ATTEMPTS[key] for key, task in tasks.items())
            assert extra <= 3, "one death costs each of its tasks one attempt at most"

    assert die_everywhere(story) > 30


def test_engines_side_by_side_do_everything_once(city: World) -> None:
    crowd = city.crowd()
    for _ in range(3):
        crowd.engine()
    crowd.finish()
    check_city(crowd)


def test_what_was_sent_ahead_by_a_wrong_guess_is_sent_again_when_it_is_right() -> None:
    """Somebody declared the upstream's attempt lost before its success was appended."""
    crowd = make_world("city.alone", "city.after").crowd()
    engine = crowd.engine()
    lost = 0

    def lose(request: TaskRequest, control: Control) -> None:
        nonlocal lost
        if request.asset == "city.alone" and request.attempt == 1:
            lost += 1
            other = crowd.fresh()
            ids = {"task_id": request.task_id, "attempt_id": request.attempt_id}
            other.ledger.append([AttemptLost(run_id=request.run_id, reason="test", **ids)])
            other.committer.commit()

    engine.executor.during = lose
    crowd.finish()
    ran = [request.asset for request in engine.executor.ran]
    assert (lost, ran.count("city.after")) == (1, 2), "nothing was sent ahead"
    ends = {"city.alone": TaskState.SUCCEEDED, "city.after": TaskState.SUCCEEDED}
    check_run(crowd.fresh(), crowd.run_id, RunState.SUCCEEDED, ends)
    check_store(crowd.fresh())
