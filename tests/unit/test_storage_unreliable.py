"""The kit's own faults, at the storage port: each does what its name says, as its seed decides."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arco.errors import AlreadyExists, Denied, NotFound, Unavailable
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from tests.kit.clocks import SimClock
from tests.kit.faults import PAGE, Faults, Rule
from tests.kit.faulty import UnreliableStore


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def memory(clock: SimClock) -> MemoryStore:
    return MemoryStore(clock)


def unreliable(memory: MemoryStore, clock: SimClock, *rules: Rule) -> UnreliableStore:
    return UnreliableStore(memory, clock, rules)


def names(store: MemoryStore | UnreliableStore) -> list[str]:
    return [meta.path for meta in store.list("")]


def test_dropped_write_has_its_effect(memory: MemoryStore, clock: SimClock) -> None:
    store = unreliable(memory, clock, Rule("drop", times=1))
    with pytest.raises(Unavailable):
        store.put("a", b"1")
    assert store.get("a").data == b"1"


def test_late_write_arrives_when_its_time_has_come(memory: MemoryStore, clock: SimClock) -> None:
    store = unreliable(memory, clock, Rule("late", times=1, delay_s=60))
    with pytest.raises(Unavailable):
        store.put("a", b"late")
    clock.advance(timedelta(seconds=59))
    with pytest.raises(NotFound):
        store.get("a")
    clock.advance(timedelta(seconds=1))
    assert (store.get("a").data, store.held) == (b"late", 0)
    assert store.head("a").last_modified == clock.now()


def test_late_create_loses_to_one_that_came_first(memory: MemoryStore, clock: SimClock) -> None:
    store = unreliable(memory, clock, Rule("late", times=1))
    with pytest.raises(Unavailable):
        store.put("a", b"late")
    store.put("a", b"first")
    store.release()
    assert store.get("a").data == b"first"


def test_late_overwrite_goes_back(memory: MemoryStore, clock: SimClock) -> None:
    store = unreliable(memory, clock, Rule("late", times=1))
    with pytest.raises(Unavailable):
        store.put("a", b"old", Mode.OVERWRITE)
    store.put("a", b"new", Mode.OVERWRITE)
    store.release()
    assert store.get("a").data == b"old"


def test_repeated_write_brings_back_what_was_deleted(memory: MemoryStore, clock: SimClock) -> None:
    store = unreliable(memory, clock, Rule("repeat", op="put"))
    store.put("a", b"1")
    store.delete("a")
    store.release()
    assert store.get("a").data == b"1"


def test_error_comes_before_or_after_the_effect(memory: MemoryStore, clock: SimClock) -> None:
    store = unreliable(
        memory,
        clock,
        Rule("error", path="^before$", status=500),
        Rule("error", path="^after$", status=429, applied=True),
        Rule("error", path="^denied$", status=403),
    )
    for path, error in (("before", Unavailable), ("after", Unavailable), ("denied", Denied)):
        with pytest.raises(error):
            store.put(path, b"")
    assert names(memory) == ["after"]
    assert store.faults.counts == {"error": 3}


def test_reads_are_spoilt_as_on_a_wire(memory: MemoryStore, clock: SimClock) -> None:
    memory.put("a", b"01234567")
    store = unreliable(
        memory,
        clock,
        Rule("cut", times=1),
        Rule("shorten", times=1),
        Rule("shorten", times=1, keep=0.0),
        Rule("page", times=1),
        Rule("flip", times=1),
    )
    with pytest.raises(Unavailable):
        store.get("a")
    objects = [store.get("a") for _ in range(5)]
    assert [o.data for o in objects[:3]] == [b"0123", b"", PAGE]
    assert [o.meta.size for o in objects] == [4, 0, len(PAGE), 8, 8]
    flipped = int.from_bytes(objects[3].data) ^ int.from_bytes(b"01234567")
    assert (flipped.bit_count(), objects[4].data) == (1, b"01234567")


def test_range_is_whole_or_unavailable(memory: MemoryStore, clock: SimClock) -> None:
    memory.put("a", b"01234567")
    store = unreliable(memory, clock, Rule("shorten", times=1), Rule("page", times=1))
    for _ in range(2):
        with pytest.raises(Unavailable):
            store.get_range("a", 0, 4)
    assert store.get_range("a", 0, 4) == b"0123"


def test_new_keys_are_hidden_from_listings_for_a_while(
    memory: MemoryStore, clock: SimClock
) -> None:
    store = unreliable(memory, clock, Rule("hide", delay_s=10))
    store.put("a", b"")
    clock.advance(timedelta(seconds=6))
    store.put("b", b"")
    assert names(store) == []
    clock.advance(timedelta(seconds=6))
    assert names(store) == ["a"]
    clock.advance(timedelta(seconds=6))
    assert names(store) == ["a", "b"]


def test_action_runs_between_the_effect_and_the_answer(
    memory: MemoryStore, clock: SimClock
) -> None:
    store = unreliable(memory, clock, Rule("drop", action=lambda: memory.delete("a"), times=1))
    with pytest.raises(Unavailable):
        store.put("a", b"")
    assert names(memory) == []


def test_disarmed_store_only_delivers(memory: MemoryStore, clock: SimClock) -> None:
    store = unreliable(memory, clock, Rule("repeat", op="put", delay_s=5), Rule("error", op="get"))
    store.put("a", b"")
    store.delete("a")
    store.armed = False
    clock.advance(timedelta(seconds=5))
    assert store.get("a").data == b""
    with pytest.raises(AlreadyExists):
        store.put("a", b"")


def test_fault_can_happen_once_to_each_object() -> None:
    faults = Faults([Rule("flip", once_each=True)])
    for path in ("a", "b", "a", "b", "c"):
        faults.pick("get", path)
    assert [event.fault for event in faults.events] == ["flip", "flip", "", "", "flip"]


def test_faults_follow_from_the_seed_and_the_requests() -> None:
    def kinds(seed: int) -> list[str]:
        faults = Faults([Rule("drop", rate=0.3), Rule("error", rate=0.5, skip=5, times=9)], seed)
        for n in range(60):
            faults.pick("put", str(n))
        return [event.fault for event in faults.events]

    assert kinds(1) == kinds(1) != kinds(2)
    assert kinds(1).count("error") == 9
    assert "error" not in kinds(1)[:5]
