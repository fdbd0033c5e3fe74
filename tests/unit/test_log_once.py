"""A batch is consumed once, however often and however late it arrives."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.errors import ClockSkew
from arco.log.commit import Committed, NothingToCommit
from arco.state.system import BATCHES
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.keeping import keeping
from tests.kit.model import read_log
from tests.kit.workspace import corrupt, inbox_names, make_workspace

FACT = AssetObserved(asset_id="A", row_count=1, size_bytes=2)
DAY = timedelta(days=1)


class Setting:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.w = make_workspace(self.memory, 1, clock=self.clock)
        self.fresh_seed = 10

    def fresh(self, hooks: HookStore | None = None) -> Workspace:
        """Another process, which knows nothing but the store."""
        self.fresh_seed += 1
        return make_workspace(hooks or self.memory, self.fresh_seed, clock=self.clock)

    def consume(self) -> tuple[str, bytes]:
        """Append and commit a batch; its path and bytes, for putting it again."""
        path = paths.inbox(self.w.ledger.append([FACT]).batch)
        raw = self.memory.get(path).data
        assert isinstance(self.w.committer.commit(), Committed)
        return path, raw

    def pass_by(self, commits: int, each: timedelta) -> None:
        for _ in range(commits):
            self.w.ledger.append([FACT])
            self.w.committer.commit()
            self.w.upkeep.merger.merge(everything=True)
            self.clock.advance(each)

    def assert_nothing_twice(self) -> None:
        ids = [entry.id for entry in read_log(self.w)]
        assert len(set(ids)) == len(ids)
        assert inbox_names(self.memory) == []
        assert self.fresh().upkeep.fsck().clean


@pytest.mark.parametrize(
    ("commits", "each"),
    [
        (0, timedelta()),
        (1, timedelta(seconds=1)),
        (5, timedelta(minutes=20)),
        (5, DAY),
        (40, 10 * DAY),
    ],
    ids=["at once", "a second", "two hours", "days", "a year"],
)
@pytest.mark.parametrize("who", ["the same process", "another process"])
def test_batch_that_arrives_again_is_recognised(commits: int, each: timedelta, who: str) -> None:
    at = Setting()
    path, raw = at.consume()
    at.pass_by(commits, each)
    at.memory.put(path, raw)
    other = at.w.ledger.append([FACT])
    committer = (at.w if who == "the same process" else at.fresh()).committer
    outcome = committer.commit()
    assert isinstance(outcome, Committed)
    assert outcome.head.manifest.consumed == (other.batch,)
    at.w.committer.commit()
    at.assert_nothing_twice()


def test_batch_that_arrives_again_alone_makes_no_commit() -> None:
    at = Setting()
    path, raw = at.consume()
    at.pass_by(3, timedelta(seconds=1))
    generation = at.w.manifests.head().generation
    at.memory.put(path, raw)
    assert isinstance(at.fresh().committer.commit(), NothingToCommit)
    assert at.w.manifests.head().generation == generation
    at.assert_nothing_twice()


def test_late_batch_brings_back_nothing_that_was_rolled_back() -> None:
    at = Setting()
    at.w.commands.catalog.create_namespace("sales")
    before = at.w.manifests.head().generation
    hooks = HookStore(at.memory)
    kept: list[tuple[str, bytes]] = []

    def keep() -> None:
        (meta,) = at.memory.list(paths.INBOX)
        kept.append((meta.path, at.memory.get(meta.path).data))

    hooks.after("put", paths.INBOX, keep)
    at.fresh(hooks).commands.catalog.create_asset("sales.mistake")
    at.w.upkeep.rollback(before, reason="it was a mistake")
    at.pass_by(2, 2 * DAY)
    at.memory.put(*kept[0])
    at.fresh().committer.commit()
    assert at.w.read.catalog().assets("sales") == []
    assert at.w.upkeep.rebuild(publish=False).same
    at.assert_nothing_twice()


def test_look_up_of_a_new_batch_opens_no_old_file() -> None:
    at = Setting()
    at.pass_by(60, 2 * DAY)
    assert len(at.w.read.snapshot().manifest(BATCHES).history) > 10
    at.w.ledger.append([FACT])
    hooks = HookStore(at.memory)
    assert isinstance(at.fresh(hooks).committer.commit(), Committed)
    assert hooks.count("get", "state/log/batches/") <= 1


def test_rebuild_gc_and_backup_keep_what_was_consumed() -> None:
    at = Setting()
    path, raw = at.consume()
    at.pass_by(12, 2 * DAY)
    at.w.upkeep.gc(
        keeping(generations=DAY, at_least=2),
        dry_run=False,
    )
    at.w.upkeep.rebuild()
    copy = MemoryStore(at.clock)
    at.w.upkeep.backup(copy)
    restored = make_workspace(copy, 99, clock=at.clock)
    for w in (at.w, restored):
        w.store.put(path, raw)
        assert isinstance(w.committer.commit(), NothingToCommit)


# Clocks


def skewed(at: Setting, by: timedelta) -> Workspace:
    clock = SimClock(at.clock.now() + by)
    return make_workspace(at.memory, 77, clock=clock)


@pytest.mark.parametrize("by", [-30 * DAY, -timedelta(minutes=6), timedelta(minutes=6), 30 * DAY])
def test_process_with_a_wrong_clock_appends_and_does_not_commit(by: timedelta) -> None:
    at = Setting()
    at.consume()
    wrong = skewed(at, by)
    receipt = wrong.ledger.append([FACT])
    for publish in (wrong.committer.commit, lambda: wrong.upkeep.merger.merge(everything=True)):
        with pytest.raises(ClockSkew):
            publish()
    with pytest.raises(ClockSkew):
        wrong.upkeep.gc(dry_run=False)
    assert isinstance(at.w.committer.commit(), Committed)
    assert receipt.event_ids[0] in [entry.id for entry in read_log(at.w)]
    at.assert_nothing_twice()


def test_command_of_a_process_with_a_wrong_clock_is_left_to_the_others() -> None:
    at = Setting()
    wrong = skewed(at, DAY)
    with pytest.raises(ClockSkew, match="another process will decide it"):
        wrong.commands.catalog.create_namespace("sales")
    at.w.committer.commit()
    assert at.w.read.catalog().namespace("sales").assets == 0


def test_object_from_the_future_does_not_move_the_time_of_the_log() -> None:
    at = Setting()
    batch = at.w.ledger.append([FACT]).batch
    entry = at.memory.objects[paths.inbox(batch)]
    future = entry.meta._replace(last_modified=at.clock.now() + 30_000 * DAY)
    at.memory.objects[paths.inbox(batch)] = entry._replace(meta=future)
    at.w.core.store_clock.measure()
    outcome = at.w.committer.commit()
    assert isinstance(outcome, Committed)
    assert outcome.head.manifest.log_time <= at.clock.now()
    assert outcome.head.manifest.published_at <= at.clock.now()


def test_floor_that_arrives_late_does_not_go_back() -> None:
    at = Setting()
    at.pass_by(30, DAY)
    at.w.upkeep.gc(
        keeping(generations=DAY, at_least=2),
        dry_run=False,
    )
    at.pass_by(5, DAY)
    at.w.upkeep.gc(keeping(generations=DAY, at_least=2), dry_run=False)
    floor = at.w.manifests.floor().generation
    assert floor > 10
    corrupt(at.memory, paths.floor(1), b"late")
    assert at.fresh().manifests.floor().generation == floor
    at.pass_by(5, DAY)
    at.w.upkeep.gc(
        keeping(generations=DAY, at_least=2),
        dry_run=False,
    )
    assert at.w.manifests.floor().generation > floor
    at.assert_nothing_twice()
