"""Which sensors are due, in memory: the part of the agenda that is about them.

A sensor is due at multiples of its interval, which are the same for every orchestrator. It is due
at once after it was declared, reset or resumed, when its last evaluation returned `more`, and when
messages wait for it. After failures it waits with increasing pauses. A webhook sensor is due only
for its messages, and one of an asset of this workspace after a new version.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from arco.automation.due_times import DueTimes
from arco.automation.sensor_evaluations import definition_of
from arco.automation.sensor_tables import (
    MessageState,
    SensorMessageRow,
    SensorRow,
)

MAX_BACKOFF_S: Final = 3_600
QUIET: Final = timedelta(hours=1)
"""Interval of a sensor of an asset of this workspace without new versions: its last message may
have been lost."""
RESEND_S: Final = 60
"""After this time a message is enqueued again, if the queue has lost it."""


def backoff_s(failures: int, interval_s: int) -> int:
    """How long a sensor waits after `failures` consecutive failures."""
    longest = max(MAX_BACKOFF_S, interval_s)
    return min(longest, interval_s << min(failures - 1, 20))


def next_turn(row: SensorRow, after: datetime) -> datetime:
    """The first multiple of its interval after an instant, shifted by a hash of its name."""
    interval_s = interval_of(row)
    shift = zlib.crc32(row.sensor_id.encode()) % interval_s
    seconds = int(after.replace(tzinfo=UTC).timestamp())
    turn = ((seconds - shift) // interval_s + 1) * interval_s + shift
    return datetime.fromtimestamp(turn, UTC).replace(tzinfo=None)


def interval_of(row: SensorRow) -> int:
    return RESEND_S if row.kind == "webhook" else row.interval_s


class SensorAgenda:
    def __init__(self) -> None:
        self.rows: dict[str, SensorRow] = {}
        """Those that are evaluated: neither paused nor removed."""
        self._pending: dict[str, dict[str, int]] = {}
        """By sensor, the positions of messages that wait, by their ids."""
        self._times = DueTimes()
        self._watching: set[str] = set()
        """Sensors of assets of this workspace."""
        self._sent_at: dict[str, datetime] = {}

    @property
    def watches_assets(self) -> bool:
        return bool(self._watching)

    # -- what has changed ----------------------------------------------------------------

    def take(self, sensors: Iterable[SensorRow], messages: Iterable[SensorMessageRow]) -> None:
        changed: dict[str, None] = {}
        for message in messages:
            pending = self._pending.setdefault(message.sensor_id, {})
            if message.state == MessageState.PENDING:
                pending[message.message_id] = message.position
            else:
                pending.pop(message.message_id, None)
            if not pending:
                del self._pending[message.sensor_id]
            changed[message.sensor_id] = None
        for row in sensors:
            changed[row.sensor_id] = None
            self._watching.discard(row.sensor_id)
            if not row.is_evaluated:
                self.rows.pop(row.sensor_id, None)
                continue
            self.rows[row.sensor_id] = row
            if row.kind == "asset" and not definition_of(row).workspace:
                self._watching.add(row.sensor_id)
        for key in changed:
            self._plan(key)

    def versions_changed(self) -> None:
        """There is a new version in this workspace."""
        for key in self._watching:
            row = self.rows[key]
            at = self._sent_at.get(key, row.since) + timedelta(seconds=row.interval_s)
            if not row.failures and at < (self._times.of(key) or datetime.max):
                self._times.put(key, at)

    def _plan(self, key: str) -> None:
        row = self.rows.get(key)
        self._times.put(key, None if row is None else self._due_by_itself(row))

    def _due_by_itself(self, row: SensorRow) -> datetime | None:
        if row.kind == "webhook" and row.sensor_id not in self._pending:
            return None
        at = row.last_evaluation_at
        if row.failures and at is not None:
            return at + timedelta(seconds=backoff_s(row.failures, interval_of(row)))
        if row.kind == "webhook" or row.at_once or at is None:
            return row.since
        return next_turn(row, at)

    # -- what is due ---------------------------------------------------------------------

    def due(self, now: datetime) -> list[SensorRow]:
        """Sensors to evaluate now. Each is due until it was `sent`."""
        return [self.rows[key] for key in self._times.due(now)]

    def sent(self, row: SensorRow, now: datetime) -> None:
        """Its evaluation was enqueued; the next one is due at its next turn.

        One that is due at once is enqueued again soon, until an evaluation is recorded: the queue
        may have had an older message, which has no effect any more.
        """
        key = row.sensor_id
        self._sent_at[key] = now
        if row.at_once:
            self._times.put(key, min(next_turn(row, now), now + timedelta(seconds=RESEND_S)))
        elif key in self._watching and not row.failures:
            self._times.put(key, max(next_turn(row, now), now + QUIET))  # or when something is new
        else:
            self._times.put(key, next_turn(row, now))

    def postpone(self, row: SensorRow, now: datetime) -> None:
        """It cannot be enqueued now, and is due again soon."""
        self._times.put(row.sensor_id, now + timedelta(seconds=RESEND_S))

    def next_due(self) -> datetime | None:
        return self._times.first()

    def next_message(self, sensor: str) -> str:
        """The id of the message that has waited longest; empty if there is none."""
        pending = self._pending.get(sensor, {})
        return min(pending, key=lambda id: (pending[id], id), default="")
