"""Warm state is never out of step with the files, whoever changed them."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Set

import pyarrow as pa
import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved, NamespaceCreated, NamespaceDropped, NamespaceUpdated
from arco.catalog.tables import ASSET_STATS, NAMESPACES
from arco.errors import Corrupt, Refused, Unavailable
from arco.log.contents import TableFiles
from arco.orchestration.tables import DYNAMIC_KEYS
from arco.state import warm as warm_module
from arco.state.buckets import LoadedBucket
from arco.state.lookup import look_up
from arco.state.parquet import Files
from arco.state.rewrite import write_file
from arco.state.sorted_rows import shard_slices
from arco.state.table import Key, Row, Table
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.model import check_against_model, state_of
from tests.kit.workspace import corrupt, make_workspace


def outcome_of(w: Workspace, event_id: str) -> str:
    return str(state_of(w)["log.outcomes"][(event_id,)][1]["status"])


def make_buckets_large(patch: pytest.MonkeyPatch) -> None:
    """Each bucket of a file takes several row groups, and no number of lookups loads it."""
    patch.setattr(Files, "spans_groups", lambda self, ref, number: True)
    patch.setattr(warm_module, "LOOKS", sys.maxsize)


class Pair:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.a = make_workspace(self.store, 1, clock=self.clock)
        self.b = make_workspace(self.store, 2, clock=self.clock)

    def do(self, w: Workspace, payload: NamespaceCreated | NamespaceDropped) -> str:
        receipt = w.ledger.append([payload])
        w.committer.commit()
        return outcome_of(w, receipt.event_ids[0])


@pytest.mark.parametrize("merged_before", [True, False], ids=["in the base", "in L0 only"])
@pytest.mark.parametrize("others", [0, 3])
def test_row_that_another_process_deleted_and_merged_away_is_gone(
    merged_before: bool, others: int
) -> None:
    at = Pair()
    for n in range(others):
        at.do(at.a, NamespaceCreated(namespace=f"other{n}"))
    at.do(at.a, NamespaceCreated(namespace="sales"))
    if merged_before:
        at.a.upkeep.merger.merge(everything=True)
    at.do(at.b, NamespaceDropped(namespace="sales"))
    at.b.upkeep.merger.merge(everything=True)
    assert at.do(at.a, NamespaceCreated(namespace="sales")) == "applied"
    check_against_model(at.a)


def test_run_merged_by_another_process_is_laid_over() -> None:
    at = Pair()
    at.do(at.a, NamespaceCreated(namespace="sales"))
    for n in range(60):
        at.b.ledger.append([NamespaceUpdated(namespace="sales", description=str(n))])
        at.b.committer.commit()
    at.b.ledger.append([NamespaceDropped(namespace="sales")])
    at.b.committer.commit()
    assert at.b.upkeep.merger.merge() is not None
    assert at.do(at.a, NamespaceCreated(namespace="sales")) == "applied"
    check_against_model(at.a)


def test_rollback_by_another_process_is_noticed() -> None:
    at = Pair()
    at.do(at.a, NamespaceCreated(namespace="sales"))
    at.do(at.a, NamespaceCreated(namespace="ops"))
    at.b.upkeep.rollback(1, reason="test")
    assert at.do(at.a, NamespaceCreated(namespace="ops")) == "applied"
    assert at.do(at.a, NamespaceCreated(namespace="sales")) == "refused"


def test_outage_while_rows_are_loaded_fails_the_commit_and_skips_no_event() -> None:
    at = Pair()
    at.do(at.a, NamespaceCreated(namespace="sales"))
    hooks = HookStore(at.store)
    w = make_workspace(hooks, 3, clock=at.clock)
    w.ledger.append([NamespaceUpdated(namespace="sales", description="new")])
    hooks.fail("get", f"{paths.STATE}changes/")
    with pytest.raises(Unavailable):
        w.committer.commit()
    w.committer.commit()
    assert w.read.catalog().namespace("sales").description == "new"
    assert not w.read.snapshot().head.manifest.skipped


def test_damaged_rows_fail_the_commit_and_skip_no_event() -> None:
    at = Pair()
    at.do(at.a, NamespaceCreated(namespace="sales"))
    (path,) = [m.path for m in at.store.list(f"{paths.STATE}changes/")]
    good = at.store.get(path).data
    corrupt(at.store, path, good[:-1] + b"?")
    w = make_workspace(at.store, 3, clock=at.clock)
    w.ledger.append([NamespaceUpdated(namespace="sales", description="new")])
    with pytest.raises(Corrupt, match=path):
        w.committer.commit()
    corrupt(at.store, path, good)
    w.committer.commit()
    assert w.read.catalog().namespace("sales").description == "new"


def test_what_no_commit_looks_at_any_more_is_dropped_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_module, "SWEEP", 4)
    monkeypatch.setattr(warm_module, "SETTLED", 1)
    at = Pair()
    sizes = []
    for n in range(40):
        assert at.do(at.a, NamespaceCreated(namespace=f"n{n}")) == "applied"
        buckets = at.a.projector.warm.buckets.values()
        sizes.append(sum(len(bucket.changed) for bucket in buckets))
    assert max(sizes) == max(sizes[:12])
    assert at.do(at.a, NamespaceCreated(namespace="n0")) == "refused"
    check_against_model(at.a)


def test_a_large_bucket_whose_rows_are_not_found_keeps_only_hashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_module, "SWEEP", 8)
    monkeypatch.setattr(warm_module, "LARGE", 4)
    at = Pair()
    catalog = at.a.commands.catalog
    for n in range(32):  # of one namespace: their rows lie in one bucket
        catalog.create_asset(f"sales.a{n}") if n else catalog.create_namespace("sales")
    kinds = {type(bucket).__name__ for bucket in at.a.projector.warm.buckets.values()}
    assert "BucketHashes" in kinds
    with pytest.raises(Refused):
        at.a.commands.catalog.create_asset("sales.a1")
    check_against_model(at.a)


def test_many_small_buckets_whose_rows_are_not_found_keep_only_hashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_module, "SWEEP", 16)
    monkeypatch.setattr(warm_module, "LARGE", 16)
    at = Pair()
    catalog = at.a.commands.catalog
    for n in range(6):
        catalog.create_namespace(f"n{n}")
    for n in range(36):
        catalog.create_asset(f"n{n % 6}.a{n}")
    kinds = {type(bucket).__name__ for bucket in at.a.projector.warm.buckets.values()}
    assert "BucketHashes" in kinds
    with pytest.raises(Refused):
        catalog.create_asset("n1.a1")
    check_against_model(at.a)


def test_a_bucket_that_was_reduced_to_hashes_is_read_whole_when_many_of_its_rows_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_module, "SWEEP", 8)
    monkeypatch.setattr(warm_module, "LARGE", 4)
    at = Pair()
    catalog = at.a.commands.catalog
    for n in range(32):
        catalog.create_asset(f"sales.a{n}") if n else catalog.create_namespace("sales")
    monkeypatch.setattr(warm_module, "FOUND", 0)
    with pytest.raises(Refused):
        catalog.create_asset("sales.a1")


def test_a_large_bucket_whose_old_rows_are_found_stays_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_module, "SWEEP", 4)
    monkeypatch.setattr(warm_module, "LARGE", 4)
    monkeypatch.setattr(warm_module, "FOUND", 1)
    at = Pair()
    at.a.ledger.append(
        [AssetObserved(asset_id=f"A{n}", row_count=n, size_bytes=1) for n in range(9_000)]
    )
    at.a.committer.commit()
    w = make_workspace(at.store, 3, clock=at.clock)
    for n in range(4):  # of some 35 rows of a bucket two or three are found
        w.ledger.append(
            [
                AssetObserved(asset_id=f"A{i}", row_count=1, size_bytes=1)
                for i in range(n, 9_000, 50)
            ]
        )
        w.committer.commit()
    kinds = Counter(
        type(bucket).__name__
        for (table, _), bucket in w.projector.warm.buckets.items()
        if table is ASSET_STATS
    )
    assert kinds["LoadedBucket"] > kinds["BucketHashes"]
    check_against_model(w)


def test_a_commit_that_touches_more_than_the_budget_reads_each_bucket_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    ids = [f"A{n}" for n in range(9_000)]
    w.ledger.append([AssetObserved(asset_id=i, row_count=1, size_bytes=1) for i in ids])
    w.committer.commit()
    monkeypatch.setattr(warm_module, "LARGE", len(ids))  # hashes alone would not do
    hooks = HookStore(store)
    tight = make_workspace(hooks, 2, clock=clock, warm_budget_bytes=1 << 20, cache_budget_bytes=0)
    tight.ledger.append([AssetObserved(asset_id=i, row_count=2, size_bytes=2) for i in ids])
    tight.committer.commit()
    reads = [path for call, path in hooks.calls if call != "put" and "/asset_stats/l0/" in path]
    assert tight.projector.warm.is_tight
    assert 0 < len(reads) < 3 * 256
    check_against_model(tight)


def test_new_keys_load_no_bucket_where_rows_are_short_of_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    w.ledger.append(
        [AssetObserved(asset_id=f"A{n}", row_count=1, size_bytes=1) for n in range(9_000)]
    )
    w.committer.commit()
    w.ledger.append([AssetObserved(asset_id="B5", row_count=5, size_bytes=5)])
    w.committer.commit()  # into a change file, whose reference has no range of keys
    monkeypatch.setattr(warm_module, "LARGE", 1 << 30)  # hashes alone would not do
    hooks = HookStore(store)
    tight = make_workspace(hooks, 2, clock=clock, warm_budget_bytes=0, cache_budget_bytes=0)
    tight.commands.catalog.create_namespace("sales")
    assert tight.projector.warm.is_tight
    hooks.calls.clear()
    new = [f"B{n}" for n in range(9) if n != 5]
    tight.ledger.append([AssetObserved(asset_id=i, row_count=2, size_bytes=2) for i in new])
    tight.committer.commit()
    assert not [path for call, path in hooks.calls if "/asset_stats/l0/" in path]
    tight.ledger.append(
        [AssetObserved(asset_id=i, row_count=3, size_bytes=3) for i in ("A1", "B5")]
    )
    tight.committer.commit()
    assert [path for call, path in hooks.calls if "/asset_stats/l0/" in path]
    check_against_model(tight)


def test_rows_of_a_commit_that_is_larger_than_the_budget_are_not_kept() -> None:
    clock = SimClock()
    w = make_workspace(clock=clock, warm_budget_bytes=1 << 20)
    ids = [f"A{n}" for n in range(2_000)]
    for count in (1, 2):
        w.ledger.append([AssetObserved(asset_id=i, row_count=count, size_bytes=1) for i in ids])
        w.committer.commit()
        assert not any(table is ASSET_STATS for table, _ in w.projector.warm.buckets)
    w.ledger.append([AssetObserved(asset_id="A7", row_count=3, size_bytes=1)])
    w.committer.commit()
    assert any(table is ASSET_STATS for table, _ in w.projector.warm.buckets)
    check_against_model(w)


def test_rows_committed_without_loading_their_bucket_are_read_when_it_is_loaded() -> None:
    at = Pair()
    at.do(at.b, NamespaceCreated(namespace="other"))
    with pytest.MonkeyPatch.context() as patch:
        make_buckets_large(patch)
        assert at.do(at.a, NamespaceCreated(namespace="sales")) == "applied"
    assert at.do(at.a, NamespaceCreated(namespace="sales")) == "refused"


def test_budget_of_nothing_changes_no_answer() -> None:
    clock = SimClock()
    w = make_workspace(clock=clock, warm_budget_bytes=0, cache_budget_bytes=0)
    w.commands.catalog.create_namespace("sales")
    for n in range(5):
        w.commands.catalog.create_asset(f"sales.a{n}")
    assert w.read.catalog().namespace("sales").assets == 5
    assert w.read.snapshot().get(NAMESPACES, "sales") is not None
    check_against_model(w)


def test_a_bucket_has_the_rows_of_the_shard_keys_that_were_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    x = "regions"
    bucket = DYNAMIC_KEYS.bucket((x,))
    names = (f"k{n}" for n in itertools.count())
    y, z = itertools.islice((name for name in names if DYNAMIC_KEYS.bucket((name,)) == bucket), 2)
    first = make_workspace(store, 1, clock=clock)
    for name in (x, y, z):
        first.commands.orchestration.change_partition_keys(name, add=["a", "b", "c"])
    first.upkeep.merger.merge(everything=True)
    second = make_workspace(store, 2, clock=clock)

    def loaded() -> tuple[object, int]:
        kept = second.projector.warm.buckets[DYNAMIC_KEYS, bucket]
        assert isinstance(kept, LoadedBucket)
        return kept.shards, kept.batch.num_rows

    loads: list[object] = []

    def recording(batch: pa.RecordBatch, key: tuple[str, ...], shards: Set[Key] | None) -> object:
        loads.extend([shards] if key == DYNAMIC_KEYS.key else [])
        return shard_slices(batch, key, shards)

    monkeypatch.setattr(warm_module, "shard_slices", recording)
    change = second.commands.orchestration.change_partition_keys
    change(x, add=["c", "d"])
    assert loaded() == ({(x,)}, 3)
    first.commands.orchestration.change_partition_keys(y, add=["d"], remove=["a"])
    change(x, remove=["a"])
    change(y, add=["a", "b"], remove=["d"])
    assert loaded() == ({(x,), (y,)}, 6)
    assert loads
    assert all(each in ({(x,)}, {(y,)}) for each in loads)  # never both again
    for name, keys in ((x, "bcd"), (y, "abc"), (z, "abc")):
        rows = second.read.snapshot().rows(DYNAMIC_KEYS, name)
        assert "".join(sorted(row.key for row in rows)) == keys
    assert second.upkeep.rebuild(publish=False).same


def test_new_keys_are_told_by_hashes_in_a_process_that_has_loaded_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    old = [f"A{n}" for n in range(3_000)]
    w.ledger.append([AssetObserved(asset_id=id, row_count=1, size_bytes=1) for id in old])
    w.committer.commit()
    w.upkeep.merger.merge(everything=True)
    make_buckets_large(monkeypatch)
    monkeypatch.setattr(warm_module, "MISSES", 4)
    looked_up: Counter[str] = Counter()

    def counting(files: object, refs: object, table: object, *given: object) -> object:
        looked_up[str(table)] += bool(refs)
        return look_up(files, refs, table, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(warm_module, "look_up", counting)
    clock.sleep(1.0)
    fresh = make_workspace(store, 2, clock=clock)
    ids = [*(f"B{n}" for n in range(200)), *old[:5]]
    fresh.ledger.append([AssetObserved(asset_id=id, row_count=2, size_bytes=1) for id in ids])
    fresh.committer.commit()
    assert looked_up[str(ASSET_STATS)] < 20
    rows = {row.asset_id: row.row_count for row in fresh.read.snapshot().all(ASSET_STATS)}
    assert rows == {**dict.fromkeys(old, 1), **dict.fromkeys(ids, 2)}
    assert fresh.upkeep.rebuild(publish=False).same


class PageRow(Row, frozen=True):
    book: str
    page: int
    text: str


PAGES = Table("t", "pages", PageRow, key=["book", "page"], spread=32)


class Shelf:
    """Warm state that has loaded nothing, over files with many pages of one book."""

    def __init__(self, pages: int, files: int) -> None:
        clock = SimClock()
        self.store = HookStore(MemoryStore(clock))
        self.files = Files(self.store, budget_bytes=16 << 10)  # less than the rows take
        refs = []
        for at in range(files):
            rows = [PageRow("b", page, f"text {page}") for page in range(at, pages, files)]
            arrow = PAGES.to_arrow({PAGES.key_of(row): (1 + at, row) for row in rows})
            refs.append(write_file(self.files, PAGES, arrow, "l0", f"N{at}", clock.now()))
        self._of_pages = TableFiles((), tuple(PAGES.key), PAGES.shard, l0=tuple(refs))
        self.store.calls.clear()
        self.warm = warm_module.Warm(self.files)
        self.warm.advance(self, files)

    def table(self, name: str) -> TableFiles:
        return self._of_pages

    def loaded_rows(self) -> int:
        buckets = self.warm.buckets.values()
        return sum(each.batch.num_rows for each in buckets if isinstance(each, LoadedBucket))


def test_new_keys_of_a_spread_shard_key_read_each_file_once_and_load_few_rows() -> None:
    shelf = Shelf(3_200, files=8)
    assert all(shelf.warm.get(PAGES, ("b", page)) is None for page in range(10_000, 10_400))
    assert shelf.store.count("get", "") <= 8 * 5
    assert shelf.loaded_rows() <= 800, "of 32 buckets, those of a few"
    for page in (0, 1, 1_599, 3_199):
        assert shelf.warm.get(PAGES, ("b", page)) == (
            1 + page % 8,
            PageRow("b", page, f"text {page}"),
        )


def test_new_keys_in_buckets_of_several_row_groups_are_hashed_after_some_lookups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_buckets_large(monkeypatch)
    shelf = Shelf(3_200, files=8)
    assert all(shelf.warm.get(PAGES, ("b", page)) is None for page in range(10_000, 10_400))
    assert shelf.store.count("get", "") <= 8 * 65
    assert shelf.loaded_rows() == 0
    assert shelf.warm.get(PAGES, ("b", 7)) == (8, PageRow("b", 7, "text 7"))


def test_keys_that_are_there_load_their_rows() -> None:
    shelf = Shelf(3_200, files=8)
    for page in range(0, 3_200, 3):
        assert shelf.warm.get(PAGES, ("b", page)) is not None
    assert shelf.loaded_rows() == 3_200


def test_key_that_was_committed_after_its_bucket_was_hashed_is_found() -> None:
    shelf = Shelf(3_200, files=8)
    for page in range(10_000, 10_400):
        shelf.warm.get(PAGES, ("b", page))
    row = PageRow("b", 10_000, "new")
    shelf.warm.apply({PAGES: {("b", 10_000): (9, row)}}, shelf, 9)
    assert shelf.warm.get(PAGES, ("b", 10_000)) == (9, row)
    assert shelf.warm.get(PAGES, ("b", 10_001)) is None
