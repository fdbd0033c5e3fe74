"""What follows from a report for the other domains, as facts for the stages after this one.

Domains do not know each other. What one of them needs to hear of another is said here:
by the fold of runs, and by a stage between theirs that keeps no rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.execution.events import CostIncurred, HoldEnded
from arco.lineage.events import HeldLineageDecided, LineageRecorded
from arco.log.envelope import Payload
from arco.orchestration.tables import TaskRow
from arco.quality.events import ChecksEvaluated
from arco.state.fold import Emit, Fact, Rows, Stage
from arco.state.table import Key
from servo.contract.task import Lineage, Materialization, TaskResult

FROM_NOTHING = Lineage(coverage_percent=100, reason="Its newest output was made from no asset.")
"""Said too: an asset may have been made from others before."""


def cost(task: TaskRow, result: TaskResult) -> Iterator[Payload]:
    """What an attempt took, whether or not its output counts."""
    if result.cost is not None:
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
    if result.checks or (made is not None and result.outcome == "succeeded"):
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


def lineage(
    task: TaskRow, result: TaskResult, made: Materialization, *, held: bool = False
) -> Iterator[Payload]:
    """Where an output comes from; of one that is held back it counts once that is approved."""
    yield LineageRecorded(
        asset=task.asset_key,
        asset_id=task.asset_id,
        materialization_id=made.materialization_id,
        partition=task.partition_key,
        run_id=task.run_id,
        task_id=task.task_id,
        rows=made.rows,
        bytes=made.bytes,
        transform=made.fingerprint,
        held=held,
        lineage=FROM_NOTHING if result.lineage is None else result.lineage,
    )


def why(result: TaskResult) -> str:
    """The checks that led to the gate, in one line."""
    found = [check for check in result.checks if check.action == result.gate]
    if not found:
        return "checks did not pass"
    first = f"{found[0].name}: {found[0].message}" if found[0].message else found[0].name
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{first}{more}"


# -- after the outputs --------------------------------------------------------------------


def _tell_lineage(rows: Rows, fact: Fact) -> Iterator[Emit]:
    match fact.payload:
        case HoldEnded(asset=asset, materialization_id=id, approved=approved):
            yield Emit(HeldLineageDecided(asset=asset, materialization_id=id, approved=approved))


def _by_asset(fact: Fact) -> Key:
    assert isinstance(fact.payload, HoldEnded)
    return (fact.payload.asset_id,)


DECISIONS = Stage("decisions", (), {HoldEnded: _by_asset}, _tell_lineage)
"""Between outputs and lineage: what was decided about outputs that were held back."""
