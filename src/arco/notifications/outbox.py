"""The outbox in memory: notifications that are not over, brought up to date by commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from arco.notifications.delivery import Courier
from arco.notifications.events import NotificationClaimed
from arco.notifications.tables import (
    NOTIFICATIONS,
    OPEN_NOTIFICATIONS,
    NotificationRow,
    NotificationState,
)
from arco.state.changes import Changes
from arco.state.snapshot import Snapshot

ChannelQueue = tuple[str, str]

MAX_CLAIMS = 3
"""Maximum of concurrent claims for one channel: all must be sent before they expire."""


class Outbox:
    def __init__(self, courier: Courier) -> None:
        """Notifications that the courier of this process cannot send are ignored."""
        self._courier = courier
        self._queues: dict[ChannelQueue, dict[str, NotificationRow]] = {}
        """By rule and receiver; most have one notification, some have two."""

    def load(self, snapshot: Snapshot) -> None:
        self._queues = {}
        if self._courier.has_channels:
            self._take(snapshot.hot(NOTIFICATIONS))

    def advance(self, snapshot: Snapshot, position: int) -> None:
        if self._courier.has_channels:
            self._take(row for _, row in snapshot.since(NOTIFICATIONS, position))

    def apply(self, changes: Changes) -> None:
        rows = (row for _, row in changes.get(NOTIFICATIONS, {}).values() if row is not None)
        self._take(rows)

    def _take(self, rows: Iterable[NotificationRow]) -> None:
        for row in rows:
            key = row.rule_id, row.receiver
            waiting = self._queues.setdefault(key, {})
            if row.state in OPEN_NOTIFICATIONS:
                waiting[row.notification_id] = row
            else:
                waiting.pop(row.notification_id, None)
            if not waiting:
                del self._queues[key]

    def first(self) -> Iterator[NotificationRow]:
        """The first notification of each rule and receiver."""
        for (_, receiver), waiting in self._queues.items():
            if self._courier.serves(receiver):
                yield min(waiting.values(), key=lambda row: row.sequence)

    def due(self, now: datetime) -> list[NotificationRow]:
        """Notifications that are due."""
        return [row for row in self.first() if due_at(row) <= now]

    def next_due(self, after: datetime) -> datetime | None:
        """When the next one is due that was not due at a time."""
        times = (at for row in self.first() if (at := due_at(row)) > after)
        return min(times, default=None)

    def claimed_by(self, name: str) -> list[NotificationRow]:
        sending = NotificationState.SENDING
        return [row for row in self.first() if row.state == sending and row.claimed_by == name]


def due_at(row: NotificationRow) -> datetime:
    """When it may be claimed: at its time, or when its claim expires."""
    return row.claimed_until or row.due_at


def claims(outbox: Outbox, now: datetime, name: str) -> list[NotificationClaimed]:
    """The claims that an orchestrator should append now."""
    room = Counter(channel_of(row.receiver) for row in outbox.claimed_by(name))
    chosen: list[NotificationClaimed] = []
    for row in sorted(outbox.due(now), key=lambda row: row.due_at):
        channel = channel_of(row.receiver)
        if room[channel] >= MAX_CLAIMS:
            continue
        room[channel] += 1
        claim = NotificationClaimed(
            rule_id=row.rule_id,
            notification_id=row.notification_id,
            attempt=row.attempts + 1,
            claimed_by=name,
        )
        chosen.append(claim)
    return chosen


def channel_of(receiver: str) -> str:
    return receiver.partition(":")[0]
