"""Derived facts: what a report means for other domains, for the stages after this one.

Domains do not import each other. The facts that one needs of another are emitted here: by the fold
of runs, and by a stage without rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from arco.catalog.contract_events import ContractEvaluated
from arco.catalog.schema_events import HeldSchemaDecided, SchemaObserved, SchemaWithdrawn
from arco.execution.events import (
    CostIncurred,
    HoldEnded,
    OutputRecorded,
    SupersededHeld,
    VersionWithdrawn,
)
from arco.lineage.events import HeldLineageDecided, LineageRecorded, LineageWithdrawn
from arco.log.envelope import Payload
from arco.orchestration.events import RefusalCode
from arco.orchestration.states import RunState, RunTrigger
from arco.orchestration.tables import RunRow, TaskRow
from arco.quality.events import ChecksEvaluated
from arco.state.fold import Emit, Fact, On, Rows, Stage
from servo.contract.partition import PartitionKey
from servo.contract.task import Lineage, Materialization, TaskResult

FROM_NOTHING = Lineage(coverage_percent=100, reason="Its newest output reads no asset.")
"""Emitted too: an earlier output may have had sources."""
CONTRACT = "contract"
"""The kind of the check that compares columns with what a contract promises."""


class PartitionKeysFound(Payload, frozen=True, kw_only=True):
    """A sensor has seen keys of a dynamic partition dimension."""

    TYPE: ClassVar[str] = "orchestration.partition_keys_found"
    keys: str
    added: tuple[str, ...]


class KeySetsDeclared(Payload, frozen=True, kw_only=True):
    """A deployment says which dimensions of an asset have the keys of this set: none any more,
    if there are no dimensions."""

    TYPE: ClassVar[str] = "orchestration.key_sets_declared"
    keys: str
    asset_id: str
    dimensions: tuple[str, ...]


class PartitionKeysRemoved(Payload, frozen=True, kw_only=True):
    """An asset has no partitions with these keys of a dynamic dimension any more."""

    TYPE: ClassVar[str] = "orchestration.partition_keys_removed"
    asset_id: str
    dimensions: tuple[str, ...]
    keys: frozenset[str]

    def takes(self, partition: str) -> bool:
        """Whether a partition, or a series of them, is one of those."""
        values = PartitionKey.parse(partition).dimensions
        return any(values.get(name) in self.keys for name in self.dimensions)


class RunRequestDropped(Payload, frozen=True, kw_only=True):
    """An automatic request did not lead to a run."""

    TYPE: ClassVar[str] = "orchestration.run_request_dropped"
    request_key: str
    kind: RunTrigger
    reference: str
    reason: str
    code: RefusalCode | Literal["merged"] = ""


class AutomationFailed(Payload, frozen=True, kw_only=True):
    """A schedule or sensor failed to start runs, e.g. its evaluation failed."""

    TYPE: ClassVar[str] = "orchestration.automation_failed"
    kind: RunTrigger
    name: str
    """`project/name`."""
    code: str = ""


class AutomationRecovered(Payload, frozen=True, kw_only=True):
    """A schedule or sensor has recovered."""

    TYPE: ClassVar[str] = "orchestration.automation_recovered"
    kind: RunTrigger
    name: str


class AssetSkipped(Payload, frozen=True, kw_only=True):
    """A run skips tasks of an asset, because something above them gave no good output. One fact for
    all that end at the same time."""

    TYPE: ClassVar[str] = "orchestration.asset_skipped"
    asset_id: str
    run_id: str


class RunEnded(Payload, frozen=True, kw_only=True):
    """A run has ended."""

    TYPE: ClassVar[str] = "orchestration.run_ended"
    run_id: str
    run_key: str
    trigger: RunTrigger
    reference: str
    state: RunState
    tasks_succeeded: int
    tasks_reused: int
    tasks_failed: int
    tasks_skipped: int
    tasks_cancelled: int


def run_ended(run: RunRow) -> RunEnded:
    return RunEnded(**{name: getattr(run, name) for name in RunEnded.__struct_fields__})


def cost(task: TaskRow, result: TaskResult) -> Iterator[Payload]:
    """The usage and cost of an attempt, whether or not its output counts."""
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
    """Under the attempt that wrote the output: an attempt that adopts it reports the same."""
    output = result.materialization
    if result.checks or (output is not None and result.outcome == "succeeded"):
        yield ChecksEvaluated(
            asset_id=task.asset_id,
            asset=task.asset_key,
            partition=task.partition_key,
            materialization_id="" if output is None else output.materialization_id,
            run_id=task.run_id,
            task_id=task.task_id,
            attempt_id=result.attempt_id if output is None else output.attempt_id,
            results=result.checks,
        )


def contract(task: TaskRow, result: TaskResult) -> Iterator[Payload]:
    """How an output compares with what the contract of its asset promises, if it has one."""
    output = result.materialization
    promised = [check for check in result.checks if check.contract]
    if output is None or not promised:
        return
    broken = [check for check in promised if check.status != "passed"]
    texts = [f"{check.name}: {check.message}" if check.message else check.name for check in broken]
    columns = (column for check in broken for column in check.columns)
    yield ContractEvaluated(
        asset_id=task.asset_id,
        materialization_id=output.materialization_id,
        partition=task.partition_key,
        run_id=task.run_id,
        version=promised[0].contract,
        kind="schema" if any(check.kind == CONTRACT for check in broken) else "checks",
        action=result.gate if broken else "continue",
        message="; ".join(texts),
        checks=tuple(check.name for check in broken),
        columns=tuple(dict.fromkeys(columns)),
    )


def lineage(
    task: TaskRow, result: TaskResult, output: Materialization, *, held: bool = False
) -> Iterator[Payload]:
    """The lineage of an output. That of a held output counts after its approval."""
    yield LineageRecorded(
        asset=task.asset_key,
        asset_id=task.asset_id,
        materialization_id=output.materialization_id,
        partition=task.partition_key,
        run_id=task.run_id,
        task_id=task.task_id,
        rows=output.rows,
        bytes=output.bytes,
        transform=output.fingerprint,
        held=held,
        lineage=FROM_NOTHING if result.lineage is None else result.lineage,
    )


def why(result: TaskResult) -> str:
    """The checks that led to the gate, in one line."""
    deciding = [check for check in result.checks if check.action == result.gate]
    if not deciding:
        return "checks failed"
    first = (
        f"{deciding[0].name}: {deciding[0].message}" if deciding[0].message else deciding[0].name
    )
    more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
    return f"{first}{more}"


# -- after the outputs --------------------------------------------------------------------


def _decide_hold(rows: Rows, fact: Fact, e: HoldEnded) -> Iterator[Emit]:
    yield Emit(
        HeldLineageDecided(
            asset_id=e.asset_id,
            materialization_id=e.materialization_id,
            approved=e.approved,
            position=e.position,
        )
    )
    yield Emit(
        HeldSchemaDecided(
            asset_id=e.asset_id,
            materialization_id=e.materialization_id,
            approved=e.approved,
            reason=e.reason,
        )
    )


def _observe_schema(rows: Rows, fact: Fact, e: OutputRecorded) -> Iterator[Emit]:
    output = e.materialization
    if output.schema:
        yield Emit(
            SchemaObserved(
                asset_id=output.asset_id,
                materialization_id=output.materialization_id,
                run_id=output.run_id,
                columns=output.schema,
                held=e.held,
                partition=output.partition,
            )
        )


def _withdraw(rows: Rows, fact: Fact, e: VersionWithdrawn) -> Iterator[Emit]:
    yield Emit(
        LineageWithdrawn(
            asset_id=e.asset_id,
            partition=e.partition,
            materialization_id=e.materialization_id,
            position=e.position,
            previous_id=e.previous_id,
            previous_position=e.previous_position,
        )
    )
    if e.previous_id:
        yield Emit(
            SchemaWithdrawn(
                asset_id=e.asset_id,
                partition=e.partition,
                materialization_id=e.materialization_id,
                run_id=e.run_id,
                position=e.position,
                previous_id=e.previous_id,
                previous_schema_hash=e.previous_schema_hash,
                previous_position=e.previous_position,
            )
        )


def _withdraw_superseded(rows: Rows, fact: Fact, e: SupersededHeld) -> Iterator[Emit]:
    yield Emit(
        LineageWithdrawn(
            asset_id=e.asset_id,
            partition=e.partition,
            materialization_id=e.materialization_id,
            position=e.position,
        )
    )


DECISIONS = Stage(
    "decisions",
    (),
    [
        On(HoldEnded, lambda fact, e: e.asset_id, _decide_hold),
        On(OutputRecorded, lambda fact, e: e.materialization.asset_id, _observe_schema),
        On(VersionWithdrawn, lambda fact, e: e.asset_id, _withdraw),
        On(SupersededHeld, lambda fact, e: e.asset_id, _withdraw_superseded),
    ],
)
"""The stage between outputs and later domains: facts of outputs, and of decisions about them."""
