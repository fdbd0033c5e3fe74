from __future__ import annotations

import itertools
import random
from datetime import timedelta

import pytest

from arco.errors import AlreadyExists, ClockSkew, Corrupt, Fenced, Invalid, Unavailable
from arco.storage.lease import LONGEST_TERM, Lease, Leases
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from arco.storage.store_clock import StoreClock
from tests.kit.faulty import Crash, CrashStore, FaultyStore
from tests.kit.stores import ManualClock

TTL = timedelta(seconds=30)


class LostPut(MemoryStore):
    """Every create takes effect, and says something else."""

    def __init__(self, clock: ManualClock, answer: Exception) -> None:
        super().__init__(clock)
        self.answer = answer

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        super().put(path, data, mode)
        if mode is not Mode.OVERWRITE:
            raise self.answer


def leases(store: Store, clock: ManualClock, name: str) -> Leases:
    count = itertools.count()
    store_clock = StoreClock(store, clock)
    return Leases(store, clock, store_clock, name, lambda: f"{name}-{next(count)}")


@pytest.mark.parametrize("answer", [Unavailable("time-out"), AlreadyExists("retried")])
def test_create_whose_response_was_lost_counts(answer: Exception) -> None:
    clock = ManualClock()
    ann = leases(LostPut(clock, answer), clock, "ann")
    lease = ann.acquire("x", TTL)
    assert lease is not None
    assert ann.renew(lease, TTL).number == 2


def test_renewal_tried_again_after_an_unknown_outcome_is_still_ours() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    ann = leases(store, clock, "ann")
    lease = ann.acquire("x", TTL)
    assert lease is not None
    ann.renew(lease, TTL)  # as if nobody had heard of it
    clock.sleep(5)
    assert ann.renew(lease, TTL).number == 2
    ann.release(lease)
    assert leases(store, clock, "bob").acquire("x", TTL) is not None


def test_sleeper_who_creates_a_removed_number_does_not_hold_it() -> None:
    """TRAPS 26: between its look and its create, others took and removed that number."""
    clock = ManualClock()
    store = MemoryStore(clock)

    class Sleeper(MemoryStore):
        def list(self, prefix, start_after=None):  # type: ignore[no-untyped-def]
            found = list(store.list(prefix, start_after))
            if not slept:
                slept.append(True)
                for _ in range(3):
                    lease = bob.acquire("x", TTL)
                    assert lease is not None
                    bob.release(lease)
            return iter(found)

        get, put, delete, head = store.get, store.put, store.delete, store.head

    slept: list[bool] = []
    bob = leases(store, clock, "bob")
    ann = leases(Sleeper(clock), clock, "ann")
    assert ann.acquire("x", TTL) is None
    (top,) = store.list("leases/x/")
    assert int(top.path[-25:-5]) == 6


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "a b"])
def test_impossible_name_is_refused(name: str) -> None:
    clock = ManualClock()
    with pytest.raises(Invalid):
        leases(MemoryStore(clock), clock, "ann").acquire(name, TTL)


def test_unreadable_record_is_corrupt_not_free() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    store.put(f"leases/x/{1:020d}.json", b"{")
    with pytest.raises(Corrupt):
        leases(store, clock, "ann").acquire("x", TTL)


@pytest.mark.parametrize("after_effect", [False, True])
def test_crash_anywhere_blocks_others_for_one_term_at_most(after_effect: bool) -> None:
    for at in range(1, 16):
        clock = ManualClock()
        store = MemoryStore(clock)
        crashing = leases(CrashStore(store, at, after_effect), clock, "ann")
        try:
            lease = crashing.acquire("x", TTL)
            assert lease is not None
            crashing.release(crashing.renew(lease, TTL))
        except Crash:
            clock.sleep(30)
        assert leases(store, clock, "bob").acquire("x", TTL) is not None


@pytest.mark.parametrize("seed", range(60))
def test_with_one_clock_two_never_hold_a_lease_whatever_fails(seed: int) -> None:
    """Replay one: pytest tests/unit/test_storage_lease.py -k 'whatever_fails[SEED]'."""
    rng = random.Random(seed)
    clock = ManualClock()
    store = FaultyStore(MemoryStore(clock), rng, 0.1, 0.1, slow_rate=0.05, slow_s=20, clock=clock)
    holders = [leases(store, clock, name) for name in ("ann", "bob", "cyd")]
    held: dict[int, Lease] = {}
    greatest = 0
    for _ in range(80):
        clock.sleep(rng.choice([0, 1, 10]))
        who = rng.randrange(3)
        mine = held.pop(who, None)
        try:
            if mine is None:
                got = holders[who].acquire("x", TTL)
            elif rng.random() < 0.7:
                held[who] = mine  # if this fails, we still have what we had
                got = holders[who].renew(mine, TTL)
            else:
                got = None
                holders[who].release(mine)
        except Unavailable:
            continue
        except Fenced:
            held.pop(who)
            continue
        if got is not None:
            assert got.number > greatest, f"seed {seed}: the number went back"
            greatest = got.number
            held[who] = got
        live = [it for it in held.values() if clock.monotonic() < it.until_s]
        assert len(live) <= 1, f"seed {seed}: {live}"


def test_lease_of_a_dead_holder_with_a_wrong_clock_ends_after_its_term() -> None:
    true = ManualClock()
    store = MemoryStore(true)
    ahead = ManualClock()
    ahead.sleep(200)  # within the bound
    assert leases(store, ahead, "ann").acquire("x", TTL) is not None
    bob = leases(store, true, "bob")
    assert bob.acquire("x", TTL) is None
    true.sleep(31)
    assert bob.acquire("x", TTL) is not None


def test_holder_whose_clock_is_a_day_off_gets_no_lease() -> None:
    true = ManualClock()
    ahead = ManualClock()
    ahead.sleep(86_401)
    with pytest.raises(ClockSkew, match="1 day, 0:00:00 ahead"):
        leases(MemoryStore(true), ahead, "ann").acquire("x", TTL)


def test_record_from_the_future_or_without_end_holds_nobody_up_for_long() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    ann = leases(store, clock, "ann")
    assert ann.acquire("x", timedelta(days=10_000)) is not None
    clock.sleep(LONGEST_TERM.total_seconds() + 1)
    assert leases(store, clock, "bob").acquire("x", TTL) is not None
    (meta,) = store.list("leases/x/")
    entry = store.objects[meta.path]
    future = entry.meta._replace(last_modified=clock.now() + timedelta(days=10_000))
    store.objects[meta.path] = entry._replace(meta=future)
    assert leases(store, clock, "cyd").acquire("x", TTL) is not None
