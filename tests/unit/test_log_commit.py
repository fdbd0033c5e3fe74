"""The commit protocol, one promise at a time (the essay is in `arco.log.commit`)."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import (
    AssetObserved,
    AssetUpdated,
    Column,
    NamespaceCreated,
    NamespaceDropped,
)
from arco.errors import Contended, Error, Fenced, Unavailable
from arco.log.commit import Committed, NothingToCommit
from arco.log.inbox import CommitLimits
from arco.log.manifest import Hint, decode
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.invariants import check_at_rest, check_chain
from tests.kit.keeping import keeping
from tests.kit.model import read_log, state_of
from tests.kit.workspace import inbox_names, make_workspace, sabotage

FACT = AssetObserved(asset_id="A", row_count=1, size_bytes=2)
DAY = timedelta(days=1)


class Setting:
    """One committer behind hooks; another one, of another process, without."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.hooks = HookStore(self.memory)
        self.w = make_workspace(self.hooks, 1, clock=self.clock)
        self.other = make_workspace(self.memory, 2, clock=self.clock)

    def fresh(self, seed: int = 50) -> Workspace:
        return make_workspace(self.memory, seed, clock=self.clock)

    def logged(self) -> list[str]:
        return [entry.id for entry in read_log(self.fresh())]

    def append(self) -> str:
        return self.other.ledger.append([FACT]).event_ids[0]


@pytest.fixture
def at() -> Setting:
    return Setting()


def committed(w: Workspace) -> Committed:
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    return outcome


def test_nothing_in_the_inbox_publishes_nothing(at: Setting) -> None:
    assert isinstance(at.w.committer.commit(), NothingToCommit)
    assert at.fresh().manifests.head().generation == 0
    assert not [op for op, _ in at.hooks.calls if op == "put"]


def test_commit_gives_dense_positions_and_names_its_parent(at: Setting) -> None:
    ids: list[str] = []
    for count in (1, 3, 2):
        ids += at.w.ledger.append([FACT] * count).event_ids
        committed(at.w)
    assert at.logged() == ids
    roots = [at.w.manifests.read(n) for n in range(4)]
    assert [r.manifest.position for r in roots] == [0, 1, 4, 6]
    assert [r.manifest.parent_sha256 for r in roots[1:]] == [r.sha256 for r in roots[:-1]]


def test_root_manifest_is_written_after_everything_that_it_refers_to(at: Setting) -> None:
    at.append()
    committed(at.w)
    puts = [path for op, path in at.hooks.calls if op == "put"]
    root = puts.index(paths.root(1))
    assert puts[root + 1 :] == [paths.HINT]
    before = puts[:root]
    assert any(path.startswith(paths.SEGMENTS) for path in before)
    assert any(path.startswith(paths.STATE) for path in before)
    assert len(before) == 3  # the batch, the segment and a change file
    assert at.hooks.calls[-1] == (
        "delete",
        paths.inbox(at.w.read.snapshot().head.manifest.consumed[0]),
    )


def test_events_are_ordered_by_id_whatever_batches_they_came_in(at: Setting) -> None:
    later = at.w.ledger.event(FACT)
    first, second = at.other.ledger.event(FACT), at.other.ledger.event(FACT)
    at.w.ledger.append([later, second])
    at.w.ledger.append([first])
    committed(at.w)
    assert at.logged() == sorted([later.id, first.id, second.id])


def test_log_time_never_goes_back_even_if_the_store_s_clock_does(at: Setting) -> None:
    at.append()
    committed(at.w)
    at.clock.advance(timedelta(hours=-2))
    at.append()
    root = committed(at.w).head.manifest
    assert root.log_time == at.w.manifests.read(1).manifest.log_time
    assert root.published_at == at.w.manifests.read(1).manifest.published_at
    times = [entry.received_at for entry in read_log(at.w)]
    assert times == sorted(times)


# pending_cleanup


def test_batch_whose_delete_failed_is_never_folded_again(at: Setting) -> None:
    event = at.append()
    (name,) = inbox_names(at.memory)
    at.hooks.fail("delete", paths.inbox(name), times=3)
    root = committed(at.w).head.manifest
    assert root.consumed == (name,)
    # It stays, commit after commit, with fresh processes too, and is never taken again.
    assert isinstance(at.w.committer.commit(), NothingToCommit)
    assert inbox_names(at.memory) == [name]
    second = at.append()
    assert name in committed(at.w).head.manifest.pending_cleanup
    assert inbox_names(at.memory) == [name]
    assert isinstance(at.fresh().committer.commit(), NothingToCommit)
    assert inbox_names(at.memory) == []
    assert at.logged() == [event, second]


def test_name_leaves_pending_cleanup_when_a_later_listing_does_not_show_it(at: Setting) -> None:
    at.append()
    first = committed(at.w).head.manifest
    at.append()
    second = committed(at.w).head.manifest
    assert first.consumed and first.pending_cleanup == ()
    assert second.consumed and second.pending_cleanup == ()


def test_merge_carries_pending_cleanup_on(at: Setting) -> None:
    event = at.append()
    at.hooks.fail("delete", paths.INBOX, times=9)
    root = committed(at.w).head.manifest
    merged = at.w.upkeep.merger.merge(everything=True)
    assert merged is not None
    assert merged.manifest.pending_cleanup == root.consumed
    assert inbox_names(at.memory)
    assert isinstance(at.fresh().committer.commit(), NothingToCommit)
    assert at.logged() == [event]


def test_crash_between_commit_and_delete_folds_nothing_twice(at: Setting) -> None:
    event = at.append()
    at.hooks.before("delete", paths.INBOX, _die)
    with pytest.raises(KeyboardInterrupt):
        at.w.committer.commit()
    assert inbox_names(at.memory)
    check_at_rest(at.fresh(), [event])


def _die() -> None:
    raise KeyboardInterrupt


# Unknown outcomes


@pytest.mark.parametrize("times", [1, 2, 4])
def test_lost_response_of_the_root_put_counts_once(at: Setting, times: int) -> None:
    event = at.append()
    at.hooks.lose("put", paths.root(1))
    at.hooks.fail("get", paths.root(1), times=times)
    outcome = committed(at.w)
    assert outcome.head.generation == 1
    check_at_rest(at.fresh(), [event])


def test_root_put_without_effect_is_put_again_with_the_same_bytes(at: Setting) -> None:
    event = at.append()
    at.hooks.fail("put", paths.root(1), times=3)
    assert committed(at.w).head.generation == 1
    assert at.hooks.count("put", paths.SEGMENTS) == 1
    check_at_rest(at.fresh(), [event])


def test_unknown_outcome_that_stays_unknown_is_unavailable_and_counted_once(at: Setting) -> None:
    event = at.append()

    def lost_and_then_dark() -> None:
        at.hooks.fail("put", paths.root(1), times=4)
        at.hooks.fail("get", paths.root(1), times=5)
        raise Unavailable("injected")

    at.hooks.after("put", paths.root(1), lost_and_then_dark)
    with pytest.raises(Unavailable, match="may or may not exist"):
        at.w.committer.commit()
    assert isinstance(at.w.committer.commit(), NothingToCommit)
    check_at_rest(at.fresh(), [event])


def test_root_that_somebody_else_created_meanwhile_is_theirs(at: Setting) -> None:
    first = at.append()
    at.hooks.before("put", paths.root(1), lambda: committed(at.other))
    assert isinstance(at.w.committer.commit(), NothingToCommit)
    check_at_rest(at.fresh(), [first])


def test_lost_race_with_an_unknown_answer_is_found_to_be_lost(at: Setting) -> None:
    first = at.append()
    at.hooks.before("put", paths.root(1), lambda: committed(at.other))
    at.hooks.fail("get", paths.root(1))
    second = at.append()
    at.w.committer.commit()
    check_at_rest(at.fresh(), [first, second])


def test_loser_of_a_race_commits_what_the_winner_did_not_see(at: Setting) -> None:
    first = at.append()
    late: list[str] = []

    def meanwhile() -> None:
        committed(at.other)
        late.append(at.append())

    at.hooks.before("put", paths.root(1), meanwhile)
    assert committed(at.w).head.generation == 2
    assert at.logged() == [first, *late]
    check_at_rest(at.fresh(), [first, *late])


def test_merge_in_between_does_not_cost_the_files_that_were_written(at: Setting) -> None:
    at.append()
    committed(at.other)
    event = at.append()
    at.hooks.before("put", paths.root(2), lambda: at.other.upkeep.merger.merge(everything=True))
    at.hooks.calls.clear()
    assert committed(at.w).head.generation == 3
    assert at.hooks.count("put", paths.SEGMENTS) == 1
    assert event in at.logged()
    check_chain(at.fresh())


def test_rollback_in_between_makes_the_fold_run_again(at: Setting) -> None:
    w = at.w
    w.commands.catalog.create_namespace("keep")
    w.commands.catalog.create_namespace("gone")
    w.ledger.append([NamespaceDropped(namespace="gone")])
    at.hooks.before("put", paths.root(3), lambda: at.other.upkeep.rollback(1, reason="test"))
    committed(w)
    outcomes = {row["type"]: row["code"] for _, row in state_of(w)["log.outcomes"].values()}
    assert outcomes["catalog.namespace_dropped"] == "namespace_not_found"
    assert w.upkeep.rebuild(publish=False).same


def test_rebuild_in_between_makes_the_fold_run_again(at: Setting) -> None:
    """The first fold saw a state that a rebuild has mended since: its refusal is void."""
    w = at.w
    w.commands.catalog.create_namespace("sales")
    asset = w.commands.catalog.create_asset("sales.orders", columns=[Column(name="c", type="int")])
    sabotage(w)
    w = make_workspace(at.hooks, 3, clock=at.clock)  # which has seen nothing better
    event = w.ledger.append([AssetUpdated(asset_id=asset.event_id, description="new")])
    at.hooks.before("put", paths.root(4), lambda: at.other.upkeep.rebuild())
    committed(w)
    outcomes = state_of(w)["log.outcomes"]
    assert outcomes[(event.event_ids[0],)][1]["status"] == "applied"
    assert w.upkeep.rebuild(publish=False).same


def test_too_many_lost_races_are_contended(at: Setting) -> None:
    def race() -> None:
        committed(at.other)
        at.append()

    at.append()
    at.w.writer.publisher.attempts = 3
    for n in range(1, 9):
        at.hooks.before("put", paths.root(n), race)
    with pytest.raises(Contended, match="other writers created the next generation 3 times"):
        at.w.committer.commit()


# A writer that slept


def sleep_and_collect(at: Setting, commits: int = 15) -> None:
    """The machine is suspended; others commit, and GC removes what is old."""
    for _ in range(commits):
        at.clock.suspend(timedelta(hours=12))
        at.append()
        committed(at.other)
    at.clock.suspend(DAY)
    at.append()
    committed(at.other)
    report = at.other.upkeep.gc(
        keeping(generations=DAY, at_least=1),
        dry_run=False,
    )
    assert report.floor > 3 and not report.failed


def test_attempt_that_took_too_long_gives_up_before_it_creates_a_number(at: Setting) -> None:
    at.append()
    at.hooks.before("put", paths.SEGMENTS, lambda: at.clock.suspend(timedelta(hours=3)))
    with pytest.raises(Fenced, match="tenth of the age gate"):
        at.w.committer.commit()
    assert at.hooks.count("put", paths.root(1)) == 0
    assert committed(at.w).head.generation == 1


def test_attempt_just_below_the_limit_goes_through(at: Setting) -> None:
    at.append()
    at.hooks.before("put", paths.SEGMENTS, lambda: at.clock.suspend(timedelta(hours=2)))
    assert committed(at.w).head.generation == 1


@pytest.mark.parametrize("hint", ["as it is", "lost", "gone back", "corrupt"])
def test_number_that_gc_removed_is_not_created_again_by_a_sleeper(at: Setting, hint: str) -> None:
    first = at.append()
    committed(at.other)
    old_hint = at.memory.get(paths.HINT).data
    at.append()

    def asleep() -> None:
        sleep_and_collect(at)
        if hint == "lost":
            at.memory.delete(paths.HINT)
        elif hint == "gone back":
            at.memory.delete(paths.HINT)
            at.memory.put(paths.HINT, old_hint)
        elif hint == "corrupt":
            at.memory.delete(paths.HINT)
            at.memory.put(paths.HINT, b"?")

    at.hooks.before("put", paths.root(2), asleep)
    head = 17
    with pytest.raises(Fenced, match="void"):
        at.w.committer.commit()
    assert at.fresh().manifests.find(2) is None
    assert at.fresh().manifests.head().generation == head
    logged = at.logged()
    assert first in logged and len(set(logged)) == len(logged) == 18
    at.w.committer.commit()
    assert at.logged() == logged
    check_chain(at.fresh())
    assert at.fresh().upkeep.fsck().clean


def test_sleeper_s_void_commit_deletes_no_batch_and_moves_no_hint(at: Setting) -> None:
    at.append()
    committed(at.other)
    waiting: list[str] = []
    at.append()

    def asleep() -> None:
        sleep_and_collect(at)
        waiting.append(at.append())

    at.hooks.before("put", paths.root(2), asleep)
    with pytest.raises(Fenced, match="void"):
        at.w.committer.commit()
    assert len(inbox_names(at.memory)) == 1
    assert decode(at.memory.get(paths.HINT).data, Hint, paths.HINT).generation == 17
    committed(at.w)
    assert at.logged()[-1:] == waiting


def test_late_commit_that_became_history_s_own_stays(at: Setting) -> None:
    """It slept right after its put: others have built on it, so it is not void."""
    first = at.append()
    second: list[str] = []

    def asleep() -> None:
        at.clock.suspend(timedelta(hours=5))
        second.append(at.append())
        committed(at.other)

    at.hooks.after("put", paths.root(1), asleep)
    assert committed(at.w).head.generation == 1
    check_at_rest(at.fresh(), [first, *second])


def test_late_commit_that_nobody_overtook_stays(at: Setting) -> None:
    first = at.append()
    at.hooks.after("put", paths.root(1), lambda: at.clock.suspend(timedelta(hours=5)))
    assert committed(at.w).head.generation == 1
    check_at_rest(at.fresh(), [first])


# Waiting for one batch


def test_commit_batch_answers_with_the_generation_that_took_it(at: Setting) -> None:
    receipt = at.w.ledger.append([FACT])
    committed(at.other)
    at.append()
    committed(at.other)
    assert at.w.committer.commit_batch(receipt.batch, 0).generation == 1
    fresh = at.w.ledger.append([FACT])
    assert at.w.committer.commit_batch(fresh.batch, 2).generation == 3


def test_commit_batch_of_what_no_listing_shows_yet_can_be_tried_again(at: Setting) -> None:
    with pytest.raises(Unavailable, match="nowhere"):
        at.w.committer.commit_batch("nowhere", 0)


def test_commit_batch_finds_a_batch_that_another_took_under_its_nose(at: Setting) -> None:
    receipt = at.w.ledger.append([FACT])
    at.hooks.before("list", paths.INBOX, lambda: committed(at.other))
    assert at.w.committer.commit_batch(receipt.batch, 0).generation == 1


def test_commit_batch_goes_on_until_its_batch_is_in_even_past_a_flood() -> None:
    w = make_workspace(limits=CommitLimits(batches=3))
    receipts = [w.ledger.append([FACT]) for _ in range(10)]
    head = w.committer.commit_batch(receipts[-1].batch, 0)
    assert receipts[-1].batch in head.manifest.consumed


# The hint, and the crowd


def test_lost_hint_write_does_not_fail_a_commit(at: Setting) -> None:
    event = at.append()
    at.hooks.fail("put", paths.HINT)
    assert committed(at.w).head.generation == 1
    check_at_rest(at.fresh(), [event])


def test_crowd_of_committers_in_threads_shares_one_log() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    crew = [make_workspace(store, seed, clock=clock) for seed in range(6)]
    acknowledged: list[str] = []
    errors: list[Error] = []
    lock = threading.Lock()

    def work(w: Workspace, number: int) -> None:
        for n in range(8):
            try:
                made = w.ledger.append([NamespaceCreated(namespace=f"n{number}_{n}")])
                with lock:
                    acknowledged.extend(made.event_ids)
                w.committer.commit()
            except Error as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(w, n)) for n, w in enumerate(crew)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not [e for e in errors if not isinstance(e, Contended)]
    assert len(acknowledged) == 48
    check_at_rest(make_workspace(store, 99, clock=clock), acknowledged)
