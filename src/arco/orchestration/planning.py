"""From a request to the events that start its run, and the plan that they refer to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from arco.orchestration.events import RunTriggered, TasksPlanned
from arco.orchestration.limit_tables import (
    WORKSPACE,
    DeclaredLimits,
    LimitName,
    LimitReached,
    Permit,
)
from arco.orchestration.plan import Plan, PlanRequest, PlanSpec, encode_plan, spec_fingerprint
from arco.orchestration.plan_defaults import DefaultRange, default_ranges
from arco.orchestration.plan_events import slices
from arco.orchestration.planner import PlanScope
from arco.orchestration.planner import plan as make_spec
from arco.orchestration.reader import Library, OrchestrationReader, SnapshotLookups
from arco.orchestration.run_requests import request_fingerprint
from arco.orchestration.states import GOOD, RunTrigger
from arco.orchestration.world import World
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.unique_objects import put_own
from servo.contract.manifest import Manifest

ASKED = 100
ASKED_CHARS = 10_000
"""Maximum length of a request's selection, and of its partitions, in the run's row."""


class RunSettings(NamedTuple):
    """Settings of a run besides its plan."""

    run_key: str = ""
    run_id: str = ""
    """Empty: a new one."""
    trigger: RunTrigger = RunTrigger.MANUAL
    reference: str = ""
    timeout_s: int = 0
    priority: int = 0
    retry_of: str = ""
    engine_id: str = ""
    triggered_by: str = ""
    """Who requested it, if that is not the process that plans it."""
    permit: Permit | None = None
    """The permit, if limits of runs are set."""


class PlannedRun(NamedTuple):
    plan: Plan
    event: RunTriggered
    along: list[TasksPlanned]
    """In one batch with the event, after the plan is stored."""

    @property
    def spec(self) -> PlanSpec:
        return self.plan.spec


class ReviewedPlan(NamedTuple):
    """A plan, and what it was computed from."""

    manifest: Manifest
    spec: PlanSpec
    lookups: SnapshotLookups

    def defaults(self) -> list[DefaultRange]:
        """Which partitions the plan has because the request did not name their dimension."""
        return default_ranges(self.manifest, self.spec, self.lookups.dynamic_keys)


Review = Callable[[ReviewedPlan], None]
"""Sees a plan before its run is started, and may refuse it with an error."""


def accept(plan: ReviewedPlan) -> None:
    """The review that refuses nothing."""


class RunPlanner:
    def __init__(self, core: Core, library: Library, actor: str = "") -> None:
        self._store = core.store
        self._clock = core.clock
        self._ids = core.ids
        self._library = library
        self._actor = actor
        self._world: tuple[tuple[tuple[str, str], ...], World] | None = None
        self._limits: tuple[int, DeclaredLimits] | None = None

    def spec(
        self,
        snapshot: Snapshot,
        request: PlanRequest,
        until: datetime | None,
        world: World | None = None,
    ) -> PlanSpec:
        """What a run would do. Changes nothing."""
        world = world or self.world(snapshot, request.deployments)
        return self._spec(world, snapshot, _resumed(snapshot, request), until)

    def world(self, snapshot: Snapshot, deployments: Sequence[str] = ()) -> World:
        """What is deployed; the last one is kept, since it is the same until the next deploy."""
        rows = World.deployments(OrchestrationReader(snapshot), deployments)
        key = tuple([(row.project, row.deployment_id) for row in rows])
        if self._world is None or self._world[0] != key:
            manifests = [self._library.outline(row.manifest) for row in rows]
            self._world = key, World(rows, manifests)
        return self._world[1]

    def scope(
        self, snapshot: Snapshot, request: PlanRequest, until: datetime | None = None
    ) -> PlanScope:
        """The assets and keys that a request means."""
        graph = self.world(snapshot, request.deployments).graph
        until = until or self._clock.now()
        return PlanScope.of(graph, request, _lookups(snapshot, request, until), until)

    def run(
        self,
        snapshot: Snapshot,
        request: PlanRequest,
        settings: RunSettings,
        until: datetime | None = None,
        world: World | None = None,
    ) -> PlannedRun:
        """Plan a run. Raises Invalid for what cannot be planned. Stores nothing."""
        world = world or self.world(snapshot, request.deployments)
        spec = self._spec(world, snapshot, _resumed(snapshot, request), until)
        plan = self._plan(world, spec, settings.run_id, until, snapshot.position)
        longest = self._declared(snapshot).of_workspace(LimitName.RUN_DURATION)
        is_limited = longest is not None and not 0 < settings.timeout_s <= longest
        selection, selection_total = _first(request.selection)
        partitions, partitions_total = _first(
            request.partitions
            if request.chunk is None
            else self.scope(snapshot, request, until).chunk_texts(request)
        )
        event = RunTriggered(
            run_id=plan.run_id,
            plan_id=plan.plan_id,
            plan_fingerprint=plan.fingerprint,
            deployment_id=plan.deployment_id,
            tasks_total=len(spec.tasks),
            run_key=settings.run_key,
            request_fingerprint=request_fingerprint(request),
            trigger=settings.trigger,
            triggered_by=settings.triggered_by or self._actor,
            selection=selection,
            partitions=partitions,
            selection_total=selection_total,
            partitions_total=partitions_total,
            timeout_s=longest if is_limited and longest else settings.timeout_s,
            priority=settings.priority,
            retry_of=settings.retry_of,
            engine_id=settings.engine_id,
            reference=settings.reference or UNSET,
            permit=settings.permit or UNSET,
            timeout_limit=LimitName.RUN_DURATION.value if is_limited else UNSET,
        )
        return PlannedRun(plan, event, slices(plan.run_id, spec, world.graph.assets))

    def store(self, planned: PlannedRun) -> None:
        """Store the plan of a run, which its events refer to."""
        put_own(self._store, paths.plan(planned.plan.plan_id), encode_plan(planned.plan))

    def _spec(
        self, world: World, snapshot: Snapshot, request: PlanRequest, until: datetime | None
    ) -> PlanSpec:
        until = until or self._clock.now()
        return planned_spec(world, snapshot, request, until, self._declared(snapshot))

    def _declared(self, snapshot: Snapshot) -> DeclaredLimits:
        """The limits of a snapshot, read once for all runs that are planned from it."""
        if self._limits is None or self._limits[0] != snapshot.generation:
            self._limits = snapshot.generation, OrchestrationReader(snapshot).limits()
        return self._limits[1]

    def _plan(
        self, world: World, spec: PlanSpec, run_id: str, until: datetime | None, position: int
    ) -> Plan:
        return Plan(
            plan_id=self._ids(),
            run_id=run_id or self._ids(),
            deployment_id=world.deployment_of(spec).deployment_id,
            created_at=self._clock.now(),
            created_by=self._actor,
            fingerprint=spec_fingerprint(spec),
            spec=spec,
            until=until,
            position=position,
        )


def planned_spec(
    world: World,
    snapshot: Snapshot,
    request: PlanRequest,
    until: datetime,
    limits: DeclaredLimits,
    lookups: SnapshotLookups | None = None,
) -> PlanSpec:
    """What a run would do. Raises Invalid for what cannot be planned. `lookups`: of several plans
    that are made from one snapshot."""
    lookups = lookups or _lookups(snapshot, request, until)
    spec = world.placed(make_spec(world.graph, "", request, lookups, until=until))
    most = limits.of_workspace(LimitName.TASKS_PER_RUN)
    count = len(spec.tasks)
    if most is not None and count > most:
        text = f"the run would have {count:,} tasks"
        raise LimitReached(WORKSPACE, LimitName.TASKS_PER_RUN, most, count, text)
    return spec


def _lookups(snapshot: Snapshot, request: PlanRequest, until: datetime) -> SnapshotLookups:
    """Chunks of one request are planned at different times: keys that are added later are in
    none of them."""
    return SnapshotLookups(snapshot, chunk_until=None if request.chunk is None else until)


def _resumed(snapshot: Snapshot, request: PlanRequest) -> PlanRequest:
    """A chunk that is requested again: only what its last run left unfinished runs again."""
    if request.chunk is None or not request.chunk.retries:
        return request
    reader = OrchestrationReader(snapshot)
    runs = (reader.run_of_key(key) for key in request.chunk.retries)
    run_id = next((run_id for run_id in runs if run_id is not None), None)
    if run_id is None:  # it was never planned
        return request
    left = [task.task_id for task in reader.tasks(run_id) if task.state not in GOOD]
    chunk = msgspec.structs.replace(request.chunk, retries=())
    return msgspec.structs.replace(request, force=False, redo=tuple(left), chunk=chunk)


def _first(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The first of many texts, and how many there are; 0 where none is left out."""
    listed: list[str] = []
    room = ASKED_CHARS
    for text in texts[:ASKED]:
        room -= len(text)
        if room < 0:
            break
        listed.append(text)
    return tuple(listed), len(texts) if len(listed) < len(texts) else 0
