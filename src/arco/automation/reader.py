"""Reading schedules, their ticks, and backfills at one generation."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfoNotFoundError

import pyarrow.compute as pc

from arco.automation.asset_tables import AUTOMATIONS, SCOPE, AutomationRow, AutomationState
from arco.automation.name_lookup import by_name
from arco.automation.tables import (
    BACKFILL_PROGRESS,
    BACKFILL_RUNS,
    BACKFILLS,
    SCHEDULE_TICKS,
    SCHEDULES,
    BackfillProgressRow,
    BackfillRow,
    BackfillRunRow,
    ScheduleRow,
    ScheduleState,
    ScheduleTickRow,
    TickState,
)
from arco.automation.ticks import next_tick
from arco.errors import NotFound
from arco.orchestration.reader import MIN_CHARS
from arco.orchestration.states import RequestState
from arco.orchestration.tables import RUN_REQUESTS, RunRequestRow
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot
from servo.suggest import did_you_mean


class TickEntry(NamedTuple):
    row: ScheduleTickRow
    request: RunRequestRow | None
    """Its request, if it fired."""

    @property
    def state(self) -> TickState:
        refused = self.request is not None and self.request.state == RequestState.REFUSED
        return TickState.FAILED if refused else self.row.state

    @property
    def reason(self) -> str:
        refused = self.state == TickState.FAILED and self.request is not None
        return self.request.reason if refused and self.request is not None else self.row.reason


class Backfill(NamedTuple):
    """A backfill and its progress. Partitions are those of all its assets."""

    row: BackfillRow
    progress: BackfillProgressRow | None

    @property
    def active_runs(self) -> int:
        """Requests and runs that have not ended."""
        return self.row.asked - (0 if self.progress is None else self.progress.ended)

    @property
    def completed(self) -> int:
        """Partitions that succeeded, or were up to date."""
        return 0 if self.progress is None else self.progress.succeeded + self.progress.reused

    @property
    def failed(self) -> int:
        return 0 if self.progress is None else self.progress.failed

    @property
    def cancelled(self) -> int:
        return 0 if self.progress is None else self.progress.cancelled

    @property
    def skipped(self) -> int:
        """Partitions downstream of a failed one, and removed partitions."""
        return self.removed + (0 if self.progress is None else self.progress.skipped)

    @property
    def removed(self) -> int:
        """Partitions that were removed between its creation and their run.

        Known when all chunks have been planned.
        """
        row = self.row
        is_open = row.next_chunk < row.chunks or row.again or self.active_runs
        return 0 if is_open else self._left

    @property
    def pending(self) -> int:
        return self._left - self.removed

    @property
    def _left(self) -> int:
        skipped = 0 if self.progress is None else self.progress.skipped
        ended = self.completed + self.failed + self.cancelled + skipped
        return max(0, self.row.total_partitions - ended)


def next_tick_text(row: ScheduleRow, now: datetime) -> str | None:
    """The name of a schedule's next tick; None if there is none."""
    if row.state != ScheduleState.ACTIVE:
        return None
    try:
        coming = next_tick(row.cron, row.timezone, max(now, row.done_until))
    except ZoneInfoNotFoundError:
        return f"unknown here: no zone data of {row.timezone}"
    return None if coming is None else coming.name


class AutomationReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def schedules(self, *, removed: bool = False) -> list[ScheduleRow]:
        rows = self.snapshot.all(SCHEDULES)
        chosen = [row for row in rows if removed or row.state != ScheduleState.REMOVED]
        return sorted(chosen, key=lambda row: row.schedule_id)

    def schedule(self, text: str) -> ScheduleRow:
        """A schedule by `project/name`, or by its name where that is enough."""
        row = self.snapshot.get(SCHEDULES, text)
        if row is not None:
            return row
        rows = self.schedules(removed=True)
        removed = {row.schedule_id: row for row in rows if row.state == ScheduleState.REMOVED}
        active = {row.schedule_id: row for row in rows if row.schedule_id not in removed}
        return by_name("schedule", text, active, removed)

    def automations(self, *, removed: bool = False) -> list[AutomationRow]:
        """The assets with automation, by key."""
        rows = self.snapshot.all(AUTOMATIONS)
        chosen = [row for row in rows if removed or row.state != AutomationState.REMOVED]
        return sorted(chosen, key=lambda row: row.asset_key)

    def automation(self, text: str) -> AutomationRow:
        """The automation of an asset by its key, or by its name where that is enough."""
        row = self.snapshot.get(AUTOMATIONS, SCOPE, text)
        if row is not None and row.state != AutomationState.REMOVED:
            return row
        rows = self.automations()
        matching = [row for row in rows if row.asset_key.partition(".")[2] == text]
        if len(matching) == 1:
            return matching[0]
        if matching:
            several = ", ".join(row.asset_key for row in matching)
            raise NotFound(f"{text!r} names several assets", hint=f"give one of {several}")
        hint = did_you_mean(text, [row.asset_key for row in rows])
        raise NotFound(
            f"no asset {text!r} has automation", hint=hint or "see `servo automation list`"
        )

    def ticks(self, schedule: ScheduleRow, limit: int) -> list[TickEntry]:
        """The newest ticks of a schedule."""
        chosen: list[ScheduleTickRow] = []
        for rows, rest_before in newest_first(self.snapshot, SCHEDULE_TICKS, schedule.schedule_id):
            newest = [("scheduled_at", "descending")]
            page = rows.take(pc.select_k_unstable(rows, limit, newest))
            chosen += SCHEDULE_TICKS.rows_of(page)
            chosen.sort(key=lambda row: row.scheduled_at, reverse=True)
            if rest_before is None or len(chosen) >= limit:
                break
        return [self._entry(row) for row in chosen[:limit]]

    def backfills(self) -> list[Backfill]:
        """The newest first."""
        progress = {row.backfill_id: row for row in self.snapshot.all(BACKFILL_PROGRESS)}
        rows = sorted(
            self.snapshot.all(BACKFILLS),
            key=lambda row: (row.created_at, row.backfill_id),
            reverse=True,
        )
        return [Backfill(row, progress.get(row.backfill_id)) for row in rows]

    def backfill(self, text: str) -> Backfill:
        """A backfill by its id, or by the beginning of it where that is enough."""
        row = self.snapshot.get(BACKFILLS, text)
        if row is None:
            start = text.upper()
            rows = [row for row in self.snapshot.all(BACKFILLS) if _begins(row, start)]
            if len(rows) != 1:
                problem = "names several backfills" if rows else "is not the id of a backfill"
                raise NotFound(f"{text!r} {problem}", hint="see `servo backfill list`")
            row = rows[0]
        return Backfill(row, self.snapshot.get(BACKFILL_PROGRESS, row.backfill_id))

    def backfill_runs(self, backfill_id: str) -> list[BackfillRunRow]:
        """The requested chunks, in their order, each with its newest run."""
        rows = self.snapshot.rows(BACKFILL_RUNS, backfill_id)
        return sorted(rows, key=lambda row: row.chunk_index)

    def _entry(self, row: ScheduleTickRow) -> TickEntry:
        request = self.snapshot.get(RUN_REQUESTS, row.request_key) if row.request_key else None
        return TickEntry(row, request)


def _begins(row: BackfillRow, start: str) -> bool:
    return len(start) >= MIN_CHARS and row.backfill_id.startswith(start)
