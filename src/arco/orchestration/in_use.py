"""What runs need of data, plans and logs: garbage collection keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from arco.errors import NotFound
from arco.execution.expiry import EndedRuns, RunLookups, RunNeeds
from arco.orchestration import states
from arco.orchestration.plan import Plan
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.tables import RUNS, TASKS, RunRow, TaskRow
from arco.state.snapshot import Snapshot
from arco.storage import paths
from servo.contract.keys import AssetKey
from servo.contract.manifest import Retention
from servo.contract.partition import PartitionKey, path_segment

PLANNING = timedelta(days=1)
"""Longer than it takes to plan and trigger a run."""


def runs_of(library: Library) -> RunLookups:
    return RunLookups(
        needs=lambda snapshot: needs(snapshot, library),
        ended=ended,
        retention=lambda snapshot: retention(snapshot, library),
    )


def needs(snapshot: Snapshot, library: Library) -> RunNeeds:
    """What the active runs of this generation read, have written, and will write."""
    total = RunNeeds()
    for run in snapshot.hot(RUNS):
        if run.state in states.RUN_ACTIVE:
            total = total.also(_of_run(run, snapshot.rows(TASKS, run.run_id), library))
    return total


def _of_run(run: RunRow, rows: list[TaskRow], library: Library) -> RunNeeds:
    tasks = {row.task_id: row for row in rows}
    try:
        plan: Plan | None = library.plan(run.plan_id)
    except NotFound:
        plan = None
    planned = () if plan is None else plan.spec.tasks
    times = [row.ready_at for row in rows if row.state in states.IN_FLIGHT and row.ready_at]
    if plan is None:  # it cannot continue; what it might read was current when it was planned
        times.append(run.created_at - PLANNING)
    outputs = {row.materialization_id for row in rows if row.materialization_id}
    unended = [p for p in planned if _is_open(tasks.get(p.task_id))]
    open_rows = [row for row in rows if _is_open(row)]
    return RunNeeds(
        runs=frozenset({run.run_id}),
        plans=frozenset({run.plan_id}),
        versions=frozenset(outputs | (set() if plan is None else _read_by(plan))),
        folders=frozenset(
            {_folder(p.asset, p.partition) for p in unended}
            | {_folder(row.asset_key, row.partition_key) for row in open_rows}
        ),
        since=min(times, default=None),
    )


def _is_open(task: TaskRow | None) -> bool:
    return task is None or task.state not in states.TERMINAL


def _read_by(plan: Plan) -> set[str]:
    """What exists already and is read, or makes a task unnecessary."""
    read = {each.materialization_id for refs in plan.spec.versions.values() for each in refs}
    return read | {task.materialization_id for task in plan.spec.tasks if task.materialization_id}


def _folder(asset: str, partition: str) -> str:
    key = AssetKey.parse(asset)
    segment = path_segment(PartitionKey.parse(partition))
    return paths.partition_folder(key.namespace, key.name, segment)


def ended(snapshot: Snapshot, since: datetime) -> EndedRuns:
    """When runs ended that did so since a time: those before it have nothing to wait for."""
    runs: dict[str, datetime] = {}
    plans: dict[str, datetime] = {}
    for row in snapshot.recent(RUNS, since):
        if row.finished_at is not None:
            runs[row.run_id] = plans[row.plan_id] = row.finished_at
    return EndedRuns(runs, plans)


def retention(snapshot: Snapshot, library: Library) -> Mapping[str, Retention]:
    """The retention of each asset, from the last deployment that had it."""
    reader = OrchestrationReader(snapshot)
    current = {row.project: row.deployment_id for row in reader.projects()}
    manifests = {row.deployment_id: row.manifest for row in reader.deployments()}
    keys: dict[str, dict[str, str]] = {}
    """By manifest: the ids of assets by their keys."""
    for key, row in reader.deployed_assets().items():
        deployment = current[row.project] if row.active else row.deployment_id
        keys.setdefault(manifests[deployment], {})[key] = row.asset_id
    return {
        ids[asset.key]: asset.retention
        for digest, ids in keys.items()
        for asset in library.outline(digest).assets
        if asset.key in ids
    }
