"""A compactor whose store fails goes on when that is over."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from arco.catalog.events import AssetObserved
from arco.errors import Corrupt, Denied, Error, Unavailable
from arco.state.merge_loop import MergeLoop
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.workspace import inbox_names, make_workspace


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


ERRORS = [Denied("injected"), Unavailable("injected"), Corrupt("injected")]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("op", "prefix"), [("list", "ledger/inbox/"), ("put", "manifests/")])
def test_a_running_compactor_commits_after_any_error_of_the_store(
    error: Error, op: str, prefix: str
) -> None:
    store = HookStore(MemoryStore(SimClock()))
    w = make_workspace(store)
    compactor = w.upkeep.compactor(threading.Event())
    assert compactor.try_to_drain([]) == 0.0
    w.ledger.append([AssetObserved(asset_id="a", row_count=1, size_bytes=2)])
    store.before(op, prefix, raising(error), times=20)
    assert compactor.try_to_drain([]) > 0.0
    while compactor.try_to_drain([]) > 0.0:
        pass
    assert inbox_names(store) == []


@pytest.mark.parametrize("error", ERRORS)
def test_merges_go_on_after_any_error_of_the_store(error: Error) -> None:
    store = HookStore(MemoryStore(SimClock()))
    w = make_workspace(store)
    w.commands.catalog.create_namespace("shop")
    loop = MergeLoop(w.clock, w.upkeep.merger, interval_s=0.001)
    stop, first, done = threading.Event(), threading.Event(), threading.Event()
    store.before("get", "manifests/", first.set)
    with loop.beside(stop):
        assert first.wait(60)
        store.before("get", "manifests/", raising(error), times=3)
        store.before("get", "manifests/", done.set)
        assert done.wait(60)
        assert not stop.is_set()


def test_what_ends_the_merges_ends_the_block_beside_them() -> None:
    store = HookStore(MemoryStore(SimClock()))
    w = make_workspace(store)
    w.commands.catalog.create_namespace("shop")
    store.before("get", "manifests/", raising(RuntimeError("defect")))
    stop = threading.Event()
    with (
        pytest.raises(RuntimeError, match="defect"),
        MergeLoop(w.clock, w.upkeep.merger, interval_s=0.001).beside(stop),
    ):
        assert stop.wait(60)


def test_a_store_that_denies_the_first_commit_ends_the_compactor() -> None:
    store = HookStore(MemoryStore(SimClock()))
    compactor = make_workspace(store).upkeep.compactor(threading.Event())
    store.before("list", "ledger/inbox/", raising(Denied("injected")))
    with pytest.raises(Denied):
        compactor.run()
