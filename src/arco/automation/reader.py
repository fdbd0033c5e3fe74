"""Reading schedules and their ticks at one generation."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow.compute as pc

from arco.automation.tables import (
    SCHEDULE_TICKS,
    SCHEDULES,
    ScheduleRow,
    ScheduleState,
    ScheduleTickRow,
    TickState,
)
from arco.errors import NotFound
from arco.orchestration.events import DeployedSchedule
from arco.orchestration.states import RequestState
from arco.orchestration.tables import RUN_REQUESTS, RunRequestRow
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot
from servo.suggest import did_you_mean


class TickEntry(NamedTuple):
    row: ScheduleTickRow
    request: RunRequestRow | None
    """What it asked for, if it fired."""

    @property
    def state(self) -> TickState:
        refused = self.request is not None and self.request.state == RequestState.REFUSED
        return TickState.FAILED if refused else self.row.state

    @property
    def reason(self) -> str:
        refused = self.state == TickState.FAILED and self.request is not None
        return self.request.reason if refused and self.request is not None else self.row.reason


class AutomationReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def schedules(self, *, removed: bool = False) -> list[ScheduleRow]:
        rows = self.snapshot.all(SCHEDULES)
        kept = [row for row in rows if removed or row.state != ScheduleState.REMOVED]
        return sorted(kept, key=lambda row: row.schedule_id)

    def schedule(self, text: str) -> ScheduleRow:
        """A schedule by `project/name`, or by its name where that is enough."""
        row = self.snapshot.get(SCHEDULES, text)
        if row is not None:
            return row
        rows = self.schedules(removed=True)
        matching = [row for row in rows if row.name == text]
        matching = [row for row in matching if row.state != ScheduleState.REMOVED] or matching
        if len(matching) == 1:
            return matching[0]
        if matching:
            several = ", ".join(row.schedule_id for row in matching)
            raise NotFound(f"{text!r} names several schedules", hint=f"give one of {several}")
        hint = did_you_mean(text, [row.name for row in rows]) or "see `servo schedules list`"
        raise NotFound(f"there is no schedule {text!r}", hint=hint)

    def ticks(self, schedule: ScheduleRow, limit: int) -> list[TickEntry]:
        """The newest ticks of a schedule."""
        chosen: list[ScheduleTickRow] = []
        for rows, rest_before in newest_first(self.snapshot, SCHEDULE_TICKS, schedule.schedule_id):
            newest = [("scheduled_at", "descending")]
            taken = rows.take(pc.select_k_unstable(rows, limit, newest))
            chosen += SCHEDULE_TICKS.rows_of(taken)
            chosen.sort(key=lambda row: row.scheduled_at, reverse=True)
            if rest_before is None or len(chosen) >= limit:
                break
        return [self._entry(row) for row in chosen[:limit]]

    def _entry(self, row: ScheduleTickRow) -> TickEntry:
        request = self.snapshot.get(RUN_REQUESTS, row.request_key) if row.request_key else None
        return TickEntry(row, request)


def declared_schedules(snapshot: Snapshot, project: str) -> dict[str, DeployedSchedule]:
    """The schedules that a project's current deployment has, by name."""
    rows = [row for row in snapshot.all(SCHEDULES) if row.project == project]
    return {row.name: _declared(row) for row in rows if row.state != ScheduleState.REMOVED}


def _declared(row: ScheduleRow) -> DeployedSchedule:
    return DeployedSchedule(
        name=row.name,
        cron=row.cron,
        timezone=row.timezone,
        selection=tuple(row.selection),
        partitions=tuple(row.partitions),
        config=msgspec.json.decode(row.config),
        catchup=row.catchup,
        catchup_limit=row.catchup_limit,
        overlap=row.overlap,
    )
