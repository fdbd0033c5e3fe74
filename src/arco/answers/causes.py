"""From a partition to the first cause of its problem.

Each step is about one partition of one asset: whether its last attempt failed, its output is held,
its task was skipped, its version is older than what it reads, or its freshness deadline has passed.
If another asset is the reason, the chain continues there. Everything is looked up by key, so the
cost of a step depends on the asset's inputs, not on the size of the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from arco.answers.asset_health import hold_text
from arco.answers.asset_states import ASSET_STATES
from arco.answers.inputs_above import BAD, ExplainedPlace, InputReader
from arco.answers.shapes import Cause, CauseKind, FactValue, place, remedy
from arco.automation.asset_tables import AUTOMATIONS, SCOPE, AutomationState
from arco.automation.freshness_reader import SeriesFreshness
from arco.execution.states import HELD, HoldStatus, PartitionStatus
from arco.execution.tables import (
    CURRENT_VERSIONS,
    MATERIALIZATIONS,
    PARTITION_STATUS,
    PARTITIONS,
    QUARANTINE,
    PartitionRow,
    PartitionStatusRow,
    QuarantineRow,
)
from arco.lineage.tables import READ_VERSIONS
from arco.orchestration.tables import DeployedAssetRow, TaskRow
from arco.quality.reader import QualityReader
from arco.tasks.input_failures import partition_text, rerun_command
from servo.contract.identity import task_id
from servo.contract.keys import AssetId
from servo.contract.partition import PartitionKey

MAX_STEPS: Final = 32
MAX_COMPARED: Final = 50
"""Maximum of input versions that are compared with the current ones."""


class _Step(NamedTuple):
    cause: Cause
    next: ExplainedPlace | None = None
    """Where its reason is."""


class _Withdrawn(NamedTuple):
    """An input version that was held since, and has no newer one."""

    place: ExplainedPlace
    hold: QuarantineRow
    is_last: bool
    """No good version is left."""

    @property
    def text(self) -> str:
        end = "was rejected" if self.hold.status == HoldStatus.REJECTED else "is held"
        who = f" by {hold_text(self.hold)}" if self.hold.status in HELD else ""
        return f"the version of {place(*self.place)} that it was computed from {end}{who}"


class CauseFinder:
    def __init__(self, inputs: InputReader) -> None:
        self.snapshot = inputs.snapshot
        self._inputs = inputs
        self._quality = QualityReader(inputs.snapshot)

    # -- the subject ------------------------------------------------------------------------

    def subject(self, asset: str) -> str:
        """The partition that matters most: one that is bad, or due, or the newest."""
        asset_id = self._inputs.asset_id(asset)
        state = self.snapshot.get(ASSET_STATES, asset_id)
        if state is not None and self._inputs.bad(asset_id, state) is not None:
            return state.last_failure_partition
        stale = self._inputs.stale(asset_id)
        if stale is not None:
            return stale.partition
        for task in self._inputs.last_skipped(asset):
            return task.partition_key
        return "" if state is None else state.last_partition_key

    # -- the chain --------------------------------------------------------------------------

    def chain(self, asset: str, partition: str) -> list[Cause]:
        causes: list[Cause] = []
        at: ExplainedPlace | None = ExplainedPlace(asset, partition)
        seen: set[ExplainedPlace] = set()
        while at is not None and at not in seen and len(causes) < MAX_STEPS:
            seen.add(at)
            step = self._step(*at)
            if step is None:
                break
            causes.append(step.cause)
            at = step.next
        return causes

    def _step(self, asset: str, partition: str) -> _Step | None:
        row = self._inputs.deployed(asset)
        if row is None:
            return _Step(
                Cause(
                    kind="not_deployed",
                    asset=asset,
                    text=f"{asset} is not deployed",
                    remedies=(remedy("deploy the project that has it", "servo deploy"),),
                )
            )
        status = self.snapshot.get(PARTITION_STATUS, row.asset_id, partition)
        if status is not None and status.status in BAD:
            return self._bad_step(asset, status)
        current = self.snapshot.get(PARTITIONS, row.asset_id, partition)
        stale = self._inputs.stale(row.asset_id)
        if stale is not None and current is not None and stale.partition != partition:
            stale = None  # another partition is due
        if current is None:
            return self._missing(asset, partition, stale)
        outdated = self._outdated(row, asset, partition, current)
        if outdated is not None or stale is None:
            return outdated
        return self._overdue(asset, partition, stale)

    # -- the last attempt had no good output --------------------------------------------------

    def _bad_step(self, asset: str, status: PartitionStatusRow) -> _Step:
        match status.status:
            case PartitionStatus.FAILED:
                return self._failed(asset, status)
            case PartitionStatus.REJECTED:
                return _Step(self._rejected(asset, status))
        return _Step(self._held(asset, status))

    def _failed(self, asset: str, status: PartitionStatusRow) -> _Step:
        task = self._inputs.task(asset, status.asset_id, status.partition_key, status.last_run_id)
        facts: dict[str, FactValue] = {
            "run_id": status.last_run_id,
            "error_code": status.error_code,
        }
        hints = []
        if task is not None:
            facts |= task_facts(task)
            hints = [remedy(task.error_hint)] if task.error_hint else []
        named = place(asset, status.partition_key)
        message = status.message or status.error_code
        cause = Cause(
            kind="failed",
            asset=asset,
            partition=status.partition_key,
            text=f"the last attempt at {named} failed: {message}",
            at=status.last_at,
            facts=facts,
            remedies=(
                *hints,
                remedy("read the log", f"servo runs logs {status.last_run_id} --task {asset}"),
                remedy(
                    "run it again when the cause is fixed", f"servo runs retry {status.last_run_id}"
                ),
            ),
        )
        return _Step(cause, self._input_of_failure(asset, status, task))

    def _input_of_failure(
        self, asset: str, status: PartitionStatusRow, task: TaskRow | None
    ) -> ExplainedPlace | None:
        """The input that caused the failure: its checks failed, or it cannot be read."""
        if not status.error_code.startswith(("checks.input", "input.")):
            return None
        named = []
        if task is not None:
            results = self._quality.of_attempt(status.asset_id, task.attempt_id)
            named = [r.input for r in results if r.input and r.status != "passed"]
        named += [key for key in self._inputs.upstream(asset) if key in status.message]
        return next((self._inputs.problem_at(key, status.partition_key) for key in named), None)

    def _held(self, asset: str, status: PartitionStatusRow) -> Cause:
        hold = self.snapshot.get(QUARANTINE, status.asset_id, status.last)
        if hold is not None and hold.held_by:
            return self._held_by_hand(asset, status, hold)
        checks = [
            f"{row.check_id}: {row.message}" if row.message else row.check_id
            for row in self._quality.status(status.asset_id, status.partition_key)
            if row.status != "passed"
        ]
        id = status.last
        return Cause(
            kind="held",
            asset=asset,
            partition=status.partition_key,
            text=f"checks hold the last output of {place(asset, status.partition_key)}: "
            f"{status.message}",
            at=status.last_at,
            facts={"run_id": status.last_run_id, "materialization_id": id, "checks": checks},
            remedies=(
                remedy("see the check results", f"servo quarantine show {id}"),
                remedy("approve it, if the data is correct", f"servo quarantine approve {id}"),
                remedy("reject it, fix the input or the code, and run it again"),
            ),
        )

    def _held_by_hand(self, asset: str, status: PartitionStatusRow, hold: QuarantineRow) -> Cause:
        id = status.last
        named = place(asset, status.partition_key)
        return Cause(
            kind="held",
            asset=asset,
            partition=status.partition_key,
            text=f"the last version of {named} is held by {hold_text(hold)}",
            at=hold.held_at,
            facts={
                "run_id": status.last_run_id,
                "materialization_id": id,
                "held_by": hold.held_by,
            },
            remedies=(
                remedy("release it, if the data is correct", f"servo quarantine release {id}"),
                remedy(
                    "fix the input or the code, and run it again",
                    rerun_command(asset, status.partition_key),
                ),
            ),
        )

    def _rejected(self, asset: str, status: PartitionStatusRow) -> Cause:
        held = self.snapshot.get(QUARANTINE, status.asset_id, status.last)
        who = f" by {held.decided_by}" if held is not None and held.decided_by else ""
        return Cause(
            kind="rejected",
            asset=asset,
            partition=status.partition_key,
            text=f"the last output of {place(asset, status.partition_key)} was rejected{who}: "
            f"{status.message}",
            at=status.last_at if held is None else held.decided_at,
            facts={"run_id": status.last_run_id, "materialization_id": status.last},
            remedies=(remedy("run it again", rerun_command(asset, status.partition_key)),),
        )

    # -- no version, or an old one -----------------------------------------------------------

    def _missing(self, asset: str, partition: str, stale: SeriesFreshness | None) -> _Step:
        due = f"; it was due at {stale.due_at:%Y-%m-%d %H:%M} UTC" if stale and stale.due_at else ""
        text = f"{place(asset, partition)} was never materialized{due}"
        return self._waiting_for(asset, partition, "never_materialized", text, None)

    def _overdue(self, asset: str, partition: str, stale: SeriesFreshness) -> _Step:
        text = f"{place(asset, partition)} is stale: {stale.reason or 'newer data is due'}"
        return self._waiting_for(asset, partition, "stale", text, stale.due_at)

    def _waiting_for(
        self, asset: str, partition: str, kind: CauseKind, text: str, at: datetime | None
    ) -> _Step:
        """Why it has no version: it is running, its task was skipped, or there was no request."""
        active = self._inputs.active(asset, partition)
        if active is not None:
            return _Step(
                Cause(
                    kind="materializing",
                    asset=asset,
                    partition=partition,
                    text=f"{text}; run {active.run_id} is writing it: its task is {active.state}",
                    at=active.started_at or active.ready_at,
                    facts={"run_id": active.run_id, "task_id": active.task_id},
                    remedies=(remedy("see what it waits for", f"servo runs show {active.run_id}"),),
                )
            )
        upstream = self._inputs.bad_upstream(asset, partition)
        facts: dict[str, FactValue] = {}
        if upstream is not None:
            facts["upstream"] = place(*upstream.place)
            skipped = upstream.skipped
            if skipped is not None:
                facts["run_id"] = skipped.run_id
                text = (
                    f"{text}; its task in run {skipped.run_id} was skipped because of "
                    f"{place(*upstream.place)}"
                )
                kind = "skipped"
            else:
                text = f"{text}; {place(*upstream.place)}, which it reads, is not good"
            return _Step(
                Cause(kind=kind, asset=asset, partition=partition, text=text, at=at, facts=facts),
                upstream.place,
            )
        return _Step(
            Cause(
                kind=kind,
                asset=asset,
                partition=partition,
                text=f"{text}; {self._not_requested(asset)}",
                at=at,
                facts=facts,
                remedies=(remedy("make it", _run_command(asset, partition)),),
            )
        )

    def _not_requested(self, asset: str) -> str:
        row = self.snapshot.get(AUTOMATIONS, SCOPE, asset)
        if row is None or row.state == AutomationState.REMOVED:
            return "no run has written it since, and it has no automation"
        if row.state == AutomationState.PAUSED:
            why = f": {row.pause_reason}" if row.pause_reason else ""
            return f"its automation is paused by {row.paused_by or 'somebody'}{why}"
        return (
            f"its automation ({row.when}) has not requested it; see `servo automation explain "
            f"{asset}`"
        )

    def _outdated(
        self, row: DeployedAssetRow, asset: str, partition: str, current: PartitionRow
    ) -> _Step | None:
        """Whether a plan would run it again, and why."""
        reasons = list(self._changes(row, asset, partition, current))
        if not reasons:
            return None
        newer = [reason for reason in reasons if isinstance(reason, ExplainedPlace)]
        texts = [reason for reason in reasons if isinstance(reason, str)]
        withdrawn = [reason for reason in reasons if isinstance(reason, _Withdrawn)]
        texts += [each.text for each in withdrawn[:3]]
        texts += [f"so are those of {len(withdrawn) - 3} others"] if len(withdrawn) > 3 else []
        texts += [f"{place(*each)} has a newer version" for each in newer[:3]]
        texts += [f"so have {len(newer) - 3} others"] if len(newer) > 3 else []
        id, run_id = current.materialization_id, current.run_id
        text = f"{place(asset, partition)} is out of date: {'; '.join(texts)}"
        can_run = not any(each.is_last for each in withdrawn)
        hint = remedy("bring it up to date", _run_command(asset, partition))
        cause = Cause(
            kind="out_of_date",
            asset=asset,
            partition=partition,
            text=f"{text}; {self._not_requested(asset)}",
            at=current.updated_at,
            facts={"materialization_id": id, "run_id": run_id},
            remedies=(hint,) if can_run else (),
        )
        return _Step(cause, withdrawn[0].place) if withdrawn else self._with_upstream(cause)

    def _with_upstream(self, cause: Cause) -> _Step:
        """Another bad input explains why it is not up to date."""
        upstream = self._inputs.bad_upstream(cause.asset, cause.partition)
        is_reason = upstream is not None and upstream.skipped is not None
        return _Step(cause, upstream.place if upstream is not None and is_reason else None)

    def _changes(
        self, row: DeployedAssetRow, asset: str, partition: str, current: PartitionRow
    ) -> Iterator[str | ExplainedPlace | _Withdrawn]:
        if not current.fingerprint:
            yield "files of its current version are missing or damaged"
            return
        version = self.snapshot.get(MATERIALIZATIONS, row.asset_id, current.materialization_id)
        key = PartitionKey.parse(partition)
        code = task_id(AssetId(row.asset_id), key, row.transform)
        if row.active and version is not None and version.task_id != code:
            yield "its code changed"
        for read in self.snapshot.rows(READ_VERSIONS, row.asset_id, current.materialization_id):
            key_of = self._inputs.lineage.names.key
            source = self._inputs.deployed(key_of(read.source))
            if source is None:
                continue
            pairs = zip(read.source_partitions, read.source_materializations, strict=False)
            for source_partition, id in list(pairs)[:MAX_COMPARED]:
                place_of = (source.asset_id, source_partition)
                current_now = self.snapshot.get(CURRENT_VERSIONS, *place_of)
                if current_now is not None and current_now.materialization_id == id:
                    continue
                now = self.snapshot.get(PARTITIONS, *place_of)
                at = ExplainedPlace(source.asset_key, source_partition)
                hold = self._hold_of(source.asset_id, id, now)
                if hold is not None:
                    yield _Withdrawn(at, hold, now is None)
                elif now is not None:
                    yield at

    def _hold_of(self, asset_id: str, id: str, now: PartitionRow | None) -> QuarantineRow | None:
        """The hold of a version, unless a newer one is current."""
        hold = self.snapshot.get(QUARANTINE, asset_id, id)
        version = self.snapshot.get(MATERIALIZATIONS, asset_id, id)
        if hold is None or version is None or hold.status == HoldStatus.APPROVED:
            return None
        return hold if now is None or now.position < version.position else None


def task_facts(task: TaskRow) -> dict[str, FactValue]:
    """The recorded facts of a failed task."""
    return {
        "task_id": task.task_id,
        "category": task.error_category,
        "error_code": task.error_code,
        "attempts": task.attempt,
        "place": task.error_place or None,
    }


def _run_command(asset: str, partition: str) -> str:
    parts = [f" -p {part}" for part in partition_text(partition).split(",") if part]
    return f"servo run {asset}{''.join(parts)}"
