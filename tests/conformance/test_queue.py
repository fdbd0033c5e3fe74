"""What the queue port promises, of every queue, and of the object store's on three stores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from arco.clock import Clock, SystemClock
from arco.errors import Invalid, NotFound
from arco.storage.port import Store
from arco.transport.queues.memory import MemoryQueue
from arco.transport.queues.port import PASSES, Delivery, Message, Queue
from tests.conformance.conftest import CREW
from tests.conformance.crew import DEADLINE_S, Place
from tests.conformance.queue_crew import HELD, open_queue, take_and_hang, work_off
from tests.kit.backends import Servers
from tests.kit.stores import Address, ManualClock

CLAIM_S = 60.0
S3 = pytest.param("s3", marks=[pytest.mark.cloud, pytest.mark.xdist_group("s3")])


class Site(NamedTuple):
    """One queue; `open` gives a worker's, or the dispatcher's, own way to it."""

    clock: ManualClock
    open: Callable[[str], Queue]


def address_of(kind: str, servers: Servers, tmp_path: Path) -> Address:
    if kind != "s3":
        return Address(kind, f"file://{tmp_path}/store", {})
    backend = servers.get("s3")
    return Address("s3", f"{backend.url}/{tmp_path.parent.name}/{tmp_path.name}", backend.options)


@pytest.fixture(params=["memory", "local", S3])
def address(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Address:
    return address_of(request.param, servers, tmp_path)


@pytest.fixture(
    params=[
        "queue in memory",
        *(pytest.param(f"objects, {kind}", id=f"objects-{kind}") for kind in ("memory", "local")),
        pytest.param("objects, s3", id="objects-s3", marks=S3.marks),
    ]
)
def opened(
    request: pytest.FixtureRequest, servers: Servers, tmp_path: Path
) -> Callable[[Clock], Callable[[str], Queue]]:
    """For a clock: what opens one and the same queue, for whoever asks."""
    _, _, kind = request.param.partition(", ")

    def of(clock: Clock) -> Callable[[str], Queue]:
        if not kind:
            queue = MemoryQueue(clock, CLAIM_S)
            return lambda name: queue
        store = address_of(kind, servers, tmp_path).open()
        return lambda name: open_queue(store, clock, name, CLAIM_S)

    return of


@pytest.fixture
def site(opened: Callable[[Clock], Callable[[str], Queue]]) -> Site:
    clock = ManualClock()
    return Site(clock, opened(clock))


def message(name: str, priority: int = 0) -> Message:
    return Message(name, f"body of {name}".encode(), priority)


def taken(queue: Queue, limit: int = 1) -> list[Delivery]:
    return queue.take(limit, 0)


def names(deliveries: list[Delivery]) -> list[str]:
    return [delivery.message.name for delivery in deliveries]


def after_the_claim(site: Site, queue: Queue, limit: int = 1) -> list[Delivery]:
    """Time goes by, while the queue is looked at now and then."""
    found: list[Delivery] = []
    for _ in range(5):
        found += taken(queue, limit - len(found))
        site.clock.sleep(CLAIM_S / 2)
    return found + taken(queue, limit - len(found))


# One message


def test_message_is_delivered_as_it_was_put(site: Site) -> None:
    site.open("ann").put([message("a", 7)])
    assert taken(site.open("bob")) == [Delivery(message("a", 7), 1)]


def test_claimed_message_is_given_to_nobody_else(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a")])
    assert names(taken(ann)) == ["a"]
    assert taken(bob) == []
    assert taken(ann) == []


def test_message_that_is_done_never_comes_again(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a")])
    ann.done(taken(ann))
    assert after_the_claim(site, bob) == []
    assert bob.held(["a"]) == set()


def test_ended_claim_is_delivered_again_with_greater_numbers(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a")])
    found = [*taken(ann), *after_the_claim(site, bob), *after_the_claim(site, ann)]
    numbers = [delivery.number for delivery in found]
    assert numbers[0] == 1
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 3


def test_claims_that_ended_by_themselves_are_counted_and_released_ones_are_not(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a")])
    for _ in range(3):
        ann.release(taken(ann))
    [fourth] = taken(ann)
    assert (fourth.number, fourth.lost) == (4, 0)
    fifth = after_the_claim(site, bob)[0]
    assert (fifth.number, fifth.lost) == (5, 1)


def test_worker_that_lost_sight_of_a_delivery_gets_it_again(site: Site) -> None:
    ann = site.open("ann")
    ann.put([message("a")])
    assert names(taken(ann)) == ["a"]
    assert names(after_the_claim(site, ann))[:1] == ["a"]


def test_ended_claim_is_delivered_again_while_other_work_waits(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("urgent", 9)])
    assert names(taken(ann)) == ["urgent"]
    ann.put([message(f"m{n}") for n in range(30)])
    found: list[str] = []
    for _ in range(20):
        deliveries = taken(bob)
        bob.done(deliveries)
        found += names(deliveries)
        site.clock.sleep(CLAIM_S / 4)
    assert "urgent" in found


def test_renewed_claim_stays(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a")])
    deliveries = taken(ann)
    for _ in range(6):
        site.clock.sleep(CLAIM_S * 0.6)
        ann.renew(deliveries)
        assert taken(bob) == []
    ann.done(deliveries)
    assert after_the_claim(site, bob) == []


def test_released_message_is_given_to_another_at_once(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a")])
    ann.release(taken(ann))
    found = taken(bob)
    assert names(found) == ["a"]
    assert taken(ann) == []
    bob.release(found)
    assert names(taken(bob)) == ["a"]


def test_worker_that_lost_its_claim_neither_renews_nor_releases_it(site: Site) -> None:
    ann, bob, cyd = site.open("ann"), site.open("bob"), site.open("cyd")
    ann.put([message("a")])
    lost = taken(ann)
    found: list[Delivery] = []
    while not found:
        site.clock.sleep(CLAIM_S / 2)
        found = taken(bob)
    ann.renew(lost)
    ann.release(lost)
    assert taken(cyd) == []
    assert taken(ann) == []
    bob.done(found)
    assert after_the_claim(site, cyd) == []


def test_late_done_is_done(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a")])
    lost = taken(ann)
    assert names(after_the_claim(site, bob))[:1] == ["a"]
    ann.done(lost)
    assert after_the_claim(site, bob) == []


# Putting and taking back


def test_put_of_a_known_name_changes_nothing(site: Site) -> None:
    ann = site.open("ann")
    ann.put([message("a"), message("a")])
    ann.put([Message("a", b"another body")])
    deliveries = taken(ann, 5)
    assert [delivery.message for delivery in deliveries] == [message("a")]
    ann.put([message("a")])
    assert taken(ann, 5) == []
    ann.done(deliveries)
    assert after_the_claim(site, ann) == []


def test_name_that_is_done_can_be_put_again(site: Site) -> None:
    ann = site.open("ann")
    for _ in range(2):
        ann.put([message("a")])
        deliveries = taken(ann)
        assert names(deliveries) == ["a"]
        ann.done(deliveries)


def test_withdrawn_messages_are_gone_claimed_or_not(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message("a", 1), message("b"), message("b-2"), message("c")])
    deliveries = taken(bob)
    assert names(deliveries) == ["a"]
    ann.withdraw(["a", "b", "never"])
    ann.withdraw([])
    bob.renew(deliveries)
    bob.done(deliveries)
    assert sorted(names(taken(bob, 5))) == ["b-2", "c"]
    assert ann.held(["a", "b", "b-2", "c"]) == {"b-2", "c"}


def test_held_are_those_that_wait_or_are_claimed(site: Site) -> None:
    ann = site.open("ann")
    ann.put([message("claimed", 1), message("waiting", -1)])
    assert names(taken(ann)) == ["claimed"]
    assert ann.held(["claimed", "waiting", "unknown"]) == {"claimed", "waiting"}
    assert ann.held([]) == set()


def test_urgent_messages_come_first(site: Site) -> None:
    ann = site.open("ann")
    for n, priority in enumerate([0, -3, 12, 5, -100, 100]):
        ann.put([message(f"m{n}", priority)])
    found = [taken(ann)[0].message.priority for _ in range(3)]
    ann.put([message("late", 50)])
    found += [delivery.message.priority for delivery in taken(ann, 9)]
    assert found == [100, 12, 5, 50, 0, -3, -100]


def test_the_least_urgent_message_is_passed_nine_times_in_a_row(site: Site) -> None:
    ann = site.open("ann")
    ann.put([message("low", -1_000)])
    found = []
    for n in range(12):
        ann.put([message(f"m{n}"), message(f"n{n}")])
        site.clock.sleep(2.0)
        found += names(taken(ann))
    assert found.index("low") == PASSES
    assert len(found) == 12


def test_messages_that_came_later_overtake_less_urgent_ones_that_were_listed(site: Site) -> None:
    ann = site.open("ann")
    ann.put([message(f"low{n}", -1_000) for n in range(5)])
    assert len(taken(ann)) == 1
    site.open("bob").put([message("late")])
    site.clock.sleep(0.5)
    assert names(taken(ann)) == ["late"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "a.json", "é", "a b", "x" * 201])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(Invalid):
        Message(name, b"")


# Waiting, and many at once


def test_take_from_an_empty_queue_is_empty_after_the_time_out(site: Site) -> None:
    assert site.open("ann").take(3, 0) == []
    assert site.open("ann").take(3, 0.05) == []


def test_take_gives_no_more_than_the_limit(site: Site) -> None:
    ann, bob = site.open("ann"), site.open("bob")
    ann.put([message(f"m{n}") for n in range(5)])
    first, second, third = taken(ann, 3), taken(bob, 3), taken(ann, 3)
    assert (len(first), len(second), len(third)) == (3, 2, 0)
    assert len(set(names(first + second))) == 5


def test_waiting_worker_gets_what_comes_in(
    opened: Callable[[Clock], Callable[[str], Queue]],
) -> None:
    site = opened(SystemClock())
    ann, bob = site("ann"), site("bob")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(bob.take, 1, DEADLINE_S)
        ann.put([message("a")])
        assert names(waiting.result()) == ["a"]


def test_slots_of_two_workers_share_the_messages(
    opened: Callable[[Clock], Callable[[str], Queue]],
) -> None:
    site = opened(SystemClock())
    ann, queues = site("ann"), [site("bob"), site("cyd")]
    wanted = {f"m{n}" for n in range(40)}
    found: Counter[str] = Counter()
    lock = threading.Lock()

    def slot(queue: Queue) -> None:
        while len(found) < len(wanted):
            deliveries = queue.take(2, 0.05)
            queue.renew(deliveries)
            queue.done(deliveries)
            with lock:
                found.update(names(deliveries))

    with ThreadPoolExecutor(6) as threads:
        slots = [threads.submit(slot, queues[n % 2]) for n in range(6)]
        for name in sorted(wanted):
            ann.put([message(name)])
        for each in slots:
            each.result(DEADLINE_S)
    assert found == dict.fromkeys(wanted, 1)


# Processes


def fill(store: Store, count: int) -> set[str]:
    wanted = [message(f"m{n}", n % 3) for n in range(count)]
    open_queue(store, SystemClock(), "dispatcher", CLAIM_S).put(wanted)
    return {each.name for each in wanted}


def worked_off(place: Place, crew: Executor, claim_s: float) -> list[tuple[str, int]]:
    working = [crew.submit(work_off, place, n, CREW, claim_s) for n in range(CREW)]
    return [delivery for each in working for delivery in each.result(2 * DEADLINE_S)]


def test_crew_does_each_message_once(address: Address, store: Store, crew: Executor) -> None:
    wanted = fill(store, 60)
    place = Place(address, store if address.kind == "memory" else None)
    found = worked_off(place, crew, CLAIM_S)
    assert sorted(found) == sorted((name, 1) for name in wanted)
    assert list(store.list("queue/")) == []


@pytest.mark.parametrize("address", ["local", S3], indirect=True)
def test_what_a_killed_worker_held_is_done_by_others(
    address: Address, store: Store, crew: Executor
) -> None:
    wanted = fill(store, 24)
    place = Place(address, None)
    hanging = multiprocessing.get_context("spawn").Process(
        target=take_and_hang, args=(place, 5, 1.0)
    )
    hanging.start()
    try:
        held = set(wait_for(store, HELD).decode().split(","))
    finally:
        assert hanging.pid is not None
        os.kill(hanging.pid, signal.SIGKILL)
        hanging.join()
    assert len(held) == 5
    found = worked_off(place, crew, 1.0)
    assert {name for name, _ in found} == wanted
    assert held <= {name for name, number in found if number > 1}


def wait_for(store: Store, path: str) -> bytes:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            return store.get(path).data
        except NotFound:
            time.sleep(0.02)
    raise TimeoutError(path)
