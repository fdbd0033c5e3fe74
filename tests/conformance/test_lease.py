"""Leases on every backend: they are made of the store's promises alone."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from arco.errors import Fenced
from arco.storage.lease import Lease, Leases
from arco.storage.port import Store
from tests.kit.stores import ManualClock

TTL = timedelta(seconds=30)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def holder(store: Store, clock: ManualClock, name: str) -> Leases:
    count = itertools.count()
    return Leases(store, clock, name, lambda: f"{name}-{next(count)}")


def acquired(leases: Leases) -> Lease:
    lease = leases.acquire("compactor", TTL)
    assert lease is not None
    return lease


def test_second_holder_waits_until_the_lease_expires(store: Store, clock: ManualClock) -> None:
    ann, bob = holder(store, clock, "ann"), holder(store, clock, "bob")
    assert acquired(ann).number == 1
    assert bob.acquire("compactor", TTL) is None
    clock.sleep(30)
    assert acquired(bob).number == 2


def test_renewal_keeps_others_out_and_raises_the_number(store: Store, clock: ManualClock) -> None:
    ann, bob = holder(store, clock, "ann"), holder(store, clock, "bob")
    lease = acquired(ann)
    for number in (2, 3, 4):
        clock.sleep(20)
        lease = ann.renew(lease, TTL)
        assert lease.number == number
        assert bob.acquire("compactor", TTL) is None


def test_released_lease_is_free_at_once(store: Store, clock: ManualClock) -> None:
    ann, bob = holder(store, clock, "ann"), holder(store, clock, "bob")
    ann.release(acquired(ann))
    assert acquired(bob).record.holder == "bob"


def test_expired_holder_is_fenced_even_if_nobody_came(store: Store, clock: ManualClock) -> None:
    ann = holder(store, clock, "ann")
    lease = acquired(ann)
    clock.sleep(30)
    with pytest.raises(Fenced):
        ann.renew(lease, TTL)


def test_holder_who_was_replaced_is_fenced_and_releases_nothing(
    store: Store, clock: ManualClock
) -> None:
    ann, bob = holder(store, clock, "ann"), holder(store, clock, "bob")
    old = acquired(ann)
    clock.sleep(30)
    new = acquired(bob)
    with pytest.raises(Fenced):
        ann.renew(old, TTL)
    ann.release(old)
    assert bob.renew(new, TTL).number == new.number + 1


def test_numbers_never_go_back_and_old_ones_are_removed(store: Store, clock: ManualClock) -> None:
    numbers = []
    for name in "abcde":
        leases = holder(store, clock, name)
        lease = acquired(leases)
        numbers.append(lease.number)
        leases.release(lease)
        assert len(list(store.list("leases/"))) == 1
    assert numbers == sorted(set(numbers))


def test_leases_of_other_names_are_independent(store: Store, clock: ManualClock) -> None:
    ann, bob = holder(store, clock, "ann"), holder(store, clock, "bob")
    assert ann.acquire("a", TTL) is not None
    assert bob.acquire("a-b", TTL) is not None


def test_of_many_threads_one_acquires(store: Store, clock: ManualClock) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(lambda n: holder(store, clock, f"h{n}").acquire("compactor", TTL), range(8))
        )
    assert len([lease for lease in found if lease is not None]) == 1
