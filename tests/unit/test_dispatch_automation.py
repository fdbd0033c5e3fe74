"""What an orchestrator does by itself while one part of that fails, and by which clock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from statistics import median

import pytest

from arco.automation import freshness_fold
from arco.automation.asset_watch import AssetWatch
from arco.automation.backfill_commands import BackfillDraft
from arco.automation.freshness_agenda import FreshnessAgenda
from arco.automation.freshness_events import FreshnessEvaluated
from arco.automation.freshness_tables import FRESHNESS, FRESHNESS_POLICIES, FreshnessStatus
from arco.dispatch import automation
from arco.dispatch.orchestrator import Orchestrator
from arco.errors import Invalid, Unavailable
from arco.orchestration.plan import PlanRequest
from arco.transport.queues.port import Message
from tests.kit.clocks import SkewedClock
from tests.kit.flows import OrchestratorProcess, commit_all
from tests.kit.freshness import AgingTown, policy
from tests.kit.schedules import START, Town, fired
from tests.kit.sensors import POLL, SensorTown

OFTEN = "\noften = schedule('often', cron='*/10 * * * *', selection=[alone])\n"
DAYS = """
@asset(namespace="city", partitions=daily("date", start="2026-01-01"))
def days() -> None: ...
"""
FIRST = START.replace(minute=10)
TICKS = fired("08:10", "08:20", "08:30")


def rounds(town: Town, orchestrator: Orchestrator) -> list[float]:
    """Let the loop go on for half an hour; how long it would pause after each round."""
    pauses = []
    while town.clock.now() < START + timedelta(minutes=31):
        waits_s = orchestrator.run_round(["x"])
        pauses.append(max(waits_s, orchestrator.pause_s()))
        town.clock.sleep(20)
    return pauses


def raising(error: Exception) -> Callable[..., int]:
    def act(*args: object) -> int:
        raise error

    return act


# -- a part that fails ----------------------------------------------------------------------


def test_a_series_that_cannot_be_judged_stops_no_schedule_and_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = policy("30d", request_run=True).replace(
        "from servo import", "from servo import schedule,"
    )
    town = AgingTown(text + OFTEN)
    town.settle()
    (row,) = town.fresh().read.snapshot().all(FRESHNESS_POLICIES)
    w = town.fresh()
    stale = FreshnessStatus.STALE
    with monkeypatch.context() as before:  # a row of a program that took such a fact
        before.setattr(freshness_fold, "has_series", lambda policy, series: True)
        fact = FreshnessEvaluated(
            asset_id=row.asset_id, series="garbage", number=row.number, status=stale, due_at=START
        )
        w.ledger.append([fact])
        commit_all(w)
    assert [each.series for each in w.read.snapshot().all(FRESHNESS)] == ["garbage"]
    restarted = OrchestratorProcess(town.store, town.clock, 77).orchestrator
    rounds(town, restarted)
    assert town.states() == TICKS
    assert restarted.outage.error is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (automation, "sensor_calls"),
        (AssetWatch, "has_work"),
        (FreshnessAgenda, "is_due"),
        (automation, "backfill_chunks"),
    ],
    ids=["sensors", "asset automation", "freshness", "backfills"],
)
def test_a_part_that_fails_is_logged_once_and_stops_no_other(
    owner: object, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    town = SensorTown(POLL + DAYS + OFTEN)
    days = PlanRequest(selection=("city.days",), partitions=("date=2026-01-01..2026-01-02",))
    town.fresh().commands.backfills.create(BackfillDraft(request=days))
    orchestrator = OrchestratorProcess(town.store, town.clock, 77).orchestrator
    monkeypatch.setattr(owner, name, raising(Invalid("no such thing")))
    with caplog.at_level(logging.ERROR):
        pauses = rounds(town, orchestrator)
    assert town.states() == TICKS
    assert orchestrator.outage.error is None
    assert sum("no such thing" in record.getMessage() for record in caplog.records) == 1
    assert median(pauses) > 0.01  # what is due all the time does not make it spin


def test_schedules_fire_while_the_queue_fails_and_a_sensor_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    town = SensorTown(POLL + OFTEN)
    process = OrchestratorProcess(town.store, town.clock, 77)
    queue, orchestrator = process.queue, process.orchestrator

    def put(messages: list[Message]) -> None:
        raise Unavailable("the queue is down")

    with monkeypatch.context() as down:
        down.setattr(queue, "put", put)
        rounds(town, orchestrator)
        assert orchestrator.outage.text.endswith("the queue is down")
    assert town.states() == TICKS
    assert len(town.runs()) == 3
    orchestrator.run_round(["x"])
    assert orchestrator.outage.error is None


# -- clocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("offset_s", [30, -30])
def test_an_orchestrator_whose_clock_differs_from_the_store_s_waits_for_what_is_due(
    offset_s: int,
) -> None:
    town = Town()
    clock = SkewedClock(town.clock, offset=timedelta(seconds=offset_s))
    process = OrchestratorProcess(town.store, clock, 77)
    orchestrator = process.orchestrator
    process.workspace.core.store_clock.measure()  # as by an earlier commit
    rounds = 0
    while not town.states() and rounds < 400:
        orchestrator.run_round(["x"])
        town.clock.sleep(orchestrator.pause_s())
        rounds += 1
    assert town.states() == TICKS[:1]
    assert abs(town.clock.now() - FIRST) < timedelta(seconds=5)
