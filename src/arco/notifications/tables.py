"""The tables of notifications: rules, open alerts, and the outbox."""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from arco.state.table import LOOKED_UP_GROUP, History, Row, Table
from servo.contract.manifest import NotificationEvent

KEPT_HOT = timedelta(days=7)


class NotificationState(StrEnum):
    PENDING = "PENDING"
    """It waits for more items, for an earlier notification, or for its next attempt."""
    SENDING = "SENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    """The last attempt failed; `servo notifications retry` sends it again."""


OPEN_NOTIFICATIONS = frozenset({NotificationState.PENDING, NotificationState.SENDING})


class NotificationItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item of a notification."""

    event: NotificationEvent
    subject: str
    asset: str = ""
    run_id: str = ""
    code: str = ""
    count: int = 1
    """How many tasks or partitions it is about."""


class AssetFailuresRow(Row, frozen=True):
    """An asset with partitions whose last attempt had no good output, or with stale series."""

    asset_id: str
    failing: int
    """Partitions that failed after `since`; of an asset with a dynamic dimension each of them is
    a row too."""
    stale: int = 0
    since: int = 0
    """The position at which the partitions of the asset changed while some were bad, or it was
    removed. Earlier failures are not counted."""
    unsure: bool = False
    """Some were bad then, and none of its partitions has been good since."""


class KeyedAssetRow(Row, frozen=True):
    """An asset with a dynamic dimension: its partitions may be removed one by one."""

    asset_id: str
    keys: str


class FailingPartitionRow(Row, frozen=True):
    """One of the partitions that `failing` counts, of an asset with a dynamic dimension."""

    asset_id: str
    partition_key: str


class AssetCostRow(Row, frozen=True):
    """What the attempts of an asset have cost on the last day that it had any."""

    asset_id: str
    day: str
    currency: str
    cost: int
    """In 10⁻⁹ of the currency's unit."""


class RunCostRow(Row, frozen=True):
    """What the attempts of a run have cost so far."""

    run_id: str
    currency: str
    cost: int
    updated_at: datetime


class RuleIndexRow(Row, frozen=True):
    """All rules in one row: each event is compared with all of them."""

    scope: str
    rules: str
    """As JSON, by rule id."""


class NotificationRuleRow(Row, frozen=True):
    rule_id: str
    """`project/name`."""
    project: str
    name: str
    events: list[str]
    selection: list[str]
    channels: list[str]
    interval_s: int
    active: bool
    deployment_id: str
    """The one that last changed it, or removed it."""
    run_cost: int = 0
    """In 10⁻⁹ of the currency's unit, as the next; 0: costs of runs are not reported."""
    day_cost: int = 0


class AlertRow(Row, frozen=True):
    """Something that a rule has reported, and that has not recovered."""

    rule_id: str
    subject: str
    events: list[str]
    asset: str
    first_run_id: str
    last_run_id: str
    occurrences: int
    raised_at: datetime
    last_at: datetime


class NotificationQueueRow(Row, frozen=True):
    """What one rule has for one receiver: notifications are sent in the order of `sequence`."""

    rule_id: str
    receiver: str
    """A channel, or `owners:` and an address."""
    sequence: int
    newest: str
    due_at: datetime


class NotificationRow(Row, frozen=True):
    """A message in the outbox."""

    rule_id: str
    notification_id: str
    receiver: str
    sequence: int
    state: NotificationState
    items: str
    """As JSON; the first of them, if there are many."""
    subjects: int
    """How many there are."""
    created_at: datetime
    due_at: datetime
    attempts: int
    max_attempts: int
    """After the last failed attempt it is FAILED."""
    claimed_by: str
    claimed_until: datetime | None
    detail: str
    """The last answer of the receiver, or the error."""
    finished_at: datetime | None


ASSET_FAILURES = Table(
    "notifications",
    "asset_failures",
    AssetFailuresRow,
    key=["asset_id"],
    group_rows=LOOKED_UP_GROUP,
)
KEYED_ASSETS = Table("notifications", "keyed_assets", KeyedAssetRow, key=["asset_id", "keys"])
FAILING_PARTITIONS = Table(
    "notifications", "failing_partitions", FailingPartitionRow, key=["asset_id", "partition_key"]
)
ASSET_COSTS = Table("notifications", "asset_costs", AssetCostRow, key=["asset_id"])
RUN_COSTS = Table(
    "notifications",
    "run_costs",
    RunCostRow,
    key=["run_id"],
    history=History("updated_at", KEPT_HOT),
)
RULE_INDEX = Table("notifications", "rule_index", RuleIndexRow, key=["scope"])
NOTIFICATION_RULES = Table("notifications", "rules", NotificationRuleRow, key=["rule_id"])
ALERTS = Table("notifications", "alerts", AlertRow, key=["rule_id", "subject"])
NOTIFICATION_QUEUES = Table(
    "notifications", "queues", NotificationQueueRow, key=["rule_id", "receiver"]
)
NOTIFICATIONS = Table(
    "notifications",
    "outbox",
    NotificationRow,
    key=["rule_id", "notification_id"],
    history=History("finished_at", KEPT_HOT),
)

encode_items = msgspec.json.encode
decode_items = functools.partial(msgspec.json.decode, type=list[NotificationItem])


def rule_id(project: str, name: str) -> str:
    return f"{project}/{name}"
