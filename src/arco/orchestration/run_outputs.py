"""The versions that a run wrote, with their current status."""

from __future__ import annotations

from typing import NamedTuple

from arco.execution.reader import ExecutionReader
from arco.execution.tables import MaterializationRow
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import TaskState
from arco.state.snapshot import Snapshot
from arco.storage import parallel


class RunOutput(NamedTuple):
    asset: str
    version: MaterializationRow
    reused: bool


class RunOutputs(NamedTuple):
    outputs: list[RunOutput]
    """In the order of the plan."""
    total: int


def run_outputs(
    snapshot: Snapshot, run_id: str, *, reused: bool = False, limit: int | None = None
) -> RunOutputs:
    """With `reused`, also versions that the run reused. Costs a lookup for each."""
    reader = ExecutionReader(snapshot)
    tasks = [
        task
        for task in OrchestrationReader(snapshot).tasks(run_id)
        if task.materialization_id and (reused or task.state != TaskState.REUSED)
    ]
    versions = parallel.each(
        snapshot.files.store,
        lambda task: reader.materialization(task.asset_id, task.materialization_id),
        tasks[:limit],
    )
    outputs = [
        RunOutput(task.asset_key, version, task.state == TaskState.REUSED)
        for task, version in zip(tasks, versions, strict=False)
        if version is not None
    ]
    return RunOutputs(outputs, len(tasks))
