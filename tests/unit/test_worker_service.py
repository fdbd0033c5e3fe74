"""What a worker does beside its tasks: each duty goes on whatever becomes of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence

import msgspec
import pytest

from arco.clock import Clock, SystemClock
from arco.errors import Corrupt, Denied, Error, Unavailable
from arco.orchestration.limits import Timing
from arco.orchestration.states import TaskState
from arco.orchestration.tables import TaskRow
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from arco.transport.liveness import StoreLiveness
from arco.transport.queues.capacity import Capacity
from arco.transport.queues.memory import MemoryQueue
from arco.transport.queues.port import Delivery, Message
from arco.worker.service import MAX_DELIVERIES, Worker
from servo.contract.task import CodeRef, TaskRequest, TaskResult
from tests.kit.clocks import SimClock
from tests.kit.flows import (
    CITY,
    TIMING,
    OrchestratorProcess,
    WorkerProcess,
    deploy,
    tasks_of,
    trigger,
)
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace

QUICK = Timing(
    interval_s=0.01,
    busy_interval_s=0.01,
    linger_s=0.0,
    heartbeat_s=0.02,
    zombie_after_s=1.0,
    claim_s=2.0,
    redeliver_after_s=2.0,
    cancel_grace_s=1.0,
)
GIVE_UP_S = 60.0


class Endless:
    """An executor of tasks that run until they are told to end."""

    def __init__(self) -> None:
        self.end = threading.Event()

    def open(self, raw: bytes) -> TaskRequest:
        return TaskRequest(
            tenant_id="acme",
            workspace_id="prod",
            run_id="r",
            task_id="t",
            plan_id="p",
            attempt=1,
            attempt_id="a",
            asset="shop.orders",
            asset_id="id",
            code=CodeRef(artifact="x", module="m", name="f"),
            output="data/shop/orders",
        )

    def run(self, request: TaskRequest, control: object, *, again: bool = False) -> TaskResult:
        assert self.end.wait(GIVE_UP_S)
        return TaskResult(
            run_id="r",
            task_id="t",
            attempt=1,
            attempt_id="a",
            outcome="succeeded",
            worker_id="w",
        )

    def end_idle(self) -> None:
        pass

    def close(self) -> None:
        pass


class CountingQueue(MemoryQueue):
    """Counts renewals."""

    def __init__(self, clock: Clock, claim_s: float) -> None:
        super().__init__(clock, claim_s)
        self.renewals = threading.Semaphore(0)

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        super().renew(deliveries)
        if deliveries:
            self.renewals.release()


class Busy:
    """A worker of real threads that works on one task."""

    def __init__(self, store: Store) -> None:
        w = make_workspace(store, clock=SystemClock())
        self.queue = CountingQueue(w.clock, QUICK.claim_s)
        self.executor = Endless()
        self.reports = w.runtime.reports(QUICK)
        self.worker = Worker(
            "w",
            self.executor,  # type: ignore[arg-type]
            self.queue,
            self.reports,
            StoreLiveness(store),
            w.clock,
            capacity=Capacity(1, w.clock),
            timing=QUICK,
            drain_s=0.0,
        )
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        """As `servo worker` does."""
        ended = threading.Event()
        reporting = threading.Thread(
            target=self.reports.run, args=(ended,), kwargs={"drain_s": 0.1}, daemon=True
        )
        reporting.start()
        self.worker.run(self.stop)
        ended.set()
        reporting.join(GIVE_UP_S)
        assert not reporting.is_alive()

    def __enter__(self) -> Busy:
        self.queue.put([Message("m", b"{}")])
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.end.set()
        self.stop.set()
        self.thread.join(GIVE_UP_S)
        assert not self.thread.is_alive()


class Blocking(MemoryStore):
    """Writes of liveness records hang until `free` is set."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.free = threading.Event()
        self.hangs = threading.Event()

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        if path.startswith(paths.LIVENESS):
            self.hangs.set()
            self.free.wait(GIVE_UP_S)
        super().put(path, data, mode)


def test_claims_are_renewed_while_a_heartbeat_hangs() -> None:
    store = Blocking()
    with Busy(store) as busy:
        assert store.hangs.wait(GIVE_UP_S)
        for _ in range(2):
            assert busy.queue.renewals.acquire(timeout=GIVE_UP_S)
        store.free.set()


def test_heartbeats_go_on_while_the_look_for_cancellations_hangs() -> None:
    store = MemoryStore(SystemClock())
    beats = threading.Semaphore(0)
    free, hangs = threading.Event(), threading.Event()

    def hang(runs: Collection[str]) -> set[str]:
        hangs.set()
        free.wait(GIVE_UP_S)
        return set()

    recording = HookStore(store)
    recording.after("put", paths.LIVENESS, beats.release, times=1_000)
    with Busy(recording) as busy:
        busy.worker.cancelled = hang
        assert hangs.wait(GIVE_UP_S)
        for _ in range(2):
            assert beats.acquire(timeout=GIVE_UP_S)
            assert busy.queue.renewals.acquire(timeout=GIVE_UP_S)
        free.set()


def raising(error: Error) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize("error", [Denied("x"), Unavailable("x"), Corrupt("x")])
def test_heartbeats_go_on_after_any_error_of_the_store(error: Error) -> None:
    store = HookStore(MemoryStore(SystemClock()))
    beaten = threading.Event()
    store.before("put", paths.LIVENESS, raising(error), times=3)
    store.after("put", paths.LIVENESS, beaten.set)
    with Busy(store):
        assert beaten.wait(GIVE_UP_S)


def test_a_message_whose_task_cannot_be_looked_up_is_given_back() -> None:
    busy = Busy(MemoryStore(SystemClock()))
    busy.queue.put([Message("m", b"{}")])
    [first] = busy.queue.take(1, 0.0)
    busy.queue.release([first])

    def denied(request: TaskRequest) -> bool:
        raise Denied("no snapshot")

    busy.worker.is_stale = denied
    assert busy.worker.take_one(threading.Event()) > 0.0
    [third] = busy.queue.take(1, 0.0)
    assert third == Delivery(Message("m", b"{}"), 3)
    assert busy.worker.progress() == {}


class Trying:
    """A worker with one task to take, on a clock that is moved by hand; look-ups can fail."""

    def __init__(self) -> None:
        self.clock = SimClock()
        store = MemoryStore(self.clock)
        client = make_workspace(store, 1, clock=self.clock)
        deploy(client, CITY)
        self.run_id = trigger(client, "city.alone")
        self.orchestrator = OrchestratorProcess(store, self.clock, 2)
        self.orchestrator.step()
        self.process = WorkerProcess(store, self.clock, 3)
        self.fails_until = 0.0
        self.tries = 0
        self.worker = self.process.worker
        self._look_up = self.worker.is_stale
        self.worker.is_stale = self.worker.is_over = self._is_stale

    def _is_stale(self, request: TaskRequest) -> bool:
        self.tries += 1
        if self.clock.monotonic() < self.fails_until:
            raise Unavailable("503")
        return self._look_up(request)

    def fail_for(self, seconds: float) -> None:
        self.fails_until = self.clock.monotonic() + seconds

    def take(self) -> None:
        self.clock.sleep(self.worker.take_one(threading.Event()))

    def task(self) -> TaskRow:
        self.process.flush()
        self.orchestrator.step()
        return tasks_of(self.orchestrator.workspace, self.run_id)["city.alone"]


def test_a_task_that_could_not_be_looked_up_for_long_runs_in_the_end() -> None:
    at = Trying()
    at.fail_for(2 * MAX_DELIVERIES * TIMING.claim_s)
    while not at.process.executor.ran and at.clock.monotonic() < at.fails_until + TIMING.claim_s:
        at.take()
    task = at.task()
    assert (task.state, task.attempt) == (TaskState.SUCCEEDED, 1)


def test_a_short_failure_of_the_look_up_costs_no_delivery() -> None:
    at = Trying()
    at.fail_for(TIMING.claim_s / 4)
    at.take()
    assert at.tries > 2
    assert len(at.process.executor.ran) == 1
    assert at.task().state == TaskState.SUCCEEDED


def test_a_worker_that_is_to_stop_gives_back_what_it_cannot_look_up() -> None:
    at = Trying()
    at.fail_for(TIMING.claim_s)
    at.worker.stop.set()
    at.take()
    assert at.tries == 1
    assert [(d.number, d.lost) for d in at.process.queue.take(1, 0)] == [(2, 0)]


def test_a_task_whose_start_cannot_be_recorded_is_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = Trying()
    at.process.queue.release(at.process.queue.take(1, 0))
    with monkeypatch.context() as patched:
        patched.setattr(at.process.reports, "flush", raising(Unavailable("503")))
        at.take()
        assert at.worker.progress() == {} and at.process.executor.ran == []
    at.take()
    assert len(at.process.executor.ran) == 1
    assert at.task().state == TaskState.SUCCEEDED


def test_a_message_that_was_lost_too_often_is_undeliverable() -> None:
    at = Trying()
    for _ in range(MAX_DELIVERIES):
        while not at.process.queue.take(1, 0):
            at.clock.sleep(TIMING.claim_s / 2)
    while at.process.reports.due_in_s != 0.0:
        at.clock.sleep(TIMING.claim_s / 2)
        at.take()
    assert at.process.executor.ran == []
    assert at.task().error_code == "infrastructure.undeliverable"


def test_a_worker_ends_and_names_what_the_store_did_not_take() -> None:
    store = HookStore(MemoryStore(SystemClock()))
    store.before("put", paths.INBOX, raising(Denied("x")), times=10_000)
    with Busy(store) as busy:
        while not busy.worker.progress():
            pass
    assert busy.worker.unreported() == ["shop.orders attempt 1"]


class HangingDeletes(MemoryStore):
    """Deletes of messages hang until `free` is set."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.free = threading.Event()

    def delete(self, path: str) -> None:
        if path.startswith(paths.QUEUE):
            assert self.free.wait(GIVE_UP_S)
        super().delete(path)


def test_results_are_reported_while_acknowledgements_hang() -> None:
    store = HangingDeletes()
    w = make_workspace(store, clock=SystemClock())
    timing = msgspec.structs.replace(QUICK, claim_s=GIVE_UP_S)  # nothing comes again
    queue, reports = w.runtime.store_queue("w", timing), w.runtime.reports(timing)
    executor = Endless()
    executor.end.set()
    opened = executor.open
    executor.open = lambda raw: msgspec.structs.replace(  # type: ignore[method-assign]
        opened(raw), attempt_id=raw.decode()
    )
    worker = Worker(
        "w",
        executor,  # type: ignore[arg-type]
        queue,
        reports,
        StoreLiveness(store),
        w.clock,
        capacity=Capacity(1, w.clock),
        timing=timing,
    )
    stop, ended = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=worker.run, args=(stop,), daemon=True),
        threading.Thread(target=reports.run, args=(ended,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for name in "abcdefgh":
        queue.put([Message(name, name.encode())])
        deadline = time.monotonic() + GIVE_UP_S
        while name not in worker.reported_attempts and time.monotonic() < deadline:
            time.sleep(0.005)
        assert name in worker.reported_attempts
    store.free.set()
    stop.set()
    threads[0].join(GIVE_UP_S)
    ended.set()
    threads[1].join(GIVE_UP_S)
    assert list(store.list(paths.QUEUE)) == []
