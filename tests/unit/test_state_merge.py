"""Merges: fewer files, the same rows."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetCreated, NamespaceCreated, NamespaceUpdated
from arco.catalog.tables import ASSET_NAMES, ASSETS, NAMESPACES
from arco.log.contents import TableFiles
from arco.log.manifest import FileRef
from arco.state import bucket_windows, file_encoder, opened_file, parquet, rewrite
from arco.state.merge import L0Limits, plan
from arco.state.rewrite import Rewriter
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.hooks import HookStore
from tests.kit.model import check_against_model, state_of
from tests.kit.workspace import make_workspace


class Setting:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.hooks = HookStore(self.memory)
        self.w = make_workspace(self.hooks, 1, clock=self.clock)
        self.other = make_workspace(self.memory, 2, clock=self.clock)
        self.w.ledger.append([NamespaceCreated(namespace="sales")])
        self.w.committer.commit()

    def commits(self, count: int, assets: int = 1, start: int = 0) -> None:
        for n in range(start, start + count):
            names = [f"a{n}_{i}" for i in range(assets)]
            self.w.ledger.append([AssetCreated(namespace="sales", name=m) for m in names])
            self.w.committer.commit()

    def manifest(self) -> TableFiles:
        return make_workspace(self.memory, 9, clock=self.clock).read.snapshot().manifest(ASSETS)

    def fresh(self) -> Workspace:
        return make_workspace(self.memory, 9, clock=self.clock)


@pytest.fixture
def at() -> Setting:
    return Setting()


def test_nothing_is_due_below_the_limits(at: Setting) -> None:
    at.commits(15)
    assert at.w.upkeep.merger.merge() is None
    assert len(at.manifest().l0) == 15


def test_too_many_files_become_one(at: Setting) -> None:
    at.commits(17)
    before = state_of(at.fresh())
    merged = at.w.upkeep.merger.merge()
    assert merged is not None and merged.manifest.kind == "merge"
    assert len(merged.manifest.changes) == 1
    assert len(at.manifest().l0) == 1 and not at.manifest().base
    assert state_of(at.fresh()) == before
    assert at.w.upkeep.merger.merge() is None


def test_age_makes_a_merge_due(at: Setting) -> None:
    at.commits(2)
    at.clock.advance(timedelta(hours=1, seconds=1))
    assert at.w.upkeep.merger.merge() is not None
    assert at.manifest().l0 == () and len(at.manifest().base) == 1


def test_few_new_rows_over_a_large_base_go_into_a_run(at: Setting) -> None:
    at.commits(1, assets=500)
    at.w.upkeep.merger.merge(everything=True)
    base = at.manifest().base
    at.commits(17, start=1)
    before = state_of(at.fresh())
    assert at.w.upkeep.merger.merge() is not None
    assert at.manifest().base == base
    assert len(at.manifest().l0) == 1 and at.manifest().l0[0].rows == 17
    assert state_of(at.fresh()) == before
    check_against_model(at.fresh())


def test_run_takes_in_files_of_like_size_and_leaves_the_large_one() -> None:
    def ref(n: int, rows: int) -> FileRef:
        path = f"p{n}"
        created = SimClock().now()
        return FileRef(path, rows, 1, "", 1, "", (0, 0), ("", ""), (n, n), created)

    small = tuple(ref(n, 1) for n in range(1, 52))
    large = ref(99, 10_000)
    table = TableFiles((), ("k",), 1, base=(ref(0, 10**6),), l0=(large, *small))
    found = plan(table, L0Limits(), SimClock().now())
    assert found is not None and not found.into_base
    assert set(found.l0) == set(small)


def test_deleted_rows_end_in_the_base_and_do_not_come_back(at: Setting) -> None:
    at.w.commands.catalog.create_asset("sales.gone")
    at.w.upkeep.merger.merge(everything=True)
    at.w.commands.catalog.drop_asset("sales.gone")
    (tombstone,) = at.manifest().l0
    assert tombstone.rows == 1
    assert at.fresh().read.catalog().assets("sales") == []
    at.w.upkeep.merger.merge(everything=True)
    assert at.manifest().files() == ()
    assert at.fresh().read.catalog().assets("sales") == []
    check_against_model(at.fresh())


def test_tombstones_survive_a_merge_into_a_run(at: Setting) -> None:
    at.w.commands.catalog.create_asset("sales.gone")
    at.w.upkeep.merger.merge(everything=True)
    at.w.commands.catalog.drop_asset("sales.gone")
    at.w.commands.catalog.create_asset("sales.stays")
    s = at.w.read.snapshot()
    swaps = [Rewriter(at.w.core).into_run(t, s.manifest(t).l0) for t in (ASSETS, ASSET_NAMES)]
    at.w.upkeep.merger.publish(swaps)
    assert len(at.manifest().l0) == 1 and at.manifest().base
    assert [row.name for row in at.fresh().read.catalog().assets("sales")] == ["stays"]
    check_against_model(at.fresh())


def test_only_touched_files_are_rewritten_and_pieces_never_overlap(
    at: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "ROWS_PER_FILE", 40)
    at.commits(1, assets=400)
    at.w.upkeep.merger.merge(everything=True)
    before = {ref.path for ref in at.manifest().base}
    assert len(before) >= 5
    untouched: list[int] = []
    for n in range(8):
        at.commits(1, assets=3, start=10 + n)
        at.w.upkeep.merger.merge(everything=True)
        base = at.manifest().base
        ranges = [ref.buckets for ref in base]
        assert ranges == sorted(ranges)
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ranges)), ranges
        untouched.append(len(before & {ref.path for ref in base}))
        before = {ref.path for ref in base}
    assert any(untouched)
    check_against_model(at.fresh())
    assert at.fresh().upkeep.fsck().clean


@pytest.mark.parametrize("whole_bytes", [opened_file.MANY_BYTES, 0])
def test_merges_of_a_few_buckets_at_a_time_keep_every_row(
    at: Setting, monkeypatch: pytest.MonkeyPatch, whole_bytes: int
) -> None:
    monkeypatch.setattr(parquet, "MANY_BYTES", whole_bytes)
    monkeypatch.setattr(opened_file, "PART_BYTES", 8_000)
    monkeypatch.setattr(rewrite, "ROWS_PER_FILE", 60)
    for module in (bucket_windows, file_encoder):
        monkeypatch.setattr(module, "ROWS_PER_GROUP", 7)
    for n in range(scaled(3, 4)):
        at.commits(2, assets=scaled(40, 100), start=10 * n)
        at.w.commands.catalog.create_asset(f"sales.extra{n}")
        at.w.commands.catalog.drop_asset(f"sales.extra{n - 1}") if n else None
        s = at.w.read.snapshot()
        swaps = [Rewriter(at.w.core).into_run(t, s.manifest(t).l0) for t in (ASSETS, ASSET_NAMES)]
        at.w.upkeep.merger.publish(swaps)
        check_against_model(at.fresh())
        at.w.upkeep.merger.merge(everything=True)
        check_against_model(at.fresh())
    assert at.fresh().upkeep.fsck().clean


def test_bucket_lies_in_one_file_however_many_rows_it_has(
    at: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "ROWS_PER_FILE", 10)
    at.commits(1, assets=100)
    at.w.upkeep.merger.merge(everything=True)
    # All names of one namespace are in one bucket.
    (names,) = at.fresh().read.snapshot().manifest(ASSET_NAMES).base
    assert names.rows == 100 and names.buckets[0] == names.buckets[1]


def test_commit_in_between_is_kept_on_top(at: Setting) -> None:
    at.commits(3)
    head = at.w.manifests.head().generation
    at.hooks.before(
        "put", paths.root(head + 1), lambda: at.other.commands.catalog.create_asset("sales.late")
    )
    assert at.w.upkeep.merger.merge(everything=True) is not None
    assert len(at.manifest().base) == 1 and len(at.manifest().l0) == 1
    check_against_model(at.fresh())


def test_second_merge_of_the_same_files_is_dropped(at: Setting) -> None:
    at.commits(3)
    s = at.w.read.snapshot()
    mine = [
        Rewriter(at.w.core).into_base(t, s.manifest(t), s.manifest(t).l0, s.head.manifest.log_time)
        for t in at.w.tables
        if s.manifest(t).l0
    ]
    assert at.other.upkeep.merger.merge(everything=True) is not None
    before = state_of(at.fresh())
    assert at.w.upkeep.merger.publish(mine) is None
    assert state_of(at.fresh()) == before


def test_merge_moves_no_position_and_no_row_version(at: Setting) -> None:
    at.commits(3)
    before = at.fresh().read.snapshot()
    merged = at.w.upkeep.merger.merge(everything=True)
    assert merged is not None
    assert merged.manifest.position == before.position
    assert merged.manifest.log_time == before.head.manifest.log_time
    assert merged.manifest.segment is None and merged.manifest.consumed == ()


def test_merges_follow_each_other_and_keep_files_few(at: Setting) -> None:
    for n in range(160):
        at.w.ledger.append([NamespaceUpdated(namespace="sales", description=str(n))])
        at.w.committer.commit()
        at.w.upkeep.merger.merge()
        files = at.w.read.snapshot().manifest(NAMESPACES).files()
        assert len(files) <= 52
    check_against_model(at.fresh())
