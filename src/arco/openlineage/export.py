"""The tasks of a run, from the tables of all domains, for OpenLineage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from arco.errors import NotFound, NotYet
from arco.lineage.reader import LineageNames
from arco.lineage.tables import ExecutionRow
from arco.openlineage.spec import ColumnEdge, ReadAsset, TaskRun
from arco.orchestration.asset_columns import columns_of
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.reader import Library, OrchestrationReader, as_of_run
from arco.orchestration.states import HELD_GATES
from arco.orchestration.tables import RunRow, TaskRow
from arco.quality.reader import QualityReader
from arco.quality.tables import CheckResultRow
from arco.state.snapshot import At, Snapshot
from servo.contract.task import CheckResult, ColumnInfo, InputRef


def snapshot_at_end(open_at: Callable[[At], Snapshot], newest: Snapshot, run: RunRow) -> Snapshot:
    """The generation at which the run had ended; the newest where that was collected."""
    if run.finished_at is None:
        raise NotYet(f"run {run.run_id} has not ended yet", hint="see `servo runs show`")
    try:
        return open_at(as_of_run(run.run_id))
    except NotFound:
        return newest


def task_runs(snapshot: Snapshot, run: RunRow, sql: Mapping[str, str]) -> list[TaskRun]:
    """What is known of each task that ran; each asset is looked up once."""
    tasks = OrchestrationReader(snapshot).tasks(run.run_id)
    ran = [task for task in tasks if task.started_at and task.finished_at]
    asset_ids = {task.asset_key: task.asset_id for task in ran}
    assets = {key: _asset_part(snapshot, run, id) for key, id in asset_ids.items()}
    read = {
        each.asset for asset_ids in assets.values() for each in chain(*asset_ids.inputs.values())
    }
    columns = {key: columns_of(snapshot, key) for key in read | asset_ids.keys()}
    return [_task_run(task, assets[task.asset_key], columns, sql) for task in ran]


class _AssetPart(NamedTuple):
    """What is known of an asset's part in a run, by task."""

    fields: tuple[ColumnEdge, ...]
    inputs: dict[str, list[ReadAsset]]
    outputs: dict[str, str]
    """The version that a task wrote, held or not."""
    checks: dict[str, list[CheckResultRow]]


def _asset_part(snapshot: Snapshot, run: RunRow, asset_id: str) -> _AssetPart:
    reader = lineage_reader(snapshot)
    fields = [
        ColumnEdge(row.target_column, row.source, row.source_column, row.kind, row.masked)
        for row in reader.columns(asset_id)
    ]
    details = _AssetPart(tuple(fields), defaultdict(list), {}, defaultdict(list))
    for execution in reader.executions(asset_id, since=run.created_at):
        if execution.run_id == run.run_id:
            details.outputs[execution.task_id] = execution.materialization_id
            details.inputs[execution.task_id].append(_read(reader.names, execution))
    for held in reader.held(asset_id).values():
        if held.run_id == run.run_id:
            details.outputs[held.task_id] = held.materialization_id
            details.inputs[held.task_id] += map(_read_by_held, held.lineage.read)
    for result in QualityReader(snapshot).results(
        asset_id, matches=lambda row: row.run_id == run.run_id, since=run.created_at
    ):
        details.checks[result.task_id].append(result)
    return details


def _read(names: LineageNames, row: ExecutionRow) -> ReadAsset:
    versions = tuple(row.source_materializations)
    asset_id = names.id(row.source)
    return ReadAsset(asset=row.source, asset_id=asset_id, versions=versions, rows=row.rows_read)


def _read_by_held(ref: InputRef) -> ReadAsset:
    versions = tuple(each.materialization_id for each in ref.materializations)
    rows = ref.rows if ref.count else sum(each.rows for each in ref.materializations)
    return ReadAsset(asset=ref.asset, asset_id=ref.asset_id, versions=versions, rows=rows)


def _task_run(
    task: TaskRow,
    details: _AssetPart,
    columns: Mapping[str, tuple[ColumnInfo, ...]],
    sql: Mapping[str, str],
) -> TaskRun:
    is_held = task.gate in HELD_GATES
    # The row of a task with a held output names the version that is used instead.
    version = details.outputs.get(task.task_id, "" if is_held else task.materialization_id)
    checks = _checks(details.checks.get(task.task_id, ()), version, task.attempt_id)
    assert task.started_at is not None and task.finished_at is not None
    return TaskRun(
        task_id=task.task_id,
        asset=task.asset_key,
        asset_id=task.asset_id,
        state=task.state,
        started_at=task.started_at,
        finished_at=task.finished_at,
        partition=task.partition_key,
        materialization_id=version,
        rows=0 if is_held else task.rows,
        bytes=0 if is_held else task.bytes,
        columns=columns[task.asset_key],
        fields=details.fields,
        inputs=tuple(
            replace(read, columns=columns[read.asset], checks=tuple(checks.get(read.asset, ())))
            for read in details.inputs.get(task.task_id, ())
        ),
        checks=tuple(checks.get("", ())),
        sql=sql.get(task.asset_key, ""),
        error=task.error_message,
        held=is_held,
    )


def _checks(
    rows: Iterable[CheckResultRow], version: str, attempt_id: str
) -> dict[str, list[CheckResult]]:
    """The check results of an output, and by key those of its inputs.

    Results belong to the output, which another attempt than the last may have written. Without an
    output, they are those of the last attempt.
    """
    by_asset: dict[str, list[CheckResult]] = {}
    for row in rows:
        if row.materialization_id == version if version else row.attempt_id == attempt_id:
            result = CheckResult(
                name=row.check_name,
                passed=row.status == "passed",
                severity=row.severity,
                columns=tuple(row.columns),
            )
            by_asset.setdefault(row.input, []).append(result)
    return by_asset


def queries_of(library: Library, reader: OrchestrationReader, run: RunRow) -> dict[str, str]:
    """The SQL of the assets that a run was planned from, of those that are written in it."""
    try:
        spec = library.plan(run.plan_id).spec
        digests = {spec.manifest, *spec.manifests.values()}
    except NotFound:  # plans go after a while; deployments stay
        rows = reader.deployments()
        digests = {row.manifest for row in rows if row.deployment_id == run.deployment_id}
    try:
        manifests = [library.outline(digest) for digest in digests]
    except NotFound:
        return {}
    return {
        asset.key: asset.sql for manifest in manifests for asset in manifest.assets if asset.sql
    }
