"""What follows from a report for the other domains, as facts for the stages after this one."""

from __future__ import annotations

from collections.abc import Iterator

from arco.execution.events import CostIncurred
from arco.lineage.events import LineageRecorded
from arco.log.envelope import Payload
from arco.orchestration.tables import TaskRow
from arco.quality.events import ChecksEvaluated
from servo.contract.task import Materialization, TaskResult


def cost(task: TaskRow, result: TaskResult) -> Iterator[Payload]:
    """What an attempt took, whether or not its output counts."""
    if result.cost is not None and not result.adopted:
        yield CostIncurred(
            asset_id=task.asset_id,
            asset=task.asset_key,
            partition=task.partition_key,
            run_id=task.run_id,
            task_id=task.task_id,
            attempt=result.attempt,
            attempt_id=result.attempt_id,
            outcome=result.outcome,
            usage=result.usage,
            cost=result.cost,
        )


def checks(task: TaskRow, result: TaskResult) -> Iterator[Payload]:
    """Under the attempt that made the output: whoever adopts it says the same again."""
    made = result.materialization
    if result.checks:
        yield ChecksEvaluated(
            asset_id=task.asset_id,
            asset=task.asset_key,
            partition=task.partition_key,
            materialization_id="" if made is None else made.materialization_id,
            run_id=task.run_id,
            task_id=task.task_id,
            attempt_id=result.attempt_id if made is None else made.attempt_id,
            results=result.checks,
        )


def lineage(task: TaskRow, result: TaskResult, made: Materialization) -> Iterator[Payload]:
    if result.lineage is not None:
        yield LineageRecorded(
            asset=task.asset_key,
            asset_id=task.asset_id,
            materialization_id=made.materialization_id,
            partition=task.partition_key,
            run_id=task.run_id,
            task_id=task.task_id,
            rows=made.rows,
            bytes=made.bytes,
            lineage=result.lineage,
        )


def why(result: TaskResult) -> str:
    """The checks that led to the gate, in one line."""
    found = [check for check in result.checks if check.action == result.gate]
    if not found:
        return "checks did not pass"
    first = f"{found[0].name}: {found[0].message}" if found[0].message else found[0].name
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{first}{more}"
