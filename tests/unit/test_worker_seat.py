"""An attempt's place on Spark, whichever way its code comes there; with a Spark that is none."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from arco.orchestration.runs import TIMEOUT_GRACE_S
from arco.spark.driver import Plan
from arco.spark.host import SparkHost
from arco.spark.metrics import SparkUsage, StageProgress
from arco.worker.failures import TaskTimeout
from arco.worker.interrupt import RESEND_S, SPARK_PATIENCE_S, Interruption
from arco.worker.loader import package_name
from arco.worker.seat import MAX_START_S, USAGE_S, Seat
from servo.contract.task import CodeRef, TaskRequest
from tests.kit.bench import Switch
from tests.kit.clocks import SimClock

pytest.importorskip("pyspark.sql")

ARTIFACT = "0123456789abcdef0123456789abcdef"


class Scope:
    session: Any = object()

    def __init__(self) -> None:
        self.asked: list[str] = []

    def cancel(self) -> None: ...

    def cancel_running(self) -> None: ...

    def progress(self) -> StageProgress | None:
        self.asked.append("progress")
        return StageProgress(1, 2, "stage 1 of 1", 50)

    def usage(self) -> SparkUsage:
        self.asked.append(threading.current_thread().name)
        return SparkUsage(jobs=3)

    def close(self, *, failed: bool) -> None: ...


class Driver:
    """Opens after a while, or fails to."""

    connect = False
    cores = 2

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.start_s = 0.0
        self.broken = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.scope = Scope()

    def alive(self) -> bool:
        return True

    def cluster_lost(self) -> str:
        return ""

    def exit_status(self) -> int | None:
        return None

    def open(self, plan: Plan) -> Scope:
        self._clock.advance(timedelta(seconds=self.start_s))
        self.meanwhile()
        if self.broken:
            raise RuntimeError("not now")
        return self.scope

    def rest(self) -> None: ...

    def stop(self) -> None: ...

    def discard(self) -> None: ...

    def end(self) -> None: ...


class Scene:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.driver = Driver(self.clock)
        self.control = Switch()
        self.interruption = Interruption(self.control, self.clock, timeout_s=60)
        host = SparkHost()
        host._driver = self.driver
        request = TaskRequest(
            tenant_id="acme",
            workspace_id="prod",
            run_id="r1",
            task_id="t1",
            plan_id="p1",
            attempt=1,
            attempt_id="a1",
            asset="sales.f",
            asset_id="01J00000000000000000000000",
            code=CodeRef(artifact=ARTIFACT, module="assets", name="f"),
        )
        self.seat = Seat(host, request, self.control, self.interruption, self.clock)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def asked_by_name(seat: Seat) -> None:
    seat.session()


def read(seat: Seat) -> None:
    """As inputs and checks do."""
    _ = seat.task.session


def found(seat: Seat) -> None:
    from pyspark.sql import SparkSession

    SparkSession.active()


WAYS: list[Callable[[Seat], None]] = [asked_by_name, read, found]


def test_a_task_that_waited_for_spark_stops_before_it_is_taken_for_stuck() -> None:
    assert MAX_START_S + SPARK_PATIENCE_S + RESEND_S + USAGE_S < TIMEOUT_GRACE_S / 2


@pytest.mark.parametrize("way", WAYS)
def test_the_start_of_spark_is_not_the_tasks_time(way: Callable[[Seat], None]) -> None:
    scene = Scene()
    scene.driver.start_s = 5
    with scene.seat.taken():
        way(scene.seat)
        way(scene.seat)
        assert scene.interruption.patience_s == SPARK_PATIENCE_S
        scene.clock.advance(timedelta(seconds=59))
        scene.interruption.check()
        scene.clock.advance(timedelta(seconds=1))
        with pytest.raises(TaskTimeout):
            scene.interruption.check()


def test_a_start_that_fails_again_and_again_gives_no_more_time_than_one(scene: Scene) -> None:
    scene.driver.start_s, scene.driver.broken = 6, True
    with scene.seat.taken():
        for _ in range(10):
            with contextlib.suppress(RuntimeError):
                scene.seat.session()
        scene.clock.advance(timedelta(seconds=MAX_START_S))
        with pytest.raises(TaskTimeout):
            scene.interruption.check()


def test_a_start_that_outlasts_the_time_out_is_not_broken_off(scene: Scene) -> None:
    def poked() -> None:
        scene.interruption.poke()
        scene.clock.advance(timedelta(seconds=SPARK_PATIENCE_S))
        scene.interruption.poke()

    scene.driver.start_s, scene.driver.meanwhile = 62, poked
    with scene.seat.taken():
        scene.interruption.call(scene.seat.session)
        assert not scene.interruption.sent and not scene.interruption.stopping()


@pytest.fixture
def package() -> Iterator[str]:
    name = package_name(ARTIFACT)
    yield name
    shipped().discard(name)
    sys.modules.pop(name, None)


def shipped() -> set[str]:
    from pyspark.cloudpickle import cloudpickle

    names: set[str] = cloudpickle._PICKLE_BY_VALUE_MODULES
    return names


@pytest.mark.parametrize("way", WAYS)
def test_the_projects_functions_are_shipped(way: Callable[[Seat], None], package: str) -> None:
    scene = Scene()
    with scene.seat.taken():
        scene.seat.session()
        assert package not in shipped()
        sys.modules[package] = ModuleType(package)  # loaded after Spark was started, for a check
        way(scene.seat)
        assert package in shipped()


def test_usage_is_asked_for_by_the_tasks_own_thread(scene: Scene) -> None:
    with scene.seat.taken():
        scene.seat.session()
    assert scene.seat.usage == SparkUsage(jobs=3)
    assert scene.driver.scope.asked == [threading.current_thread().name]


@pytest.mark.parametrize("how", ["sent", "broken off"])
def test_usage_of_what_was_interrupted_is_asked_for_by_another(scene: Scene, how: str) -> None:
    with scene.seat.taken():
        scene.seat.session()
        if how == "sent":
            scene.interruption._sent_at = 1.0
        else:
            scene.seat.broken_off()
    assert scene.seat.usage == SparkUsage(jobs=3)
    assert [name.rpartition("_")[0] for name in scene.driver.scope.asked] == ["spark-watch"]


@pytest.mark.parametrize("shown", [True, False])
def test_jobs_are_looked_at_also_where_their_progress_is_not_shown(
    scene: Scene, shown: bool
) -> None:
    scene.seat.shows_progress = shown
    scene.clock.advance(timedelta(seconds=1))
    with scene.seat.taken():
        scene.seat.session()
        assert scene.interruption.watch is not None
        scene.interruption.watch(None)
        assert scene.seat._looking is not None
        scene.seat._looking.result(timeout=10)
        assert scene.driver.scope.asked == ["progress"]
    assert scene.control.reports == ([(50, "stage 1 of 1")] if shown else [])
