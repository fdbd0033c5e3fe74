"""Runs as OpenLineage events (spec 2-0-2): what other catalogs understand.

A task is a run of the job `namespace.asset`, with one START and one COMPLETE, FAIL or ABORT event;
its parent is the run that it was part of. A task with a held output has no output: others would
treat it as current. OpenLineage wants UUIDs for runs: a run's is the 128 bits of its ULID, a task's
is derived from both ids, so that repeated exports are equal.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, Final

from msgspec import Struct

from arco.orchestration.states import TaskState
from servo.contract import ulid
from servo.contract.partition import PartitionKey
from servo.contract.task import DIRECT, CheckResult, ColumnInfo
from servo.errors import Invalid

PRODUCER: Final = "https://github.com/arco/arco"
_SPEC: Final = "https://openlineage.io/spec"
_EVENT: Final = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS: Final = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "DataQualityAssertionsDatasetFacet": "1-1-0",
    "DatasetVersionDatasetFacet": "1-0-1",
    "DatasourceDatasetFacet": "1-0-1",
    "ErrorMessageRunFacet": "1-0-1",
    "InputStatisticsInputDatasetFacet": "1-0-0",
    "JobTypeJobFacet": "2-0-4",
    "NominalTimeRunFacet": "1-0-1",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "ParentRunFacet": "1-2-0",
    "SchemaDatasetFacet": "1-2-0",
    "SQLJobFacet": "1-1-0",
    "SymlinksDatasetFacet": "1-0-1",
}
_ENDS: Final = {TaskState.SUCCEEDED: "COMPLETE", TaskState.FAILED: "FAIL"}
_NAMESPACE: Final = uuid.UUID("8f7c3a52-6a9e-5d0f-9a1b-0d3c5e7f9b11")
"""Of the ids that are derived here."""


class Location(Struct, frozen=True):
    """Where a workspace is: the namespace of its datasets and jobs, and its store."""

    namespace: str
    store: str


class ColumnEdge(Struct, frozen=True, order=True):
    """A column edge. An empty target is what decides about all rows."""

    target: str
    asset: str
    column: str
    kind: str
    masked: bool = False


class ReadAsset(Struct, frozen=True, kw_only=True):
    asset: str
    asset_id: str = ""
    versions: tuple[str, ...] = ()
    rows: int = 0
    columns: tuple[ColumnInfo, ...] = ()
    checks: tuple[CheckResult, ...] = ()


class TaskRun(Struct, frozen=True, kw_only=True):
    """One task of a run, as far as it is known."""

    task_id: str
    asset: str
    asset_id: str = ""
    state: TaskState
    started_at: datetime
    finished_at: datetime
    partition: str = ""
    materialization_id: str = ""
    rows: int = 0
    bytes: int = 0
    columns: tuple[ColumnInfo, ...] = ()
    fields: tuple[ColumnEdge, ...] = ()
    inputs: tuple[ReadAsset, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    sql: str = ""
    error: str = ""
    held: bool = False
    """Whether its output is held: then there is no output, and `error` has the reason."""


def run_uuid(run_id: str) -> str:
    try:
        return str(uuid.UUID(int=ulid.decode(run_id)))
    except Invalid:
        return str(uuid.uuid5(_NAMESPACE, run_id))


def task_uuid(run_id: str, task_id: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{run_id}:{task_id}"))


def events_of(place: Location, run_id: str, tasks: Iterable[TaskRun]) -> Iterator[dict[str, Any]]:
    """Two events for each task, in the order of the tasks."""
    for task in tasks:
        yield _event(place, run_id, task, "START", task.started_at)
        yield _event(place, run_id, task, _ENDS.get(task.state, "ABORT"), task.finished_at)


def _event(
    place: Location, run_id: str, task: TaskRun, kind: str, time: datetime
) -> dict[str, Any]:
    done = kind == "COMPLETE"
    return {
        "eventType": kind,
        "eventTime": _time(time),
        "producer": PRODUCER,
        "schemaURL": _EVENT,
        "run": {
            "runId": task_uuid(run_id, task.task_id),
            "facets": _run_facets(place, run_id, task, kind),
        },
        "job": {"namespace": place.namespace, "name": task.asset, "facets": _job_facets(task)},
        "inputs": [_input(place, read, done) for read in task.inputs],
        "outputs": [] if task.held else [_output(place, task, done)],
    }


def _run_facets(place: Location, run_id: str, task: TaskRun, kind: str) -> dict[str, Any]:
    parent = {
        "run": {"runId": run_uuid(run_id)},
        "job": {"namespace": place.namespace, "name": "run"},
    }
    facets = {"parent": _facet("ParentRunFacet", **parent)}
    if (nominal := _nominal(task.partition)) is not None:
        facets["nominalTime"] = _facet("NominalTimeRunFacet", nominalStartTime=nominal)
    if kind == "FAIL" or (kind == "COMPLETE" and task.held):
        message = task.error or "failed"
        facets["errorMessage"] = _facet(
            "ErrorMessageRunFacet", message=message, programmingLanguage="python"
        )
    return facets


def _job_facets(task: TaskRun) -> dict[str, Any]:
    facets = {
        "jobType": _facet(
            "JobTypeJobFacet", processingType="BATCH", integration="ARCO", jobType="TASK"
        )
    }
    if task.sql:
        facets["sql"] = _facet("SQLJobFacet", query=task.sql, dialect="spark")
    return facets


def _input(place: Location, read: ReadAsset, done: bool) -> dict[str, Any]:
    facets = _dataset_facets(place, read.asset, read.asset_id, read.columns)
    if len(read.versions) == 1:
        facets["version"] = _facet("DatasetVersionDatasetFacet", datasetVersion=read.versions[0])
    measured: dict[str, Any] = {}
    if done and read.rows:
        measured["inputStatistics"] = _facet("InputStatisticsInputDatasetFacet", rowCount=read.rows)
    if read.checks:
        measured["dataQualityAssertions"] = _assertions(read.checks)
    named = {"namespace": place.namespace, "name": read.asset, "facets": facets}
    return named | {"inputFacets": measured}


def _output(place: Location, task: TaskRun, done: bool) -> dict[str, Any]:
    facets = _dataset_facets(place, task.asset, task.asset_id, task.columns)
    measured: dict[str, Any] = {}
    if done:
        if task.materialization_id:
            facets["version"] = _facet(
                "DatasetVersionDatasetFacet", datasetVersion=task.materialization_id
            )
        if task.fields:
            facets["columnLineage"] = _column_lineage(place, task.fields)
        if task.checks:
            facets["dataQualityAssertions"] = _assertions(task.checks)
        measured["outputStatistics"] = _facet(
            "OutputStatisticsOutputDatasetFacet", rowCount=task.rows, size=task.bytes
        )
    named = {"namespace": place.namespace, "name": task.asset, "facets": facets}
    return named | {"outputFacets": measured}


def _dataset_facets(
    place: Location, asset: str, asset_id: str, columns: Sequence[ColumnInfo]
) -> dict[str, Any]:
    namespace, _, name = asset.partition(".")
    uri = f"{place.store.rstrip('/')}/data/{namespace}/{name}"
    facets = {"dataSource": _facet("DatasourceDatasetFacet", name=place.namespace, uri=uri)}
    if asset_id not in ("", asset):
        # A rename changes the dataset's name; this identifies it.
        same = {"namespace": place.namespace, "name": asset_id, "type": "ARCO_ASSET"}
        facets["symlinks"] = _facet("SymlinksDatasetFacet", identifiers=[same])
    if columns:
        fields = [
            {"name": each.name, "type": each.type} if each.type else {"name": each.name}
            for each in columns
        ]
        facets["schema"] = _facet("SchemaDatasetFacet", fields=fields)
    return facets


def _column_lineage(place: Location, fields: Sequence[ColumnEdge]) -> dict[str, Any]:
    columns: dict[str, dict[str, list[Any]]] = {}
    for name in sorted({field.target for field in fields} - {""}):
        own = [field for field in fields if field.target == name]
        columns[name] = {"inputFields": _input_fields(place, own)}
    dataset = _input_fields(place, [field for field in fields if not field.target])
    return _facet("ColumnLineageDatasetFacet", fields=columns, dataset=dataset)


def _input_fields(place: Location, fields: Sequence[ColumnEdge]) -> list[dict[str, Any]]:
    """One for each source column, with all that it does."""
    by_source: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for field in sorted(fields):
        by_source.setdefault((field.asset, field.column), []).append(
            {
                "type": "DIRECT" if field.kind in DIRECT else "INDIRECT",
                "subtype": field.kind.upper(),
                "description": "",
                "masking": field.masked,
            }
        )
    return [
        {"namespace": place.namespace, "name": asset, "field": column, "transformations": done}
        for (asset, column), done in by_source.items()
    ]


def _assertions(checks: Sequence[CheckResult]) -> dict[str, Any]:
    assertions = []
    for check in checks:
        assertion: dict[str, Any] = {"assertion": check.name, "success": check.passed}
        if len(check.columns) == 1:
            assertion["column"] = check.columns[0]
        assertion["severity"] = "error" if check.severity in ("error", "critical") else "warn"
        assertions.append(assertion)
    return _facet("DataQualityAssertionsDatasetFacet", assertions=assertions)


def _facet(name: str, /, **content: object) -> dict[str, Any]:
    url = f"{_SPEC}/facets/{_FACETS[name]}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": url, **content}


def _nominal(partition: str) -> str | None:
    """The time that a partition is about, if it has exactly one."""
    times = []
    for value in PartitionKey.parse(partition).dimensions.values():
        if isinstance(value, datetime):
            times.append(_time(value.replace(tzinfo=None)))
        elif isinstance(value, date):
            times.append(f"{value.isoformat()}T00:00:00Z")
    return times[0] if len(times) == 1 else None


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds") + "Z"
