"""Automation's tables: schedules, and the history of their ticks."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from arco.state.table import History, Row, Table
from servo.contract.manifest import Catchup, Overlap

TICKS_KEPT_HOT = timedelta(days=2)


class ScheduleState(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    REMOVED = "REMOVED"
    """No deployment of its project has it now. A pause from before holds when it comes back."""


class TickState(StrEnum):
    FIRED = "FIRED"
    SKIPPED = "SKIPPED"
    MISSED = "MISSED"
    FAILED = "FAILED"
    """It fired, and its request was refused. Worked out when it is read."""


class ScheduleRow(Row, frozen=True):
    schedule_id: str
    """`project/name`."""
    project: str
    name: str
    state: ScheduleState
    cron: str
    timezone: str
    selection: list[str]
    partitions: list[str]
    config: str
    """As JSON."""
    catchup: Catchup
    catchup_limit: int
    overlap: Overlap
    deployment_id: str
    """The one that last changed it, or removed it."""
    since: datetime
    """Ticks up to then are none of its own: it was declared, its cron was changed, or it was
    resumed at that time."""
    last_tick: str
    last_scheduled_at: datetime | None
    paused_at: datetime | None
    paused_by: str
    pause_reason: str
    catchup_once: Catchup | None
    """What holds instead of `catchup` for the ticks of a pause that has ended."""

    @property
    def timing(self) -> str:
        return f"{self.cron} {self.timezone}"

    @property
    def done_until(self) -> datetime:
        """Ticks up to then have been dealt with."""
        last = self.last_scheduled_at
        return self.since if last is None else max(self.since, last)


class ScheduleTickRow(Row, frozen=True):
    schedule_id: str
    tick: str
    state: TickState
    scheduled_at: datetime
    reason: str
    missed: int
    missed_at_least: bool
    request_key: str
    recorded_at: datetime


SCHEDULES = Table("automation", "schedules", ScheduleRow, key=["schedule_id"])
SCHEDULE_TICKS = Table(
    "automation",
    "schedule_ticks",
    ScheduleTickRow,
    key=["schedule_id", "tick"],
    history=History("recorded_at", TICKS_KEPT_HOT),
)


def schedule_id(project: str, name: str) -> str:
    return f"{project}/{name}"
