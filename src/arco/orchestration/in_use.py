"""What runs need of data, plans and logs: asked before anything of them is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from arco.errors import NotFound
from arco.execution.expiry import Ended, Needs, Runs
from arco.orchestration import states
from arco.orchestration.plan import Plan, PlannedTask
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.tables import RUNS, TASKS, RunRow, TaskRow
from arco.state.snapshot import Snapshot
from arco.storage import paths
from servo.contract.keys import AssetKey
from servo.contract.manifest import Retention
from servo.contract.partition import PartitionKey, path_segment

PLANNING = timedelta(days=1)
"""Longer than it takes to make a plan and to trigger it."""


def runs_of(library: Library) -> Runs:
    return Runs(
        needs=lambda snapshot: needs(snapshot, library),
        ended=ended,
        retention=lambda snapshot: retention(snapshot, library),
    )


def needs(snapshot: Snapshot, library: Library) -> Needs:
    """What the runs that are active at this generation read, have made, and still make."""
    found = Needs()
    for run in snapshot.hot(RUNS):
        if run.state in states.RUN_ACTIVE:
            found = found.also(_of_run(run, snapshot.rows(TASKS, run.run_id), library))
    return found


def _of_run(run: RunRow, rows: list[TaskRow], library: Library) -> Needs:
    tasks = {row.task_id: row for row in rows}
    try:
        plan: Plan | None = library.plan(run.plan_id)
    except NotFound:
        plan = None
    planned = () if plan is None else plan.spec.tasks
    times = [row.ready_at for row in rows if row.state in states.IN_FLIGHT and row.ready_at]
    if plan is None:  # it cannot go on; what it might read was current when it was made
        times.append(run.created_at - PLANNING)
    made = {row.materialization_id for row in rows if row.materialization_id}
    unended = [p for p in planned if _is_open(tasks.get(p.task_id))]
    open_rows = [row for row in rows if _is_open(row)]
    return Needs(
        runs=frozenset({run.run_id}),
        plans=frozenset({run.plan_id}),
        versions=frozenset(made.union(*map(_read_by, planned))),
        folders=frozenset(
            {_folder(p.asset, p.partition) for p in unended}
            | {_folder(row.asset_key, row.partition_key) for row in open_rows}
        ),
        since=min(times, default=None),
    )


def _is_open(task: TaskRow | None) -> bool:
    return task is None or task.state not in states.TERMINAL


def _read_by(task: PlannedTask) -> set[str]:
    read = {m.materialization_id for i in task.inputs for m in i.materializations}
    return read | ({task.materialization_id} if task.materialization_id else set())


def _folder(asset: str, partition: str) -> str:
    key = AssetKey.parse(asset)
    segment = path_segment(PartitionKey.parse(partition))
    return paths.partition_folder(key.namespace, key.name, segment)


def ended(snapshot: Snapshot) -> Ended:
    """When runs ended, also those that left for history."""
    runs: dict[str, datetime] = {}
    plans: dict[str, datetime] = {}
    for row in snapshot.all(RUNS):
        if row.finished_at is not None:
            runs[row.run_id] = plans[row.plan_id] = row.finished_at
    return Ended(runs, plans)


def retention(snapshot: Snapshot, library: Library) -> Mapping[str, Retention]:
    """What each asset says about its versions, in the last deployment that had it."""
    reader = OrchestrationReader(snapshot)
    manifests = {row.deployment_id: row.manifest for row in reader.deployments()}
    found: dict[str, Retention] = {}
    for key, row in reader.deployed_assets().items():
        assets = library.manifest(manifests[row.deployment_id]).assets
        for asset in assets:
            if asset.key == key:
                found[row.asset_id] = asset.retention
    return found
