"""What was planned for a task: why it runs, its code, its SQL, what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

import msgspec

from arco.answers.asset_code import config_texts, declared_at, rendered_sql
from arco.orchestration.configuration import task_config
from arco.orchestration.plan import PlannedInput, PlanSpec
from arco.orchestration.reader import Library
from arco.orchestration.tables import TASKS, RunRow, TaskRow
from arco.state.snapshot import Snapshot

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


def task_plan(
    snapshot: Snapshot,
    library: Library,
    run: RunRow,
    task: TaskRow,
    sees: Callable[[str], bool] = lambda _: True,
) -> TaskPlanBody:
    """`sees`: whether the caller sees an asset."""
    plan = library.plan(run.plan_id)
    # Not by its index: the plan of a caller who sees some namespaces has fewer tasks.
    planned = next(each for each in plan.spec.tasks if each.task_id == task.task_id)
    asset = library.assets(plan.spec.manifest_of(planned.asset))[planned.asset]
    config = task_config(asset, plan.spec.request.config)
    sql = rendered_sql(asset, planned.partition, config)
    inputs = plan.spec.inputs_of(planned)
    seen = [each for each in inputs if sees(each.asset)]
    return TaskPlanBody(
        task_id=planned.task_id,
        asset=planned.asset,
        partition=planned.partition,
        action=planned.action,
        reason=planned.reason,
        stage=planned.stage,
        kind=asset.kind,
        code=asset.sql or asset.source,
        place=declared_at(asset),
        sql=sql.text,
        sql_problem=sql.problem,
        config=config_texts(config),
        inputs=[_input(snapshot, run.run_id, plan.spec, each) for each in seen],
        hidden_inputs=len(inputs) - len(seen),
    )


def _input(snapshot: Snapshot, run_id: str, spec: PlanSpec, planned: PlannedInput) -> TaskInputBody:
    count = len(spec.versions_of(planned)) + len(spec.tasks_of(planned))
    versions = islice(_versions(snapshot, run_id, spec, planned), MAX_VERSIONS)
    return TaskInputBody(
        asset=planned.asset,
        parameter=planned.parameter,
        version_count=count,
        versions=list(versions),
    )


def _versions(
    snapshot: Snapshot, run_id: str, spec: PlanSpec, planned: PlannedInput
) -> Iterator[TaskInputVersion]:
    for ref in spec.versions_of(planned):
        yield TaskInputVersion(
            partition=ref.partition, materialization_id=ref.materialization_id, task_id=""
        )
    for task in spec.tasks_of(planned):
        row = snapshot.get(TASKS, run_id, task.task_id)
        written = "" if row is None else row.materialization_id
        yield TaskInputVersion(
            partition=task.partition, materialization_id=written, task_id=task.task_id
        )
