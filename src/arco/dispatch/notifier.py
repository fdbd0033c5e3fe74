"""Claims notifications that are due, and sends them.

A notification is sent by the process that sees its own claim in the tables. The outcome is reported
as an event; if the report is lost, the claim expires, and there is another attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from arco.epoch import EPOCH
from arco.log.envelope import Payload
from arco.notifications.delivery import Courier, DeliveryOutcome
from arco.notifications.events import NotificationAttempted
from arco.notifications.outbox import Outbox, claims
from arco.notifications.tables import NotificationRow
from arco.state.core import Core
from arco.transport.reports import Reports

LATEST = timedelta(seconds=30)
"""A notification whose claim expires sooner is not sent any more."""


class Notifier:
    def __init__(
        self,
        core: Core,
        reports: Reports,
        courier: Courier,
        name: str,
        is_first_report: Callable[[str], bool],
    ) -> None:
        """`name` is the name in claims; each process has its own."""
        self._core = core
        self._reports = reports
        self._courier = courier
        self._name = name
        self._is_first_report = is_first_report
        self._begun: set[tuple[str, int]] = set()
        """Attempts that the courier has, and that are still claimed."""
        self._acted_at = EPOCH
        self.outbox = Outbox(courier)

    def due_in_s(self) -> float | None:
        """Seconds until the next notification is due, by the clock of `act`."""
        at, now = self.outbox.next_due(self._acted_at), self._core.store_clock.estimate()
        return None if at is None else max(0.0, (at - now).total_seconds())

    def act(self) -> int:
        """Claim due notifications, and send claimed ones; returns the number of both."""
        self._acted_at = now = self._core.store_clock.estimate()
        own_rows = self.outbox.claimed_by(self._name)
        self._begun &= {(row.notification_id, row.attempts) for row in own_rows}
        begun = 0
        for row in own_rows:
            attempt = row.notification_id, row.attempts
            if attempt not in self._begun and _is_time_left(row, now):
                self._begun.add(attempt)
                self._courier.submit(row, self._reporter(row))
                begun += 1
        events: list[Payload] = [
            claim
            for claim in claims(self.outbox, now, self._name)
            if self._is_first_report(f"{claim.notification_id}#{claim.attempt}")
        ]
        self._reports.submit(events)
        return begun + len(events)

    def close(self) -> None:
        self._courier.close()

    def _reporter(self, row: NotificationRow) -> Callable[[DeliveryOutcome], None]:
        def report(outcome: DeliveryOutcome) -> None:
            event = NotificationAttempted(
                rule_id=row.rule_id,
                notification_id=row.notification_id,
                attempt=row.attempts,
                delivered=outcome.delivered,
                detail=outcome.detail,
            )
            self._reports.submit([event])

        return report


def _is_time_left(row: NotificationRow, now: datetime) -> bool:
    return row.claimed_until is not None and now < row.claimed_until - LATEST
