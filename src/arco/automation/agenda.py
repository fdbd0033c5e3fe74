"""The agenda: what is due next, in memory, for controllers.

It holds the active schedules, each with its next tick, the active sensors (`sensor_agenda.py`), the
requests for runs that are not planned yet, the backfills that are not over, and when data stops
being fresh. Like the board it is advanced from one generation to the next by the rows that changed:
its cost depends on these, and on what is due, not on the number of schedules and sensors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from arco.automation.asset_watch import AssetWatch
from arco.automation.changed_rows import TableRows
from arco.automation.controllers.backfill_chunks import is_over
from arco.automation.due_times import DueTimes
from arco.automation.freshness_agenda import FreshnessAgenda
from arco.automation.freshness_tables import FRESHNESS, FRESHNESS_POLICIES, FRESHNESS_REQUESTS
from arco.automation.sensor_agenda import SensorAgenda
from arco.automation.sensor_tables import SENSOR_MESSAGES, SENSORS
from arco.automation.tables import (
    BACKFILL_PROGRESS,
    BACKFILLS,
    SCHEDULES,
    BackfillProgressRow,
    BackfillRow,
    ScheduleRow,
    ScheduleState,
)
from arco.automation.ticks import next_tick
from arco.execution.tables import PARTITIONS
from arco.orchestration.states import RequestState
from arco.orchestration.tables import PROJECTS, RUN_REQUESTS, RunRequestRow
from arco.state.changes import Changes
from arco.state.snapshot import Snapshot
from arco.state.table import Row, Table

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Row)


class Agenda:
    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.schedules: dict[str, ScheduleRow] = {}
        """All of them, also those that are paused or were removed: their requests may wait."""
        self.requests: dict[str, RunRequestRow] = {}
        """Those that are pending."""
        self._ticks = DueTimes()
        self._due: dict[str, ScheduleRow] = {}
        self.backfills: dict[str, BackfillRow] = {}
        """Those that request chunks or are paused, and those with active runs."""
        self.progress: dict[str, BackfillProgressRow] = {}
        """Of the same."""
        self.sensors = SensorAgenda()
        self.deployments: dict[str, str] = {}
        """By project, the current deployment."""
        self.assets = AssetWatch()
        self.freshness = FreshnessAgenda()

    # -- moving to another generation ----------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """Load everything from a snapshot."""
        self._clear()
        self._take(snapshot.hot)
        self.assets.load(snapshot)
        self.freshness.changed.clear()  # it has all rows

    def advance(self, snapshot: Snapshot, position: int) -> None:
        """Advance to a newer snapshot by the rows that changed after a position."""

        def changed(table: Table[R]) -> Iterable[R]:
            return (row for _, row in snapshot.since(table, position))

        self._take(changed)
        self._hear_versions(changed)
        self.assets.take(changed)

    def apply(self, changes: Changes) -> None:
        """Advance by one commit of this process."""

        def changed(table: Table[R]) -> Iterable[R]:
            return (row for _, row in changes.get(table, {}).values() if row is not None)

        self._take(changed)
        self._hear_versions(changed)
        self.assets.take(changed)

    def _hear_versions(self, rows_of: TableRows) -> None:
        if self.sensors.watches_assets and any(True for _ in rows_of(PARTITIONS)):
            self.sensors.versions_changed()

    def _take(self, rows_of: TableRows) -> None:
        for schedule in rows_of(SCHEDULES):
            self._put_schedule(schedule)
        for request in rows_of(RUN_REQUESTS):
            if request.state == RequestState.PENDING:
                self.requests[request.request_key] = request
            else:
                self.requests.pop(request.request_key, None)
        self.sensors.take(rows_of(SENSORS), rows_of(SENSOR_MESSAGES))
        self.deployments |= {row.project: row.deployment_id for row in rows_of(PROJECTS)}
        backfills = {row.backfill_id: row for row in rows_of(BACKFILLS)}
        progress = {row.backfill_id: row for row in rows_of(BACKFILL_PROGRESS)}
        self.backfills |= backfills
        self.progress |= progress
        for key in {*backfills, *progress}:
            row = self.backfills.get(key)
            if row is None or is_over(row, self.progress.get(key)):
                self.backfills.pop(key, None)
                self.progress.pop(key, None)

        self.freshness.take(
            rows_of(FRESHNESS_POLICIES), rows_of(FRESHNESS), rows_of(FRESHNESS_REQUESTS)
        )

    def _put_schedule(self, row: ScheduleRow) -> None:
        key = row.schedule_id
        self._due.pop(key, None)
        self._ticks.put(key, None)
        self.schedules[key] = row
        if row.state != ScheduleState.ACTIVE:
            return
        try:
            tick = next_tick(row.cron, row.timezone, row.done_until)
        except Exception:  # zone data of this machine; the others are served
            log.exception("schedule %s cannot be evaluated here", key)
            return
        if tick is not None:
            self._ticks.put(key, tick.at)

    # -- what is due ---------------------------------------------------------------------

    def due(self, now: datetime) -> list[ScheduleRow]:
        """Schedules with ticks up to now that are not recorded yet."""
        self._due |= {key: self.schedules[key] for key in self._ticks.pop(now)}
        return list(self._due.values())

    def next_tick(self) -> datetime | None:
        """When the next tick is due that is not due yet."""
        return self._ticks.first()
