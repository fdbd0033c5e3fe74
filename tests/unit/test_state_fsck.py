"""fsck reports: whatever is damaged, it says what, and still checks the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.errors import Unavailable
from arco.state.duplicate_events import event_ids
from arco.state.fsck import FsckFinding
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import DEEP
from tests.kit.hooks import HookStore
from tests.kit.keeping import keeping
from tests.kit.workspace import clone, corrupt, make_workspace

PINNED = 3


class Setting:
    """A workspace that was merged and collected, with a pin below its floor."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        w = self.fresh()
        w.commands.catalog.create_namespace("sales")
        for n in range(4):
            w.commands.catalog.create_asset(f"sales.a{n}")
        w.upkeep.pins.pin("keep", PINNED, "for the test")
        w.upkeep.merger.merge(everything=True)
        self.clock.advance(timedelta(days=30))
        for n in range(3):
            w.commands.catalog.update_asset("sales.a0", description=f"d{n}")
        w.upkeep.gc(
            keeping(generations=timedelta(days=1), at_least=2),
            dry_run=False,
        )
        self.prefix = f"{w.tenant}/{w.name}/"

    def fresh(self, store: MemoryStore | None = None) -> Workspace:
        return make_workspace(store or self.memory, 7, clock=self.clock)


@pytest.fixture(scope="module")
def at() -> Setting:
    return Setting()


def errors(w: Workspace, *, deep: bool = True) -> list[FsckFinding]:
    return [f for f in w.upkeep.fsck(deep=deep).findings if f.severity == "error"]


def flip(at: float) -> Callable[[bytes], bytes]:
    def damage(raw: bytes) -> bytes:
        place = int(at * (len(raw) - 1))
        return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]

    return damage


DAMAGE: dict[str, Callable[[bytes], bytes] | None] = {
    "deleted": None,
    "empty": lambda raw: b"",
    "cut": lambda raw: raw[: len(raw) // 2],
    "rubbish": lambda raw: b"<html>502 Bad Gateway</html>",
    "json": lambda raw: b"{}",
    "first bit": flip(0),
    "a bit": flip(0.3),
    "another bit": flip(0.7),
    "last bit": flip(1),
}
QUICK = ("deleted", "json", "another bit")


def detectable(path: str, damage: str) -> bool:
    """A hint is never relied on, and a lease that is over means nothing.

    A pin is a wish, and may be withdrawn. Of floors, only the greatest name counts.
    """
    if path in (paths.HINT, paths.CLOCK) or path.startswith(paths.LEASES):
        return False
    if path.startswith(paths.FLOORS):
        return False
    return not path.startswith(paths.PINS) or damage != "deleted"


@pytest.mark.parametrize("damage", DAMAGE if DEEP else QUICK)
def test_fsck_reports_whichever_object_is_damaged(at: Setting, damage: str) -> None:
    change = DAMAGE[damage]
    unnoticed = []
    assert at.fresh().upkeep.fsck().clean
    for meta in list(at.memory.list("")):
        path = meta.path
        store = clone(at.memory, at.clock)
        if change is None:
            store.delete(path)
        else:
            corrupt(store, path, change(store.get(path).data))
        report = at.fresh(store).upkeep.fsck()
        if report.clean and detectable(path, damage):
            unnoticed.append(path)
        at.fresh(store).upkeep.fsck(deep=False)
    assert unnoticed == []


def test_fsck_checks_the_rest_when_the_newest_manifests_are_damaged(at: Setting) -> None:
    """Two things are wrong, and both are told, although the first hides the second."""
    store = clone(at.memory, at.clock)
    head = at.fresh().manifests.head()
    lost = head.manifest.domains["catalog"].path
    store.delete(lost)
    segment = next(m.path for m in store.list(paths.SEGMENTS))
    corrupt(store, segment, b"x")
    corrupt(store, paths.root(head.generation - 1), b"x")
    found = {(f.code, f.path) for f in errors(at.fresh(store))}
    assert {
        ("domain_manifest", lost),
        ("checksum", segment),
        ("manifest", paths.root(head.generation - 1)),
    } <= found


def test_fsck_reports_on_the_newest_generation_that_can_be_read(at: Setting) -> None:
    store = clone(at.memory, at.clock)
    head = at.fresh().manifests.head().generation
    corrupt(store, paths.root(head), b"x")
    report = at.fresh(store).upkeep.fsck()
    assert report.generation == head - 1
    assert ("manifest", paths.root(head)) in {(f.code, f.path) for f in report.findings}


def test_fsck_names_a_range_of_missing_generations_once(at: Setting) -> None:
    store = clone(at.memory, at.clock)
    for meta in list(store.list(paths.FLOORS)):
        store.delete(meta.path)
    found = [f for f in errors(at.fresh(store)) if f.code == "missing_generation"]
    assert [f.message for f in found][:1] == ["generations 1-2 are missing"]
    assert len(found) == 2  # on both sides of the pinned one


def test_fsck_does_not_trust_what_this_process_read_before(at: Setting) -> None:
    store = clone(at.memory, at.clock)
    w = at.fresh(store)
    assert w.upkeep.fsck().clean and w.read.catalog().assets("sales")
    path = w.manifests.head().manifest.domains["catalog"].path
    store.delete(path)
    assert ("domain_manifest", path) in {(f.code, f.path) for f in errors(w)}


def test_deep_fsck_reads_every_file_once(at: Setting) -> None:
    hooks = HookStore(at.memory)
    assert make_workspace(hooks, 7, clock=at.clock).upkeep.fsck().clean
    files = (paths.SEGMENTS, paths.STATE)
    reads = Counter(
        path
        for call, path in hooks.calls
        if call in ("get", "get_range") and path.startswith(files)
    )
    assert reads and set(reads.values()) == {1}


def test_store_that_is_down_is_an_error_and_no_finding(at: Setting) -> None:
    hooks = HookStore(at.memory)
    hooks.fail("list", paths.MANIFESTS)
    with pytest.raises(Unavailable):
        make_workspace(hooks, 7, clock=at.clock).upkeep.fsck()


def test_file_that_the_store_cannot_read_is_a_finding(at: Setting) -> None:
    hooks = HookStore(at.memory)
    path = next(m.path for m in at.memory.list(paths.SEGMENTS))
    hooks.fail("get", path)
    assert [f.path for f in errors(make_workspace(hooks, 7, clock=at.clock))] == [path]


def test_fsck_reports_an_event_that_is_in_the_log_twice() -> None:
    w = make_workspace()
    w.commands.catalog.create_namespace("sales")
    event = w.ledger.event(AssetObserved(asset_id="A", row_count=1, size_bytes=1))
    w.ledger.append([event])
    w.committer.commit()
    assert w.upkeep.fsck().clean
    w.ledger.append([event])
    w.committer.commit()
    found = [f for f in errors(w) if f.code == "doubled_event"]
    assert [f.message for f in found] == [
        f"event {event.id} is in the log twice, at positions 2 and 3"
    ]


@pytest.mark.parametrize("part_bytes", [1, 1 << 20])
def test_doubled_ids_are_found_in_memory_and_in_files(part_bytes: int) -> None:
    with event_ids(parts=4, part_bytes=part_bytes) as ids:
        ids.add([f"e{n}" for n in range(500)], range(500))
        ids.add(["e7", "new\nline", "e7", "e499"], range(500, 504))
        doubled = {event.event_id: event.positions for event in ids.doubled()}
    assert doubled == {"e7": [7, 500, 502], "e499": [499, 503]}
