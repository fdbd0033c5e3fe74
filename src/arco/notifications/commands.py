"""Commands about notifications."""

from __future__ import annotations

from arco.notifications.events import NotificationRetried
from arco.notifications.reader import NotificationReader
from arco.state.core import Core
from arco.state.tier1 import Acknowledged, Tier1


class NotificationCommands:
    def __init__(self, core: Core, tier1: Tier1, actor: str = "") -> None:
        self._core = core
        self._tier1 = tier1
        self._actor = actor

    def retry(self, notification: str) -> Acknowledged:
        """Retry a FAILED notification."""
        row = NotificationReader(self._core.snapshot()).notification(notification)
        event = NotificationRetried(rule_id=row.rule_id, notification_id=row.notification_id)
        return self._tier1.execute(event, actor=self._actor)
