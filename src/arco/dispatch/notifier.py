"""What an orchestrator does for notifications: claims those that are due, and has them sent.

A notification is sent by who sees its own claim in the tables. What became of it is reported
like anything else; a report that is lost leaves a claim that ends, and another attempt.
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
"""What has less than this left of its claim is not begun any more."""


class Notifier:
    def __init__(
        self,
        core: Core,
        reports: Reports,
        courier: Courier,
        name: str,
        is_first_report: Callable[[str], bool],
    ) -> None:
        """`name` is in whose name notifications are claimed; each process has its own."""
        self._core = core
        self._reports = reports
        self._courier = courier
        self._name = name
        self._is_first_report = is_first_report
        self._begun: set[tuple[str, int]] = set()
        """Attempts that were handed to the courier and are still claimed."""
        self._acted_at = EPOCH
        self.outbox = Outbox(courier)

    def due_in_s(self) -> float | None:
        """When something is due that was not at the last look, by the clock that `act` goes by."""
        at, now = self.outbox.next_due(self._acted_at), self._core.store_clock.estimate()
        return None if at is None else max(0.0, (at - now).total_seconds())

    def act(self) -> int:
        """Claim what is due, and send what was claimed; how many of both."""
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
