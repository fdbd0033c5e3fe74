"""Schedules, sensors, backfills, automation of assets, freshness.

Schedules and sensors belong to a project: who sees all namespaces of the project sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.page_tokens import PageKey
from arco.api.reads.request_reads import request_without_deployments
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.row_visibility import RowVisibility
from arco.api.views import View
from arco.automation.asset_tables import AutomationRow
from arco.automation.freshness_reader import FreshnessReader, SeriesFreshness
from arco.automation.freshness_tables import FreshnessStatus
from arco.automation.reader import AutomationReader, Backfill, TickEntry, next_tick_text
from arco.automation.sensor_reader import SensorReader
from arco.automation.sensor_tables import SensorEvaluationRow, SensorMessageRow, SensorRow
from arco.automation.tables import BackfillRow, BackfillRunRow, ScheduleRow, TickState
from arco.errors import NotFound
from arco.security.permissions import Permission
from arco.security.visibility import Visible

ProjectName = Annotated[str, Meta(min_length=1, max_length=128, description="The project.")]
OwnName = Annotated[str, Meta(min_length=1, max_length=128, description="The name in the project.")]


def sees_project(view: View, visible: Visible, project: str) -> bool:
    return visible.all or RowVisibility(view, visible).project(project)


class ProjectItemParameters(AtParameters, frozen=True, kw_only=True):
    project: ProjectName
    name: OwnName


class ProjectItemPages(PageParameters, frozen=True, kw_only=True):
    project: ProjectName
    name: OwnName


class RemovedParameters(PageParameters, frozen=True, kw_only=True):
    removed: Annotated[bool, Meta(description="Include removed ones.")] = False


# -- schedules --------------------------------------------------------------------------------


class ScheduleBody(ScheduleRow, frozen=True, kw_only=True):
    next_tick: str | None = None


def schedule_body(view: View, row: ScheduleRow) -> ScheduleBody:
    fields = msgspec.structs.asdict(row)
    return ScheduleBody(**fields, next_tick=next_tick_text(row, view.now))


def list_schedules(
    view: View, visible: Visible, parameters: RemovedParameters, window: PageWindow
) -> Iterator[tuple[PageKey, ScheduleBody]]:
    """List schedules with their last and next ticks."""
    for row in AutomationReader(view.snapshot).schedules(removed=parameters.removed):
        after = window.after is None or (row.schedule_id,) > window.after
        if after and sees_project(view, visible, row.project):
            yield (row.schedule_id,), schedule_body(view, row)


def get_schedule(view: View, visible: Visible, parameters: ProjectItemParameters) -> ScheduleBody:
    """Show a schedule."""
    row = require_schedule(view, visible, parameters.project, parameters.name)
    return schedule_body(view, row)


def require_schedule(view: View, visible: Visible, project: str, name: str) -> ScheduleRow:
    rows = AutomationReader(view.snapshot).schedules(removed=True)
    row = next((row for row in rows if row.schedule_id == f"{project}/{name}"), None)
    if row is None or not sees_project(view, visible, project):
        raise NotFound(f"there is no schedule {project}/{name}")
    return row


class TickBody(msgspec.Struct, frozen=True, kw_only=True):
    tick: str
    state: TickState
    scheduled_at: datetime
    reason: str
    missed: int
    request_key: str
    run_id: str | None
    recorded_at: datetime


def list_ticks(
    view: View, visible: Visible, parameters: ProjectItemPages, window: PageWindow
) -> Iterator[tuple[PageKey, TickBody]]:
    """List the ticks of a schedule and their outcomes, newest first."""
    row = require_schedule(view, visible, parameters.project, parameters.name)
    after: Any = window.after
    # Ticks are few: those before the page are read again.
    limit = window.limit + (0 if after is None else int(after[2]))
    for place, entry in enumerate(AutomationReader(view.snapshot).ticks(row, limit)):
        key = (entry.row.scheduled_at, entry.row.tick)
        if after is None or key < after[:2]:
            yield (*key, place + 1), _tick(entry)


def _tick(entry: TickEntry) -> TickBody:
    row, request = entry.row, entry.request
    return TickBody(
        tick=row.tick,
        state=entry.state,
        scheduled_at=row.scheduled_at,
        reason=entry.reason,
        missed=row.missed,
        request_key=row.request_key,
        run_id=None if request is None else request.run_id or None,
        recorded_at=row.recorded_at,
    )


# -- sensors ----------------------------------------------------------------------------------


def list_sensors(
    view: View, visible: Visible, parameters: RemovedParameters, window: PageWindow
) -> Iterator[tuple[PageKey, SensorRow]]:
    """List sensors with their state and last recorded evaluation."""
    for row in SensorReader(view.snapshot).sensors(removed=parameters.removed):
        after = window.after is None or (row.sensor_id,) > window.after
        if after and sees_project(view, visible, row.project):
            yield (row.sensor_id,), row


class SensorBody(msgspec.Struct, frozen=True, kw_only=True):
    sensor: SensorRow
    messages: list[SensorMessageRow]
    """The first that wait or have failed."""


def get_sensor(view: View, visible: Visible, parameters: ProjectItemParameters) -> SensorBody:
    """Show a sensor, and messages that wait."""
    row = require_sensor(view, visible, parameters.project, parameters.name)
    return SensorBody(sensor=row, messages=SensorReader(view.snapshot).undone(row, 20))


def require_sensor(view: View, visible: Visible, project: str, name: str) -> SensorRow:
    rows = SensorReader(view.snapshot).sensors(removed=True)
    row = next((row for row in rows if row.sensor_id == f"{project}/{name}"), None)
    if row is None or not sees_project(view, visible, project):
        raise NotFound(f"there is no sensor {project}/{name}")
    return row


def list_evaluations(
    view: View, visible: Visible, parameters: ProjectItemPages, window: PageWindow
) -> Iterator[tuple[PageKey, SensorEvaluationRow]]:
    """List the recorded evaluations of a sensor, the newest first."""
    row = require_sensor(view, visible, parameters.project, parameters.name)
    after: Any = window.after
    limit = window.limit if after is None else row.number - int(after[0]) + 1 + window.limit
    for each in SensorReader(view.snapshot).evaluations(row, limit):
        if after is None or (each.number,) < after:
            yield (each.number,), each


# -- backfills --------------------------------------------------------------------------------


class BackfillBody(BackfillRow, frozen=True, kw_only=True):
    active_runs: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    pending: int


def backfill_body(entry: Backfill) -> BackfillBody:
    counts = ("active_runs", "completed", "failed", "skipped", "cancelled", "pending")
    fields = msgspec.structs.asdict(entry.row) | {name: getattr(entry, name) for name in counts}
    fields["request"] = msgspec.json.encode(request_without_deployments(entry.row.request)).decode()
    return BackfillBody(**fields)


def list_backfills(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, BackfillBody]]:
    """List backfills with their progress, the newest first."""
    after: Any = window.after
    for entry in AutomationReader(view.snapshot).backfills():
        key = (entry.row.created_at, entry.row.backfill_id)
        if (after is None or key < after) and _sees_backfill(view, visible, entry.row):
            yield key, backfill_body(entry)


def _sees_backfill(view: View, visible: Visible, row: BackfillRow) -> bool:
    return RowVisibility(view, visible).selection(row.selection)


class BackfillParameters(AtParameters, frozen=True, kw_only=True):
    backfill_id: Annotated[str, Meta(min_length=1, max_length=64)]


def get_backfill(view: View, visible: Visible, parameters: BackfillParameters) -> BackfillBody:
    """Show a backfill and its progress."""
    return backfill_body(require_backfill(view, visible, parameters.backfill_id))


def require_backfill(view: View, visible: Visible, backfill_id: str) -> Backfill:
    entries = AutomationReader(view.snapshot).backfills()
    entry = next((each for each in entries if each.row.backfill_id == backfill_id), None)
    if entry is None or not _sees_backfill(view, visible, entry.row):
        raise NotFound(f"there is no backfill {backfill_id}")
    return entry


class ChunkListParameters(PageParameters, frozen=True, kw_only=True):
    backfill_id: Annotated[str, Meta(min_length=1, max_length=64)]


def list_backfill_chunks(
    view: View, visible: Visible, parameters: ChunkListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, BackfillRunRow]]:
    """List the requested chunks of a backfill, each with its newest run."""
    entry = require_backfill(view, visible, parameters.backfill_id)
    for row in AutomationReader(view.snapshot).backfill_runs(entry.row.backfill_id):
        if window.after is None or (row.chunk_index,) > window.after:
            yield (row.chunk_index,), row


# -- automation and freshness of assets -------------------------------------------------------


def list_automations(
    view: View, visible: Visible, parameters: RemovedParameters, window: PageWindow
) -> Iterator[tuple[PageKey, AutomationRow]]:
    """List assets with automation and its state."""
    for row in AutomationReader(view.snapshot).automations(removed=parameters.removed):
        after = window.after is None or (row.asset_key,) > window.after
        if after and visible.sees_asset(row.asset_key):
            yield (row.asset_key,), row


class FreshnessParameters(PageParameters, frozen=True, kw_only=True):
    stale: Annotated[bool, Meta(description="Only stale ones.")] = False


def list_freshness(
    view: View, visible: Visible, parameters: FreshnessParameters, window: PageWindow
) -> Iterator[tuple[PageKey, SeriesFreshness]]:
    """List the status of assets with a freshness policy."""
    reader = FreshnessReader(view.snapshot)
    keys = {policy.asset_key for policy in reader.policies()}
    seen = {key for key in keys if visible.sees_asset(key)}
    series = sorted(reader.series(seen, view.now), key=lambda each: (each.asset, each.series))
    for each in series:
        key = (each.asset, each.series)
        is_selected = not parameters.stale or each.status == FreshnessStatus.STALE
        if is_selected and (window.after is None or key > window.after):
            yield key, each


_READ = Permission.RUNS_READ
ROUTES: tuple[Any, ...] = (
    listing("/schedules", _READ, list_schedules, live=True),
    read("/schedules/{project}/{name}", _READ, get_schedule, live=True),
    listing("/schedules/{project}/{name}/ticks", _READ, list_ticks),
    listing("/sensors", _READ, list_sensors),
    read("/sensors/{project}/{name}", _READ, get_sensor),
    listing("/sensors/{project}/{name}/evaluations", _READ, list_evaluations),
    listing("/backfills", _READ, list_backfills),
    read("/backfills/{backfill_id}", _READ, get_backfill),
    listing("/backfills/{backfill_id}/chunks", _READ, list_backfill_chunks),
    listing("/automations", _READ, list_automations),
    listing("/freshness", Permission.ASSETS_READ, list_freshness, live=True),
)
