"""What can happen to notifications.

| category | events | who |
|---|---|---|
| commands | NotificationRetried | people |
| facts | NotificationClaimed, NotificationAttempted | orchestrators |
| derived | AlertRaised, AlertCleared | the fold of rules |

Changes of rules are derived facts of deployments; alerts follow from runs, outputs, requests and
backfills, without events of their own.
"""

from __future__ import annotations

from typing import ClassVar

from arco.log.envelope import Payload
from servo.contract.manifest import NotificationEvent


class NotificationClaimed(Payload, frozen=True, kw_only=True):
    """An orchestrator is about to send a notification.

    It counts if `attempt` is the next number, and there is no valid claim.
    """

    TYPE: ClassVar[str] = "notifications.claimed"
    rule_id: str
    notification_id: str
    attempt: int
    claimed_by: str


class NotificationAttempted(Payload, frozen=True, kw_only=True):
    """The outcome of one attempt to send a notification."""

    TYPE: ClassVar[str] = "notifications.attempted"
    rule_id: str
    notification_id: str
    attempt: int
    delivered: bool
    detail: str = ""
    """The answer of the receiver, or the error. It contains no secret."""


class NotificationRetried(Payload, frozen=True, kw_only=True):
    """A FAILED notification is sent again."""

    TYPE: ClassVar[str] = "notifications.retried"
    COMMAND: ClassVar[bool] = True
    rule_id: str
    notification_id: str


class AlertRaised(Payload, frozen=True, kw_only=True):
    """Derived: something happened that a rule reports."""

    TYPE: ClassVar[str] = "notifications.alert_raised"
    rule_id: str
    subject: str
    event: NotificationEvent
    asset: str = ""
    owners: tuple[str, ...] = ()
    run_id: str = ""
    code: str = ""
    count: int = 1
    """How many tasks or partitions it is about."""
    opens: bool = True
    """It may recover, and is not reported again until it has."""
    consumers: tuple[str, ...] = ()
    """E-mail addresses among the consumers of a contract."""


class AlertCleared(Payload, frozen=True, kw_only=True):
    """Derived: what an alert was raised for is good again."""

    TYPE: ClassVar[str] = "notifications.alert_cleared"
    rule_id: str
    subject: str
    asset: str = ""
    owners: tuple[str, ...] = ()
    run_id: str = ""
    consumers: tuple[str, ...] = ()


EVENTS: tuple[type[Payload], ...] = (
    NotificationClaimed,
    NotificationAttempted,
    NotificationRetried,
)
