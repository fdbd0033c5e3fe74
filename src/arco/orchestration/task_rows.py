"""The row of a task: as it is planned, with what an attempt reports, and for a retry."""

from __future__ import annotations

import msgspec

from arco.orchestration.events import RunAsset, TaskPlan
from arco.orchestration.states import TaskState
from arco.orchestration.tables import RunRow, TaskRow
from servo.contract.manifest import RETRIABLE
from servo.contract.task import ErrorInfo, TaskResult

replace = msgspec.structs.replace


def planned(run: RunRow, index: int, plan: TaskPlan, asset: RunAsset) -> TaskRow:
    return TaskRow(
        run_id=run.run_id,
        task_id=plan.task_id,
        index=index,
        asset_key=asset.key,
        asset_id=asset.asset_id,
        partition_key=plan.partition,
        tenant=plan.tenant,
        state=TaskState.PLANNED,
        attempt=0,
        attempt_id="",
        max_attempts=asset.max_attempts,
        deps_total=len(plan.deps),
        deps_satisfied=0,
        upstream=list(plan.deps),
        downstream=[],
        priority=asset.priority + run.priority,
        timeout_s=asset.timeout_s,
        retry_delay_s=asset.delay_s,
        retry_max_delay_s=asset.max_delay_s,
        retry_on=list(asset.retry_on),
        never_on=list(asset.never_on),
        redelivery=0,
        worker_id="",
        ready_at=None,
        dispatched_at=None,
        started_at=None,
        finished_at=None,
        retry_not_before=None,
        materialization_id=plan.reused,
        path="",
        adopted=False,
        error_category="",
        error_code="",
        error_message="",
        error_hint="",
        wall_ms=0,
        cpu_ms=0,
        peak_memory_kib=0,
        pool=asset.pool,
    )


def with_usage(task: TaskRow, result: TaskResult) -> TaskRow:
    usage = result.usage
    return replace(
        task,
        worker_id=result.worker_id,
        wall_ms=usage.wall_ms,
        cpu_ms=usage.cpu_ms,
        peak_memory_kib=usage.peak_memory_kib,
    )


def with_output(task: TaskRow, result: TaskResult) -> TaskRow:
    output = result.materialization
    assert output is not None
    return replace(
        task,
        materialization_id=output.materialization_id,
        path=output.path,
        rows=output.rows,
        bytes=output.bytes,
        adopted=result.adopted,
        gate="warn" if result.gate == "warn" else "",
        error_category="",
        error_code="",
        error_message="",
        error_hint="",
        error_place="",
    )


def with_error(task: TaskRow, error: ErrorInfo | None) -> TaskRow:
    if error is None:
        return task
    return replace(
        task,
        error_category=error.category,
        error_code=error.code,
        error_message=error.message,
        error_hint=error.hint,
        error_place=f"{error.file}:{error.line}" if error.file else "",
    )


def will_retry(task: TaskRow, error: ErrorInfo) -> bool:
    """Whether a failed attempt is followed by another: `never_on`, then `retry_on`, then kind."""
    if task.attempt >= task.max_attempts:
        return False
    names = {error.category, error.code, error.exception} - {""}
    if names & set(task.never_on):
        return False
    return bool(names & set(task.retry_on)) or error.retriable or error.category in RETRIABLE


def retry_delay_s(task: TaskRow) -> int:
    """1 min, 2, 4 … up to an hour, by default."""
    doubled = task.retry_delay_s << min(task.attempt - 1, 30)
    return min(doubled, task.retry_max_delay_s)
