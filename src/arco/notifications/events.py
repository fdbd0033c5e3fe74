"""What can happen to notifications.

| category | events | who |
|---|---|---|
| commands | NotificationRetried | people |
| facts | NotificationClaimed, NotificationAttempted | orchestrators |
| derived | AlertRaised, AlertCleared | the fold of rules |

That a rule is new, differs or has left is said by deployments; what is told follows from runs,
outputs, requests and backfills. None of that is an event of its own.
"""

from __future__ import annotations

from typing import ClassVar

from arco.log.envelope import Payload
from servo.contract.manifest import NotificationEvent


class NotificationClaimed(Payload, frozen=True, kw_only=True):
    """An orchestrator is about to send a notification.

    It counts if there were exactly so many attempts before, and nobody holds a claim.
    """

    TYPE: ClassVar[str] = "notifications.claimed"
    rule_id: str
    notification_id: str
    attempt: int
    claimed_by: str


class NotificationAttempted(Payload, frozen=True, kw_only=True):
    """What became of one attempt to send a notification."""

    TYPE: ClassVar[str] = "notifications.attempted"
    rule_id: str
    notification_id: str
    attempt: int
    delivered: bool
    detail: str = ""
    """What the receiver answered, or what went wrong. It names no secret."""


class NotificationRetried(Payload, frozen=True, kw_only=True):
    """Send a notification again that was given up."""

    TYPE: ClassVar[str] = "notifications.retried"
    COMMAND: ClassVar[bool] = True
    rule_id: str
    notification_id: str


class AlertRaised(Payload, frozen=True, kw_only=True):
    """Derived: something happened that a rule tells of."""

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
    """It may recover, and nothing is told again until it has."""
    consumers: tuple[str, ...] = ()
    """E-mail addresses of those whom a contract promises something."""


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
