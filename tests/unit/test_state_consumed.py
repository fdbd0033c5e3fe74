"""Names of consumed batches are kept for as many files as commits ask for."""

from __future__ import annotations

from arco.catalog.events import NamespaceCreated
from arco.log.commit import Committed
from arco.state.consumed import ConsumedBatches
from arco.state.parquet import Files
from arco.state.system import BATCHES
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace

COMMITS = 300


def test_change_files_are_read_once_however_many_wait_for_a_merge() -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    w = make_workspace(memory, 1, clock=clock)
    for number in range(COMMITS):
        w.ledger.append([NamespaceCreated(namespace=f"ns_{number}")])
        assert isinstance(w.committer.commit(), Committed)
    store = HookStore(memory)
    reader = make_workspace(store, 2, clock=clock)
    batches = reader.read.snapshot().manifest(BATCHES)
    assert len(batches.recent()) == COMMITS
    consumed = ConsumedBatches(Files(reader.store, budget_bytes=0))
    for _ in range(2):
        assert consumed.among(batches, ["01ZZZZZZZZZZZZZZZZZZZZZZZZ"]) == set()
    read = [path for op, path in store.calls if op == "get" and path.startswith("state/changes/")]
    assert len(read) == COMMITS
