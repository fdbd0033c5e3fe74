"""What was planned for a task: why it runs, its code, its SQL, what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

import msgspec

from arco.api.reads.run_reads import TaskParameters, require_task
from arco.api.routes import read
from arco.api.run_visibility import require_run
from arco.api.views import View
from arco.orchestration.configuration import task_config
from arco.orchestration.plan import PlannedInput, PlannedTask, PlanSpec
from arco.orchestration.tables import TASKS
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.spark.query import TaskQuery
from arco.tasks.failure import TaskFailed
from servo.contract.config_values import from_wire, text_of
from servo.contract.manifest import Asset

MAX_VERSIONS = 100


class TaskInputVersion(msgspec.Struct, frozen=True, kw_only=True):
    partition: str
    materialization_id: str
    """Empty while the task that writes it has not ended."""
    task_id: str
    """The task of this run that writes it; empty if the version is older than the run."""


class TaskInputBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    parameter: str
    """Of the function, or the text inside of `ref`; empty if it is only waited for."""
    version_count: int
    versions: list[TaskInputVersion]
    """The first of them, in the order of partitions; those that this run writes come last."""


class TaskPlanBody(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str
    asset: str
    partition: str
    action: Literal["run", "reuse"]
    reason: str
    stage: int
    kind: Literal["python", "sql"]
    code: str
    """The query or the function as it was deployed when the run was planned."""
    place: str
    """The file and line of its declaration."""
    sql: str
    """The query with its templates filled in, as Spark gets it: `ref("x")` is the view `@x` of the
    versions in `inputs`. Empty for Python."""
    sql_problem: str
    """Why the templates cannot be filled in."""
    config: dict[str, str]
    """What the asset declares, replaced by what was given for the run."""
    inputs: list[TaskInputBody]
    hidden_inputs: int
    """How many inputs are assets that the caller does not see."""


def get_task_plan(view: View, visible: Visible, parameters: TaskParameters) -> TaskPlanBody:
    """Show the plan of a task: its reason, code, SQL, configuration and inputs."""
    task = require_task(view, visible, parameters.run_id, parameters.task_id)
    run = require_run(view, visible, parameters.run_id)
    plan = view.library.plan(run.plan_id)
    planned = plan.spec.tasks[task.index]
    asset = view.library.assets(plan.spec.manifest_of(planned.asset))[planned.asset]
    config = task_config(asset, plan.spec.request.config)
    sql, problem = _filled_in(asset, planned, {k: from_wire(v) for k, v in config.items()})
    inputs = plan.spec.inputs_of(planned)
    seen = [each for each in inputs if visible.sees_asset(each.asset)]
    return TaskPlanBody(
        task_id=planned.task_id,
        asset=planned.asset,
        partition=planned.partition,
        action=planned.action,
        reason=planned.reason,
        stage=planned.stage,
        kind=asset.kind,
        code=asset.sql or asset.source,
        place=f"{asset.code.file}:{asset.code.line}" if asset.code.file else "",
        sql=sql,
        sql_problem=problem,
        config={name: text_of(value) for name, value in sorted(config.items())},
        inputs=[_input(view, run.run_id, plan.spec, each) for each in seen],
        hidden_inputs=len(inputs) - len(seen),
    )


def _filled_in(asset: Asset, planned: PlannedTask, config: dict[str, Any]) -> tuple[str, str]:
    if asset.kind != "sql":
        return "", ""
    try:
        query = TaskQuery(asset.sql, partition=planned.partition, config=config)
    except TaskFailed as failure:
        return "", failure.info.message
    return query.rendered.text, ""


def _input(view: View, run_id: str, spec: PlanSpec, planned: PlannedInput) -> TaskInputBody:
    count = len(spec.versions_of(planned)) + len(spec.tasks_of(planned))
    versions = islice(_versions(view, run_id, spec, planned), MAX_VERSIONS)
    return TaskInputBody(
        asset=planned.asset,
        parameter=planned.parameter,
        version_count=count,
        versions=list(versions),
    )


def _versions(
    view: View, run_id: str, spec: PlanSpec, planned: PlannedInput
) -> Iterator[TaskInputVersion]:
    for ref in spec.versions_of(planned):
        yield TaskInputVersion(
            partition=ref.partition, materialization_id=ref.materialization_id, task_id=""
        )
    for task in spec.tasks_of(planned):
        row = view.snapshot.get(TASKS, run_id, task.task_id)
        written = "" if row is None else row.materialization_id
        yield TaskInputVersion(
            partition=task.partition, materialization_id=written, task_id=task.task_id
        )


ROUTES: tuple[Any, ...] = (
    read("/runs/{run_id}/tasks/{task_id}/plan", Permission.RUNS_READ, get_task_plan),
)
