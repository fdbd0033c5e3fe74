"""A triggered run in a simulated store, and what must hold when it has ended.

Time is simulated; chance is seeded, and ARCO_SIMULATION_SEEDS says with how many seeds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from arco.errors import Unavailable
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.log.envelope import Payload, decode_batch
from arco.orchestration.events import TaskStarted
from arco.orchestration.states import RunState, TaskState
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from tests.kit.clocks import SimClock
from tests.kit.depth import sampled
from tests.kit.faulty import CHANGING, CrashStore, StoreWrapper
from tests.kit.flows import (
    CITY,
    CITY_ATTEMPTS,
    CITY_ENDS,
    Crowd,
    OrchestratorProcess,
    WorkerProcess,
    check_attempts,
    check_board,
    check_run,
    check_store,
    deploy,
    trigger,
)
from tests.kit.workspace import clone, make_workspace

T = TypeVar("T")


class World(NamedTuple):
    """A store with a run that was triggered, and nobody there yet to run it."""

    clock: SimClock
    store: MemoryStore
    run_id: str

    def crowd(self) -> Crowd:
        clock = copy.copy(self.clock)
        return Crowd(clone(self.store, clock), clock, self.run_id)


def make_world(*selection: str, text: str = CITY) -> World:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    deploy(w, text)
    return World(clock, store, trigger(w, *selection))


def check_city(
    crowd: Crowd, *, exact: bool = True, late: bool = False, thorough: bool = True
) -> None:
    w = crowd.fresh()
    tasks = check_run(w, crowd.run_id, RunState.FAILED, CITY_ENDS, late=late)
    attempts = {key: task.attempt for key, task in tasks.items()}
    if exact:
        assert attempts == CITY_ATTEMPTS
    else:
        check_attempts(w, crowd.run_id)
    for o in crowd.orchestrators:
        check_board(o.board, w)
        assert o.orchestrator.sender.sent == {}
    if thorough:
        check_store(w)


@contextmanager
def noted(text: str) -> Iterator[None]:
    try:
        yield
    except BaseException as failure:
        failure.add_note(text)
        raise


def die_everywhere(run: Callable[[Callable[[Store], Store], str, int], None]) -> int:
    """`run` a story with a store that dies at call 1, 2, 3 …; how many there were.

    A call that only reads leaves the store as the call before it did: to die there is to
    die after the last change. `make test` tries every second call of the others.
    """
    wrapped: list[CrashStore] = []

    def dying_at(at: int) -> Callable[[Store], Store]:
        def wrap(store: Store) -> Store:
            wrapped.append(CrashStore(store, at, after_effect=True))
            return wrapped[-1]

        return wrap

    run(dying_at(10**9), "nobody dies", 0)
    calls = wrapped[-1].calls
    changing = [n for n, (op, _) in enumerate(calls, 1) if op in CHANGING]
    for count, at in enumerate([1, *sampled(changing, 2)]):
        run(dying_at(at), f"died after call {at}: {calls[at - 1]}", count)
    return len(changing)


class StallingStore(StoreWrapper):
    """While `stalled`, calls that it says are unavailable."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.stalled: Callable[[str, str], bool] = lambda op, path: False

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        if self.stalled(op, path):
            raise Unavailable(f"{op} {path}: stalled")
        self.calls.append((op, path))
        return act()


def commits_fail(op: str, path: str) -> bool:
    return op == "put" and path.startswith((paths.SEGMENTS, paths.MANIFESTS, paths.STATE))


def waiting(crowd: Crowd) -> list[Payload | None]:
    """What lies in the inbox."""
    w = crowd.fresh()
    found: list[Payload | None] = []
    for meta in crowd.store.list(paths.INBOX):
        batch = decode_batch(
            crowd.store.get(meta.path).data, w.tenant, w.name, paths.inbox_name(meta.path)
        )
        found += [w.core.types.decode(e.type, e.version, e.data) for e in batch.events]
    return found


def append_noise(crowd: Crowd, times: int = 1) -> None:
    """Events that change nothing. While one waits, nobody knows what else does."""
    w = crowd.fresh()
    for _ in range(times):
        noise = TaskStarted(run_id="none", task_id="none", attempt_id="", worker_id="")
        w.ledger.append([noise])


def cancelled_world() -> tuple[Crowd, OrchestratorProcess, WorkerProcess]:
    crowd = make_world("city.alone", "city.after").crowd()
    return crowd, crowd.orchestrator(), crowd.worker()


CANCELLED = {"city.alone": TaskState.CANCELLED, "city.after": TaskState.CANCELLED}


def check_cancelled(crowd: Crowd, *, late: int, thorough: bool = True) -> None:
    w = crowd.fresh()
    check_run(w, crowd.run_id, RunState.CANCELLED, CANCELLED, late=True)
    rows = [row.status for row in w.read.snapshot().all(MATERIALIZATIONS)]
    assert rows == ["LATE"] * late
    assert w.read.snapshot().all(PARTITIONS) == []
    for o in crowd.orchestrators:
        check_board(o.board, w)
    if thorough:
        check_store(w)
