"""Pause, resume and call schedules, sensors, assets' automation and backfills."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta

from arco.api.command_keys import id_of_key
from arco.api.reads.automation_reads import (
    BackfillBody,
    OwnName,
    ProjectName,
    ScheduleBody,
    backfill_body,
    require_backfill,
    require_schedule,
    require_sensor,
    schedule_body,
)
from arco.api.reads.catalog import AssetName
from arco.api.routes import NoBody, Parameters, write
from arco.api.views import require_asset
from arco.api.writes.run_writes import (
    NoParameters,
    ReasonText,
    RequestedBody,
    SelectionBody,
    allow_chosen,
    allow_namespaces,
    allow_selection,
)
from arco.api.writing import WriteAnswer, Writing
from arco.automation.asset_events import ResumeCatchup
from arco.automation.asset_tables import AutomationRow
from arco.automation.backfill_commands import BackfillDraft, BackfillPreview
from arco.automation.fold import request_of
from arco.automation.reader import AutomationReader, Backfill
from arco.automation.sensor_reader import SensorReader
from arco.automation.sensor_tables import SensorRow
from arco.automation.tables import BACKFILLS, SCHEDULES
from arco.errors import Conflict, NotFound
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import decode_request
from arco.orchestration.tables import PROJECT_NAMESPACES
from arco.security.permissions import Permission


class ProjectItem(Parameters, frozen=True, kw_only=True):
    project: ProjectName
    name: OwnName


class ReasonBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: ReasonText = ""


def allow_project(writing: Writing, project: str) -> None:
    """Raise unless the caller may do this in all namespaces of a project."""
    if writing.caller.may(writing.permission):
        return
    rows = writing.view.snapshot.all(PROJECT_NAMESPACES)
    allow_namespaces(writing, [row.namespace for row in rows if row.project == project])


# -- schedules --------------------------------------------------------------------------------


def _schedule(writing: Writing, parameters: ProjectItem) -> str:
    row = require_schedule(writing.view, writing.visible, parameters.project, parameters.name)
    allow_project(writing, row.project)
    return row.schedule_id


def _schedule_after(
    writing: Writing, schedule_id: str, generation: int
) -> WriteAnswer[ScheduleBody]:
    view = writing.fresh()
    row = AutomationReader(view.snapshot).schedule(schedule_id)
    return WriteAnswer(schedule_body(view, row), generation, f"/schedules/{schedule_id}")


def pause_schedule(
    writing: Writing, parameters: ProjectItem, body: ReasonBody
) -> WriteAnswer[ScheduleBody]:
    """Pause a schedule: no tick fires until it is resumed."""
    id = _schedule(writing, parameters)
    done = writing.commands.automation.pause(id, reason=body.reason)
    return _schedule_after(writing, id, done.generation)


class ResumeScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    catchup: Literal["none", "latest", "all"] = "none"
    """Ticks of the pause that fire now."""


def resume_schedule(
    writing: Writing, parameters: ProjectItem, body: ResumeScheduleBody
) -> WriteAnswer[ScheduleBody]:
    """Resume a schedule."""
    id = _schedule(writing, parameters)
    done = writing.commands.automation.resume(id, catchup=body.catchup)
    return _schedule_after(writing, id, done.generation)


def tick_schedule(
    writing: Writing, parameters: ProjectItem, body: NoBody
) -> WriteAnswer[RequestedBody]:
    """Request the run of a tick now. The schedule's own ticks do not change."""
    id = _schedule(writing, parameters)
    row = writing.view.snapshot.get(SCHEDULES, id)
    if row is not None:
        allow_chosen(writing, request_of(row))
    requested = writing.unkeyed.automation.tick(id, run_key=writing.key)
    answer = RequestedBody(
        request_key=requested.request_key, run_id=requested.run_id, state=requested.state
    )
    location = f"/requests/by-key?key={quote(requested.request_key, safe='')}"
    return WriteAnswer(answer, requested.generation, location)


# -- sensors ----------------------------------------------------------------------------------


def _sensor(writing: Writing, parameters: ProjectItem) -> str:
    row = require_sensor(writing.view, writing.visible, parameters.project, parameters.name)
    allow_project(writing, row.project)
    return row.sensor_id


def _sensor_after(writing: Writing, sensor_id: str, generation: int) -> WriteAnswer[SensorRow]:
    row = SensorReader(writing.fresh().snapshot).sensor(sensor_id)
    return WriteAnswer(row, generation, f"/sensors/{sensor_id}")


def pause_sensor(
    writing: Writing, parameters: ProjectItem, body: ReasonBody
) -> WriteAnswer[SensorRow]:
    """Pause a sensor: it is not evaluated until it is resumed. Messages to it wait."""
    id = _sensor(writing, parameters)
    done = writing.commands.sensors.pause(id, reason=body.reason)
    return _sensor_after(writing, id, done.generation)


def resume_sensor(
    writing: Writing, parameters: ProjectItem, body: NoBody
) -> WriteAnswer[SensorRow]:
    """Resume a sensor. It continues from its cursor."""
    id = _sensor(writing, parameters)
    done = writing.commands.sensors.resume(id)
    return _sensor_after(writing, id, done.generation)


class ResetSensorBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cursor: Annotated[str, Meta(max_length=100_000)] = ""
    reason: ReasonText = ""


def reset_sensor(
    writing: Writing, parameters: ProjectItem, body: ResetSensorBody
) -> WriteAnswer[SensorRow]:
    """Clear the cursor of a sensor, or set it."""
    id = _sensor(writing, parameters)
    done = writing.commands.sensors.reset(id, cursor=body.cursor, reason=body.reason)
    return _sensor_after(writing, id, done.generation)


class PushBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=200)]
    """The id of the message; each id is processed once."""
    payload: str = ""


class PushedBody(msgspec.Struct, frozen=True, kw_only=True):
    sensor_id: str
    message_id: str
    state: str
    is_repeated: bool


def push_message(
    writing: Writing, parameters: ProjectItem, body: PushBody
) -> WriteAnswer[PushedBody]:
    """Push a message to a webhook sensor."""
    id = _sensor(writing, parameters)
    return pushed(writing, id, body.id, body.payload)


def pushed(
    writing: Writing, sensor_id: str, message_id: str, payload: str
) -> WriteAnswer[PushedBody]:
    push = writing.unkeyed.sensors.push(sensor_id, message_id, payload)
    answer = PushedBody(
        sensor_id=push.sensor_id,
        message_id=message_id,
        state=str(push.state),
        is_repeated=push.is_repeated,
    )
    return WriteAnswer(answer, writing.fresh().generation, f"/sensors/{sensor_id}")


# -- automation of assets ---------------------------------------------------------------------


class AutomationParameters(Parameters, frozen=True, kw_only=True):
    asset: AssetName


def _automated(writing: Writing, asset: str) -> str:
    require_asset(writing.visible, asset)
    rows = AutomationReader(writing.view.snapshot).automations()
    if all(row.asset_key != asset for row in rows):
        raise NotFound(f"no asset {asset} has automation")
    writing.allow_asset(asset)
    return asset


def _automation_after(writing: Writing, asset: str, generation: int) -> WriteAnswer[AutomationRow]:
    row = AutomationReader(writing.fresh().snapshot).automation(asset)
    return WriteAnswer(row, generation, "/automations")


def pause_automation(
    writing: Writing, parameters: AutomationParameters, body: ReasonBody
) -> WriteAnswer[AutomationRow]:
    """Pause the automation of an asset."""
    asset = _automated(writing, parameters.asset)
    done = writing.commands.asset_automation.pause(asset, reason=body.reason)
    return _automation_after(writing, asset, done.generation)


class ResumeAutomationBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    catchup: ResumeCatchup = "none"


def resume_automation(
    writing: Writing, parameters: AutomationParameters, body: ResumeAutomationBody
) -> WriteAnswer[AutomationRow]:
    """Resume the automation of an asset."""
    asset = _automated(writing, parameters.asset)
    done = writing.commands.asset_automation.resume(asset, catchup=body.catchup)
    return _automation_after(writing, asset, done.generation)


# -- backfills --------------------------------------------------------------------------------


class BackfillDraftBody(SelectionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    chunk_size: Annotated[int, Meta(ge=1, le=10_000)] = 100
    max_concurrent_runs: Annotated[int, Meta(ge=1, le=100)] = 3
    order: Literal["oldest", "newest"] = "oldest"
    failure_threshold: Annotated[str, Meta(max_length=20)] = ""
    """Stop when more partitions fail: `10%` of all, or a number."""
    reason: ReasonText = ""

    def draft(self) -> BackfillDraft:
        return BackfillDraft(
            request=self.request(),
            chunk_size=self.chunk_size,
            max_concurrent_runs=self.max_concurrent_runs,
            newest_first=self.order == "newest",
            failure_threshold=self.failure_threshold,
            reason=self.reason,
        )


def create_backfill(
    writing: Writing, parameters: NoParameters, body: BackfillDraftBody
) -> WriteAnswer[BackfillBody]:
    """Create a backfill: its partitions are split into chunks; each chunk is a run."""
    _allow_targets(writing, body)
    draft = body.draft()
    id = id_of_key(writing.key) if writing.key else ""
    earlier = writing.view.snapshot.get(BACKFILLS, id) if id else None
    if earlier is None:
        entry = writing.unkeyed.backfills.create(draft, backfill_id=id)
    else:
        entry = require_backfill(writing.view, writing.visible, id)
        if not _is_same(entry, draft):
            raise Conflict("this idempotency key was used for another backfill")
    view = writing.fresh()
    return WriteAnswer(backfill_body(entry), view.generation, f"/backfills/{entry.row.backfill_id}")


def _allow_targets(writing: Writing, body: SelectionBody) -> None:
    """A backfill has more partitions than one plan: its assets are what is authorized."""
    if writing.caller.may(writing.permission):
        return
    allow_selection(writing, body.request())


def _is_same(entry: Backfill, draft: BackfillDraft) -> bool:
    row, stored = entry.row, decode_request(entry.row.request)
    names = ("selection", "exclude", "partitions", "force", "refresh_sources", "config")

    def settings_of(request: PlanRequest) -> list[Any]:
        return [getattr(request, name) for name in names]

    settings = (draft.chunk_size, draft.max_concurrent_runs, draft.newest_first)
    return settings_of(stored) == settings_of(draft.request) and settings == (
        row.chunk_size,
        row.max_concurrent_runs,
        row.newest_first,
    )


def preview_backfill(
    writing: Writing, parameters: NoParameters, body: BackfillDraftBody
) -> WriteAnswer[BackfillPreview]:
    """Show what a backfill would do, with an estimate of its time and cost. Changes nothing."""
    _allow_targets(writing, body)
    return WriteAnswer(writing.unkeyed.backfills.preview(body.draft()), writing.view.generation)


class BackfillWriteParameters(Parameters, frozen=True, kw_only=True):
    backfill_id: Annotated[str, Meta(min_length=1, max_length=64)]


def _backfill(writing: Writing, parameters: BackfillWriteParameters) -> str:
    entry = require_backfill(writing.view, writing.visible, parameters.backfill_id)
    allow_chosen(writing, decode_request(entry.row.request))
    return entry.row.backfill_id


def _backfill_after(writing: Writing, entry: Backfill) -> WriteAnswer[BackfillBody]:
    generation = writing.fresh().generation
    return WriteAnswer(backfill_body(entry), generation, f"/backfills/{entry.row.backfill_id}")


def pause_backfill(
    writing: Writing, parameters: BackfillWriteParameters, body: ReasonBody
) -> WriteAnswer[BackfillBody]:
    """Pause a backfill: no further chunk is requested until it is resumed."""
    id = _backfill(writing, parameters)
    return _backfill_after(writing, writing.commands.backfills.pause(id, reason=body.reason))


def resume_backfill(
    writing: Writing, parameters: BackfillWriteParameters, body: NoBody
) -> WriteAnswer[BackfillBody]:
    """Resume a backfill."""
    id = _backfill(writing, parameters)
    return _backfill_after(writing, writing.commands.backfills.resume(id))


def cancel_backfill(
    writing: Writing, parameters: BackfillWriteParameters, body: ReasonBody
) -> WriteAnswer[BackfillBody]:
    """Cancel a backfill: no further chunk is requested, and its runs are cancelled."""
    id = _backfill(writing, parameters)
    return _backfill_after(writing, writing.commands.backfills.cancel(id, reason=body.reason))


def retry_backfill(
    writing: Writing, parameters: BackfillWriteParameters, body: NoBody
) -> WriteAnswer[BackfillBody]:
    """Request failed and cancelled chunks again."""
    id = _backfill(writing, parameters)
    return _backfill_after(writing, writing.commands.backfills.retry(id))


_MANAGE = Permission.AUTOMATION_MANAGE
_BACKFILL = Permission.BACKFILLS_MANAGE
ROUTES: tuple[Any, ...] = (
    write("POST", "/schedules/{project}/{name}/pause", _MANAGE, pause_schedule),
    write("POST", "/schedules/{project}/{name}/resume", _MANAGE, resume_schedule),
    write("POST", "/schedules/{project}/{name}/tick", _MANAGE, tick_schedule, status=202),
    write("POST", "/sensors/{project}/{name}/pause", _MANAGE, pause_sensor),
    write("POST", "/sensors/{project}/{name}/resume", _MANAGE, resume_sensor),
    write("POST", "/sensors/{project}/{name}/reset", _MANAGE, reset_sensor),
    write(
        "POST",
        "/sensors/{project}/{name}/messages",
        Permission.SENSORS_PUSH,
        push_message,
        status=202,
    ),
    write("POST", "/automations/{asset}/pause", _MANAGE, pause_automation),
    write("POST", "/automations/{asset}/resume", _MANAGE, resume_automation),
    write("POST", "/backfills", Permission.BACKFILLS_CREATE, create_backfill, status=201),
    write("POST", "/backfills/preview", Permission.BACKFILLS_CREATE, preview_backfill),
    write("POST", "/backfills/{backfill_id}/pause", _BACKFILL, pause_backfill),
    write("POST", "/backfills/{backfill_id}/resume", _BACKFILL, resume_backfill),
    write("POST", "/backfills/{backfill_id}/cancel", _BACKFILL, cancel_backfill),
    write("POST", "/backfills/{backfill_id}/retry", _BACKFILL, retry_backfill),
)
