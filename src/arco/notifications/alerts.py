"""The fold of alerts and of the outbox: one key for each rule.

An alert is open from the first failure of a subject that its rule reports until the subject has
recovered: meanwhile it is not reported again. Reports are added to the newest notification for a
receiver until it is claimed, so thousands of failures are one message. There is at most one message
for a receiver in the interval of a rule.

A notification is claimed before it is sent, with the number of the attempt: of two claims the fold
accepts one. A claim without an outcome expires after `CLAIM`, and the next attempt may begin.
Notifications for one receiver are sent in the order of their sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from arco.notifications.events import (
    AlertCleared,
    AlertRaised,
    NotificationAttempted,
    NotificationClaimed,
    NotificationRetried,
)
from arco.notifications.listed_items import with_item
from arco.notifications.tables import (
    ALERTS,
    NOTIFICATION_QUEUES,
    NOTIFICATION_RULES,
    NOTIFICATIONS,
    AlertRow,
    NotificationItem,
    NotificationQueueRow,
    NotificationRow,
    NotificationRuleRow,
    NotificationState,
    encode_items,
    rule_id,
)
from arco.orchestration.declarations import NotificationDeclared, NotificationRemoved
from arco.state.fold import Change, Delete, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from servo.contract import canonical
from servo.contract.address import is_address
from servo.contract.manifest import CONSUMERS, OWNERS

replace = msgspec.structs.replace

WAIT_S: Final = 10
"""How long a new notification waits for more items, if its rule's interval is not shorter."""
CLAIM: Final = timedelta(seconds=120)
MAX_ATTEMPTS: Final = 10
FIRST_RETRY: Final = timedelta(seconds=10)
LONGEST_RETRY: Final = timedelta(hours=1)
MAX_DETAIL_CHARS: Final = 300


# -- rules --------------------------------------------------------------------------------


def _declare(rows: Rows, fact: Fact, e: NotificationDeclared) -> Iterator[Change]:
    rule = e.declaration
    yield Put(
        NOTIFICATION_RULES,
        NotificationRuleRow(
            rule_id=rule_id(e.project, rule.name),
            project=e.project,
            name=rule.name,
            events=list(rule.on),
            selection=list(rule.select),
            channels=list(rule.to),
            interval_s=rule.interval_s,
            active=True,
            deployment_id=e.deployment_id,
            run_cost=rule.run_cost,
            day_cost=rule.day_cost,
        ),
    )


def _remove(rows: Rows, fact: Fact, e: NotificationRemoved) -> Iterator[Change]:
    """Its alerts are removed; pending notifications are still sent."""
    row = rows.get(NOTIFICATION_RULES, rule_id(e.project, e.name))
    if row is None:
        return
    yield Put(NOTIFICATION_RULES, replace(row, active=False, deployment_id=e.deployment_id))
    for alert in rows.scan(ALERTS, row.rule_id):
        yield Delete(ALERTS, (alert.rule_id, alert.subject))


# -- alerts -------------------------------------------------------------------------------


def _raise(rows: Rows, fact: Fact, e: AlertRaised) -> Iterator[Change]:
    rule, now = rows.get(NOTIFICATION_RULES, e.rule_id), fact.received_at
    if rule is None:
        return
    alert = rows.get(ALERTS, e.rule_id, e.subject) if e.opens else None
    is_open = alert is not None and e.event in alert.events
    if e.opens:
        events = [] if alert is None else alert.events
        yield Put(
            ALERTS,
            AlertRow(
                rule_id=e.rule_id,
                subject=e.subject,
                events=events if is_open else [*events, e.event],
                asset=e.asset,
                first_run_id=e.run_id if alert is None else alert.first_run_id,
                last_run_id=e.run_id,
                occurrences=e.count + (0 if alert is None else alert.occurrences),
                raised_at=now if alert is None else alert.raised_at,
                last_at=now,
            ),
        )
    item = NotificationItem(e.event, e.subject, e.asset, e.run_id, e.code, e.count)
    for receiver in _receivers(rule, e):
        yield from _add(rows, now, rule, receiver, item, repeats=is_open)


def _clear(rows: Rows, fact: Fact, e: AlertCleared) -> Iterator[Change]:
    rule = rows.get(NOTIFICATION_RULES, e.rule_id)
    if rule is None or rows.get(ALERTS, e.rule_id, e.subject) is None:
        return
    yield Delete(ALERTS, (e.rule_id, e.subject))
    item = NotificationItem("recovered", e.subject, e.asset, e.run_id)
    for receiver in _receivers(rule, e) if "recovered" in rule.events else ():
        yield from _add(rows, fact.received_at, rule, receiver, item, repeats=False)


def _receivers(rule: NotificationRuleRow, e: AlertRaised | AlertCleared) -> Iterator[str]:
    people = {OWNERS: e.owners, CONSUMERS: e.consumers}
    for channel in rule.channels:
        if channel not in people:
            yield channel
    addresses = [each for name in people if name in rule.channels for each in people[name]]
    for address in dict.fromkeys(addresses):
        if is_address(address):
            yield f"{OWNERS}:{address}"


# -- the outbox ---------------------------------------------------------------------------


def _add(
    rows: Rows,
    now: datetime,
    rule: NotificationRuleRow,
    receiver: str,
    item: NotificationItem,
    *,
    repeats: bool,
) -> Iterator[Change]:
    key = rule.rule_id
    queue = rows.get(NOTIFICATION_QUEUES, key, receiver)
    newest = None if queue is None else rows.get(NOTIFICATIONS, key, queue.newest)
    pending = newest if newest and newest.state == NotificationState.PENDING else None
    if pending is not None and pending.attempts == 0:
        yield Put(NOTIFICATIONS, with_item(pending, item, repeats=repeats))
        return
    if repeats:
        return
    sequence = 1 if queue is None else queue.sequence + 1
    due = now + timedelta(seconds=min(WAIT_S, rule.interval_s))
    if queue is not None:
        due = max(due, queue.due_at + timedelta(seconds=rule.interval_s))
    id = canonical.fingerprint({"rule": key, "receiver": receiver, "sequence": sequence})[:16]
    yield Put(NOTIFICATION_QUEUES, NotificationQueueRow(key, receiver, sequence, id, due))
    yield Put(
        NOTIFICATIONS,
        NotificationRow(
            rule_id=key,
            notification_id=id,
            receiver=receiver,
            sequence=sequence,
            state=NotificationState.PENDING,
            items=encode_items([item]).decode(),
            subjects=1,
            created_at=now,
            due_at=due,
            attempts=0,
            max_attempts=MAX_ATTEMPTS,
            claimed_by="",
            claimed_until=None,
            detail="",
            finished_at=None,
        ),
    )


def _claim(rows: Rows, fact: Fact, e: NotificationClaimed) -> Iterator[Change]:
    row = rows.get(NOTIFICATIONS, e.rule_id, e.notification_id)
    if row is None or e.attempt != row.attempts + 1 or not _is_free(row, fact.received_at):
        return
    if row.attempts >= row.max_attempts:
        detail = row.detail or "no attempt was answered"
        yield Put(NOTIFICATIONS, _over(row, NotificationState.FAILED, fact.received_at, detail))
        return
    yield Put(
        NOTIFICATIONS,
        replace(
            row,
            state=NotificationState.SENDING,
            attempts=e.attempt,
            claimed_by=e.claimed_by,
            claimed_until=fact.received_at + CLAIM,
        ),
    )


def _is_free(row: NotificationRow, now: datetime) -> bool:
    if row.state == NotificationState.SENDING:
        return row.claimed_until is not None and row.claimed_until <= now
    return row.state == NotificationState.PENDING


def _attempted(rows: Rows, fact: Fact, e: NotificationAttempted) -> Iterator[Change]:
    row = rows.get(NOTIFICATIONS, e.rule_id, e.notification_id)
    if row is None or row.state in (NotificationState.DELIVERED, NotificationState.FAILED):
        return
    now, detail = fact.received_at, e.detail[:MAX_DETAIL_CHARS]
    if e.delivered:  # also by one whose claim has ended meanwhile
        yield Put(NOTIFICATIONS, _over(row, NotificationState.DELIVERED, now, detail))
        return
    if e.attempt != row.attempts or row.state != NotificationState.SENDING:
        return
    if e.attempt >= row.max_attempts:
        yield Put(NOTIFICATIONS, _over(row, NotificationState.FAILED, now, detail))
        return
    due = now + retry_delay(e.attempt)
    row = replace(row, state=NotificationState.PENDING, due_at=due, detail=detail)
    yield Put(NOTIFICATIONS, replace(row, claimed_by="", claimed_until=None))


def _over(
    row: NotificationRow, state: NotificationState, now: datetime, detail: str
) -> NotificationRow:
    row = replace(row, state=state, finished_at=now, detail=detail)
    return replace(row, claimed_by="", claimed_until=None)


def retry_delay(attempt: int) -> timedelta:
    """How long to wait after an attempt."""
    factor = 3.0 ** min(attempt - 1, 10)
    return min(FIRST_RETRY * factor, LONGEST_RETRY)


def _retry(rows: Rows, fact: Fact, e: NotificationRetried) -> Iterator[Change]:
    row = rows.get(NOTIFICATIONS, e.rule_id, e.notification_id)
    if row is None:
        yield refused(
            fact, "notification_not_found", f"there is no notification {e.notification_id}"
        )
    elif row.state != NotificationState.FAILED:
        text = f"notification {row.notification_id} is {row.state}; only one that FAILED is retried"
        yield refused(fact, "notification_not_failed", text)
    else:
        retried = replace(
            row,
            state=NotificationState.PENDING,
            due_at=fact.received_at,
            max_attempts=row.attempts + MAX_ATTEMPTS,
            finished_at=None,
        )
        yield Put(NOTIFICATIONS, retried)
        yield applied(fact)


_by_rule = by("rule_id")
STAGE = Stage(
    "alerts",
    (NOTIFICATION_RULES, ALERTS, NOTIFICATION_QUEUES, NOTIFICATIONS),
    (
        On(NotificationDeclared, lambda _, e: rule_id(e.project, e.declaration.name), _declare),
        On(NotificationRemoved, lambda _, e: rule_id(e.project, e.name), _remove),
        On(AlertRaised, _by_rule, _raise),
        On(AlertCleared, _by_rule, _clear),
        On(NotificationClaimed, _by_rule, _claim),
        On(NotificationAttempted, _by_rule, _attempted),
        On(NotificationRetried, _by_rule, _retry),
    ),
)
