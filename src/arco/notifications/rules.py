"""The fold of rules: one key for all of them. It decides which rules report an event.

Facts about an asset have its name, project, owners and tags. Rules report assets of their own
project, and schedules and sensors of their project; all other runs and backfills, which may have
assets of several projects, are reported by every rule.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import msgspec

from arco.automation.backfill_runs import backfill_of
from arco.automation.backfill_states import BackfillState
from arco.automation.backfills import BackfillOver
from arco.catalog.events import AddressedNotice
from arco.notifications.costs import RunCostAdded
from arco.notifications.events import AlertCleared, AlertRaised
from arco.notifications.tables import RULE_INDEX, RuleIndexRow, rule_id
from arco.orchestration.declarations import (
    DeployedNotification,
    NotificationDeclared,
    NotificationRemoved,
    ScheduleRemoved,
    SensorRemoved,
)
from arco.orchestration.derived import (
    AutomationFailed,
    AutomationRecovered,
    RunEnded,
    RunRequestDropped,
)
from arco.orchestration.runs import RunAdmitted
from arco.orchestration.states import SENSOR_TRIGGERS, RunState, RunTrigger
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, always
from servo.contract.manifest import NotificationEvent, selects

SCOPE: Final = "all"
TOPICS: Final[dict[str, frozenset[NotificationEvent]]] = {
    "output": frozenset({"asset_failed", "quarantined"}),
    "freshness": frozenset({"stale"}),
    "contract": frozenset({"contract_breach"}),
}
"""What may happen to an asset, by what recovers from it."""
NO_FAILURE: Final = frozenset({"merged", "withdrawn", "partitions_gone", "backfill_cancelled"})
"""Codes of requests without a run that are not failures."""
OF_PROJECTS: Final = frozenset({RunTrigger.SCHEDULE, *SENSOR_TRIGGERS})
"""What belongs to one project: its references begin with `project/name`."""


class _Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    project: str
    on: tuple[NotificationEvent, ...]
    select: tuple[str, ...] = ()
    run_cost: int = 0
    day_cost: int = 0

    def is_about(self, e: AddressedNotice) -> bool:
        if self.project != e.project:
            return False
        return not self.select or any(selects(term, e.asset, e.tags) for term in self.select)


_Rules = dict[str, _Rule]


@functools.lru_cache(maxsize=4)
def _decoded(text: str) -> _Rules:
    rules: _Rules = msgspec.json.decode(text, type=_Rules)
    return rules


def _rules(rows: Rows) -> _Rules:
    row = rows.get(RULE_INDEX, SCOPE)
    return {} if row is None else _decoded(row.rules)


def _put(rules: _Rules) -> Put:
    return Put(RULE_INDEX, RuleIndexRow(SCOPE, msgspec.json.encode(rules, order="sorted").decode()))


def _declare(rows: Rows, fact: Fact, e: NotificationDeclared) -> Iterator[Change]:
    rule = e.declaration
    key = rule_id(e.project, rule.name)
    yield _put(_rules(rows) | {key: _rule(e.project, rule)})


def _rule(project: str, rule: DeployedNotification) -> _Rule:
    return _Rule(project, rule.on, rule.select, rule.run_cost, rule.day_cost)


def _remove(rows: Rows, fact: Fact, e: NotificationRemoved) -> Iterator[Change]:
    key = rule_id(e.project, e.name)
    yield _put({other: rule for other, rule in _rules(rows).items() if other != key})


# -- what happened ------------------------------------------------------------------------


def _notice(rows: Rows, fact: Fact, e: AddressedNotice) -> Iterator[Change]:
    subject = f"{'asset' if e.topic == 'output' else e.topic}:{e.asset_id}"
    if e.about:  # an asset may read several whose contracts are broken
        subject = f"{e.topic}:{e.about}>{e.asset_id}"
    for key, rule in _rules(rows).items():
        if not rule.is_about(e):
            continue
        if e.event == "cost":
            yield from _day_cost(key, rule, e, fact)
        elif e.event == "recovered":
            if TOPICS[e.topic].intersection(rule.on):
                yield Emit(
                    AlertCleared(
                        rule_id=key,
                        subject=subject,
                        asset=e.asset,
                        owners=e.owners,
                        run_id=e.run_id,
                        consumers=e.consumers,
                    )
                )
        elif e.event in rule.on:
            raised = AlertRaised(
                rule_id=key,
                subject=subject,
                event=e.event,
                asset=e.asset,
                owners=e.owners,
                run_id=e.run_id,
                code=e.code,
                consumers=e.consumers,
            )
            yield Emit(raised)


# -- costs: an amount that is exceeded is reported once ------------------------------------


def _day_cost(key: str, rule: _Rule, e: AddressedNotice, fact: Fact) -> Iterator[Change]:
    if _is_above(rule.day_cost, e.before, e.after):
        raised = AlertRaised(
            rule_id=key,
            subject=f"cost:{e.asset_id}@{fact.received_at:%Y-%m-%d}",
            event="cost",
            asset=e.asset,
            owners=e.owners,
            run_id=e.run_id,
            code=f"more than {_money(rule.day_cost)} {e.currency} on {fact.received_at:%Y-%m-%d}",
            opens=False,
        )
        yield Emit(raised)


def _run_cost(rows: Rows, fact: Fact, e: RunCostAdded) -> Iterator[Change]:
    for key, rule in _rules(rows).items():
        if _is_above(rule.run_cost, e.before, e.after):
            raised = AlertRaised(
                rule_id=key,
                subject=f"run:{e.run_id}",
                event="cost",
                run_id=e.run_id,
                code=f"more than {_money(rule.run_cost)} {e.currency}",
                opens=False,
            )
            yield Emit(raised)


def _is_above(limit: int, before: int, after: int) -> bool:
    return bool(limit) and before <= limit < after


def _money(nanos: int) -> str:
    return f"{Decimal(nanos).scaleb(-9).normalize():f}"


# -- runs, and what starts them -----------------------------------------------------------


def _run_ended(rows: Rows, fact: Fact, e: RunEnded) -> Iterator[Change]:
    cause = cause_of(e.trigger, e.reference)
    for key in _hearing(rows, "run_failed", cause):
        if e.state in (RunState.FAILED, RunState.TIMED_OUT):
            raised = AlertRaised(
                rule_id=key,
                subject=cause or f"run:{e.run_id}",
                event="run_failed",
                run_id=e.run_id,
                count=max(1, e.tasks_failed),
                opens=bool(cause),
            )
            yield Emit(raised)
        elif cause and e.state == RunState.SUCCEEDED:
            yield Emit(AlertCleared(rule_id=key, subject=cause, run_id=e.run_id))


def _dropped(rows: Rows, fact: Fact, e: RunRequestDropped) -> Iterator[Change]:
    if e.kind == RunTrigger.BACKFILL or e.code in NO_FAILURE:
        return
    cause = cause_of(e.kind, e.reference)
    for key in _hearing(rows, "automation_failed", cause):
        raised = AlertRaised(
            rule_id=key,
            subject=_asking(cause or e.request_key),
            event="automation_failed",
            opens=bool(cause),
        )
        yield Emit(raised)


def _admitted(rows: Rows, fact: Fact, e: RunAdmitted) -> Iterator[Change]:
    cause = cause_of(e.trigger, e.reference or "")
    if cause:
        for key in _hearing(rows, "automation_failed", cause):
            yield Emit(AlertCleared(rule_id=key, subject=_asking(cause), run_id=e.run_id))


def _automation_failed(rows: Rows, fact: Fact, e: AutomationFailed) -> Iterator[Change]:
    cause = f"{e.kind}:{e.name}"
    for key in _hearing(rows, "automation_failed", cause):
        raised = AlertRaised(
            rule_id=key, subject=_sensing(cause), event="automation_failed", code=e.code
        )
        yield Emit(raised)


def _automation_recovered(rows: Rows, fact: Fact, e: AutomationRecovered) -> Iterator[Change]:
    cause = f"{e.kind}:{e.name}"
    for key in _hearing(rows, "automation_failed", cause):
        yield Emit(AlertCleared(rule_id=key, subject=_sensing(cause)))


def _schedule_removed(rows: Rows, fact: Fact, e: ScheduleRemoved) -> Iterator[Change]:
    return _source_removed(rows, f"{RunTrigger.SCHEDULE}:{e.project}/{e.name}")


def _sensor_removed(rows: Rows, fact: Fact, e: SensorRemoved) -> Iterator[Change]:
    for kind in SENSOR_TRIGGERS:
        yield from _source_removed(rows, f"{kind}:{e.project}/{e.name}")


def _source_removed(rows: Rows, cause: str) -> Iterator[Change]:
    """End the alerts of a removed schedule or sensor."""
    for key in _hearing(rows, "run_failed", cause):
        yield Emit(AlertCleared(rule_id=key, subject=cause))
    for key in _hearing(rows, "automation_failed", cause):
        yield Emit(AlertCleared(rule_id=key, subject=_asking(cause)))


def _backfill_over(rows: Rows, fact: Fact, e: BackfillOver) -> Iterator[Change]:
    failed = e.state == BackfillState.FAILED
    event: NotificationEvent = "backfill_failed" if failed else "backfill_finished"
    subject = f"{RunTrigger.BACKFILL}:{e.backfill_id}"
    for key in _hearing(rows, event, subject):
        yield Emit(AlertRaised(rule_id=key, subject=subject, event=event, opens=False))


def _hearing(rows: Rows, event: NotificationEvent, cause: str) -> Iterator[str]:
    """The rules for events that are not about one asset."""
    kind, _, name = cause.partition(":")
    project = name.partition("/")[0] if kind in OF_PROJECTS else ""
    for key, rule in _rules(rows).items():
        if event in rule.on and (not project or rule.project == project):
            yield key


def cause_of(trigger: RunTrigger, reference: str) -> str:
    """What keeps starting runs: `schedule:shop/nightly`, `freshness:shop.orders`.

    Empty for a run after which no other of the same kind follows: that of a person, and that of
    an asset's automation, which has another cause each time.
    """
    if not reference:
        return ""
    if trigger == RunTrigger.BACKFILL:
        return f"{trigger}:{backfill_of(reference)}"
    if trigger == RunTrigger.FRESHNESS:
        return f"{trigger}:{re.split('[ @]', reference)[0]}"  # before partitions, or the time
    if trigger in OF_PROJECTS:
        return f"{trigger}:{re.split('[@#]', reference)[0]}"  # before the tick, or the evaluation
    return ""


def _asking(cause: str) -> str:
    """The subject of failed starts, separate from failed runs."""
    return f"start:{cause}"


def _sensing(cause: str) -> str:
    """The subject of failed evaluations, separate from refused requests."""
    return f"sense:{cause}"


_one_key = always(SCOPE)
STAGE = Stage(
    "notification_rules",
    (RULE_INDEX,),
    (
        On(NotificationDeclared, _one_key, _declare),
        On(NotificationRemoved, _one_key, _remove),
        On(AddressedNotice, _one_key, _notice),
        On(RunCostAdded, _one_key, _run_cost),
        On(RunEnded, _one_key, _run_ended),
        On(RunRequestDropped, _one_key, _dropped),
        On(RunAdmitted, _one_key, _admitted),
        On(AutomationFailed, _one_key, _automation_failed),
        On(AutomationRecovered, _one_key, _automation_recovered),
        On(ScheduleRemoved, _one_key, _schedule_removed),
        On(SensorRemoved, _one_key, _sensor_removed),
        On(BackfillOver, _one_key, _backfill_over),
    ),
)
