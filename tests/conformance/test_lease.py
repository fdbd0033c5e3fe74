"""Leases on every backend: they are made of the store's promises alone."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from arco.errors import Fenced
from arco.storage.lease import Lease, Leases
from arco.storage.port import Store
from arco.storage.store_clock import StoreClock
from tests.kit.stores import DatedStore, ManualClock

TTL = timedelta(seconds=30)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def dated(store: Store, clock: ManualClock) -> DatedStore:
    return DatedStore(store, clock)


def holder(store: Store, clock: ManualClock, name: str) -> Leases:
    count = itertools.count()
    store_clock = StoreClock(store, clock)
    return Leases(store, clock, store_clock, name, lambda: f"{name}-{next(count)}")


def acquired(leases: Leases) -> Lease:
    lease = leases.acquire("compactor", TTL)
    assert lease is not None
    return lease


def test_second_holder_waits_until_the_lease_expires(dated: DatedStore, clock: ManualClock) -> None:
    ann, bob = holder(dated, clock, "ann"), holder(dated, clock, "bob")
    assert acquired(ann).number == 1
    assert bob.acquire("compactor", TTL) is None
    clock.sleep(30)
    assert acquired(bob).number == 2


def test_renewal_keeps_others_out_and_raises_the_number(
    dated: DatedStore, clock: ManualClock
) -> None:
    ann, bob = holder(dated, clock, "ann"), holder(dated, clock, "bob")
    lease = acquired(ann)
    for number in (2, 3, 4):
        clock.sleep(20)
        lease = ann.renew(lease, TTL)
        assert lease.number == number
        assert bob.acquire("compactor", TTL) is None


def test_released_lease_is_free_at_once(dated: DatedStore, clock: ManualClock) -> None:
    ann, bob = holder(dated, clock, "ann"), holder(dated, clock, "bob")
    ann.release(acquired(ann))
    assert acquired(bob).record.holder == "bob"


def test_expired_holder_is_fenced_even_if_nobody_came(
    dated: DatedStore, clock: ManualClock
) -> None:
    ann = holder(dated, clock, "ann")
    lease = acquired(ann)
    clock.sleep(30)
    with pytest.raises(Fenced):
        ann.renew(lease, TTL)


def test_holder_who_was_replaced_is_fenced_and_releases_nothing(
    dated: DatedStore, clock: ManualClock
) -> None:
    ann, bob = holder(dated, clock, "ann"), holder(dated, clock, "bob")
    old = acquired(ann)
    clock.sleep(30)
    new = acquired(bob)
    with pytest.raises(Fenced):
        ann.renew(old, TTL)
    ann.release(old)
    assert bob.renew(new, TTL).number == new.number + 1


def test_numbers_never_go_back_and_old_ones_are_removed(
    dated: DatedStore, clock: ManualClock
) -> None:
    numbers = []
    for name in "abcde":
        leases = holder(dated, clock, name)
        lease = acquired(leases)
        numbers.append(lease.number)
        leases.release(lease)
        assert len(list(dated.list("leases/"))) == 1
    assert numbers == sorted(set(numbers))


def test_leases_of_other_names_are_independent(dated: DatedStore, clock: ManualClock) -> None:
    ann, bob = holder(dated, clock, "ann"), holder(dated, clock, "bob")
    assert ann.acquire("a", TTL) is not None
    assert bob.acquire("a-b", TTL) is not None


def test_of_many_threads_one_acquires(dated: DatedStore, clock: ManualClock) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(lambda n: holder(dated, clock, f"h{n}").acquire("compactor", TTL), range(8))
        )
    assert len([lease for lease in found if lease is not None]) == 1
