"""Rows that leave: folds stop seeing them, readers never do."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import NamespaceCreated, NamespaceUpdated
from arco.errors import Refused
from arco.state.system import COMMANDS, OUTCOMES, SEGMENTS
from tests.kit.clocks import SimClock
from tests.kit.keeping import keeping
from tests.kit.model import check_against_model, state_of
from tests.kit.workspace import make_workspace

DAY = timedelta(days=1)


class Setting:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.w: Workspace = make_workspace(clock=self.clock)

    def say(self, key: str, description: str) -> None:
        """The same key again and again, with a request that is applied each time."""
        payload = NamespaceUpdated(namespace="sales", description=description)
        event = self.w.ledger.event(payload, idempotency_key=key)
        self.w.ledger.append([event])
        self.w.committer.commit()


@pytest.fixture
def at() -> Setting:
    at = Setting()
    at.w.ledger.append([NamespaceCreated(namespace="sales")])
    at.w.committer.commit()
    at.say("k", "first")
    return at


def test_key_is_admitted_once_within_a_day_and_again_after_it(at: Setting) -> None:
    at.clock.advance(DAY)
    at.say("k", "second")
    assert at.w.read.catalog().namespace("sales").description == "first"
    at.clock.advance(timedelta(microseconds=1))
    at.say("k", "third")
    assert at.w.read.catalog().namespace("sales").description == "third"
    check_against_model(at.w)
    assert at.w.upkeep.rebuild(publish=False).same


@pytest.mark.parametrize("merge", [True, False], ids=["merged", "not merged"])
def test_row_that_left_is_still_read_but_not_folded(at: Setting, merge: bool) -> None:
    at.clock.advance(3 * DAY)
    at.say("other", "later")
    if merge:
        at.w.upkeep.merger.merge(everything=True)
        assert at.w.read.snapshot().manifest(COMMANDS).history
    fresh = make_workspace(at.w.store, 9, clock=at.clock)
    assert fresh.read.snapshot().get(COMMANDS, "k") is not None
    assert {row.idempotency_key for row in fresh.read.snapshot().all(OUTCOMES)} >= {"k", "other"}
    event = fresh.ledger.event(
        NamespaceUpdated(namespace="sales", description="again"), idempotency_key="k"
    )
    fresh.ledger.append([event])
    fresh.committer.commit()
    assert fresh.read.catalog().namespace("sales").description == "again"
    check_against_model(fresh)
    assert fresh.upkeep.rebuild(publish=False).same


def test_history_is_one_file_for_each_day_however_often_it_is_merged(at: Setting) -> None:
    # Keys of one bucket: every merge rewrites its file, and some row of it has left.
    keys = (k for n in itertools.count() if COMMANDS.bucket((k := f"k{n}",)) == 7)
    days: list[object] = []
    for key in itertools.islice(keys, 10):
        at.clock.advance(timedelta(hours=10))
        at.say(key, key)
        at.w.upkeep.merger.merge(everything=True)
        days = [ref.days for ref in at.w.read.snapshot().manifest(COMMANDS).history]
        assert len(set(days)) == len(days)
    assert len(days) >= 2
    files = at.w.read.snapshot().manifest(COMMANDS).files()
    assert sum(ref.rows for ref in files) == 12
    check_against_model(at.w)


def test_key_used_again_after_it_left_reads_as_its_newest_row_everywhere(at: Setting) -> None:
    at.clock.advance(3 * DAY)
    at.w.upkeep.merger.merge(everything=True)
    at.say("x", "nudge the log's time")
    at.w.upkeep.merger.merge(everything=True)
    at.say("k", "second use")
    at.w.upkeep.merger.merge(everything=True)
    s = at.w.read.snapshot()
    assert s.manifest(COMMANDS).history and s.manifest(COMMANDS).base
    newest = s.get(COMMANDS, "k")
    assert newest is not None and newest.received_at == at.clock.now()
    with at.w.read.sql() as engine:
        sql = "SELECT received_at FROM log.commands WHERE idempotency_key = 'k'"
        assert engine.query(s, sql).table.to_pylist() == [{"received_at": at.clock.now()}]
        count = "SELECT count(*) AS n FROM log.commands"
        assert engine.query(s, count).table.to_pylist() == [{"n": len(s.all(COMMANDS))}]
    check_against_model(at.w)


def test_key_that_was_forgotten_is_a_new_key_to_tier1_even_after_gc(at: Setting) -> None:
    payload = NamespaceUpdated(namespace="sales", description="from tier 1")
    first = at.w.commands.tier1.execute(payload, idempotency_key="monthly")
    at.clock.advance(30 * DAY)
    for n in range(4):
        at.say(f"n{n}", str(n))
    at.clock.advance(30 * DAY)
    at.w.upkeep.gc(
        keeping(generations=DAY, at_least=2),
        dry_run=False,
    )
    second = at.w.commands.tier1.execute(payload, idempotency_key="monthly")
    assert not second.replayed and second.event_id != first.event_id
    assert at.w.read.catalog().namespace("sales").description == "from tier 1"
    check_against_model(at.w)


def test_log_lists_all_its_segments_though_they_leave_the_hot_table(at: Setting) -> None:
    for n in range(5):
        at.clock.advance(timedelta(hours=2))
        at.say(f"s{n}", str(n))
        at.w.upkeep.merger.merge(everything=True)
    s = at.w.read.snapshot()
    assert s.manifest(SEGMENTS).history
    assert sorted(row.first_position for row in s.all(SEGMENTS)) == list(range(1, 8))
    assert s.get(SEGMENTS, 1) is not None


def test_same_request_under_a_key_is_replayed_by_tier1_while_it_is_remembered(
    at: Setting,
) -> None:
    payload = NamespaceCreated(namespace="ops")
    first = at.w.commands.tier1.execute(payload, idempotency_key="create-ops")
    at.clock.advance(DAY)
    again = at.w.commands.tier1.execute(payload, idempotency_key="create-ops")
    assert again.replayed and again.event_id == first.event_id
    with pytest.raises(Refused):
        at.w.commands.tier1.execute(payload, idempotency_key="other")
    assert state_of(at.w)["log.outcomes"][("create-ops",)][1]["status"] == "applied"
