"""What commits, GC and readers cost after many days, counted in objects, bytes and requests."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.state.system import COMMANDS, SEGMENTS
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace

pytestmark = pytest.mark.xdist_group("commits")  # one diary of many days for all of them
FEW_DAYS, MANY_DAYS = 10, scaled(45, 75)
COMMITS_A_DAY = 3
BACKLOG = scaled(4_000, 9_000)
LATER_COMMITS = 10
"""More than a test adds to the diary that it shares with others."""


class Diary:
    """A workspace with the same activity every day."""

    def __init__(self, days: int) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.hooks = HookStore(self.memory)
        self.w = make_workspace(self.hooks, 1, clock=self.clock)
        self.w.commands.catalog.create_namespace("sales")
        self.asset = self.w.commands.catalog.create_asset("sales.orders").event_id
        for day in range(days):
            self.day(day)

    def day(self, number: int) -> None:
        for n in range(COMMITS_A_DAY):
            self.w.commands.catalog.update_asset("sales.orders", description=f"{number}.{n}")
            self.clock.advance(timedelta(hours=8))
            while self.w.upkeep.merger.merge() is not None:
                pass
        self.w.upkeep.gc(dry_run=False)

    def fresh(self) -> tuple[Workspace, HookStore]:
        hooks = HookStore(self.memory)
        return make_workspace(hooks, 99, clock=self.clock), hooks

    def commit(self) -> tuple[int, int]:
        """Objects and bytes that a small commit writes."""
        self.w.commands.catalog.update_asset("sales.orders", description="again")
        self.w.ledger.append([AssetObserved(asset_id=self.asset, row_count=1, size_bytes=1)])
        before = {meta.path for meta in self.memory.list("")}
        self.w.committer.commit()
        written = [m for m in self.memory.list("") if m.path not in before]
        return len(written), sum(meta.size for meta in written)


@pytest.fixture(scope="module")
def old() -> Diary:
    return Diary(MANY_DAYS)


def test_cost_follows_activity_not_history(old: Diary) -> None:
    young = Diary(FEW_DAYS)
    few, many = young.commit(), old.commit()
    assert few[0] == many[0] <= 3  # a segment, a change file, a root manifest
    assert many[1] <= 1.2 * few[1]
    reads = []
    for diary in (young, old):
        process, hooks = diary.fresh()
        process.commands.catalog.update_asset("sales.orders", description="from another process")
        reads.append(len(hooks.calls))
    assert reads[1] <= reads[0] + 2
    requests = []
    for diary in (young, old):
        diary.day(1_000)
        process, hooks = diary.fresh()
        process.upkeep.gc(dry_run=False)
        requests.append(len(hooks.calls))
    assert requests[1] <= 1.5 * requests[0]
    assert old.w.upkeep.fsck().clean


def test_old_days_and_old_segments_are_joined(old: Diary) -> None:
    history = old.w.read.snapshot().manifest(COMMANDS).history
    assert len(history) < scaled(36, 45) and any(
        ref.days and ref.days[0] != ref.days[1] for ref in history
    )
    objects = [meta.path for meta in old.memory.list(paths.SEGMENTS)]
    assert len(old.w.read.snapshot().all(SEGMENTS)) < MANY_DAYS * COMMITS_A_DAY
    assert len(objects) <= MANY_DAYS * COMMITS_A_DAY + LATER_COMMITS
    assert old.w.upkeep.rebuild(publish=False).same


def test_list_of_history_has_one_file_for_each_old_year_and_month() -> None:
    diary = Diary(0)
    lengths = []
    for number in range(80):  # two years and some weeks
        diary.w.commands.catalog.update_asset("sales.orders", description=str(number))
        diary.clock.advance(timedelta(days=10))
        while diary.w.upkeep.merger.merge() is not None:
            pass
        lengths.append(len(diary.w.read.snapshot().manifest(COMMANDS).history))
    spans = [ref.days for ref in diary.w.read.snapshot().manifest(COMMANDS).history if ref.days]
    settled = (diary.clock.now() - timedelta(days=18)).date()
    years = Counter(last.year for _, last in spans if last.year < settled.year)
    months = Counter(last.month for _, last in spans if last.year == settled.year)
    assert len(years) == 2 and set(years.values()) == {1}
    assert all(count == 1 for month, count in months.items() if month < settled.month)
    assert max(lengths[40:]) <= max(lengths[:40]) + 1  # a file for the first year
    assert diary.w.upkeep.fsck().clean and diary.w.upkeep.rebuild(publish=False).same


def test_a_backlog_is_not_listed_again_and_again() -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    w = make_workspace(memory, 1, clock=clock)
    seen = 0
    listing = memory.list

    def counting(prefix: str, start_after: str | None = None) -> object:
        nonlocal seen
        for meta in listing(prefix, start_after):
            seen += prefix == paths.INBOX
            yield meta

    for n in range(BACKLOG):
        w.ledger.append([AssetObserved(asset_id=f"a{n}", row_count=1, size_bytes=1)])
    memory.list = counting  # type: ignore[method-assign, assignment]
    while w.committer.commit().head.manifest.consumed and list(listing(paths.INBOX)):
        pass
    assert w.read.snapshot().position == BACKLOG
    assert seen < 2 * BACKLOG


def test_skipped_kinds_do_not_grow_without_end() -> None:
    from arco.state.fold import FoldFailure
    from arco.state.projector import SKIPPED_KINDS, count_failures

    failures = [FoldFailure("stage", n, "type", f"error {n}") for n in range(1_000)]
    counts = count_failures(failures)
    assert len(counts) <= SKIPPED_KINDS + 1 and sum(counts.values()) == 1_000
