"""Finding the head: whatever became of the hint, and whatever GC has removed."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.errors import Corrupt, NotFound, Unavailable, Unreadable
from arco.log.manifest import (
    FORMAT,
    DomainManifest,
    Hint,
    RootManifest,
    decode,
    decode_sealed,
    encode,
    encode_sealed,
)
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.keeping import keeping
from tests.kit.workspace import corrupt, make_workspace

FACT = AssetObserved(asset_id="A", row_count=1, size_bytes=2)


class Setting:
    def __init__(self, generations: int = 5) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.w = make_workspace(self.memory, 1, clock=self.clock)
        for _ in range(generations):
            self.commit()

    def commit(self) -> None:
        self.w.ledger.append([FACT])
        self.w.committer.commit()

    def fresh(self, store: HookStore | None = None) -> Workspace:
        return make_workspace(store or self.memory, 99, clock=self.clock)

    def found(self) -> int:
        return self.fresh().manifests.head().generation


def hint(generation: int) -> bytes:
    return encode_sealed(Hint(generation, "0" * 64))


def test_empty_workspace_has_generation_zero() -> None:
    at = Setting(0)
    assert at.found() == 0
    assert at.fresh().read.snapshot().tables() == {}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"\xff\xff",
        b'{"generation": 1, "sha256": "\xff"}',
        b'{"generation": "five", "sha256": ""}',
        b'{"generation": 5, "sha256": "", "format": 99}',
        hint(0),
        hint(1),
        hint(4),
        hint(-3),
        hint(1000),
        hint(10**30),
    ],
)
def test_head_is_found_whatever_the_hint_says(broken: bytes) -> None:
    at = Setting(5)
    corrupt(at.memory, paths.HINT, broken)
    assert at.found() == 5
    at.commit()
    assert at.found() == 6


def test_head_is_found_without_a_hint() -> None:
    at = Setting(5)
    at.memory.delete(paths.HINT)
    assert at.found() == 5


@pytest.mark.parametrize("generations", [1, 2, 3, 4, 7, 8, 9, 33])
@pytest.mark.parametrize("start", [1, 2])
def test_head_is_found_by_galloping_from_an_old_hint(generations: int, start: int) -> None:
    at = Setting(generations)
    corrupt(at.memory, paths.HINT, hint(min(start, generations)))
    hooks = HookStore(at.memory)
    assert at.fresh(hooks).manifests.head().generation == generations
    assert hooks.count("list", paths.MANIFESTS) == 0
    assert hooks.count("get", paths.MANIFESTS) <= 4 + 2 * generations.bit_length()


def test_looking_again_costs_one_call_when_nothing_happened() -> None:
    at = Setting(5)
    hooks = HookStore(at.memory)
    w = at.fresh(hooks)
    w.manifests.head()
    before = len(hooks.calls)
    w.manifests.head()
    assert hooks.calls[before:] == [("get", paths.root(6))]


def test_old_hint_is_confirmed_by_a_listing_so_gaps_do_not_hide_the_head() -> None:
    at = Setting(5)
    old = at.memory.get(paths.HINT).data
    at.clock.advance(timedelta(days=30))
    for _ in range(12):
        at.commit()
    at.clock.advance(timedelta(days=3))
    for _ in range(3):
        at.commit()
    report = at.w.upkeep.gc(
        keeping(generations=timedelta(days=1), at_least=2),
        dry_run=False,
    )
    assert report.floor > 7 and not report.failed
    # A pin, or a delete that failed, left number 5; the hint went back to it.
    corrupt(at.memory, paths.HINT, old)
    kept = make_workspace(at.memory, 3, clock=at.clock).manifests.head()
    assert kept.generation == 20


def test_generations_below_a_gap_do_not_count_as_the_head() -> None:
    at = Setting(6)
    at.clock.advance(timedelta(days=30))
    at.commit()
    at.commit()
    for generation in (3, 4, 5):
        at.memory.delete(paths.root(generation))
    corrupt(at.memory, paths.HINT, hint(2))
    assert at.found() == 8


def test_process_that_slept_finds_the_head_past_what_was_collected() -> None:
    at = Setting(3)
    sleeper = at.fresh()
    assert sleeper.manifests.head().generation == 3
    at.clock.advance(timedelta(days=30))
    for _ in range(15):
        at.commit()
    at.clock.advance(timedelta(days=3))
    at.commit()
    at.w.upkeep.gc(
        keeping(generations=timedelta(days=1), at_least=2),
        dry_run=False,
    )
    assert sleeper.manifests.find(4) is None
    assert sleeper.manifests.head().generation == 19


def test_outage_is_never_taken_for_an_empty_workspace() -> None:
    at = Setting(2)
    for op, prefix in (("get", paths.HINT), ("get", paths.root(2)), ("get", paths.root(3))):
        hooks = HookStore(at.memory)
        hooks.fail(op, prefix)
        with pytest.raises(Unavailable):
            at.fresh(hooks).manifests.head()
    at.memory.delete(paths.HINT)
    hooks = HookStore(at.memory)
    hooks.fail("list", paths.MANIFESTS)
    with pytest.raises(Unavailable):
        at.fresh(hooks).manifests.head()


def rewrite(at: Setting, generation: int, **changes: object) -> None:
    path = paths.root(generation)
    root = decode_sealed(at.memory.get(path).data, RootManifest, path)
    corrupt(at.memory, path, encode_sealed(msgspec.structs.replace(root, **changes)))


def test_manifest_of_a_newer_format_is_unreadable_not_misread() -> None:
    at = Setting(2)
    rewrite(at, 2, format=FORMAT + 1)
    with pytest.raises(Unreadable, match=rf"0002\.json needs format {FORMAT + 1}") as caught:
        at.fresh().read.snapshot()
    assert "upgrade" in caught.value.hint
    at.w.ledger.append([FACT])
    with pytest.raises(Unreadable):
        at.fresh().committer.commit()


def test_manifest_with_a_feature_nobody_told_us_about_is_unreadable() -> None:
    at = Setting(2)
    rewrite(at, 2, requires=("deletion_vectors",))
    with pytest.raises(Unreadable, match="deletion_vectors"):
        at.fresh().read.snapshot()


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b'{"format": 1, "kind": "\xff"}', b"\x00" * 9])
def test_corrupt_root_manifest_fails_closed_and_is_named(raw: bytes) -> None:
    at = Setting(2)
    corrupt(at.memory, paths.root(2), raw)
    with pytest.raises(Corrupt, match=r"manifests/0+2\.json"):
        at.fresh().read.snapshot()
    at.w.ledger.append([FACT])
    with pytest.raises(Corrupt, match=r"manifests/0+2\.json"):
        at.fresh().committer.commit()


def test_manifest_in_the_wrong_place_is_corrupt() -> None:
    at = Setting(3)
    corrupt(at.memory, paths.root(3), at.memory.get(paths.root(2)).data)
    with pytest.raises(Corrupt, match="says that it is generation 2"):
        at.fresh().read.snapshot()


def test_manifest_of_another_workspace_is_corrupt() -> None:
    at = Setting(2)
    rewrite(at, 2, workspace_id="dev")
    with pytest.raises(Corrupt, match="belongs to acme/dev"):
        at.fresh().read.snapshot()


def domain_path(at: Setting) -> str:
    return at.w.manifests.head().manifest.domains["log"].path


def test_missing_domain_manifest_is_corrupt_and_named_never_empty() -> None:
    at = Setting(2)
    at.w.upkeep.merger.merge(everything=True)
    path = domain_path(at)
    at.memory.delete(path)
    with pytest.raises(Corrupt, match=path):
        at.fresh().read.snapshot().tables()
    at.w.ledger.append([FACT])
    with pytest.raises(Corrupt, match=path):
        at.fresh().committer.commit()


def test_damaged_domain_manifest_is_corrupt_and_named() -> None:
    at = Setting(2)
    at.w.upkeep.merger.merge(everything=True)
    path = domain_path(at)
    damaged = decode(at.memory.get(path).data, DomainManifest, path)
    corrupt(at.memory, path, encode(msgspec.structs.replace(damaged, tables={})))
    with pytest.raises(Corrupt, match=path):
        at.fresh().read.snapshot().tables()


def test_hint_never_goes_back() -> None:
    at = Setting(3)
    first = at.w.manifests.read(1)
    at.w.manifests.write_hint(first)
    assert decode_sealed(at.memory.get(paths.HINT).data, Hint, paths.HINT).generation == 3


def test_generation_that_never_was_is_not_found() -> None:
    at = Setting(1)
    with pytest.raises(NotFound):
        at.w.manifests.read(2)
    assert at.w.manifests.find(2) is None
