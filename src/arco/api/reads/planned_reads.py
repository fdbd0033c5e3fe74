"""What will happen by itself: ticks to come and what they would run, why an asset runs or waits."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from arco.api.reads.automation_reads import (
    OwnName,
    ProjectName,
    require_schedule,
)
from arco.api.reads.catalog import AssetName
from arco.api.routes import AtParameters, read
from arco.api.views import View, require_asset
from arco.automation.asset_commands import ExplainedPartition, explained_asset
from arco.automation.asset_tables import AutomationRow
from arco.automation.fold import request_of
from arco.automation.tables import ScheduleRow, ScheduleState
from arco.automation.ticks import Tick, next_clock_change, ticks_after, ticks_around
from arco.errors import Error
from arco.orchestration.plan import PlanSpec
from arco.orchestration.planning import planned_spec
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.world import World
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from servo.contract.keys import AssetKey
from servo.errors import Invalid

MAX_TASKS = 200


class SchedulePreviewParameters(AtParameters, frozen=True, kw_only=True):
    project: ProjectName
    name: OwnName
    count: Annotated[int, Meta(ge=1, le=20, description="Number of ticks.")] = 5


class PreviewedTask(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    action: str


class PreviewedTick(msgspec.Struct, frozen=True, kw_only=True):
    tick: str
    """The wall time; the second time within a repeated hour ends in `/2`."""
    at: datetime
    offset: str
    """Of the zone from UTC then."""
    tasks: int
    """How many the run would have, of assets that the caller sees."""
    runs: int
    """Those of them that are not up to date."""
    first_tasks: list[PreviewedTask]
    refused: str
    """Why nothing would run; empty if something would."""
    hint: str


class SchedulePreview(msgspec.Struct, frozen=True, kw_only=True):
    schedule_id: str
    state: ScheduleState
    """None of the ticks fires while it is not ACTIVE."""
    timezone: str
    clock_change: datetime | None
    """The next one of the zone. Ticks around it are listed too."""
    ticks: list[PreviewedTick]


def preview_schedule(
    view: View, visible: Visible, parameters: SchedulePreviewParameters
) -> SchedulePreview:
    """Show the next ticks, those around the next clock change, and the tasks of each.

    The tasks are planned with the current deployment and versions.
    """
    row = require_schedule(view, visible, parameters.project, parameters.name)
    change = next_clock_change(row.timezone, view.now)
    ticks = set(islice(ticks_after(row.cron, row.timezone, view.now), parameters.count))
    if change is not None:
        ticks |= set(ticks_around(row.cron, row.timezone, change))
    ordered = sorted(ticks, key=lambda tick: tick.at)
    return SchedulePreview(
        schedule_id=row.schedule_id,
        state=row.state,
        timezone=row.timezone,
        clock_change=change,
        ticks=[_previewed(view, visible, row, tick) for tick in ordered],
    )


def _previewed(view: View, visible: Visible, row: ScheduleRow, tick: Tick) -> PreviewedTick:
    local = tick.at.replace(tzinfo=UTC).astimezone(ZoneInfo(row.timezone))
    refused = hint = ""
    tasks: list[PreviewedTask] = []
    try:
        tasks = [
            PreviewedTask(asset=task.asset, partition=task.partition, action=task.action)
            for task in _planned(view, row, tick).tasks
            if visible.sees_asset(task.asset)
        ]
    except (Error, Invalid) as error:
        refused, hint = error.message, error.hint
    return PreviewedTick(
        tick=tick.name,
        at=tick.at,
        offset=f"{local:%z}",
        tasks=len(tasks),
        runs=sum(task.action == "run" for task in tasks),
        first_tasks=tasks[:MAX_TASKS],
        refused=refused,
        hint=hint,
    )


def _planned(view: View, row: ScheduleRow, tick: Tick) -> PlanSpec:
    limits = OrchestrationReader(view.snapshot).limits()
    return planned_spec(deployed_world(view), view.snapshot, request_of(row), tick.at, limits)


def deployed_world(view: View) -> World:
    """What is deployed, as plans are made from it."""

    def read_world() -> World:
        rows = World.deployments(OrchestrationReader(view.snapshot), ())
        return World(rows, [view.library.outline(row.manifest) for row in rows])

    return view.derived("world", read_world)


class AutomationExplainParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    partition: Annotated[
        list[Annotated[str, Meta(max_length=2000)]],
        Meta(max_length=20, description="Partitions: date=2026-01-31. None: the newest period."),
    ] = []


class AutomationExplanation(msgspec.Struct, frozen=True, kw_only=True):
    automation: AutomationRow
    next_tick: datetime | None
    """Of `on_cron`: what would run does so then."""
    partitions: list[ExplainedPartition]


def explain_automation(
    view: View, visible: Visible, parameters: AutomationExplainParameters
) -> AutomationExplanation:
    """Show why partitions of an asset would run now, or what they wait for.

    `runs`: an orchestrator requests it now, or with on_cron at the next tick. `waits`: there is or
    may be a cause, but an input is not ready. `idle`: there is no cause.
    """
    require_asset(visible, parameters.asset)
    key = str(AssetKey.parse(parameters.asset))
    explained = explained_asset(
        view.snapshot,
        view.library,
        deployed_world(view),
        view.now,
        key,
        parameters.partition,
    )
    return AutomationExplanation(
        automation=explained.automation,
        next_tick=explained.next_tick,
        partitions=explained.partitions,
    )


_RUNS = Permission.RUNS_READ
ROUTES: tuple[Any, ...] = (
    read("/schedules/{project}/{name}/preview", _RUNS, preview_schedule, live=True),
    read("/automations/{asset}/explain", _RUNS, explain_automation, live=True),
)
