"""What will happen by itself: ticks to come and what they would run, why an asset runs or waits."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, NamedTuple
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
from arco.orchestration.partition_space import Calendar
from arco.orchestration.planning import planned_spec
from arco.orchestration.reader import OrchestrationReader, SnapshotLookups
from arco.orchestration.world import World
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from servo.contract.keys import AssetKey
from servo.contract.manifest import TimeDimension
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
    plans = _TickPlans(view, visible, row)
    return SchedulePreview(
        schedule_id=row.schedule_id,
        state=row.state,
        timezone=row.timezone,
        clock_change=change,
        ticks=[_previewed(row, tick, plans) for tick in ordered],
    )


class _TickPlan(NamedTuple):
    tasks: list[PreviewedTask]
    refused: str = ""
    hint: str = ""


class _TickPlans:
    """What ticks would run. Ticks before which the same periods end have the same plan."""

    def __init__(self, view: View, visible: Visible, row: ScheduleRow) -> None:
        self._snapshot = view.snapshot
        self._visible = visible
        self._request = request_of(row)
        self._world = deployed_world(view)
        self._lookups = SnapshotLookups(view.snapshot)
        self._limits = OrchestrationReader(view.snapshot).limits()
        assets = self._world.graph.assets.values()
        dimensions = (dimension for asset in assets for dimension in asset.partitions)
        self._times = {each: None for each in dimensions if isinstance(each, TimeDimension)}
        self._plans: dict[tuple[int, ...], _TickPlan] = {}

    def of(self, at: datetime) -> _TickPlan:
        periods = tuple(Calendar(dimension, at).complete for dimension in self._times)
        if periods not in self._plans:
            self._plans[periods] = self._plan(at)
        return self._plans[periods]

    def _plan(self, at: datetime) -> _TickPlan:
        try:
            spec = planned_spec(
                self._world, self._snapshot, self._request, at, self._limits, self._lookups
            )
        except (Error, Invalid) as error:
            return _TickPlan([], error.message, error.hint)
        return _TickPlan(
            [
                PreviewedTask(asset=task.asset, partition=task.partition, action=task.action)
                for task in spec.tasks
                if self._visible.sees_asset(task.asset)
            ]
        )


def _previewed(row: ScheduleRow, tick: Tick, plans: _TickPlans) -> PreviewedTick:
    local = tick.at.replace(tzinfo=UTC).astimezone(ZoneInfo(row.timezone))
    tasks, refused, hint = plans.of(tick.at)
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
