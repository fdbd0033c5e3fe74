"""One bad read destroys nothing, and nothing is committed upon it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.errors import Corrupt, Denied, Error, Unavailable
from arco.log.commit import Committed, NothingToCommit
from arco.log.envelope import MAX_BATCH_BYTES
from arco.log.manifest import Floor
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Object, ObjectMeta
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.model import read_log
from tests.kit.workspace import NAME, TENANT, inbox_names, make_workspace

FACT = AssetObserved(asset_id="A", row_count=1, size_bytes=2)


class BadReads(MemoryStore):
    """Gives wrong bytes for the next `times` reads of a prefix."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock)
        self.prefix = "-"
        self.times = 0
        self.change: Callable[[bytes], bytes] = bytes
        self.large_reads = 0

    def damage(self, prefix: str, change: Callable[[bytes], bytes], times: int = 1) -> None:
        self.prefix, self.change, self.times = prefix, change, times

    def get(self, path: str) -> Object:
        entry = super().get(path)
        self.large_reads += entry.meta.size > MAX_BATCH_BYTES
        if self.times and path.startswith(self.prefix):
            self.times -= 1
            return entry._replace(data=self.change(entry.data))
        return entry

    def copy(self, source: str, target: str) -> None:
        before = self.large_reads
        super().copy(source, target)
        self.large_reads = before  # a store copies by itself


def flip(seed: int) -> Callable[[bytes], bytes]:
    rng = random.Random(seed)

    def change(raw: bytes) -> bytes:
        at = rng.randrange(len(raw))
        return raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :]

    return change


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: b"",
    "half": lambda raw: raw[: len(raw) // 2],
    "error page": lambda raw: b"<html><body>502 Bad Gateway</body></html>",
    "another value": lambda raw: raw.replace(b'"row_count":1', b'"row_count":7'),
    "flipped 1": flip(1),
    "flipped 2": flip(2),
    "flipped 3": flip(3),
}


@pytest.fixture
def store() -> BadReads:
    return BadReads(SimClock())


@pytest.fixture
def w(store: BadReads) -> Workspace:
    w = make_workspace(store, 1, clock=store.clock)
    w.commands.catalog.create_namespace("sales")
    w.commands.catalog.create_asset("sales.orders")
    return w


def whole(w: Workspace) -> None:
    assert w.upkeep.fsck().clean
    assert w.upkeep.rebuild(publish=False).same
    assert list(w.store.list(paths.REJECTED)) == []


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_one_bad_read_of_a_batch_loses_no_event(
    w: Workspace, store: BadReads, change: Callable[[bytes], bytes]
) -> None:
    receipt = w.ledger.append([FACT])
    store.damage(paths.INBOX, change)
    assert isinstance(w.committer.commit(), Committed)
    assert receipt.event_ids[0] == [entry.id for entry in read_log(w)][-1]
    whole(w)


@pytest.mark.parametrize("kind", ["empty", "half", "error page"])
def test_batch_whose_size_is_not_the_listed_one_is_never_rejected(
    w: Workspace, store: BadReads, kind: str
) -> None:
    """A proxy that fails for a second gives the same wrong answer twice."""
    bad, good = w.ledger.append([FACT]), w.ledger.append([FACT])
    store.damage(paths.inbox(bad.batch), CHANGES[kind], times=2)
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    assert outcome.head.manifest.consumed == (good.batch,)
    store.damage(paths.inbox(bad.batch), CHANGES[kind], times=2)
    with pytest.raises(Unavailable, match="are listed"):
        w.committer.commit()
    assert isinstance(w.committer.commit(), Committed)
    assert len(read_log(w)) == 4
    whole(w)


def test_late_copy_that_is_read_badly_is_no_rejection(w: Workspace, store: BadReads) -> None:
    path = paths.inbox(w.ledger.append([FACT]).batch)
    raw = store.get(path).data
    w.committer.commit()
    w.commands.catalog.create_namespace("later")
    store.put(path, raw)
    store.damage(path, lambda data: b"x" * len(data), times=2)
    assert isinstance(w.committer.commit(), NothingToCommit)
    assert inbox_names(store) == []
    assert len(read_log(w)) == 4


class DeniedReads(BadReads):
    def get(self, path: str) -> Object:
        if path.endswith("private.json"):
            raise Denied("injected")
        return super().get(path)


def test_object_that_may_not_be_read_stops_nobody() -> None:
    store = DeniedReads(SimClock())
    w = make_workspace(store, 1, clock=store.clock)
    store.put(paths.inbox("0-private"), b"rubbish")
    receipt = w.ledger.append([FACT])
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    assert outcome.head.manifest.consumed == (receipt.batch,)
    assert isinstance(w.committer.commit(), NothingToCommit)


def test_batch_that_reads_differently_each_time_waits_and_is_not_rejected(
    w: Workspace, store: BadReads
) -> None:
    bad, good = w.ledger.append([FACT]), w.ledger.append([FACT])
    store.damage(paths.inbox(bad.batch), flip(5), times=2)
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    assert (outcome.head.manifest.consumed, outcome.more) == ((good.batch,), True)
    assert isinstance(w.committer.commit(), Committed)
    assert len(read_log(w)) == 4
    whole(w)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("prefix", ["manifests/0", "manifests/", "state/", "ledger/segments/"])
def test_one_bad_read_of_anything_is_repeated(
    w: Workspace, store: BadReads, prefix: str, change: Callable[[bytes], bytes]
) -> None:
    store.damage(prefix, change)
    fresh = make_workspace(store, 2, clock=store.clock)
    fresh.commands.catalog.create_asset("sales.returns")
    assert len(fresh.read.catalog().assets("sales")) == 2
    store.damage(prefix, change)
    assert len(read_log(make_workspace(store, 3, clock=store.clock))) == 3
    whole(w)


@pytest.mark.parametrize("seed", range(scaled(10, 40)))
def test_nothing_is_committed_on_a_damaged_root_manifest(
    w: Workspace, store: BadReads, seed: int
) -> None:
    """Both reads bad: an error, and the workspace is as it was."""
    w.ledger.append([FACT])
    store.damage(paths.root(w.manifests.head().generation), flip(seed), times=2)
    fresh = make_workspace(store, 2, clock=store.clock)
    try:
        fresh.committer.commit()
    except (Corrupt, Unavailable):
        store.times = 0
        assert isinstance(fresh.committer.commit(), Committed)
    whole(w)


class EmptyListing(BadReads):
    """An error page in place of the next listing of a prefix."""

    empty = ""

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        if prefix == self.empty:
            self.empty = ""
            return iter(())
        return super().list(prefix, start_after)


def test_one_empty_listing_hides_neither_the_head_nor_a_pin() -> None:
    clock = SimClock()
    store = EmptyListing(clock)
    w = make_workspace(store, 1, clock=clock)
    for n in range(4):
        w.commands.catalog.create_namespace(f"n{n}")
    w.upkeep.pins.pin("keep", 2, "for a reader")
    w.manifests.raise_floor(Floor(2))
    store.empty = paths.FLOORS
    assert w.manifests.floor().generation == 2
    store.empty = paths.PINS
    assert [pin.generation for pin in w.upkeep.pins.active()] == [2]
    store.delete(paths.HINT)
    store.empty = paths.MANIFESTS
    assert make_workspace(store, 2, clock=clock).manifests.head().generation == 4


# What strangers put into the inbox


def test_object_of_any_size_is_rejected_unread(w: Workspace, store: BadReads) -> None:
    store.put(paths.inbox("0-huge"), b"x" * (MAX_BATCH_BYTES + 1))
    receipt = w.ledger.append([FACT])
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    assert set(outcome.head.manifest.consumed) == {"0-huge", receipt.batch}
    assert store.large_reads == 0
    sizes = [meta.size for meta in store.list(paths.REJECTED) if meta.path.endswith(".object")]
    assert sizes == [MAX_BATCH_BYTES + 1]


@pytest.mark.parametrize(
    "names",
    [
        ["d", "d.json/e"],
        ["a/" * 480 + "x" * (1024 - len(f"{TENANT}/{NAME}/{paths.INBOX}") - 960 - 5)],
        ["ünïcödé", "with blank", "%41", "x" * 250],
    ],
    ids=["below another", "as long as a key may be", "odd"],
)
def test_odd_names_stop_nobody(w: Workspace, store: BadReads, names: list[str]) -> None:
    for name in names:
        store.put(paths.inbox(name), b"rubbish")
    receipt = w.ledger.append([FACT])
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    assert set(outcome.head.manifest.consumed) == {*names, receipt.batch}
    assert inbox_names(store) == []
    assert isinstance(w.committer.commit(), NothingToCommit)
    records = [meta for meta in store.list(paths.REJECTED) if meta.path.endswith(".json")]
    assert len(records) == len(names)


class Uncopyable(BadReads):
    error: Error

    def copy(self, source: str, target: str) -> None:
        raise self.error


@pytest.mark.parametrize("error", [Corrupt("injected"), Unavailable("too large"), Denied("no")])
def test_object_that_cannot_be_set_aside_stops_nobody(error: Error) -> None:
    store = Uncopyable(SimClock())
    store.error = error
    w = make_workspace(store, 1, clock=store.clock)
    store.put(paths.inbox("bad"), b"rubbish")
    receipt = w.ledger.append([FACT])
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    assert outcome.head.manifest.consumed == (receipt.batch,)
    assert inbox_names(store) == ["bad"]
    assert isinstance(w.committer.commit(), NothingToCommit)
