"""Reading rules, alerts and notifications at one generation."""

from __future__ import annotations

from arco.errors import NotFound
from arco.notifications.tables import (
    ALERTS,
    NOTIFICATION_RULES,
    NOTIFICATIONS,
    AlertRow,
    NotificationRow,
    NotificationRuleRow,
)
from arco.orchestration.reader import MIN_CHARS
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot


class NotificationReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def rules(self) -> list[NotificationRuleRow]:
        rows = (row for row in self.snapshot.all(NOTIFICATION_RULES) if row.active)
        return sorted(rows, key=lambda row: row.rule_id)

    def alerts(self) -> list[AlertRow]:
        """Those that are open, the newest first."""
        return sorted(self.snapshot.all(ALERTS), key=lambda row: row.raised_at, reverse=True)

    def notifications(self, limit: int, states: tuple[str, ...] = ()) -> list[NotificationRow]:
        """The newest."""
        chosen: list[NotificationRow] = []
        for rows, rest_before in newest_first(self.snapshot, NOTIFICATIONS):
            stretch = NOTIFICATIONS.rows_of(rows)
            chosen += [row for row in stretch if not states or row.state in states]
            chosen.sort(key=lambda row: (row.created_at, row.sequence), reverse=True)
            if rest_before is None or len(chosen) >= limit:
                break
        return chosen[:limit]

    def notification(self, text: str) -> NotificationRow:
        """A notification by its id, or by the beginning of it where that is enough."""
        matching = [
            row
            for row in self.snapshot.all(NOTIFICATIONS)
            if len(text) >= MIN_CHARS and row.notification_id.startswith(text.lower())
        ]
        if len(matching) == 1:
            return matching[0]
        problem = "names several notifications" if matching else "is not the id of a notification"
        raise NotFound(f"{text!r} {problem}", hint="see `servo notifications list`")
