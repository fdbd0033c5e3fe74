"""Which notifications there are, of what happened: rules, alerts, grouping, order, retries."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from arco.automation.backfill_commands import BackfillDraft
from arco.automation.freshness_events import FreshnessChanged
from arco.automation.freshness_tables import FreshnessStatus
from arco.automation.sensor_events import EvaluationError, SensorEvaluated, cursor_digest
from arco.catalog.events import AssetDeclared
from arco.errors import Refused
from arco.execution.events import (
    AttemptRecorded,
    CostIncurred,
    OutputHeld,
    OutputMissed,
    QuarantineDecided,
)
from arco.execution.states import HoldStatus
from arco.log.envelope import Payload
from arco.notifications.alerts import MAX_ATTEMPTS, retry_delay
from arco.notifications.costs import ASSET_COSTS_STAGE
from arco.notifications.message import message_of
from arco.notifications.tables import (
    ALERTS,
    ASSET_COSTS,
    FAILING_PARTITIONS,
    NOTIFICATION_QUEUES,
    NOTIFICATIONS,
    AssetCostRow,
    NotificationState,
    decode_items,
    encode_items,
)
from arco.orchestration.declarations import (
    DeployedNotification,
    DeployedSensor,
    NotificationDeclared,
    ScheduleRemoved,
    SensorDeclared,
    SensorRemoved,
)
from arco.orchestration.derived import RunEnded, RunRequestDropped
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunState, RunTrigger
from arco.orchestration.tables import RUN_REQUESTS, RUNS
from arco.state.fold import Fact, NoRows, Rows, fold_stage
from servo.contract.sensing import SensorAnswer, SensorRun
from servo.contract.task import Cost, Materialization, Usage
from tests.kit.flows import deploy, trigger
from tests.kit.notifications import BROKEN, Watch, folded, project
from tests.kit.sensors import POLL, SensorTown, evaluated_from

FAILURES = "on=['asset_failed', 'recovered'], to='ops'"


def watch(*rules: str, assets: str = "") -> Watch:
    made = Watch(project(*rules, assets=assets))
    made.orchestrator()
    made.worker()
    return made


def events(w: Watch, receiver: str = "ops") -> list[tuple[tuple[str, str, int], ...]]:
    return [letter.events for letter in w.postbox.to(receiver)]


def test_a_failure_is_told_once_and_then_its_recovery() -> None:
    w = watch(FAILURES)
    for _ in range(3):
        w.run("shop.orders", failing=True)
        w.settle()
    assert events(w) == [(("asset_failed", "shop.orders", 1),)]
    (alert,) = w.fresh().read.notifications().alerts()
    assert (alert.asset, alert.occurrences, alert.events) == ("shop.orders", 3, ["asset_failed"])
    w.run("shop.orders")
    w.run("shop.orders")
    w.settle()
    assert events(w)[1:] == [(("recovered", "shop.orders", 1),)]
    assert w.fresh().read.notifications().alerts() == []
    w.run("shop.orders", failing=True)
    w.settle()
    assert events(w)[2:] == [(("asset_failed", "shop.orders", 1),)]


def test_many_failed_partitions_of_one_run_are_one_message() -> None:
    w = watch(FAILURES)
    w.run("shop.parts", failing=True)
    w.settle()
    assert events(w) == [(("asset_failed", "shop.parts", 30),)]
    assert w.postbox.delivered[0].title == "[w] shop.parts failed (30 partitions)"


def test_an_asset_has_recovered_when_none_of_its_partitions_is_bad() -> None:
    w = watch(FAILURES)
    w.run("shop.parts", failing=True)
    w.settle()
    bad = [f"n=s:{n}" for n in range(3)]
    w.failing = lambda request: request.partition in bad
    w.run_id = trigger(w.fresh(), "shop.parts")
    w.finish()
    w.settle()
    assert len(events(w)) == 1
    w.run("shop.parts")
    w.settle()
    assert events(w)[1:] == [(("recovered", "shop.parts", 1),)]


def shaped(partitions: str, *, rules: str = FAILURES) -> str:
    more = f", partitions=static('r', {partitions})" if partitions else ""
    lines = f"from servo import Retry\n@asset(namespace='shop', retry=Retry(max_attempts=1){more})"
    return project(rules, assets=f"{lines}\ndef shape() -> None: ...")


@pytest.mark.parametrize("shapes", [("", "['a', 'b']"), ("['a', 'b']", "['b']")])
def test_an_asset_recovers_although_partitions_that_failed_are_gone(
    shapes: tuple[str, str],
) -> None:
    before, after = shapes
    w = Watch(shaped(before))
    w.orchestrator()
    w.worker()
    w.run("shop.shape", failing=True)
    w.settle()
    deploy(w.fresh(), shaped(after))
    w.settle()
    assert len(events(w)) == 1, "nothing of it is good yet"
    w.run("shop.shape")
    w.settle()
    assert events(w)[1:] == [(("recovered", "shop.shape", 1),)]
    assert w.fresh().read.notifications().alerts() == []
    w.run("shop.shape", failing=True)
    w.settle()
    w.run("shop.shape", failing=True)
    w.settle()
    assert [told[0][0] for told in events(w)[2:]] == ["asset_failed"]
    w.run("shop.shape")
    w.settle()
    assert [told[0][0] for told in events(w)[3:]] == ["recovered"]


def test_an_asset_that_is_changed_while_it_fails_recovers_when_what_failed_after_it_is_good() -> (
    None
):
    w = Watch(shaped("['a', 'b', 'c']"))
    w.orchestrator()
    w.worker()
    w.run("shop.shape", failing=True)
    w.settle()
    deploy(w.fresh(), shaped("['b', 'c']"))
    w.run("shop.shape", failing=True)
    w.settle()
    w.failing = lambda request: request.partition == "r=s:c"
    w.run_id = trigger(w.fresh(), "shop.shape")
    w.finish()
    w.settle()
    assert len(events(w)) == 1
    w.run("shop.shape")
    w.settle()
    assert events(w)[1:] == [(("recovered", "shop.shape", 1),)]


def test_the_alert_of_an_asset_that_leaves_is_closed() -> None:
    w = Watch(shaped(""))
    w.orchestrator()
    w.worker()
    w.run("shop.shape", failing=True)
    w.settle()
    deploy(w.fresh(), project(FAILURES))
    w.settle()
    assert w.fresh().read.notifications().alerts() == []
    deploy(w.fresh(), shaped(""))
    w.run("shop.shape", failing=True)
    w.settle()
    assert [told[0][0] for told in events(w)] == ["asset_failed", "recovered", "asset_failed"]


def test_alerts_end_when_the_dynamic_keys_of_what_failed_are_removed() -> None:
    lines = (
        "@asset(namespace='shop', retry=Retry(max_attempts=1), partitions=dynamic('c', keys='k'))"
    )
    text = f"from servo import Retry, dynamic\n{lines}\ndef visits() -> None: ..."
    w = Watch(project(FAILURES, assets=text))
    w.orchestrator()
    w.worker()

    def change(**keys: list[str]) -> None:
        w.fresh().commands.orchestration.change_partition_keys("k", **keys)
        w.settle()

    def told() -> list[str]:
        return [item[0] for letter in events(w) for item in letter]

    change(add=["a", "b", "c"])
    w.run("shop.visits", failing=True)
    change(remove=["a"])
    assert told() == ["asset_failed"], "two of it still fail"
    change(remove=["b", "c"])
    assert told() == ["asset_failed", "recovered"]
    assert w.fresh().read.notifications().alerts() == []
    change(add=["b", "c"])
    w.run("shop.visits", failing=True)
    w.settle()
    assert told()[2:] == ["asset_failed"], "what comes back and fails is told again"
    w.run("shop.visits")
    w.settle()
    assert told()[3:] == ["recovered"]
    assert w.fresh().read.snapshot().all(FAILING_PARTITIONS) == []


def test_rules_hear_of_what_they_select_and_owners_of_their_own_assets() -> None:
    w = watch(
        "'named', on='asset_failed', to='a', select=['orders']",
        "'space', on='asset_failed', to='b', select='shop.*'",
        "'tagged', on='asset_failed', to='c', select=['tag:tier=gold']",
        "'other', on='quarantined', to='d'",
        "'own', on='asset_failed', to='owners'",
    )
    w.run("*", failing=True)
    w.settle()
    heard = {
        letter.receiver: sorted(name for _, name, _ in letter.events)
        for letter in w.postbox.delivered
    }
    assert heard == {
        "a": ["shop.orders"],
        "b": ["shop.orders", "shop.parts"],
        "c": ["shop.orders"],
        "owners:ana@example.org": ["shop.orders"],
        "owners:bob@example.org": ["shop.parts"],
    }


def test_owners_and_tags_of_a_namespace_are_those_of_assets_without() -> None:
    assets = """
from servo import namespace
namespace('ads', owners=['ads@example.org'], tags={'tier': 'lead'})
@asset(namespace='ads')
def reach() -> None: ...
"""
    w = watch(
        "'own', on='asset_failed', to='owners'",
        "'tagged', on='asset_failed', to='c', select=['tag:tier=lead']",
        assets=assets,
    )
    w.run("*", failing=True)
    w.settle()
    heard = {each.receiver: [name for _, name, _ in each.events] for each in w.postbox.delivered}
    assert heard["owners:ads@example.org"] == heard["c"] == ["ads.reach"]


def test_a_failed_run_is_told_with_its_tasks_each_time_somebody_starts_one() -> None:
    w = watch("on=['run_failed', 'recovered'], to='ops'")
    for _ in range(2):
        w.run("shop.parts", failing=True)
        w.settle()
    w.run("shop.parts")
    w.settle()
    assert [[(e[0], e[2]) for e in told] for told in events(w)] == [[("run_failed", 30)]] * 2
    assert w.fresh().read.notifications().alerts() == []


def test_what_happens_within_the_interval_is_one_message() -> None:
    w = watch("on=['asset_failed', 'recovered'], to='ops', interval='1h'")
    w.run("shop.orders", failing=True)
    w.settle()
    w.run("shop.parts", failing=True)
    w.run("shop.parts")
    w.run("shop.orders")
    w.run("shop.orders", failing=True)
    (row,) = w.waiting()
    assert row.due_at - w.rows()[0].due_at <= timedelta(hours=1)
    w.pass_time(3600)
    w.settle()
    assert events(w)[1:] == [
        (
            ("asset_failed", "shop.parts", 30),
            ("recovered", "shop.parts", 1),
            ("recovered", "shop.orders", 1),
            ("asset_failed", "shop.orders", 1),
        )
    ]


def test_a_rule_that_leaves_and_comes_back_tells_again() -> None:
    w = watch(FAILURES)
    w.run("shop.orders", failing=True)
    w.settle()
    deploy(w.fresh(), project())
    assert w.fresh().read.notifications().rules() == []
    w.run("shop.orders", failing=True)
    w.settle()
    assert len(events(w)) == 1
    deploy(w.fresh(), project(FAILURES))
    w.run("shop.orders", failing=True)
    w.settle()
    assert len(events(w)) == 2


def held(id: str) -> OutputHeld:
    output = Materialization(
        materialization_id=id,
        asset="shop.orders",
        asset_id="A1",
        partition="",
        run_id="R1",
        task_id="t1",
        attempt_id="a1",
        path="p",
        fingerprint="f",
    )
    return OutputHeld(materialization=output, status=HoldStatus.QUARANTINED, reason="bad: 4711")


@pytest.mark.parametrize("approved", [True, False])
def test_an_output_that_is_held_back_is_told_and_recovers_when_it_is_approved(
    approved: bool,
) -> None:
    rule = DeployedNotification(name="held", on=("quarantined", "recovered"), to=("ops",))
    story = [
        NotificationDeclared(project="shop", deployment_id="D", declaration=rule),
        AssetDeclared(asset_id="A1", namespace="shop", name="orders", project="shop"),
        held("M1"),
        QuarantineDecided(asset_id="A1", materialization_id="M1", approved=approved),
    ]
    rows = folded(story)
    ((_, message),) = rows.changes[NOTIFICATIONS].values()
    assert message is not None
    told = [item.event for item in decode_items(message.items)]
    assert told == (["quarantined", "recovered"] if approved else ["quarantined"])
    assert "4711" not in message.items
    ((_, alert),) = rows.changes[ALERTS].values()
    assert (alert is None) == approved


def freshness(status: FreshnessStatus, series: str) -> FreshnessChanged:
    return FreshnessChanged(
        asset_id="A1",
        asset="shop.orders",
        series=series,
        partition="",
        status=status,
        cause="no_recent_run" if status == FreshnessStatus.STALE else "",
        reason="made 4711 s ago",
        due_at=None,
    )


def test_a_stale_asset_is_told_and_recovers_when_all_of_it_is_fresh() -> None:
    rule = DeployedNotification(name="old", on=("stale", "recovered"), to=("ops",))
    declared = [
        NotificationDeclared(project="shop", deployment_id="D", declaration=rule),
        AssetDeclared(asset_id="A1", namespace="shop", name="orders", project="shop"),
    ]
    stale, fresh = FreshnessStatus.STALE, FreshnessStatus.FRESH
    changes = [(stale, "a"), (stale, "b"), (fresh, "a"), (fresh, "b")]
    told = []
    for count in range(1, 5):
        rows = folded([*declared, *(freshness(*change) for change in changes[:count])])
        ((_, message),) = rows.changes[NOTIFICATIONS].values()
        assert message is not None and "4711" not in message.items
        assert "servo freshness shop.orders" in message_of(message, "w").text
        told.append([(item.event, item.count) for item in decode_items(message.items)])
    assert told == [
        [("stale", 1)],
        [("stale", 2)],
        [("stale", 2)],
        [("stale", 2), ("recovered", 1)],
    ]
    assert message is not None
    assert message_of(message, "w").title == "[w] shop.orders is stale (2 series)"


def cost(run: str, attempt: int, amount: str, asset: str = "A1") -> CostIncurred:
    return CostIncurred(
        asset_id=asset,
        asset="shop.orders",
        partition="",
        run_id=run,
        task_id="t",
        attempt=attempt,
        attempt_id=f"{run}-{asset}-{attempt}",
        outcome="failed",
        usage=Usage(),
        cost=Cost(currency="EUR", cpu=int(Decimal(amount) * 10**9)),
    )


def test_costs_are_told_once_when_they_go_above_the_amount_of_a_rule() -> None:
    def rule(name: str, **amounts: Any) -> NotificationDeclared:
        spec = DeployedNotification(name=name, on=("cost",), to=(name,), **amounts)
        return NotificationDeclared(project="shop", deployment_id="D", declaration=spec)

    def asset(id: str, name: str) -> AssetDeclared:
        return AssetDeclared(asset_id=id, namespace="shop", name=name, project="shop")

    declared = [
        rule("runs", run_cost=10 * 10**9),
        rule("days", day_cost=5_500_000_000),
        asset("A1", "orders"),
        asset("A2", "parts"),
    ]

    def told(*costs: CostIncurred) -> dict[str, list[tuple[str, str, str]]]:
        rows = folded([*declared, *costs])
        assert rows.changes.get(ALERTS, {}) == {}, "costs do not recover: nothing stays open"
        messages = [row for _, row in rows.changes.get(NOTIFICATIONS, {}).values()]
        return {
            row.receiver: [(i.event, i.asset or i.subject, i.code) for i in decode_items(row.items)]
            for row in messages
            if row is not None
        }

    assert told(cost("R1", 1, "5.5")) == {}, "it is not more than the amount"
    more = "more than 5.5 EUR on 2026-01-05"
    orders = [("cost", "shop.orders", more)]
    assert told(cost("R1", 1, "5.5"), cost("R1", 1, "5.5")) == {}, "an attempt counts once"
    assert told(cost("R1", 1, "5.5"), cost("R2", 1, "0.01"), cost("R3", 1, "9")) == {"days": orders}
    assert told(cost("R1", 1, "4"), cost("R1", 1, "5", "A2"), cost("R1", 2, "2")) == {
        "days": orders,
        "runs": [("cost", "run:R1", "more than 10 EUR")],
    }


def test_costs_of_another_day_or_currency_are_counted_anew() -> None:
    def sums(*costs: tuple[datetime, int, str]) -> list[AssetCostRow]:
        rows = Rows(NoRows())
        for n, (at, amount, currency) in enumerate(costs):
            recorded = AttemptRecorded(
                asset_id="A1", attempt=n, wall_ms=1, run_id="R", cost=amount, currency=currency
            )
            facts = [Fact(n + 1, at, f"E{n}", "", "", recorded)]
            list(fold_stage(ASSET_COSTS_STAGE, rows, facts, []))
        return [row for _, row in rows.changes.get(ASSET_COSTS, {}).values() if row is not None]

    noon = datetime(2026, 1, 5, 12)
    assert sums((noon, 0, "USD")) == [], "without prices there is nothing to count"
    assert sums((noon, 3, "USD"), (noon, 4, "USD")) == [AssetCostRow("A1", "2026-01-05", "USD", 7)]
    later = noon + timedelta(hours=12)
    assert sums((noon, 3, "USD"), (later, 4, "USD")) == [AssetCostRow("A1", "2026-01-06", "USD", 4)]
    assert sums((noon, 3, "USD"), (noon, 4, "EUR")) == [AssetCostRow("A1", "2026-01-05", "EUR", 4)]


def test_a_sensor_that_fails_is_told_once_to_the_rules_of_its_project() -> None:
    rule = DeployedNotification(name="own", on=("automation_failed", "recovered"), to=("ops",))
    declared = [
        NotificationDeclared(project=project, deployment_id="D", declaration=rule)
        for project in ("shop", "other")
    ]
    landing = DeployedSensor(name="landing", selection=("raw.orders",), module="m", variable="v")
    sensor = SensorDeclared(project="shop", deployment_id="D", declaration=landing)
    error = EvaluationError(code="user_code.OSError", message="the disk is full")
    evaluations = [
        SensorEvaluated(
            sensor_id="shop/landing",
            number=number,
            started_from=cursor_digest(""),
            **({"error": error} if number < 2 else {"answer": SensorAnswer(skip_reason="none")}),
        )
        for number in range(3)
    ]
    rows = folded([*declared, sensor, *evaluations])
    ((_, message),) = rows.changes[NOTIFICATIONS].values()
    assert message is not None and message.rule_id == "shop/own"
    items = [(item.event, item.subject) for item in decode_items(message.items)]
    assert items == [
        ("automation_failed", "sense:sensor:shop/landing"),
        ("recovered", "sense:sensor:shop/landing"),
    ]
    assert "servo sensors show shop/landing" in message_of(message, "w").text


def test_a_sensor_that_fails_has_not_recovered_when_what_it_asked_for_before_is_planned() -> None:
    town = SensorTown(f"{POLL}\nnotify(on=['automation_failed', 'recovered'], to='ops')\n")
    answer = SensorAnswer(cursor="1", runs=(SensorRun("a"),))
    town.commit(evaluated_from(town.sensor(), answer))
    error = EvaluationError(code="user_code.OSError", message="the disk is full")
    town.commit(evaluated_from(town.sensor(), error=error))
    town.error = OSError("the disk is full")
    town.crowd.orchestrator()
    town.crowd.until(lambda: not town.pending())
    (alert,) = town.fresh().read.notifications().alerts()
    assert alert.subject == "sense:sensor:main/poll"


def ended(trigger: RunTrigger, reference: str, state: RunState, run_id: str) -> RunEnded:
    return RunEnded(
        run_id=run_id,
        run_key="",
        trigger=trigger,
        reference=reference,
        state=state,
        tasks_succeeded=0,
        tasks_reused=0,
        tasks_failed=1,
        tasks_skipped=0,
        tasks_cancelled=0,
    )


def told_of(*payloads: Payload) -> tuple[list[tuple[str, str]], list[str]]:
    """What is told of runs and requests, and which alerts are open after it."""
    rule = DeployedNotification(
        name="all", on=("run_failed", "automation_failed", "recovered"), to=("ops",)
    )
    declared = NotificationDeclared(project="shop", deployment_id="D", declaration=rule)
    rows = folded([declared, *payloads])
    messages = [row for _, row in rows.changes.get(NOTIFICATIONS, {}).values()]
    items = [item for row in messages if row is not None for item in decode_items(row.items)]
    alerts = [row for _, row in rows.changes.get(ALERTS, {}).values()]
    return [(i.event, i.subject) for i in items], [row.subject for row in alerts if row is not None]


def test_failed_runs_of_automations_of_assets_are_told_and_leave_no_open_alert() -> None:
    told, alerts = told_of(
        ended(RunTrigger.MATERIALIZATION, "shop.raw 1 of run R1 is new", RunState.FAILED, "R2"),
        ended(RunTrigger.MATERIALIZATION, "shop.raw 2 of run R3 is new", RunState.FAILED, "R4"),
        ended(RunTrigger.MANUAL, "R4", RunState.FAILED, "R5"),
    )
    assert told == [("run_failed", "run:R2"), ("run_failed", "run:R4"), ("run_failed", "run:R5")]
    assert alerts == []


def test_alerts_of_a_schedule_or_sensor_that_is_removed_are_closed() -> None:
    gone = {"project": "shop", "deployment_id": "D"}
    refusal = RunRequestDropped(
        request_key="k", kind=RunTrigger.SCHEDULE, reference="shop/nightly@T", reason="no"
    )
    failures = [
        ended(RunTrigger.SCHEDULE, "shop/nightly@T", RunState.FAILED, "R1"),
        ended(RunTrigger.WEBHOOK, "shop/push#1", RunState.FAILED, "R2"),
        refusal,
    ]
    open_alerts = told_of(*failures)[1]
    assert open_alerts == [
        "schedule:shop/nightly",
        "webhook:shop/push",
        "start:schedule:shop/nightly",
    ]
    removed = (ScheduleRemoved(name="nightly", **gone), SensorRemoved(name="push", **gone))
    assert told_of(*failures, *removed)[1] == []


def test_a_refused_request_of_an_automation_of_assets_is_told_and_leaves_no_open_alert() -> None:
    key = "materialization:3.0"
    told, alerts = told_of(
        RunRequestDropped(
            request_key=key,
            kind=RunTrigger.MATERIALIZATION,
            reference="shop.raw 1 is new",
            reason="no",
        )
    )
    assert (told, alerts) == ([("automation_failed", f"start:{key}")], [])


@pytest.mark.parametrize("partition", ["", " region=eu", " region=eu/west", " name=a@b"])
def test_runs_for_freshness_are_told_by_asset_whatever_its_partitions(partition: str) -> None:
    failed = [
        ended(
            RunTrigger.FRESHNESS,
            f"shop.raw{partition}@2026-01-0{day}T09:00",
            RunState.FAILED,
            f"R{day}",
        )
        for day in (1, 2)
    ]
    told, alerts = told_of(*failed)
    assert (told, alerts) == ([("run_failed", "freshness:shop.raw")], ["freshness:shop.raw"])
    good = ended(
        RunTrigger.FRESHNESS, f"shop.raw{partition}@2026-01-03T09:00", RunState.SUCCEEDED, "R3"
    )
    told, alerts = told_of(*failed, good)
    assert (told[1:], alerts) == ([("recovered", "freshness:shop.raw")], [])


# -- sending ------------------------------------------------------------------------------


def test_what_is_not_taken_is_sent_again_later_and_later_and_given_up_in_the_end() -> None:
    w = watch(FAILURES)
    w.postbox.fails = lambda row: "503 Service Unavailable"
    w.run("shop.orders", failing=True)
    w.give_up()
    assert [letter.attempt for letter in w.postbox.refused] == list(range(1, MAX_ATTEMPTS + 1))
    (row,) = w.rows()
    assert (row.detail, row.claimed_by) == ("503 Service Unavailable", "")
    waits = [retry_delay(attempt) for attempt in range(1, MAX_ATTEMPTS)]
    assert waits == sorted(waits) and waits[-1] == timedelta(hours=1)
    w.postbox.fails = lambda row: ""
    w.fresh().commands.notifications.retry(row.notification_id[:8])
    w.settle()
    assert [letter.attempt for letter in w.postbox.delivered] == [MAX_ATTEMPTS + 1]
    with pytest.raises(Refused, match="only one that FAILED"):
        w.fresh().commands.notifications.retry(row.notification_id)


def test_a_receiver_that_fails_keeps_nothing_from_the_others_and_hears_all_in_order() -> None:
    w = watch("on=['asset_failed', 'recovered'], to=['down', 'up'], interval='1s'")
    w.postbox.fails = lambda row: "503" if row.receiver == "down" else ""
    for failing in (True, False, True, False):
        w.run("shop.orders", failing=failing)
        w.until(lambda: not [row for row in w.waiting() if row.receiver == "up"])
    assert [e[0][0] for e in events(w, "up")] == ["asset_failed", "recovered"] * 2
    assert events(w, "down") == []
    assert len(w.waiting()) == 2  # the one that is tried, and one that collects the rest
    w.postbox.fails = lambda row: ""
    w.settle()
    arrived = [event for told in events(w, "down") for event in told]
    assert [e[0] for e in arrived] == ["asset_failed", "recovered", "asset_failed", "recovered"]
    assert [letter.sequence for letter in w.postbox.to("down")] == [1, 2]


def test_an_orchestrator_without_a_channel_leaves_it_to_one_that_has_it() -> None:
    w = watch(FAILURES)
    w.postbox.receivers = {"another"}
    w.run("shop.orders", failing=True)
    w.pass_time(3600)
    assert not w.step()
    assert w.states() == [NotificationState.PENDING]
    w.postbox.receivers = None
    w.settle()
    assert len(events(w)) == 1


def test_two_orchestrators_send_each_notification_once() -> None:
    w = watch(FAILURES, "'all', on='run_failed', to=['ops', 'chat'], interval='1s'")
    w.orchestrator()
    for failing in (True, False, True):
        w.run("*", failing=failing)
        w.settle()
    ids = [letter.id for letter in w.postbox.delivered]
    assert len(ids) == len(set(ids)) == len(w.rows())


def test_a_claim_that_is_not_answered_ends() -> None:
    w = watch(FAILURES)
    taken: list[str] = []
    w.postbox.silent = taken
    w.run("shop.orders", failing=True)
    w.until(lambda: taken)
    w.orchestrators.clear()
    w.postbox.silent = None
    w.orchestrator()
    w.settle()
    assert [(letter.id, letter.attempt) for letter in w.postbox.delivered] == [(taken[0], 2)]


def test_claims_that_are_never_answered_are_given_up() -> None:
    w = watch(FAILURES)
    w.postbox.silent = []
    w.run("shop.orders", failing=True)
    w.give_up()
    assert len(w.postbox.silent) == MAX_ATTEMPTS
    assert w.rows()[0].detail == "no attempt was answered"


# -- schedules and backfills --------------------------------------------------------------


SCHEDULED = project(
    "on=['run_failed', 'automation_failed', 'recovered'], to='ops'",
    assets="from servo import schedule\n"
    "schedule('often', cron='*/10 * * * *', selection=['shop.orders'])",
)


def test_runs_of_a_schedule_that_fail_one_after_the_other_are_told_once() -> None:
    w = Watch(SCHEDULED)
    w.orchestrator()
    w.worker()
    w.failing = lambda request: True
    w.until(lambda: len(_runs(w)) >= 3, steps=1_000)
    w.failing = lambda request: False
    w.until(lambda: len(events(w)) == 2, steps=1_000)
    assert events(w) == [
        (("run_failed", "schedule:main/often", 1),),
        (("recovered", "schedule:main/often", 1),),
    ]


def _runs(w: Watch) -> list[object]:
    return [row for row in w.fresh().read.snapshot().all(RUNS) if row.state == "FAILED"]


def test_a_schedule_that_cannot_start_its_run_is_told_once_until_it_can() -> None:
    w = Watch(SCHEDULED)
    w.orchestrator()
    w.worker()
    partitions = SCHEDULED.replace("['shop.orders']", "['shop.orders'], partitions='n=nowhere'")
    deploy(w.fresh(), partitions)
    w.until(lambda: len(_refused(w)) >= 3, steps=1_000)
    w.until(lambda: events(w), steps=1_000)
    assert [letter[0][:2] for letter in events(w)] == [
        ("automation_failed", "start:schedule:main/often")
    ]
    assert w.postbox.delivered[0].title == "[w] schedule main/often cannot start its run"
    deploy(w.fresh(), SCHEDULED)
    w.until(lambda: len(events(w)) == 2, steps=1_000)
    assert events(w)[1][0][0] == "recovered"


def _refused(w: Watch) -> list[object]:
    return [row for row in w.fresh().read.snapshot().all(RUN_REQUESTS) if row.state == "REFUSED"]


@pytest.mark.parametrize("failing", [True, False])
def test_the_end_of_a_backfill_is_told(failing: bool) -> None:
    w = watch("on=['backfill_failed', 'backfill_finished'], to='ops'")
    w.failing = lambda request: failing
    draft = BackfillDraft(request=PlanRequest(selection=("shop.parts",), partitions=("n=1",)))
    backfill = w.fresh().commands.backfills.create(draft)
    w.until(lambda: events(w), steps=1_000)
    event = "backfill_failed" if failing else "backfill_finished"
    assert events(w) == [((event, f"backfill:{backfill.row.backfill_id}", 1),)]


def test_items_are_counted_the_same_by_whoever_folds_a_notification_of_the_same_name() -> None:
    rule = DeployedNotification(name="all", on=("asset_failed",), to=("ops",))
    declared = NotificationDeclared(project="shop", deployment_id="D", declaration=rule)
    assets = [
        AssetDeclared(asset_id=f"A{n}", namespace="shop", name=f"a{n}", project="shop")
        for n in range(3)
    ]

    def failed(*numbers: int) -> list[tuple[str, int]]:
        missed = [
            OutputMissed(asset_id=f"A{n}", partition=f"n=i:{i}", run_id="R", error=BROKEN)
            for i, n in enumerate(numbers)
        ]
        ((_, row),) = folded([declared, *assets, *missed]).changes[NOTIFICATIONS].values()
        assert row is not None
        items = decode_items(row.items)
        assert encode_items(items).decode() == row.items
        return [(item.asset, item.count) for item in items]

    for _ in range(2):
        assert failed(0, 1, 0) == [("shop.a0", 2), ("shop.a1", 1)]
        assert failed(0, 2, 2, 1) == [("shop.a0", 1), ("shop.a2", 2), ("shop.a1", 1)]


# -- size ---------------------------------------------------------------------------------


def test_rows_follow_subjects_not_failures() -> None:
    w = watch(FAILURES)
    w.run("shop.parts", failing=True)
    w.settle()
    snapshot = w.fresh().read.snapshot()
    assert len(snapshot.all(ALERTS)) == len(w.rows()) == 1
    assert len(snapshot.all(NOTIFICATION_QUEUES)) == 1


def test_nothing_to_tell_wakes_nobody() -> None:
    w = watch(FAILURES)
    w.run("shop.orders")
    (o,) = w.orchestrators
    for _ in range(30):
        o.step()
    idle = o.orchestrator.pause_s()
    w.run("shop.orders", failing=True)
    w.settle()
    for _ in range(30):
        o.step()
    assert o.orchestrator.pause_s() == idle
