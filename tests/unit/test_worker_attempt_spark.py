"""An attempt's part of Spark: its progress, its usage, and the time that Spark takes to start."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from arco.spark.driver import ScopeOptions
from arco.spark.host import SparkHost
from arco.spark.metrics import SparkUsage, StageProgress
from arco.worker import slot_messages as messages
from arco.worker.attempt_spark import AttemptSpark
from arco.worker.failures import Interrupted
from arco.worker.slot_spark import MAX_START_S, GuestSpark
from arco.worker.slots import Slot
from arco.worker.stopping import CANCEL, Stopping
from servo.contract.task import CodeRef, TaskRequest
from tests.kit.bench import NoProcess
from tests.kit.clocks import SimClock

REQUEST = TaskRequest(
    tenant_id="acme",
    workspace_id="prod",
    run_id="r1",
    task_id="t1",
    plan_id="p1",
    attempt=1,
    attempt_id="a1",
    asset="sales.f",
    asset_id="01J00000000000000000000000",
    code=CodeRef(artifact="0123456789abcdef", module="assets", name="f"),
)


class Scope:
    session: Any = object()

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.looked_at = threading.Event()
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()

    def cancel_running(self) -> None: ...

    def progress(self) -> StageProgress | None:
        self.looked_at.set()
        return StageProgress(1, 2, "stage 1 of 1", 50)

    def usage(self) -> SparkUsage:
        self.asked.append(threading.current_thread().name)
        return SparkUsage(jobs=3)

    def close(self, *, failed: bool) -> None: ...


class Driver:
    connect = False
    cores = 2
    lost_because = ""

    def __init__(self) -> None:
        self.scope = Scope()

    def alive(self) -> bool:
        return True

    def cluster_lost(self) -> str:
        return ""

    def exit_status(self) -> int | None:
        return None

    def open(self, plan: ScopeOptions) -> Scope:
        return self.scope

    def clear_cache(self) -> None: ...

    def stop(self) -> None: ...

    def discard(self) -> None: ...

    def end(self) -> None: ...


class Process(NoProcess):
    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        self.heard = threading.Event()

    def progress(self, percent: int, text: str) -> None:
        self.told.append((percent, text))
        self.heard.set()


class Scene:
    def __init__(self) -> None:
        self.driver = Driver()
        self.stopping = Stopping()
        self.process = Process()
        host = SparkHost(start=lambda settings: self.driver)
        host.driver()
        self.spark = AttemptSpark(host, REQUEST, self.stopping, self.process)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    with made.stopping.listening():
        yield made


def test_usage_is_asked_for_by_the_tasks_own_thread(scene: Scene) -> None:
    with scene.spark.open_scope():
        scene.spark.session()
    assert scene.spark.usage == SparkUsage(jobs=3)
    assert scene.driver.scope.asked == [threading.current_thread().name]


def test_usage_of_what_was_interrupted_is_asked_for_by_another(scene: Scene) -> None:
    with pytest.raises(Interrupted), scene.spark.open_scope():
        scene.spark.session()
        scene.stopping.call(lambda: signal.raise_signal(CANCEL))
    assert scene.spark.usage == SparkUsage(jobs=3)
    assert scene.driver.scope.asked == ["spark-usage"]


def test_jobs_of_an_attempt_that_is_to_stop_are_cancelled(scene: Scene) -> None:
    with scene.spark.open_scope():
        scene.spark.session()
        signal.raise_signal(CANCEL)
        assert scene.driver.scope.cancelled.wait(5)


@pytest.mark.parametrize("shown", [True, False])
def test_jobs_are_looked_at_also_where_their_progress_is_not_shown(
    scene: Scene, shown: bool
) -> None:
    scene.spark.shows_progress = shown
    with scene.spark.open_scope():
        scene.spark.session()
        assert scene.driver.scope.looked_at.wait(5)
        assert scene.process.heard.wait(5) if shown else not scene.process.heard.wait(0.1)


def test_the_start_of_spark_is_not_the_tasks_time_up_to_a_limit() -> None:
    class SlowHost(SparkHost):
        def address(self) -> tuple[int, str]:
            clock.advance(timedelta(seconds=4))
            return 1, "token"

    class Told:
        def __init__(self) -> None:
            self.messages: list[messages.ToSlot] = []
            self.said = threading.Semaphore(0)

        def send(self, message: messages.ToSlot) -> None:
            self.messages.append(message)
            self.said.release()

    clock, slot = SimClock(), Told()
    guest = GuestSpark(SlowHost(), cast(Slot, slot), clock)
    for expected in (4.0, 8.0, MAX_START_S):
        guest.supply()
        assert slot.said.acquire(timeout=5)
        assert guest.start_s(clock.monotonic()) == expected
    assert slot.messages == [messages.SparkAddress(1, "token", "slot-0")] * 3
