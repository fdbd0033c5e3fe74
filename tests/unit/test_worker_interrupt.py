"""Interruption: user code stops, and our own code around it never notices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from arco.clock import SystemClock
from arco.worker.failures import Interrupted, TaskTimeout
from arco.worker.interrupt import Interruption, Watchdog
from tests.kit.bench import NoControl
from tests.kit.clocks import SimClock


class Stop(NoControl):
    def __init__(self) -> None:
        self.now = False

    def cancelled(self) -> bool:
        return self.now


@pytest.fixture
def watched() -> Iterator[tuple[Interruption, Stop]]:
    stop, watchdog = Stop(), Watchdog(poll_s=0.005)
    interruption = Interruption(stop, SystemClock())
    watchdog.add(interruption)
    yield interruption, stop
    watchdog.remove(interruption)


def spin(until: Callable[[], bool] = lambda: False, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "was not interrupted"


def test_a_busy_function_is_interrupted(watched: tuple[Interruption, Stop]) -> None:
    interruption, stop = watched
    threading.Timer(0.05, lambda: setattr(stop, "now", True)).start()
    with pytest.raises(Interrupted):
        interruption.call(spin)
    time.sleep(0.05)
    spin(lambda: True)


def test_what_is_not_called_is_not_interrupted(watched: tuple[Interruption, Stop]) -> None:
    interruption, stop = watched
    stop.now = True
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
    with pytest.raises(Interrupted):
        interruption.check()


def test_a_shielded_part_runs_to_its_end(watched: tuple[Interruption, Stop]) -> None:
    interruption, stop = watched
    done: list[str] = []

    def function() -> None:
        with interruption.shielded():
            stop.now = True
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                pass
            done.append("read")
        done.append("never")

    with pytest.raises(Interrupted):
        interruption.call(function)
    assert done == ["read"]


def test_code_that_swallows_an_interruption_gets_another(
    watched: tuple[Interruption, Stop],
) -> None:
    interruption, stop = watched
    stop.now = True
    swallowed: list[int] = []

    def function() -> None:
        try:
            spin()
        except Exception:
            swallowed.append(1)
        spin()

    with pytest.raises(Interrupted):
        interruption.call(function)
    assert swallowed == [1]


def test_an_interruption_on_its_way_is_taken_back() -> None:
    stop = Stop()
    interruption = Interruption(stop, SystemClock())
    outcomes = set()
    for _ in range(200):
        stop.now, interruption._sent_at = True, None
        poking = threading.Thread(target=interruption.poke)
        try:
            outcomes.add(interruption.call(lambda t=poking: t.start() or "done"))  # type: ignore[misc]
        except Interrupted:
            outcomes.add("interrupted")
        poking.join()
        spin(lambda: True)  # whatever was sent late would be raised here
    assert outcomes <= {"done", "interrupted"}


def test_time_is_over_by_the_clock() -> None:
    clock = SimClock()
    interruption = Interruption(NoControl(), clock, timeout_s=30)
    clock.advance(timedelta(seconds=29))
    interruption.check()
    clock.advance(timedelta(seconds=1))
    with pytest.raises(TaskTimeout, match="30 s"):
        interruption.check()


def test_what_commits_cannot_be_abandoned_and_the_other_way_round() -> None:
    one, two = (Interruption(NoControl(), SimClock()) for _ in range(2))
    one.begin_commit()
    assert not one.abandon() and not one.stopping()
    assert two.abandon() and two.stopping()
    with pytest.raises(Interrupted):
        two.begin_commit()


def test_the_watchdogs_thread_ends_when_there_is_nothing_to_watch() -> None:
    watchdog = Watchdog(poll_s=0.0005)
    for _ in range(2):
        interruption = Interruption(NoControl(), SystemClock())
        watchdog.add(interruption)
        assert watchdog._running
        watchdog.remove(interruption)
        end = time.monotonic() + 5
        while watchdog._running and time.monotonic() < end:
            time.sleep(0.01)
        assert not watchdog._running


def test_a_control_that_fails_does_not_stop_the_watchdog() -> None:
    class Broken(NoControl):
        def cancelled(self) -> bool:
            raise RuntimeError("broken")

    watchdog, stop = Watchdog(poll_s=0.005), Stop()
    stop.now = True
    broken = Interruption(Broken(), SystemClock())
    fine = Interruption(stop, SystemClock())
    broken._armed = True
    watchdog.add(broken)
    watchdog.add(fine)
    with pytest.raises(Interrupted):
        fine.call(spin)
    watchdog.remove(broken)
    watchdog.remove(fine)
