from __future__ import annotations

import random

import pytest

from arco.errors import NotFound, Unavailable
from arco.storage.memory import MemoryStore
from tests.kit.faulty import Crash, CrashStore, FaultyStore
from tests.kit.stores import ManualClock


def outcomes(seed: int) -> list[str]:
    clock = ManualClock()
    store = FaultyStore(MemoryStore(clock), random.Random(seed), 0.2, 0.2)
    seen = []
    for number in range(50):
        try:
            store.put(str(number), b"")
            seen.append("ok")
        except Unavailable as error:
            seen.append(str(error))
    return seen


def test_faults_follow_from_the_seed() -> None:
    assert outcomes(1) == outcomes(1) != outcomes(2)
    assert len(set(map(len, outcomes(1)))) > 1


def test_error_has_no_effect_and_lost_response_has() -> None:
    inner = MemoryStore(ManualClock())
    with pytest.raises(Unavailable):
        FaultyStore(inner, random.Random(0), error_rate=1).put("a", b"")
    with pytest.raises(NotFound):
        inner.get("a")
    with pytest.raises(Unavailable):
        FaultyStore(inner, random.Random(0), lost_response_rate=1).put("a", b"")
    assert inner.get("a").data == b""


def test_slow_calls_take_time_on_the_clock() -> None:
    clock = ManualClock()
    store = FaultyStore(MemoryStore(clock), random.Random(0), slow_rate=1, slow_s=7, clock=clock)
    store.put("a", b"")
    assert clock.monotonic() == 7


def test_disarmed_store_does_not_fail() -> None:
    store = FaultyStore(MemoryStore(ManualClock()), random.Random(0), error_rate=1)
    store.armed = False
    store.put("a", b"")
    assert store.calls == [("put", "a")]


@pytest.mark.parametrize(("after_effect", "left"), [(False, ["1"]), (True, ["1", "2"])])
def test_crash_stops_everything_from_its_call_on(after_effect: bool, left: list[str]) -> None:
    inner = MemoryStore(ManualClock())
    store = CrashStore(inner, 2, after_effect)
    store.put("1", b"")
    assert not store.crashed
    for path in ("2", "3"):
        with pytest.raises(Crash):
            store.put(path, b"")
    assert store.crashed
    assert [meta.path for meta in inner.list("")] == left
    assert not issubclass(Crash, Exception)
