"""Tasks share a worker by their weights, and small ones do not keep a large one waiting."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.clock import Clock, SystemClock
from arco.storage.memory import MemoryStore
from arco.transport.liveness import StoreLiveness
from arco.transport.queues.capacity import PASS_S, Capacity
from arco.transport.queues.memory import MemoryQueue
from arco.transport.queues.objectstore import ObjectStoreQueue, contents
from arco.transport.queues.port import Delivery, Message, Queue, Weight
from arco.worker.service import Worker
from servo.contract.task import TaskRequest, TaskResult
from tests.kit.latency import LatencyStore
from tests.kit.stores import ManualClock
from tests.kit.workspace import make_workspace, seeded_ulids
from tests.unit.test_worker_service import QUICK, Endless

MakeQueue = Callable[[Clock], Queue]


def in_memory(clock: Clock) -> Queue:
    return MemoryQueue(clock)


def in_store(clock: Clock) -> Queue:
    ids = seeded_ulids(clock, 1)
    return ObjectStoreQueue(MemoryStore(clock), clock, "w", ids, rng=random.Random(1))


QUEUES = pytest.mark.parametrize("make", [in_memory, in_store])


# -- what a worker has ---------------------------------------------------------------------


def test_task_takes_its_slots_and_its_memory() -> None:
    capacity = Capacity(8, ManualClock(), memory_mib=1_000)
    assert capacity.reserve("a", Weight(4, 600))
    assert not capacity.reserve("b", Weight(1, 600))
    assert not capacity.reserve("c", Weight(5, 0))
    assert capacity.reserve("d", Weight(4, 400))
    assert capacity.reserved == (8, 1_000)
    capacity.release(Weight(4, 600))
    assert capacity.reserved == (4, 400)


def test_task_that_is_larger_than_the_worker_is_left_to_others() -> None:
    capacity = Capacity(4, ManualClock(), memory_mib=1_000)
    assert not capacity.reserve("slots", Weight(5, 0))
    assert not capacity.reserve("memory", Weight(1, 1_001))
    assert capacity.reserve("others", Weight(4, 1_000))  # and nobody waits for those


def test_only_worker_of_a_queue_takes_a_larger_task_alone() -> None:
    capacity = Capacity(4, ManualClock(), memory_mib=1_000, alone=True)
    assert capacity.reserve("small", Weight())
    assert not capacity.reserve("huge", Weight(64, 9_000))
    capacity.release(Weight())
    assert capacity.reserve("huge", Weight(64, 9_000))
    assert not capacity.reserve("small", Weight())
    capacity.release(Weight(64, 9_000))
    assert capacity.reserved == (0, 0)


def test_small_tasks_pass_a_large_one_for_a_while_and_then_wait() -> None:
    clock = ManualClock()
    capacity = Capacity(4, clock)
    assert capacity.reserve("a", Weight())
    assert not capacity.reserve("large", Weight(4))
    assert capacity.reserve("b", Weight())
    clock.sleep(PASS_S)
    assert not capacity.reserve("c", Weight())
    capacity.release(Weight())
    assert not capacity.reserve("c", Weight())
    capacity.release(Weight())
    assert capacity.reserve("large", Weight(4))
    capacity.release(Weight(4))
    assert capacity.reserve("c", Weight())


def test_nobody_waits_for_a_large_task_that_another_worker_took() -> None:
    clock = ManualClock()
    capacity = Capacity(4, clock)
    capacity.reserve("a", Weight())
    capacity.reserve("large", Weight(4))
    clock.sleep(PASS_S)
    assert not capacity.reserve("b", Weight())
    capacity.keep({"b"})
    assert capacity.reserve("b", Weight())


# -- what a queue claims -------------------------------------------------------------------


@QUEUES
def test_queue_delivers_what_fits_and_keeps_the_rest(make: MakeQueue) -> None:
    clock = ManualClock()
    queue, capacity = make(clock), Capacity(4, clock, memory_mib=500)
    queue.put([Message("a", b"a", 9, Weight(3, 100)), Message("b", b"b", 5, Weight(2))])
    queue.put([Message("c", b"c", 1), Message("d", b"d", 0, Weight(9))])
    first = queue.take(10, 0.0, capacity)
    assert [d.message.name for d in first] == ["a", "c"]
    assert first[0].message == Message("a", b"a", 9, Weight(3, 100))
    assert queue.take(10, 0.0, capacity) == []
    queue.done(first)
    for delivery in first:
        capacity.release(delivery.message.weight)
    assert [d.message.name for d in queue.take(10, 0.0, capacity)] == ["b"]
    assert [d.message.name for d in queue.take(10, 0.0)] == ["d"]  # a larger worker
    assert queue.held(["a", "b", "c", "d"]) == {"b", "d"}


def test_claims_of_weighed_messages_are_renewed_released_and_withdrawn() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    ids = seeded_ulids(clock, 1)
    queue = ObjectStoreQueue(store, clock, "w", ids)
    heavy = Message("heavy", b"", 0, Weight(2, 300))
    queue.put([heavy, heavy])
    (delivery,) = queue.take(1, 0.0)
    assert contents(store).messages == {"heavy": Weight(2, 300)}
    assert contents(store).claimed == {"heavy"}
    queue.renew([delivery])
    queue.release([delivery])
    assert contents(store).claimed == frozenset()
    assert queue.take(1, 0.0) == [Delivery(heavy, 2)]
    queue.withdraw(["heavy"])
    assert list(store.list("queue/")) == []


def test_message_for_which_there_is_no_room_is_not_listed_over_and_over() -> None:
    clock = ManualClock()
    store = LatencyStore(MemoryStore(clock), 0.0)
    queue = ObjectStoreQueue(store, clock, "w", seeded_ulids(clock, 1), max_poll_s=1.0)
    queue.put([Message("large", b"", 0, Weight(99))])
    capacity = Capacity(1, clock)
    for _ in range(60):
        assert queue.take(1, 1.0, capacity) == []
    assert store.count("list") <= 70


def test_room_is_given_back_if_a_claim_fails() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    ids = seeded_ulids(clock, 1)
    ann, bob = (ObjectStoreQueue(store, clock, name, ids) for name in ("ann", "bob"))
    ann.put([Message("a", b""), Message("b", b"")])
    capacity = Capacity(1, clock)
    assert len(ann.take(1, 0.0)) == 1  # it has listed both
    assert len(bob.take(1, 0.0)) == 1
    assert ann.take(1, 0.0, capacity) == []
    assert capacity.reserved == (0, 0)


class Running(NamedTuple):
    ends_at: float
    delivery: Delivery


@QUEUES
@given(
    seed=st.integers(0, 10_000),
    slots=st.integers(2, 8),
    larges=st.lists(st.integers(2, 12), min_size=1, max_size=4),
)
def test_large_tasks_run_although_small_ones_never_end(
    make: MakeQueue, seed: int, slots: int, larges: list[int]
) -> None:
    """A stream of small tasks that keeps the worker busy, and a few that need much of it."""
    clock, rng = ManualClock(), random.Random(seed)
    queue, capacity = make(clock), Capacity(slots, clock)
    queue.put([Message(f"large{i}", b"", 0, Weight(size)) for i, size in enumerate(larges)])
    waiting = {f"large{i}" for i, size in enumerate(larges) if size <= slots}
    running: list[Running] = []
    for second in range(150):
        queue.put([Message(f"s{second}-{n}", b"", rng.choice([0, 5])) for n in range(slots)])
        for ended in [task for task in running if task.ends_at <= clock.monotonic()]:
            running.remove(ended)
            queue.done([ended.delivery])
            capacity.release(ended.delivery.message.weight)
        for delivery in queue.take(slots, 0.0, capacity):
            running.append(Running(clock.monotonic() + rng.randint(1, 5), delivery))
            waiting.discard(delivery.message.name)
        assert sum(task.delivery.message.weight.slots for task in running) <= slots
        if not waiting:
            return
        clock.sleep(1.0)
    raise AssertionError(f"{waiting} never ran on {slots} slots, of {larges}")


# -- a worker ------------------------------------------------------------------------------


class Counting(Endless):
    """Notes how many of its tasks run at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._names = iter(range(1_000))
        self._now = 0
        self.most = 0
        self.ran = threading.Semaphore(0)

    def open(self, raw: bytes) -> TaskRequest:
        number = str(next(self._names))
        return msgspec.structs.replace(super().open(raw), task_id=number, attempt_id=number)

    def run(self, request: TaskRequest, control: object, *, again: bool = False) -> TaskResult:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.02)
        with self._lock:
            self._now -= 1
        self.ran.release()
        return TaskResult(
            run_id="r",
            task_id=request.task_id,
            attempt=1,
            attempt_id=request.attempt_id,
            outcome="succeeded",
            worker_id="w",
        )


@pytest.mark.parametrize(
    ("weight", "most"), [(Weight(), 8), (Weight(4), 2), (Weight(1, 3_000), 3), (Weight(99), 1)]
)
def test_large_tasks_do_not_meet_on_one_worker(weight: Weight, most: int) -> None:
    store = MemoryStore(SystemClock())
    w = make_workspace(store, clock=SystemClock())
    queue, executor, reports = (
        MemoryQueue(w.clock, QUICK.claim_s),
        Counting(),
        w.runtime.reports(QUICK),
    )
    capacity = Capacity(8, w.clock, memory_mib=10_000, alone=True)
    worker = Worker(
        "w",
        executor,  # type: ignore[arg-type]
        queue,
        reports,
        StoreLiveness(store),
        w.clock,
        capacity=capacity,
        timing=QUICK,
        drain_s=5.0,
    )
    queue.put([Message(f"m{n}", b"{}", 0, weight) for n in range(16)])
    stop, ended = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=worker.run, args=(stop,), daemon=True),
        threading.Thread(target=reports.run, args=(ended,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for _ in range(16):
        assert executor.ran.acquire(timeout=30)
    stop.set()
    threads[0].join(30)
    ended.set()
    threads[1].join(30)
    assert executor.most <= most
    assert capacity.reserved == (0, 0)
