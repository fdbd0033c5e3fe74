"""What the storage port promises of the cloud backends when the network fails them.

Each server is behind a proxy that spoils requests; see tests/kit/proxy.py. Bits that
are flipped on the way are not for the port to notice: whoever reads verifies.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arco.errors import AlreadyExists, Corrupt, Denied, NotFound, Unavailable
from arco.storage.open import open_store
from arco.storage.port import Mode, Store
from tests.kit.backends import CLOUDS, Servers
from tests.kit.faults import PAGE, Rule
from tests.kit.proxy import Proxy
from tests.kit.servers import Backend

UNKNOWN = (Unavailable, AlreadyExists)
"""How a create may end whose response was lost: the caller has to look."""
BODY = bytes(range(256)) * 40


@pytest.fixture(params=CLOUDS)
def network(request: pytest.FixtureRequest, servers: Servers) -> Iterator[tuple[Backend, Proxy]]:
    with servers.proxied(request.param) as (backend, proxy):
        yield backend, proxy


@pytest.fixture
def proxy(network: tuple[Backend, Proxy]) -> Proxy:
    return network[1]


@pytest.fixture
def store(network: tuple[Backend, Proxy], tmp_path: Path) -> Store:
    backend, _ = network
    return open_store(f"{backend.url}/faults/{tmp_path.name}", **backend.options)


def names(store: Store, prefix: str = "") -> list[str]:
    return [meta.path for meta in store.list(prefix)]


# A proxy without rules


def test_requests_pass_unchanged_through_the_proxy(store: Store, proxy: Proxy) -> None:
    store.put("a/space and +", BODY)
    store.put("a/b", b"")
    with pytest.raises(AlreadyExists):
        store.put("a/b", b"other")
    store.put("a/b", b"second", Mode.OVERWRITE)
    assert store.get("a/space and +").data == BODY
    assert store.get_range("a/space and +", 3, 5) == BODY[3:8]
    assert (store.head("a/b").size, names(store, "a/")) == (6, ["a/b", "a/space and +"])
    store.delete("a/b")
    with pytest.raises(NotFound):
        store.head("a/b")
    assert proxy.faults.count("put", "a/b$") == 3
    assert proxy.faults.count("delete", "a/b$") == 1
    assert proxy.faults.counts == {}


# Writes


def test_create_whose_response_is_lost_is_there_whole(store: Store, proxy: Proxy) -> None:
    proxy.use(Rule("drop", op="put", path="mine$", times=1))
    with pytest.raises(UNKNOWN):
        store.put("mine", BODY)
    assert store.get("mine").data == BODY
    assert proxy.faults.counts == {"drop": 1}


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("applied", [False, True])
def test_create_that_the_server_fails_is_unknown_and_then_settled_by_looking(
    store: Store, proxy: Proxy, status: int, applied: bool
) -> None:
    proxy.use(Rule("error", op="put", status=status, applied=applied, times=1))
    outcome = created(store, "mine", BODY)
    if outcome != "created" and names(store) == []:
        store.put("mine", BODY)
    assert store.get("mine").data == BODY


@pytest.mark.parametrize("status", [401, 403])
def test_denied_request_is_denied_and_has_no_effect(
    store: Store, proxy: Proxy, status: int
) -> None:
    store.put("there", BODY)
    calls: list[Callable[[], object]] = [
        lambda: store.put("mine", BODY),
        lambda: store.get("there"),
        lambda: store.head("there"),
        lambda: store.get_range("there", 0, 5),
    ]
    # obstore does not say why a listing, or a deletion of several objects, failed.
    vague: list[Callable[[], object]] = [lambda: names(store), lambda: store.delete("there")]
    proxy.use(Rule("error", status=status))
    for call in calls:
        with pytest.raises(Denied):
            call()
    for call in vague:
        with pytest.raises((Denied, Unavailable)):
            call()
    proxy.use()
    assert names(store) == ["there"]


def test_late_create_of_a_number_that_is_taken_changes_nothing(store: Store, proxy: Proxy) -> None:
    proxy.use(Rule("late", op="put", path="number$", times=1))
    created(store, "number", b"the one that is late")
    created(store, "number", b"the one that is first")
    before = store.get("number").data
    assert proxy.held == 1
    assert all(status in (409, 412) for status in proxy.release())
    assert store.get("number").data == before


def test_late_create_of_what_was_deleted_meanwhile_brings_it_back(
    store: Store, proxy: Proxy
) -> None:
    """No store prevents this: who deletes must know the names that were there."""
    proxy.use(Rule("repeat", op="put", path="batch$"))
    store.put("batch", BODY)
    store.delete("batch")
    assert proxy.release() in ([200], [201])
    assert store.get("batch").data == BODY


def test_create_that_arrives_after_the_client_gave_up_is_there_whole(
    network: tuple[Backend, Proxy], tmp_path: Path
) -> None:
    backend, proxy = network
    options = {**backend.options, "timeout": "300ms"}
    store = open_store(f"{backend.url}/faults/{tmp_path.name}", **options)
    proxy.use(Rule("delay", op="put", delay_s=1.5, times=1))
    created(store, "mine", BODY)
    deadline = time.monotonic() + 60
    while names(store) == []:
        assert time.monotonic() < deadline, "it never arrived"
    assert store.get("mine").data == BODY
    assert proxy.faults.counts == {"delay": 1}


def test_of_many_who_create_through_faults_none_replaces_another(
    store: Store, proxy: Proxy
) -> None:
    proxy.use(
        Rule("drop", op="put", rate=0.2),
        Rule("error", op="put", rate=0.2),
        Rule("error", op="put", rate=0.1, applied=True, status=500),
        Rule("repeat", op="put", rate=0.3, delay_s=0.05),
        seed=7,
    )
    attempts = list(itertools.product(range(8), range(10)))
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(
            threads.map(lambda a: created(store, f"n/{a[1]}", str(a[0]).encode()), attempts)
        )
    proxy.use()
    for number in range(10):
        body = store.get(f"n/{number}").data
        results = [o for (_, n), o in zip(attempts, outcomes, strict=True) if n == number]
        assert results.count("created") <= 1
        for (worker, n), outcome in zip(attempts, outcomes, strict=True):
            if n == number and outcome == "created":
                assert body == str(worker).encode()


def created(store: Store, path: str, body: bytes) -> str:
    try:
        store.put(path, body)
    except AlreadyExists:
        return "exists"
    except Unavailable:
        return "unknown"
    return "created"


# Reads


@pytest.mark.parametrize("keep", [0.0, 0.5])
def test_body_that_ends_before_its_length_is_never_taken_for_whole(
    store: Store, proxy: Proxy, keep: float
) -> None:
    store.put("a", BODY)
    proxy.use(Rule("cut", op="get", keep=keep))
    calls: list[Callable[[], bytes]] = [
        lambda: store.get("a").data,
        lambda: store.get_range("a", 0, len(BODY)),
    ]
    for call in calls:
        with pytest.raises(Unavailable):
            call()
    proxy.use(Rule("cut", op="get", keep=keep, times=1))
    try:
        assert store.get("a").data == BODY
    except Unavailable:
        assert store.get("a").data == BODY


@pytest.mark.parametrize("rule", [Rule("shorten"), Rule("page")], ids=lambda rule: rule.kind)
def test_range_of_another_length_is_never_returned(store: Store, proxy: Proxy, rule: Rule) -> None:
    store.put("a", BODY)
    proxy.use(rule)
    with pytest.raises(Unavailable):
        store.get_range("a", 10, 1000)


def test_spoilt_body_arrives_as_it_is(store: Store, proxy: Proxy) -> None:
    """The port cannot tell. Who relies on it must check what it read."""
    store.put("a", BODY)
    proxy.use(
        Rule("shorten", op="get", times=1),
        Rule("page", op="get", times=1),
        Rule("flip", op="get", times=1),
    )
    bodies = [store.get("a").data for _ in range(4)]
    different = sum(left != right for left, right in zip(bodies[2], BODY, strict=True))
    assert (bodies[0], bodies[1], different, bodies[3]) == (BODY[: len(BODY) // 2], PAGE, 1, BODY)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_failing_server_is_unavailable_and_nothing_else(
    store: Store, proxy: Proxy, status: int
) -> None:
    store.put("a", BODY)
    proxy.use(Rule("error", status=status))
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"),
        lambda: store.head("a"),
        lambda: names(store),
    ]
    for call in calls:
        with pytest.raises(Unavailable):
            call()


# Listings


@pytest.mark.parametrize(
    "rule",
    [Rule("cut"), Rule("shorten"), Rule("shorten", keep=0.0)],
    ids=["cut", "shorten", "empty"],
)
def test_spoilt_listing_is_an_error_and_never_a_shorter_one(
    store: Store, proxy: Proxy, rule: Rule
) -> None:
    for number in range(20):
        store.put(f"n/{number:03d}", b"")
    proxy.use(rule)
    with pytest.raises((Unavailable, Corrupt)):
        list(store.list("n/"))


def test_page_in_place_of_a_listing_is_an_error_or_an_empty_listing(
    store: Store, proxy: Proxy
) -> None:
    """obstore reads a well-formed page as a listing without entries. Whoever takes an empty
    listing for a fact, as the head and the pins are, asks again."""
    for number in range(20):
        store.put(f"n/{number:03d}", b"")
    proxy.use(Rule("page"))
    with contextlib.suppress(Unavailable, Corrupt):
        assert list(store.list("n/")) == []


def test_listing_that_lags_lacks_new_keys_until_they_are_released(
    store: Store, proxy: Proxy
) -> None:
    store.put("n/a&b", b"")
    proxy.release()
    store.put("n/new", b"")
    proxy.use(Rule("hide", path="n"))
    assert (names(store, "n/"), store.get("n/new").data) == (["n/a&b"], b"")
    proxy.release()
    assert names(store, "n/") == ["n/a&b", "n/new"]
    assert proxy.faults.counts == {"hide": 2}
