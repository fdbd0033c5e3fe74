"""fsck, GC, pins, rebuild, rollback, backup: keeping a workspace whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved, Column, NamespaceCreated, NamespaceDropped
from arco.errors import Conflict, Corrupt, Error, Invalid, NotFound
from arco.state.rewrite import Rewriter
from arco.state.snapshot import AsOf, Generation
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.seal import seal, unseal
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.invariants import check_at_rest, check_snapshot
from tests.kit.keeping import keeping
from tests.kit.model import check_against_model, read_log, state_of
from tests.kit.workspace import corrupt, inbox_names, make_workspace, sabotage

DAY = timedelta(days=1)
SHORT = keeping(generations=DAY, at_least=2)


class Setting:
    def __init__(self, generations: int = 6) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.hooks = HookStore(self.memory)
        self.w = make_workspace(self.hooks, 1, clock=self.clock)
        self.other = make_workspace(self.memory, 2, clock=self.clock)
        self.w.commands.catalog.create_namespace("sales")
        for n in range(generations - 1):
            self.w.commands.catalog.create_asset(f"sales.a{n}")

    def fresh(self) -> Workspace:
        return make_workspace(self.memory, 77, clock=self.clock)

    def one(self, prefix: str) -> str:
        return next(m.path for m in self.memory.list(prefix))


@pytest.fixture
def at() -> Setting:
    return Setting()


# fsck


def test_fsck_of_a_whole_workspace_is_clean_and_counts(at: Setting) -> None:
    at.w.upkeep.merger.merge(everything=True)
    report = at.fresh().upkeep.fsck()
    assert report.clean and not [f for f in report.findings if f.severity == "error"]
    assert (report.generation, report.position, report.generations) == (7, 6, 7)
    assert at.fresh().upkeep.fsck(deep=False).clean


def test_fsck_of_nothing_is_clean() -> None:
    assert make_workspace().upkeep.fsck().clean


@pytest.mark.parametrize(
    ("prefix", "code"),
    [
        (paths.root(3), "missing_generation"),
        (f"{paths.MANIFESTS}catalog/", "domain_manifest"),
        (f"{paths.STATE}changes/", "missing_file"),
        (f"{paths.STATE}catalog/assets/", "missing_file"),
        (paths.SEGMENTS, "missing_file"),
    ],
)
def test_fsck_finds_what_is_missing_and_names_it(at: Setting, prefix: str, code: str) -> None:
    at.w.upkeep.merger.merge(everything=True)
    path = at.one(prefix)
    at.memory.delete(path)
    found = [(f.code, f.path) for f in at.fresh().upkeep.fsck().findings if f.severity == "error"]
    assert (code, path) in found


@pytest.mark.parametrize(
    ("prefix", "code"),
    [
        (paths.root(3), "manifest"),
        (f"{paths.MANIFESTS}catalog/", "domain_manifest"),
        (f"{paths.STATE}changes/", "checksum"),
        (f"{paths.STATE}catalog/assets/", "checksum"),
        (paths.SEGMENTS, "checksum"),
    ],
)
def test_deep_fsck_finds_one_flipped_byte_and_names_the_file(
    at: Setting, prefix: str, code: str
) -> None:
    at.w.upkeep.merger.merge(everything=True)
    path = at.one(prefix)
    raw = bytearray(at.memory.get(path).data)
    raw[0] ^= 1
    corrupt(at.memory, path, bytes(raw))
    found = [(f.code, f.path) for f in at.fresh().upkeep.fsck().findings if f.severity == "error"]
    assert (code, path) in found


def test_fsck_finds_a_broken_hash_chain(at: Setting) -> None:
    raw = unseal(at.memory.get(paths.root(3)).data, paths.root(3))
    corrupt(at.memory, paths.root(3), seal(raw.replace(b'"commit_id":"0', b'"commit_id":"1')))
    codes = [(f.code, f.path) for f in at.fresh().upkeep.fsck().findings]
    assert ("hash_chain", paths.root(4)) in codes


def test_fsck_reports_waiting_rejected_and_skipped_without_calling_them_errors(
    at: Setting,
) -> None:
    at.memory.put(paths.inbox("bad"), b"?")
    at.w.committer.commit()
    at.w.ledger.append([AssetObserved(asset_id="A", row_count=1, size_bytes=1)])
    report = at.fresh().upkeep.fsck()
    assert report.clean
    assert {"rejected", "inbox"} <= {f.code for f in report.findings}


def test_fsck_changes_nothing(at: Setting) -> None:
    before = dict(at.memory.objects)
    at.w.upkeep.fsck()
    assert at.memory.objects == before


# GC


def test_gc_is_a_dry_run_unless_told_otherwise(at: Setting) -> None:
    at.clock.advance(30 * DAY)
    before = dict(at.memory.objects)
    report = at.w.upkeep.gc(SHORT)
    assert report.dry_run and report.deletable
    assert at.memory.objects == before


def test_gc_keeps_what_is_young_whatever_the_retention_says(at: Setting) -> None:
    at.clock.advance(timedelta(hours=23))
    report = at.w.upkeep.gc(
        keeping(generations=timedelta(0), at_least=1),
        dry_run=False,
    )
    assert report.deletable == []
    assert [at.w.manifests.find(n) is None for n in range(1, 7)] == [False] * 6


def test_gc_removes_old_generations_and_files_and_the_rest_still_reads(at: Setting) -> None:
    at.w.upkeep.merger.merge(everything=True)
    at.w.commands.catalog.create_asset("sales.some")
    at.w.upkeep.merger.merge(everything=True)
    at.clock.advance(10 * DAY)
    for name in ("more", "last"):
        at.w.commands.catalog.create_asset(f"sales.{name}")
    at.clock.advance(2 * DAY)
    before = state_of(at.fresh())
    report = at.w.upkeep.gc(SHORT, dry_run=False)
    assert report.floor == 9 and report.failed == 0
    assert {d.why for d in report.deletable} == {"generation", "domain manifest", "table file"}
    assert state_of(at.fresh()) == before
    check_at_rest(at.fresh(), [entry.id for entry in read_log(at.fresh())])
    with pytest.raises(NotFound, match="collected"):
        at.fresh().read.snapshot(Generation(2))
    assert not at.w.upkeep.gc(SHORT, dry_run=False).deletable


def test_gc_never_touches_the_log(at: Setting) -> None:
    at.w.upkeep.merger.merge(everything=True)
    segments = [m.path for m in at.memory.list(paths.SEGMENTS)]
    at.clock.advance(400 * DAY)
    at.w.commands.catalog.create_asset("sales.last")
    at.clock.advance(400 * DAY)
    at.w.upkeep.gc(
        keeping(generations=timedelta(0), at_least=1),
        dry_run=False,
    )
    assert set(segments) <= {m.path for m in at.memory.list(paths.SEGMENTS)}
    assert at.fresh().upkeep.rebuild(publish=False).same


def test_gc_removes_what_a_dead_attempt_left_but_not_what_one_in_flight_wrote(
    at: Setting,
) -> None:
    at.w.ledger.append([NamespaceCreated(namespace="x")])
    at.hooks.fail("put", paths.root(7), times=5)
    with pytest.raises(Error):
        at.w.committer.commit()
    abandoned = [f for f in at.fresh().upkeep.fsck().findings if f.code == "abandoned"]
    assert abandoned
    assert not at.w.upkeep.gc(SHORT, dry_run=False).deletable
    at.clock.advance(2 * DAY)
    at.fresh().committer.commit()
    whys = {d.why for d in at.w.upkeep.gc(SHORT, dry_run=False).deletable}
    assert {"table file", "abandoned segment"} <= whys
    check_at_rest(at.fresh(), [entry.id for entry in read_log(at.fresh())])


def test_gc_goes_on_past_a_delete_that_fails(at: Setting) -> None:
    at.w.upkeep.merger.merge(everything=True)
    at.clock.advance(10 * DAY)
    at.w.commands.catalog.create_asset("sales.last")
    at.clock.advance(2 * DAY)
    deletable = at.w.upkeep.gc(SHORT).deletable
    at.hooks.fail("delete", deletable[0].path)
    assert at.w.upkeep.gc(SHORT, dry_run=False).failed == 1
    assert [d.path for d in at.w.upkeep.gc(SHORT).deletable] == [deletable[0].path]


def test_pinned_generation_survives_gc_and_its_expiry_ends_that(at: Setting) -> None:
    at.w.upkeep.pins.pin("audit", 2, "somebody asked", ttl=timedelta(days=20))
    at.w.upkeep.merger.merge(everything=True)
    at.clock.advance(10 * DAY)
    for n in range(3):
        at.w.commands.catalog.create_asset(f"sales.b{n}")
    at.clock.advance(2 * DAY)
    at.w.upkeep.gc(SHORT, dry_run=False)
    assert at.fresh().manifests.find(3) is None
    pinned = at.fresh().read.snapshot(Generation(2))
    check_snapshot(pinned)
    at.clock.advance(10 * DAY)
    at.w.upkeep.gc(SHORT, dry_run=False)
    assert at.fresh().manifests.find(2) is None


def test_pin_of_what_was_collected_is_refused(at: Setting) -> None:
    at.clock.advance(10 * DAY)
    for n in range(3):
        at.w.commands.catalog.create_asset(f"sales.b{n}")
    at.clock.advance(2 * DAY)
    at.w.upkeep.gc(SHORT, dry_run=False)
    with pytest.raises(NotFound, match="collected"):
        at.w.upkeep.pins.pin("late", 2, "too late")
    assert at.w.upkeep.pins.active() == []


def test_rollback_that_ran_beside_gc_keeps_its_files(at: Setting) -> None:
    """GC looked at the head, then a rollback was published and unpinned, then GC went on."""
    at.w.upkeep.merger.merge(everything=True)
    at.clock.advance(10 * DAY)
    for n in range(3):
        at.w.commands.catalog.create_asset(f"sales.b{n}")
    at.w.upkeep.merger.merge(everything=True)
    at.clock.advance(2 * DAY)
    at.hooks.before("put", paths.FLOORS, lambda: at.other.upkeep.rollback(3, reason="race"))
    at.w.upkeep.gc(SHORT, dry_run=False)
    check_snapshot(at.fresh().read.snapshot())
    assert len(at.fresh().read.catalog().assets("sales")) == 2
    assert at.fresh().upkeep.fsck().clean


# Rebuild


def test_rebuild_of_a_right_state_finds_nothing_and_publishes_nothing(at: Setting) -> None:
    before = [m.path for m in at.memory.list(paths.STATE)]
    rebuilt = at.w.upkeep.rebuild()
    assert rebuilt.same and rebuilt.published is None and rebuilt.events == 6
    assert [m.path for m in at.memory.list(paths.STATE)] == before


def test_rebuild_tells_what_differs_and_mends_it(at: Setting) -> None:
    asset = at.w.commands.catalog.create_asset("sales.cols", columns=[Column(name="c", type="int")])
    expected = state_of(at.fresh())
    sabotage(at.w)
    dry = at.w.upkeep.rebuild(publish=False)
    assert {d.table: d.missing for d in dry.differences if not d.same} == {
        "catalog.assets": 6,
        "catalog.columns": 1,
    }
    assert dry.published is None and state_of(at.fresh()) != expected
    rebuilt = at.w.upkeep.rebuild()
    assert rebuilt.published == at.fresh().manifests.head().generation
    assert state_of(at.fresh()) == expected
    assert asset.event_id in {row.asset_id for row in at.fresh().read.catalog().assets("sales")}


def test_commits_while_a_rebuild_runs_stay_on_top_of_it(at: Setting) -> None:
    at.w.commands.catalog.create_asset("sales.cols", columns=[Column(name="c", type="int")])
    sabotage(at.w)
    head = at.w.manifests.head().generation
    at.hooks.before(
        "put", paths.root(head + 1), lambda: at.other.commands.catalog.create_namespace("meanwhile")
    )
    assert at.w.upkeep.rebuild().published == head + 2
    assert at.fresh().read.catalog().namespace("meanwhile")
    check_against_model(at.fresh())


@pytest.mark.parametrize("everything", [True, False], ids=["merged", "only committed"])
def test_row_deleted_while_a_rebuild_runs_stays_deleted(at: Setting, everything: bool) -> None:
    at.w.commands.catalog.create_namespace("doomed")
    at.w.upkeep.merger.merge(everything=True)
    at.w.commands.catalog.create_asset("sales.cols", columns=[Column(name="c", type="int")])
    sabotage(at.w)
    head = at.w.manifests.head().generation

    def meanwhile() -> None:
        at.other.ledger.append([NamespaceDropped(namespace="doomed")])
        at.other.committer.commit()
        if everything:
            merge_without_the_lease(at.other)

    at.hooks.before("put", paths.root(head + 1), meanwhile)
    if everything:
        with pytest.raises(Conflict, match="merged while"):
            at.w.upkeep.rebuild()
    else:
        at.w.upkeep.rebuild()
    assert [row.namespace for row in at.fresh().read.catalog().namespaces()] == ["sales"]


def merge_without_the_lease(w: Workspace) -> None:
    """As when a lease has run out: it saves work, and guards nothing."""
    s = w.read.snapshot()
    swaps = [
        Rewriter(w.core).into_base(table, manifest, manifest.l0, s.head.manifest.log_time)
        for table in w.tables
        if (manifest := s.manifest(table)).l0
    ]
    assert w.upkeep.merger.publish(swaps) is not None


def test_rollback_while_a_rebuild_runs_is_not_undone_by_it(at: Setting) -> None:
    at.w.commands.catalog.create_asset("sales.cols", columns=[Column(name="c", type="int")])
    sabotage(at.w)
    head = at.w.manifests.head().generation
    at.hooks.before("put", paths.root(head + 1), lambda: at.other.upkeep.rollback(2, reason="race"))
    with pytest.raises(Conflict, match="rollback"):
        at.w.upkeep.rebuild()
    assert len(at.fresh().read.catalog().assets("sales")) == 1
    assert at.fresh().upkeep.rebuild(publish=False).same


# Rollback


def test_rollback_brings_an_old_state_back_as_a_new_generation(at: Setting) -> None:
    old = state_of(at.fresh(), at.fresh().read.snapshot(Generation(3)))
    head = at.w.upkeep.rollback(3, reason="bad deploy", actor="ana")
    assert (head.generation, head.manifest.kind, head.manifest.position) == (7, "rollback", 7)
    assert state_of(at.fresh()) == old
    assert at.fresh().upkeep.rebuild(publish=False).same
    assert at.fresh().upkeep.fsck().clean
    at.w.commands.catalog.create_asset("sales.a4")
    assert at.fresh().upkeep.rebuild(publish=False).same


def test_rollback_of_a_rollback_brings_the_newer_state_back(at: Setting) -> None:
    newest = state_of(at.fresh())
    at.w.upkeep.rollback(3, reason="too hasty")
    at.w.upkeep.rollback(6, reason="it was fine")
    assert state_of(at.fresh()) == newest
    assert at.fresh().upkeep.rebuild(publish=False).same


def test_rollback_leaves_the_inbox_to_be_folded_on_top(at: Setting) -> None:
    at.w.ledger.append([NamespaceCreated(namespace="waiting")])
    at.w.upkeep.rollback(2, reason="test")
    assert inbox_names(at.memory)
    at.w.committer.commit()
    assert at.fresh().read.catalog().namespace("waiting")


def test_rollback_to_where_there_was_nothing_but_rejects(at: Setting) -> None:
    w = make_workspace()
    w.store.put(paths.inbox("bad1"), b"?")
    w.committer.commit()
    w.store.put(paths.inbox("bad2"), b"?")
    w.committer.commit()
    assert w.upkeep.rollback(1, reason="test").generation == 3
    assert w.upkeep.fsck().clean
    w.commands.catalog.create_namespace("sales")
    assert w.upkeep.rebuild(publish=False).same


@pytest.mark.parametrize("generation", [-1, 0, 6, 7])
def test_rollback_to_no_older_generation_is_refused(at: Setting, generation: int) -> None:
    with pytest.raises(Invalid):
        at.w.upkeep.rollback(generation, reason="test")


# Backup


def test_backup_is_a_workspace_by_itself_and_restores(at: Setting) -> None:
    at.w.ledger.append([NamespaceCreated(namespace="waiting")])
    backup = MemoryStore(at.clock)
    report = at.w.upkeep.backup(backup)
    assert report.generation == at.w.manifests.head().generation == 7
    expected = state_of(at.fresh())
    assert state_of(make_workspace(backup, 5, clock=at.clock)) == expected
    assert make_workspace(backup, 5, clock=at.clock).upkeep.fsck().clean
    target = make_workspace(MemoryStore(at.clock), 6, clock=at.clock)
    target.upkeep.restore(backup)
    assert state_of(target) == expected
    target.commands.catalog.create_asset("sales.after")
    check_at_rest(target, [entry.id for entry in read_log(target)])
    assert target.upkeep.rebuild(publish=False).same


def test_second_backup_copies_what_is_new(at: Setting) -> None:
    backup = MemoryStore(at.clock)
    first = at.w.upkeep.backup(backup)
    at.w.commands.catalog.create_asset("sales.more")
    second = at.w.upkeep.backup(backup)
    assert second.present >= first.copied - 10 and second.copied < first.copied
    at.w.upkeep.merger.merge(everything=True)
    at.w.upkeep.backup(backup)
    assert state_of(make_workspace(backup, 5, clock=at.clock)) == state_of(at.fresh())


def test_restore_over_a_workspace_is_refused(at: Setting) -> None:
    backup = MemoryStore(at.clock)
    at.w.upkeep.backup(backup)
    with pytest.raises(Conflict, match="already holds a workspace"):
        at.w.upkeep.restore(backup)


def test_restore_from_nothing_is_not_found(at: Setting) -> None:
    empty = make_workspace(MemoryStore(at.clock), 9, clock=at.clock)
    with pytest.raises(NotFound):
        empty.upkeep.restore(MemoryStore(at.clock))


def test_backup_cut_short_is_no_backup_and_the_next_one_finishes_it(at: Setting) -> None:
    backup = MemoryStore(at.clock)
    failing = HookStore(backup)
    failing.fail("put", paths.MANIFESTS, times=5)
    with pytest.raises(Error):
        at.w.upkeep.backup(failing)
    assert make_workspace(backup, 5, clock=at.clock).manifests.head().generation == 0
    at.w.upkeep.backup(failing)
    assert state_of(make_workspace(backup, 5, clock=at.clock)) == state_of(at.fresh())


def test_backup_of_a_damaged_file_fails_and_names_it(at: Setting) -> None:
    path = at.one(f"{paths.STATE}changes/")
    corrupt(at.memory, path, b"?")
    with pytest.raises(Corrupt, match=path):
        at.fresh().upkeep.backup(MemoryStore(at.clock))


def test_backup_is_pinned_while_it_runs_and_not_after(at: Setting) -> None:
    pinned: list[int] = []
    target = HookStore(MemoryStore(at.clock))
    target.before(
        "put", paths.STATE, lambda: pinned.extend(p.generation for p in at.w.upkeep.pins.active())
    )
    at.w.upkeep.backup(target)
    assert pinned == [6]
    assert at.w.upkeep.pins.active() == []


def test_as_of_before_what_is_kept_says_so(at: Setting) -> None:
    before = at.clock.now()
    at.clock.advance(10 * DAY)
    for n in range(3):
        at.w.commands.catalog.create_asset(f"sales.b{n}")
    at.clock.advance(2 * DAY)
    at.w.upkeep.gc(SHORT, dry_run=False)
    with pytest.raises(NotFound, match="was collected"):
        at.fresh().read.snapshot(AsOf(before - DAY))
