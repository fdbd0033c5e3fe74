from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from arco.errors import ClockSkew
from arco.storage.memory import MemoryStore
from arco.storage.store_clock import FRESH_S, StoreClock
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.stores import ManualClock

START = datetime(2026, 1, 1)


class Setting:
    """A store with a clock of its own, and a machine whose clock is `off` from it."""

    def __init__(self, off: timedelta) -> None:
        self.true = ManualClock(START)
        self.machine = SimClock(START + off)
        self.store = HookStore(MemoryStore(self.true))
        self.clock = StoreClock(self.store, self.machine)

    def pass_by(self, seconds: float) -> None:
        self.true.sleep(seconds)
        self.machine.sleep(seconds)


@pytest.mark.parametrize("off_s", [-299, -10, 0, 10, 299])
def test_time_is_the_store_s_within_the_resolution(off_s: int) -> None:
    at = Setting(timedelta(seconds=off_s))
    for _ in range(5):
        assert abs(at.clock.now() - at.true.now()) <= timedelta(seconds=1)
        at.pass_by(100)


@pytest.mark.parametrize("off_s", [-86_400, -302, 302, 90_000])
def test_clock_beyond_the_bound_is_refused_and_says_by_how_much(off_s: int) -> None:
    at = Setting(timedelta(seconds=off_s))
    side = "behind" if off_s < 0 else "ahead of"
    for _ in range(2):
        with pytest.raises(ClockSkew, match=f"{side} the clock of"):
            at.clock.now()


def test_measurement_is_kept_for_minutes() -> None:
    at = Setting(timedelta())
    at.clock.now()
    at.pass_by(FRESH_S - 1)
    at.clock.now()
    assert at.store.count("put", "clock.json") == 1
    at.pass_by(2)
    at.clock.now()
    assert at.store.count("put", "clock.json") == 2


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1)])
def test_clock_that_jumps_is_noticed_at_once(jump: timedelta) -> None:
    at = Setting(timedelta())
    at.clock.now()
    at.machine.suspend(jump)
    with pytest.raises(ClockSkew):
        at.clock.now()
    at.machine.suspend(-jump)
    at.clock.now()


def test_own_write_in_a_listing_is_a_measurement() -> None:
    at = Setting(timedelta(seconds=60))
    at.clock.wrote("inbox/a", at.clock.moment())
    at.clock.listed("inbox/b", at.true.now() + timedelta(hours=1))
    at.clock.listed("inbox/a", at.true.now())
    assert abs(at.clock.now() - at.true.now()) <= timedelta(seconds=1)
    assert at.store.calls == []


def test_own_write_that_shows_a_wrong_clock_is_measured_again() -> None:
    for off, wrong in ((timedelta(), False), (timedelta(days=-1), True)):
        at = Setting(off)
        at.clock.wrote("inbox/a", at.clock.moment())
        at.clock.listed("inbox/a", at.machine.now() + timedelta(days=1))
        if wrong:
            with pytest.raises(ClockSkew):
                at.clock.now()
        else:
            at.clock.now()
        assert at.store.count("put", "clock.json") == (3 if wrong else 1)


def test_estimate_asks_nobody_and_refuses_nobody() -> None:
    at = Setting(timedelta(minutes=2))
    assert at.clock.estimate() == at.machine.now()
    at.clock.measure()
    assert abs(at.clock.estimate() - at.true.now()) <= timedelta(seconds=1)


def test_clock_that_is_set_during_a_measurement_is_measured_again() -> None:
    at = Setting(timedelta())
    at.store.after("put", "clock.json", lambda: at.machine.suspend(timedelta(minutes=4)))
    assert abs(at.clock.now() - at.true.now()) <= timedelta(seconds=1)
    assert at.store.count("put", "clock.json") == 2
    at.machine.suspend(timedelta(hours=1))
    for _ in range(9):
        at.store.after("put", "clock.json", lambda: at.machine.suspend(timedelta(minutes=4)))
    with pytest.raises(ClockSkew, match="3 times in a row"):
        at.clock.now()


def test_write_during_which_the_clock_was_set_is_no_measurement() -> None:
    at = Setting(timedelta())
    before = at.clock.moment()
    at.machine.suspend(timedelta(days=1))
    at.clock.wrote("inbox/a", before)
    at.clock.listed("inbox/a", at.true.now())
    with pytest.raises(ClockSkew):
        at.clock.now()


def test_one_old_time_is_not_taken_for_a_wrong_clock() -> None:
    """On a disk, a writer that slept between writing and renaming brings an old time."""
    at = Setting(timedelta())
    memory = at.store.inner
    assert isinstance(memory, MemoryStore)

    def old() -> None:
        entry = memory.objects["clock.json"]
        meta = entry.meta._replace(last_modified=at.true.now() - timedelta(minutes=10))
        memory.objects["clock.json"] = entry._replace(meta=meta)

    at.store.after("put", "clock.json", old)
    assert abs(at.clock.now() - at.true.now()) <= timedelta(seconds=1)


def test_clock_that_was_mended_is_noticed_at_once() -> None:
    at = Setting(timedelta(days=1))
    with pytest.raises(ClockSkew):
        at.clock.now()
    at.machine.suspend(timedelta(days=-1))
    at.clock.now()
