"""Trigger, cancel and retry runs; withdraw requests.

What a request selects is planned first, and then each namespace that would run is authorized.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta

from arco.api.reads.request_reads import RequestBody, request_body, require_request
from arco.api.reads.run_reads import RunId
from arco.api.routes import NoBody, Parameters, write
from arco.api.row_visibility import RowVisibility
from arco.api.run_visibility import require_run, run_namespaces
from arco.api.views import View, require_asset
from arco.api.visible_plans import visible_manifest, visible_spec
from arco.api.writing import WriteAnswer, Writing
from arco.errors import Denied, NotFound
from arco.orchestration.plan import PlanRequest, PlanSpec
from arco.orchestration.planning import planned_spec
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.selection import Graph, select
from arco.orchestration.states import RunState
from arco.orchestration.world import World
from arco.security.permissions import Permission
from arco.times import utc
from servo.contract.manifest import Manifest

Term = Annotated[str, Meta(min_length=1, max_length=1000)]
ReasonText = Annotated[str, Meta(max_length=2000)]
PREVIEWED_TASKS = 100


class NoParameters(Parameters, frozen=True, kw_only=True):
    pass


class SelectionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Assets and partitions, as `servo run` takes them."""

    selection: Annotated[tuple[Term, ...], Meta(min_length=1, max_length=1000)]
    exclude: Annotated[tuple[Term, ...], Meta(max_length=1000)] = ()
    partitions: Annotated[tuple[Term, ...], Meta(max_length=1000)] = ()
    force: bool = False
    refresh_sources: bool = False
    config: dict[str, str | int | bool | None] = {}

    def request(self) -> PlanRequest:
        return PlanRequest(
            selection=self.selection,
            exclude=self.exclude,
            partitions=self.partitions,
            force=self.force,
            refresh_sources=self.refresh_sources,
            config=self.config,
        )


class TriggerBody(SelectionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    timeout_s: Annotated[int, Meta(ge=0, le=86_400 * 30)] = 0
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0


class RequestedBody(msgspec.Struct, frozen=True, kw_only=True):
    request_key: str
    run_id: str
    """The id that the run will have."""
    state: str


def allow_selection(writing: Writing, request: PlanRequest) -> None:
    """Raise unless the caller may do this with all that a request selects."""
    if writing.caller.may(writing.permission):
        return
    for term in (*request.selection, *request.exclude):
        name = term.strip("+0123456789")
        if ":" not in name and name != "*":
            require_asset(writing.visible, name)
    allow_chosen(writing, request)


def allow_chosen(writing: Writing, request: PlanRequest) -> None:
    """Raise unless the caller may do this with all assets that a request means by now."""
    if writing.caller.may(writing.permission):
        return
    rows = World.deployments(OrchestrationReader(writing.view.snapshot), request.deployments)
    world = World(rows, [writing.view.library.outline(row.manifest) for row in rows])
    chosen = select(world.graph, request.selection, request.exclude)
    allow_namespaces(writing, {key.partition(".")[0] for key in chosen})


def allow_namespaces(writing: Writing, namespaces: Iterable[str]) -> None:
    names = sorted(set(namespaces))
    if not names:
        writing.allow_workspace()  # what is of no namespace is the workspace's
    for namespace in names:
        if not writing.caller.may(writing.permission, namespace):
            raise Denied(
                "the selection includes assets in namespaces where you do not have this permission",
                hint=f"ask an owner for a role that has {writing.permission} there",
            )


def trigger_run(
    writing: Writing, parameters: NoParameters, body: TriggerBody
) -> WriteAnswer[RequestedBody]:
    """Request a run, which an orchestrator plans and starts.

    With an Idempotency-Key the same request starts one run, however often it is sent.
    """
    request = body.request()
    allow_selection(writing, request)
    requested = writing.unkeyed.orchestration.request(
        request,
        run_key=writing.key,
        timeout=timedelta(seconds=body.timeout_s) if body.timeout_s else None,
        priority=body.priority,
    )
    answer = RequestedBody(
        request_key=requested.request_key, run_id=requested.run_id, state=requested.state
    )
    location = f"/requests/by-key?key={quote(requested.request_key, safe='')}"
    return WriteAnswer(answer, requested.generation, location)


class PlannedAsset(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    tasks: int
    runs: int
    """Those that are not up to date."""


class PreviewedRunTask(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    action: str
    reason: str


class PlanPreview(msgspec.Struct, frozen=True, kw_only=True):
    tasks: int
    runs: int
    assets: list[PlannedAsset]
    first_tasks: list[PreviewedRunTask]
    """With why each of them runs or is reused; those that run come first."""


def preview_run(
    writing: Writing, parameters: NoParameters, body: SelectionBody
) -> WriteAnswer[PlanPreview]:
    """Plan a run without starting it: which assets it would run. Changes nothing."""
    allow_selection(writing, body.request())
    spec = writing.unkeyed.orchestration.plan(body.request())
    assets: dict[str, list[int]] = {}
    for task in spec.tasks:
        counts = assets.setdefault(task.asset, [0, 0])
        counts[0] += 1
        counts[1] += task.action == "run"
    preview = PlanPreview(
        tasks=len(spec.tasks),
        runs=sum(runs for _, runs in assets.values()),
        assets=[
            PlannedAsset(asset=asset, tasks=tasks, runs=runs)
            for asset, (tasks, runs) in sorted(assets.items())
        ],
        first_tasks=[
            PreviewedRunTask(
                asset=task.asset, partition=task.partition, action=task.action, reason=task.reason
            )
            for task in heapq.nsmallest(
                PREVIEWED_TASKS, spec.tasks, key=lambda task: task.action != "run"
            )
        ],
    )
    return WriteAnswer(preview, writing.view.generation)


class PlanBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request: PlanRequest
    until: datetime | None = None
    """Periods that end later do not exist for it; null: now."""


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    spec: PlanSpec


def plan_run(writing: Writing, parameters: NoParameters, body: PlanBody) -> WriteAnswer[PlanAnswer]:
    """Plan a run without starting it: all of its tasks that the caller sees. Changes nothing."""
    snapshot, library = writing.view.snapshot, writing.view.library
    visibility = RowVisibility(writing.view, writing.caller.where(Permission.RUNS_READ))
    request = body.request
    if not visibility.everything:
        request = _seen_request(writing.view, visibility, request)
    rows = World.deployments(OrchestrationReader(snapshot), request.deployments)
    world = World(rows, [library.outline(row.manifest) for row in rows])
    until = writing.view.now if body.until is None else utc(body.until)
    limits = OrchestrationReader(snapshot).limits()
    spec = planned_spec(world, snapshot, request, until, limits)
    seen_part = msgspec.structs.replace(visible_spec(spec, visibility), request=body.request)
    return WriteAnswer(PlanAnswer(spec=seen_part), snapshot.generation)


def _seen_request(view: View, visibility: RowVisibility, request: PlanRequest) -> PlanRequest:
    """The same for the assets that the caller sees, as if there were no others."""
    rows = World.deployments(OrchestrationReader(view.snapshot))
    outlines = [visible_manifest(view.library.outline(row.manifest), visibility) for row in rows]
    assets = [asset for outline in outlines if outline is not None for asset in outline.assets]
    if not assets:
        raise NotFound("there are no deployments", hint="run `servo deploy` in your project")
    graph = Graph(Manifest(assets=tuple(sorted(assets, key=lambda asset: asset.key))))
    chosen = select(graph, request.selection, request.exclude)
    return msgspec.structs.replace(
        request, selection=tuple(sorted(chosen)), exclude=(), deployments=()
    )


class RunWriteParameters(Parameters, frozen=True, kw_only=True):
    run_id: RunId


class CancelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    force: bool = False
    """Do not wait for running tasks to stop."""
    reason: ReasonText = ""


class RunStateBody(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    state: RunState


def cancel_run(
    writing: Writing, parameters: RunWriteParameters, body: CancelBody
) -> WriteAnswer[RunStateBody]:
    """Cancel a run: waiting tasks do not start, running tasks are stopped."""
    row = require_run(writing.view, writing.visible, parameters.run_id)
    allow_namespaces(writing, run_namespaces(writing.view, row))
    done = writing.commands.orchestration.cancel(row.run_id, force=body.force, reason=body.reason)
    after = OrchestrationReader(writing.fresh().snapshot).run(row.run_id)
    answer = RunStateBody(run_id=after.run_id, state=after.state)
    return WriteAnswer(answer, done.generation, f"/runs/{row.run_id}")


class TriggeredBody(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    tasks: int
    reused: int
    retry_of: str


def retry_run(
    writing: Writing, parameters: RunWriteParameters, body: NoBody
) -> WriteAnswer[TriggeredBody]:
    """Start a new run with the same selection and partitions. Tasks that succeeded are reused."""
    row = require_run(writing.view, writing.visible, parameters.run_id)
    allow_namespaces(writing, run_namespaces(writing.view, row))
    allow_chosen(writing, writing.view.library.plan(row.plan_id).spec.request)
    triggered = writing.unkeyed.orchestration.retry(row.run_id, run_key=writing.key)
    answer = TriggeredBody(
        run_id=triggered.run_id, tasks=triggered.tasks, reused=triggered.reused, retry_of=row.run_id
    )
    return WriteAnswer(answer, triggered.generation, f"/runs/{triggered.run_id}")


class WithdrawBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Annotated[str, Meta(min_length=1, max_length=600)]
    reason: ReasonText = ""


def cancel_request(
    writing: Writing, parameters: NoParameters, body: WithdrawBody
) -> WriteAnswer[RequestBody]:
    """Cancel a request that no orchestrator has planned yet. Its key starts no run after this."""
    row = require_request(writing.view, writing.visible, body.key)
    allow_selection(writing, request_body(row).request)
    reason = body.reason or "cancelled"
    done = writing.commands.orchestration.withdraw(row.request_key, reason=reason)
    after = OrchestrationReader(writing.fresh().snapshot).run_request(row.request_key)
    return WriteAnswer(request_body(after), done.generation)


ROUTES: tuple[Any, ...] = (
    write("POST", "/runs", Permission.RUNS_TRIGGER, trigger_run, status=202),
    write("POST", "/runs/preview", Permission.RUNS_TRIGGER, preview_run),
    write("POST", "/runs/plan", Permission.RUNS_READ, plan_run),
    write("POST", "/runs/{run_id}/cancel", Permission.RUNS_CANCEL, cancel_run, status=202),
    write("POST", "/runs/{run_id}/retry", Permission.RUNS_RETRY, retry_run, status=202),
    write("POST", "/requests/cancel", Permission.RUNS_CANCEL, cancel_request),
)
