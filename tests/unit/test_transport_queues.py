"""The object store's queue at the places where others come in between, and what it costs."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from arco.errors import AlreadyExists, Unavailable
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from arco.transport.queues import objectstore
from arco.transport.queues.objectstore import CLAIMS, READY, ObjectStoreQueue
from arco.transport.queues.port import Delivery, Message
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore

CLAIM_S = 60.0


class Setting:
    """Ann, behind hooks, and others on the same store."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.hooks = HookStore(self.store)
        self.ann = self.queue("ann", self.hooks)
        self.bob = self.queue("bob", self.store)

    def queue(self, name: str, store: Store) -> ObjectStoreQueue:
        count = itertools.count()
        return ObjectStoreQueue(
            store,
            self.clock,
            name,
            lambda: f"{name}-{next(count)}",
            rng=random.Random(name),
            claim_s=CLAIM_S,
        )

    def put(self, *names: str) -> None:
        self.bob.put([Message(name, name.encode()) for name in names])

    def paths(self) -> list[str]:
        return [meta.path for meta in self.store.list("queue/")]

    def calls(self) -> Counter[str]:
        """What ann has called since the last time."""
        found = Counter(op for op, _ in self.hooks.calls)
        self.hooks.calls.clear()
        return found

    def until_taken(self, queue: ObjectStoreQueue) -> list[Delivery]:
        for _ in range(10):
            if found := queue.take(1, 0):
                return found
            self.clock.sleep(CLAIM_S / 2)
        raise AssertionError("nothing comes")

    def until_swept(self) -> list[str]:
        for _ in range(5):
            assert self.bob.take(1, 0) == []
            self.clock.sleep(CLAIM_S / 2)
        return self.paths()


@pytest.fixture
def at() -> Setting:
    return Setting()


# What it costs


def test_claim_is_one_put_and_one_get_and_done_two_deletes(at: Setting) -> None:
    at.put("a", "b", "c")
    first = at.ann.take(1, 0)
    assert at.calls() == {"list": 1, "put": 1, "get": 1}
    second = at.ann.take(2, 0)
    assert at.calls() == {"put": 2, "get": 2}
    at.ann.done(first + second)
    assert at.calls() == {"delete": 6}
    assert at.paths() == []


def test_renewal_is_one_put_and_so_is_release(at: Setting) -> None:
    at.put("a")
    found = at.ann.take(1, 0)
    at.calls()
    at.ann.renew(found)
    assert at.calls() == {"put": 1}
    at.ann.release(found)
    assert at.calls() == {"put": 1}


def test_idle_worker_lists_once_for_each_poll_and_ever_more_rarely(at: Setting) -> None:
    at.put("a")
    assert at.bob.take(1, 0) != []
    at.ann.take(1, 0)
    at.calls()
    for _ in range(40):
        assert at.ann.take(1, 0.5) == []
    calls = at.calls()
    assert set(calls) == {"list"}
    assert calls["list"] <= 25  # in 20 s


def test_what_others_have_is_dropped_at_once_and_not_tried_one_by_one(at: Setting) -> None:
    at.put(*(f"m{n}" for n in range(100)))
    at.ann.release(at.ann.take(1, 0))
    assert len(at.ann.take(1, 0)) == 1
    assert len(at.bob.take(98, 0)) == 98
    at.calls()
    assert len(at.ann.take(5, 0)) == 1
    calls = at.calls()
    assert calls["put"] <= 1 + 2 * objectstore.MISSES
    assert calls["list"] <= 2


def test_listing_ends_when_there_is_enough(at: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectstore, "LOOK_AHEAD", 3)
    at.put(*(f"m{n}" for n in range(8)))
    assert len(at.ann.take(8, 0)) == 8


def test_slow_listing_is_used_all_the_same(at: Setting) -> None:
    at.put("a", "b", "c")
    at.hooks.after("list", "queue/", lambda: at.clock.sleep(20), times=9)
    assert len(at.ann.take(3, 0)) == 3
    assert at.calls()["list"] == 1


def test_urgent_message_overtakes_what_was_listed_before_it(at: Setting) -> None:
    at.put("a", "b", "c")
    at.ann.take(1, 0)
    at.bob.put([Message("urgent", b"", 5)])
    at.clock.sleep(1.1)
    assert [each.message.name for each in at.ann.take(1, 0)] == ["urgent"]


# Who comes in between


def test_older_messages_are_taken_first_and_those_of_one_second_in_any_order(at: Setting) -> None:
    for batch in ("ab", "cd", "ef"):
        at.put(*(f"{batch}-{n}" for n in range(4)))
        at.clock.sleep(1)
    names = [delivery.message.name for delivery in at.ann.take(12, 0)]
    assert [name[:2] for name in names] == ["ab"] * 4 + ["cd"] * 4 + ["ef"] * 4
    assert names != sorted(names)


def test_claim_of_a_message_that_was_done_meanwhile_is_removed(at: Setting) -> None:
    at.put("a")
    at.hooks.before("put", CLAIMS, lambda: at.bob.done(at.bob.take(1, 0)))
    assert at.ann.take(1, 0) == []
    assert at.paths() == []


def test_message_that_is_claimed_meanwhile_is_left_alone(at: Setting) -> None:
    at.put("a")
    at.hooks.before("put", CLAIMS, lambda: at.bob.take(1, 0))
    assert at.ann.take(1, 0) == []


def test_late_renewal_of_a_claim_that_another_has_is_no_renewal(at: Setting) -> None:
    at.put("a")
    lost = at.ann.take(1, 0)
    assert [each.number for each in at.until_taken(at.bob)] == [2]
    before = [(meta.path, meta.last_modified) for meta in at.store.list(CLAIMS)]
    at.ann.renew(lost)
    assert [(meta.path, meta.last_modified) for meta in at.store.list(CLAIMS)] == before


def test_late_renewal_of_a_message_that_is_gone_brings_no_claim_back(at: Setting) -> None:
    at.put("a")
    lost = at.ann.take(1, 0)
    at.bob.done(at.until_taken(at.bob))
    at.ann.renew(lost)
    assert at.paths() == []


def test_late_renewal_of_a_claim_that_nobody_took_keeps_it(at: Setting) -> None:
    at.put("a")
    found = at.ann.take(1, 0)
    at.clock.sleep(3 * CLAIM_S)
    at.ann.renew(found)
    assert at.bob.take(1, 0) == []


def test_claim_that_a_renewal_brings_back_alone_is_swept(at: Setting) -> None:
    at.put("a")
    found = at.ann.take(1, 0)
    at.hooks.before("put", CLAIMS, lambda: at.bob.withdraw(["a"]))
    at.ann.renew(found)
    assert len(at.paths()) == 1
    assert at.until_swept() == []


def test_claim_that_a_release_brings_back_alone_does_not_block_the_name(at: Setting) -> None:
    at.put("a")
    found = at.ann.take(1, 0)
    at.bob.withdraw(["a"])
    at.ann.release(found)
    at.put("a")
    assert [each.number for each in at.bob.take(1, 0)] == [2]


def test_message_is_never_had_by_two_after_a_late_release(at: Setting) -> None:
    at.put("a")
    lost = at.ann.take(1, 0)
    found = at.until_taken(at.bob)
    at.ann.release(lost)
    assert at.queue("cyd", at.store).take(1, 0) == []
    at.bob.done(found)
    assert at.until_swept() == []


# What crashes leave


def test_claims_without_a_message_are_swept_but_not_at_once(at: Setting) -> None:
    at.store.put(f"{CLAIMS}5000-gone.000001.json", b"{}")
    at.store.put(f"{CLAIMS}5000-gone.000002.json", b"{}")
    assert at.bob.take(1, 0) == []
    assert len(at.paths()) == 2
    assert at.until_swept() == []


def test_claims_beyond_what_was_listed_are_not_taken_for_leftovers(
    at: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.bob.put([Message("low", b"", -5)])
    (low,) = at.ann.take(1, 0)
    at.put(*(f"m{n}" for n in range(8)))
    monkeypatch.setattr(objectstore, "LOOK_AHEAD", 2)
    for _ in range(6):
        assert len(at.bob.take(1, 0)) == 1
        at.clock.sleep(CLAIM_S / 2)
    assert f"{CLAIMS}5005-low.000001.json" in at.paths()
    at.ann.done([low])


def test_claims_that_were_not_kept_are_forgotten(at: Setting) -> None:
    at.put("a")
    at.ann.take(1, 0)
    at.bob.done(at.until_taken(at.bob))
    at.ann.take(1, 0)
    assert at.ann.own_claims == {}


# Unknown outcomes


def test_claim_whose_answer_was_lost_is_ours(at: Setting) -> None:
    at.put("a")
    at.hooks.lose("put", CLAIMS)
    assert [each.message.name for each in at.ann.take(1, 0)] == ["a"]


def test_claim_that_the_client_asked_for_twice_is_ours(at: Setting) -> None:
    def refused() -> None:
        raise AlreadyExists("by the first time")

    at.put("a")
    at.hooks.after("put", CLAIMS, refused)
    assert [each.message.name for each in at.ann.take(1, 0)] == ["a"]


def test_claim_that_failed_leaves_the_message_to_others(at: Setting) -> None:
    at.put("a")
    at.hooks.fail("put", CLAIMS)
    with pytest.raises(Unavailable):
        at.ann.take(1, 0)
    assert [each.number for each in at.bob.take(1, 0)] == [1]


def test_claim_whose_message_cannot_be_read_is_given_back(at: Setting) -> None:
    at.put("a")
    at.hooks.fail("get", READY)
    with pytest.raises(Unavailable):
        at.ann.take(1, 0)
    assert [each.number for each in at.bob.take(1, 0)] == [2]


def test_what_was_claimed_before_a_failure_is_not_lost(at: Setting) -> None:
    at.put("a", "b", "c")
    at.hooks.after("get", READY, lambda: at.hooks.fail("put", CLAIMS))
    assert len(at.ann.take(3, 0)) == 1


def test_failure_of_one_keeps_no_other_from_being_put_or_done(at: Setting) -> None:
    messages = [Message(name, b"") for name in "abc"]
    at.hooks.fail("put", f"{READY}5000-a")
    with pytest.raises(Unavailable):
        at.ann.put(messages)
    assert at.ann.held("abc") == {"b", "c"}
    at.ann.put(messages)
    found = at.ann.take(3, 0)
    at.hooks.fail("delete", f"{READY}5000-a")
    with pytest.raises(Unavailable):
        at.ann.done(found)
    assert at.ann.held("abc") == {"a"}
    assert [each.message.name for each in at.until_taken(at.ann)] == ["a"]


def test_renewal_whose_outcome_is_unknown_is_followed_by_another(at: Setting) -> None:
    at.put("a")
    found = at.ann.take(1, 0)
    at.hooks.lose("put", CLAIMS)
    with pytest.raises(Unavailable):
        at.ann.renew(found)
    at.ann.renew(found)
    (meta,) = at.store.list(CLAIMS)
    assert at.store.get(meta.path).data.endswith(b"}  ")


def test_listing_that_fails_is_tried_again_by_the_next_take(at: Setting) -> None:
    at.put("a")
    at.hooks.fail("list", "queue/")
    with pytest.raises(Unavailable):
        at.ann.take(1, 0)
    assert len(at.ann.take(1, 0)) == 1


# Strangers, and stores whose times are coarse


@pytest.mark.parametrize(
    "path",
    [
        "queue/README.md",
        f"{READY}notes.txt",
        f"{READY}5000-.json",
        f"{READY}5000-a/b.json",
        f"{READY}abcd-a.json",
        f"{READY}0000-a.json",
        f"{READY}٣٣٣٣-a.json",
        f"{CLAIMS}what.json",
        f"{CLAIMS}5000-a.json",
        f"{CLAIMS}5000-a.x00001.json",
        f"{CLAIMS}5000-a.000001.json.bak",
        f"{CLAIMS}5000-a/000001.json",
    ],
)
def test_files_of_strangers_are_left_alone(at: Setting, path: str) -> None:
    at.store.put(path, b"\xff not ours")
    at.put("a")
    assert at.bob.held(["a", "notes.txt", "b"]) == {"a"}
    at.bob.withdraw(["nothing"])
    at.ann.done(at.ann.take(3, 0))
    assert at.until_swept() == [path]


def test_claim_with_nonsense_in_it_is_a_claim_until_it_ends(at: Setting) -> None:
    at.put("a")
    at.store.put(f"{CLAIMS}5000-a.000001.json", b"\xff")
    assert at.ann.take(1, 0) == []
    assert [each.number for each in at.until_taken(at.ann)] == [2]


def test_renewals_show_where_times_are_whole_seconds(at: Setting) -> None:
    """The store's clock stands still; ours goes on."""
    at.store.clock = SimClock()
    at.put("a")
    found = at.ann.take(1, 0)
    for _ in range(5):
        at.clock.sleep(CLAIM_S * 0.6)
        at.ann.renew(found)
        assert at.bob.take(1, 0) == []


def test_priorities_beyond_the_range_are_kept_within_it(at: Setting) -> None:
    at.bob.put([Message("low", b"", -(10**9)), Message("high", b"", 10**9)])
    found = at.ann.take(2, 0)
    assert [each.message.name for each in found] == ["high", "low"]
    at.ann.done(found)
    assert at.paths() == []


def test_overwritten_claim_of_another_counts_as_renewed(at: Setting) -> None:
    at.put("a")
    at.bob.take(1, 0)
    (meta,) = at.store.list(CLAIMS)
    for _ in range(5):
        assert at.ann.take(1, 0) == []
        at.clock.sleep(CLAIM_S * 0.7)
        at.store.put(meta.path, b"{}", Mode.OVERWRITE)
