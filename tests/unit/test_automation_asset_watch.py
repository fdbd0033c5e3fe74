"""What an orchestrator keeps in memory for automation of assets, and what it forgets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from arco.automation import asset_reads, asset_watch
from arco.automation.asset_events import AutomationAdvanced, AutomationRequest
from arco.automation.asset_graph import AutomatedPartition
from arco.automation.backfill_commands import BackfillDraft
from arco.automation.conditions import AutomationVerdict, Conditions
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import decode_request
from tests.kit.automation import Mill, declared, project, source
from tests.kit.flows import commit_all
from tests.kit.watching import Watcher

DAYS = declared("days", "raw", partitions="day", automation="on_missing()")
TOTAL = declared("total", "raw", automation="eager()")


def test_partitions_that_wait_are_forgotten_when_their_automation_leaves() -> None:
    mill = Mill(project(source("raw"), DAYS, TOTAL), orchestrators=0)
    watcher = Watcher(mill)
    mill.until(datetime(2026, 1, 6, 1), step_s=3_600)
    assert watcher.look() == []
    assert [node.asset for node in watcher.watch.held.of("m.days")] == ["m.days"]
    mill.deploy(project(source("raw"), declared("days", "raw", partitions="day"), TOTAL))
    watcher.look()
    assert not watcher.watch.held.of("m.days")


TIMED = project(
    source("x"),
    declared("y", "x", automation="eager()"),
    declared("days", partitions="day", automation="on_missing()"),
    declared("report", "x", automation="on_cron('0 0 * * *')"),
)


def proposals(mill: Mill, watcher: Watcher) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What it proposes: assets to make, and ticks."""
    return [
        (tuple(name for request in event.requests for name in request.assets), event.ticked)
        for event in watcher.look()
    ]


def test_a_period_and_a_tick_are_not_lost_to_a_proposal_of_before() -> None:
    mill = Mill(TIMED, orchestrators=1)
    mill.run("m.x")
    watcher = Watcher(mill)
    assert watcher.look() == []
    mill.clock.sleep((datetime(2026, 1, 6, 0, 0, 5) - mill.clock.now()).total_seconds())
    both = [(("m.days", "m.report"), ("m.report",))]
    assert [(tuple(sorted(assets)), ticked) for assets, ticked in proposals(mill, watcher)] == both
    cursor = watcher.watch.cursor
    assert cursor is not None
    earlier = AutomationAdvanced(
        proposal="of another orchestrator",
        step=cursor.step,
        position=mill.fresh().read.snapshot().position,
        until=datetime(2026, 1, 5, 23, 59, 59),
        requests=(AutomationRequest(assets=("m.y",)),),
    )
    mill.w.ledger.append([earlier])
    commit_all(mill.w)
    assert [(tuple(sorted(assets)), ticked) for assets, ticked in proposals(mill, watcher)] == both


def test_a_proposal_that_counted_is_not_looked_at_again() -> None:
    mill = Mill(TIMED, orchestrators=0)
    watcher = Watcher(mill)
    mill.clock.sleep((datetime(2026, 1, 6, 0, 0, 5) - mill.clock.now()).total_seconds())
    mill.w.ledger.append(watcher.look())
    commit_all(mill.w)
    watcher.follow()
    assert not watcher.watch.has_more
    assert watcher.look() == []


def test_a_request_that_waits_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def decode(text: str) -> Any:
        decoded.append(text)
        return decode_request(text)

    monkeypatch.setattr(asset_reads, "decode_request", decode)
    keys = declared("keys", partitions="dynamic('k')", automation="on_missing()")
    mill = Mill(project(keys), orchestrators=0)
    watcher = Watcher(mill)
    watcher.look()
    for key in "abcd":
        mill.w.commands.orchestration.change_partition_keys("k", add=[key])
        (event,) = watcher.look()
        assert [request.partitions for request in event.requests] == [(f"k={key}",)]
        mill.w.ledger.append([event])
        commit_all(mill.w)
    assert len(decoded) == len(set(decoded)) == 3
    mill.w.commands.orchestration.change_partition_keys("others", add=["a"])
    assert watcher.look() == []
    assert len(decoded) == 3


def test_changes_are_forgotten_while_no_automation_is_active() -> None:
    ticking = declared("report", "raw", automation="on_cron('0 0 * * *')")
    mill = Mill(project(source("raw"), TOTAL, ticking))
    watcher = Watcher(mill)
    mill.fresh().commands.asset_automation.pause("m.total")
    mill.deploy(project(source("raw"), TOTAL, declared("report", "raw")))
    mill.run("m.raw")
    watcher.follow()
    assert watcher.watch.changed == set()
    assert Watcher(mill).watch.changed == set()
    mill.fresh().commands.asset_automation.resume("m.total", catchup="all")
    assert [assets for assets, _ in proposals(mill, watcher)] == [("m.total",)]


def test_a_resumed_asset_catches_up_what_waited_for_a_tick_before_the_pause() -> None:
    report = declared("report", "raw", automation="on_cron('0 0 * * *')")
    mill = Mill(project(source("raw"), report))
    mill.run("m.raw")
    mill.fresh().commands.asset_automation.pause("m.report")
    mill.settle()
    mill.fresh().commands.asset_automation.resume("m.report", catchup="all")
    mill.until(datetime(2026, 1, 6, 1), step_s=3_600)
    assert mill.made() == {"report": 1}


def test_a_partition_that_waits_is_stored_once_and_gives_no_more_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asset_watch, "CHECKPOINT", 5)
    mill = Mill(project(source("raw"), DAYS, TOTAL), orchestrators=0)
    watcher = Watcher(mill)
    mill.clock.sleep(86_400)
    assert watcher.look() == []  # a day waits for data
    for number in range(8):
        mill.w.commands.orchestration.change_partition_keys("k", add=[str(number)])
    (event,) = watcher.look()  # the day is stored, so that the cursor moves on without it
    assert [held.asset for held in event.held] == ["m.days"] and event.requests == ()
    mill.w.ledger.append([event])
    commit_all(mill.w)
    assert watcher.look() == []
    position = mill.fresh().read.snapshot().position
    assert not watcher.watch.has_work(mill.clock.now(), mill.clock.monotonic(), position)
    mill.w.commands.orchestration.change_partition_keys("k", add=["another"])
    assert watcher.look() == []  # the cursor is not far behind


def test_a_resumed_asset_catches_up_what_nobody_had_looked_at_before_the_pause() -> None:
    mill = Mill(project(source("raw"), TOTAL))
    mill.run("m.raw")
    watcher = Watcher(mill)
    watcher.look()
    (orchestrator,) = mill.crowd.orchestrators
    mill.run("m.raw", settle=False)
    while not mill.worker.step():
        orchestrator.step()
    mill.w.commands.orchestration.change_partition_keys("k", add=["a"])  # commits the report
    mill.fresh().commands.asset_automation.pause("m.total")
    watcher.follow()
    mill.fresh().commands.asset_automation.resume("m.total", catchup="all")
    assert [assets for assets, _ in proposals(mill, watcher)] == [("m.total",)]


def test_work_that_ends_leads_to_those_that_wait_for_work_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others wait for data: a thousand of them cost nothing when a backfill ends."""
    free = declared("free", partitions="day", automation="on_missing()")
    mill = Mill(project(source("raw"), DAYS, free), orchestrators=0)
    watcher = Watcher(mill)

    def backfill(day: str) -> str:
        request = PlanRequest(selection=("m.free",), partitions=(f"date={day}",))
        draft = BackfillDraft(request=request)
        return mill.fresh().commands.backfills.create(draft).row.backfill_id

    mill.clock.sleep(86_400)
    its = backfill("2026-01-05")
    assert watcher.look() == []  # a day of one waits for data, a day of the other for its backfill
    (day,) = watcher.watch.held.of("m.days")
    assert [node.asset for node in watcher.watch.held.for_work] == ["m.free"]
    evaluated: list[str] = []
    verdict = Conditions.verdict

    def recorded(conditions: Conditions, node: AutomatedPartition) -> AutomationVerdict:
        evaluated.append(node.asset)
        return verdict(conditions, node)

    monkeypatch.setattr(Conditions, "verdict", recorded)
    mill.fresh().commands.backfills.cancel(its)
    assert [assets for assets, _ in proposals(mill, watcher)] == [("m.free",)]
    assert evaluated == ["m.free"]
    assert not watcher.watch.held.for_work and list(watcher.watch.held.of("m.days")) == [day]
