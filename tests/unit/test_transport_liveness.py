from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from arco.errors import ClockSkew, Unavailable
from arco.orchestration.controllers.lost_attempts import WorkerState
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.store_clock import StoreClock
from arco.transport.liveness import LivenessRecord, Progress, Watch, beat, records
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore

START = datetime(2026, 1, 1)
SILENT_S = 30.0
BUSY = {"attempt-1": Progress("run", "task", 50, "half way")}


class Setting:
    def __init__(self) -> None:
        self.clock = SimClock(START)
        self.memory = MemoryStore(SimClock(datetime(1999, 1, 1)))
        self.store = HookStore(self.memory)
        self.store_clock = StoreClock(self.memory, self.clock)
        with suppress(ClockSkew):
            self.store_clock.measure()
        self.watch = Watch(self.store, self.clock, self.store_clock, SILENT_S)

    def beat(self, worker: str, number: int, attempts: dict[str, Progress] | None = None) -> None:
        """On the store's clock, which is wrong and moves on its own."""
        self.memory.clock.sleep(0.7)
        beat(self.memory, LivenessRecord(worker, number, attempts or {}, 4))


@pytest.fixture
def at() -> Setting:
    return Setting()


def test_record_is_read_back_as_it_was_written(at: Setting) -> None:
    at.beat("ann", 1, BUSY)
    at.beat("bob", 1)
    assert records(at.store) == [
        LivenessRecord("ann", 1, BUSY, 4),
        LivenessRecord("bob", 1, {}, 4),
    ]


def test_next_beat_replaces_the_one_before(at: Setting) -> None:
    at.beat("ann", 1, BUSY)
    at.beat("ann", 2)
    assert records(at.store) == [LivenessRecord("ann", 2, {}, 4)]


def test_change_is_dated_by_the_clock_of_whoever_looks(at: Setting) -> None:
    at.beat("ann", 1, BUSY)
    assert at.watch.read_workers() == {"ann": WorkerState(START, frozenset(BUSY), 4)}


def test_slots_of_an_old_record_count_once_it_is_seen_to_change(at: Setting) -> None:
    at.beat("ann", 1, BUSY)
    at.clock.sleep(2 * SILENT_S)
    at.memory.clock.sleep(2 * SILENT_S)
    at.beat("bob", 1)
    now = at.clock.now()
    assert at.watch.read_workers() == {
        "ann": WorkerState(now, frozenset(BUSY), 0),
        "bob": WorkerState(now, frozenset(), 4),
    }
    at.beat("ann", 2, BUSY)
    assert at.watch.read_workers()["ann"] == WorkerState(now, frozenset(BUSY), 4)


def test_silence_grows_until_the_next_beat(at: Setting) -> None:
    at.beat("ann", 1, BUSY)
    at.watch.read_workers()
    at.clock.advance(timedelta(seconds=30))
    assert at.watch.read_workers() == {"ann": WorkerState(START, frozenset(BUSY), 4)}
    at.beat("ann", 2)
    assert at.watch.read_workers() == {
        "ann": WorkerState(START + timedelta(seconds=30), frozenset(), 4)
    }


def test_record_that_did_not_change_is_not_read_again(at: Setting) -> None:
    at.beat("ann", 1, BUSY)
    at.beat("bob", 1)
    at.watch.read_workers()
    at.store.calls.clear()
    at.beat("bob", 2, BUSY)
    at.watch.read_workers()
    assert at.store.calls == [("list", paths.LIVENESS), ("get", paths.liveness("bob"))]


def test_change_within_one_tick_of_the_store_is_seen(at: Setting) -> None:
    """Some stores' times are whole seconds."""
    beat(at.memory, LivenessRecord("ann", 1, BUSY))
    at.watch.read_workers()
    beat(at.memory, LivenessRecord("ann", 2))
    assert at.watch.read_workers() == {"ann": WorkerState(START, frozenset())}


def test_worker_whose_record_is_gone_is_gone(at: Setting) -> None:
    at.beat("ann", 1)
    at.watch.read_workers()
    at.memory.delete(paths.liveness("ann"))
    assert at.watch.read_workers() == {}


def test_record_that_goes_between_listing_and_reading_is_left_out(at: Setting) -> None:
    at.beat("ann", 1)
    at.beat("bob", 1)
    at.store.before("get", paths.liveness("ann"), lambda: at.memory.delete(paths.liveness("ann")))
    assert set(at.watch.read_workers()) == {"bob"}


@pytest.mark.parametrize("data", [b"", b"\xff", b"{", b"[]", b'{"worker_id": 1}'])
def test_file_of_a_stranger_hides_nobody(at: Setting, data: bytes) -> None:
    at.memory.put("liveness/a-stranger.json", data)
    at.beat("bob", 1)
    assert set(at.watch.read_workers()) == {"bob"}
    assert [record.worker_id for record in records(at.store)] == ["bob"]


@pytest.mark.parametrize("op", ["list", "get"])
def test_look_that_fails_changes_nothing(at: Setting, op: str) -> None:
    at.beat("ann", 1, BUSY)
    at.watch.read_workers()
    at.clock.advance(timedelta(seconds=30))
    at.beat("bob", 1)
    at.store.fail(op, paths.LIVENESS)
    with pytest.raises(Unavailable):
        at.watch.read_workers()
    assert at.watch.read_workers() == {
        "ann": WorkerState(START, frozenset(BUSY), 4),
        "bob": WorkerState(START + timedelta(seconds=30), frozenset(), 4),
    }
