"""Why an asset is stale, failed, blocked, empty, expensive or different."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from arco.answers.asset_health import AssetHealth, HealthReader, HealthStatus
from arco.answers.causes import CauseFinder
from arco.answers.inputs_above import InputReader
from arco.answers.observations import LISTED_ATTEMPTS, ObservationReader
from arco.answers.recommend import Recommender
from arco.answers.shapes import (
    ActivityEvent,
    AssetExplanation,
    Cause,
    FreshnessExplanation,
    LineageNeighbour,
    LineageSummary,
    NoRecentRuns,
    QualityBlocked,
    QuarantinedOutput,
    RunFailed,
    StaleReason,
    UpstreamStale,
    place,
    remedy,
)
from arco.automation.freshness_tables import FRESHNESS_CHANGES
from arco.execution.reader import ExecutionReader
from arco.execution.states import HoldStatus
from arco.execution.tables import QUARANTINE, AttemptRow, QuarantineRow
from arco.state.days import newest_rows

LISTED: Final = 20
_HOLDS: Final = {
    HoldStatus.QUARANTINED: ", output held by {by}",
    HoldStatus.BLOCKED: ", output held by {by}",
    HoldStatus.APPROVED: ", output approved",
    HoldStatus.REJECTED: ", output rejected",
}
"""What an attempt that succeeded did not bring, or only later."""


class AssetExplainer:
    def __init__(self, inputs: InputReader, now: datetime) -> None:
        self.snapshot = snapshot = inputs.snapshot
        self._inputs = inputs
        self._finder = CauseFinder(inputs)
        self._health = HealthReader(snapshot, now)
        self._observations = ObservationReader(snapshot, inputs.lineage)
        self._recommender = Recommender(snapshot)

    def explain(self, asset: str, partition: str | None) -> AssetExplanation:
        """`partition` is a key; None: the one that matters most."""
        asset_id = self._inputs.asset_id(asset)
        key = self._finder.subject(asset) if partition is None else partition
        health = self._health.of(asset, asset_id)
        causes = self._finder.chain(asset, key) or list(_broken_promise(health))
        observations = self._observations.of(asset, asset_id, key)
        attempts = self._observations.attempts(asset_id)[:LISTED_ATTEMPTS]
        return AssetExplanation(
            generation=self.snapshot.generation,
            asset=asset,
            partition=key,
            status=health.status,
            summary=_summary(asset, key, health, causes, observations),
            causes=tuple(causes),
            observations=tuple(observations),
            freshness=self._freshness(health, causes, attempts),
            quality=health.quality,
            lineage=self._lineage(asset),
            last_run=health.last_run,
            recent_activity=tuple(self._activity(asset_id, attempts)),
            recommendations=tuple(self._recommender.asset(asset, asset_id, causes)),
            health=health,
        )

    def _freshness(
        self, health: AssetHealth, causes: Sequence[Cause], attempts: Sequence[AttemptRow]
    ) -> FreshnessExplanation:
        fresh = health.freshness
        stale = fresh.within_sla is False
        return FreshnessExplanation(
            last_materialized_at=fresh.last_materialized_at,
            staleness=fresh.staleness,
            sla=fresh.sla,
            within_sla=fresh.within_sla,
            stale_reason=self._reason(health, causes, attempts) if stale else None,
        )

    def _reason(
        self, health: AssetHealth, causes: Sequence[Cause], attempts: Sequence[AttemptRow]
    ) -> StaleReason:
        first = causes[-1] if causes else None
        if first is not None and first.asset not in ("", health.asset):
            id = self._inputs.deployed_id(first.asset)
            upstream = None if id is None else self._health.of(first.asset, id)
            staleness = None if upstream is None else upstream.freshness.staleness
            return UpstreamStale(upstream_asset=first.asset, upstream_staleness=staleness)
        kind = "" if first is None else first.kind
        if first is not None and kind == "failed":
            error = str(first.facts.get("error_code", "") or first.text)
            run_id = str(first.facts.get("run_id", ""))
            return RunFailed(run_id=run_id, failed_at=first.at, error=error)
        if first is not None and kind in ("held", "rejected"):
            return self._hold(health.asset, first)
        return NoRecentRuns(last_run_at=attempts[0].finished_at if attempts else None)

    def _hold(self, asset: str, cause: Cause) -> StaleReason:
        checks = cause.facts.get("checks")
        asset_id, id = self._inputs.asset_id(asset), cause.facts.get("materialization_id")
        row = self.snapshot.get(QUARANTINE, asset_id, id)
        check = checks[0] if isinstance(checks, list) and checks else ""
        if row is None or (row.status == HoldStatus.BLOCKED and check):
            return QualityBlocked(check_name=check.partition(":")[0], failed_at=cause.at)
        by = row.held_by or "checks"
        return QuarantinedOutput(quarantined_by=by, quarantined_at=row.held_at, reason=row.reason)

    def _lineage(self, asset: str) -> LineageSummary:
        upstream = []
        for source in self._inputs.upstream(asset)[:LISTED]:
            id = self._inputs.deployed_id(source)
            unknown = HealthStatus.UNKNOWN
            status = unknown if id is None else self._health.of(source, id).status
            upstream.append(LineageNeighbour(asset=source, status=status))
        dependents = sorted(row.target for row in self._inputs.lineage.dependents(asset))
        return LineageSummary(
            upstream=tuple(upstream),
            downstream=tuple(islice(dependents, LISTED)),
            downstream_count=len(dependents),
        )

    def _activity(self, asset_id: str, attempts: Sequence[AttemptRow]) -> list[ActivityEvent]:
        holds = ExecutionReader(self.snapshot).holds(asset_id)
        by_task = {(hold.run_id, hold.partition_key): hold for hold in holds}
        events = [_attempt(row, by_task.get((row.run_id, row.partition_key))) for row in attempts]
        changes = newest_rows(self.snapshot, FRESHNESS_CHANGES, asset_id, limit=5)
        events += [
            ActivityEvent(
                at=row.changed_at,
                kind="freshness",
                text=f"became {row.status}" + (f": {row.reason}" if row.reason else ""),
                partition=row.partition_key,
            )
            for row in changes
        ]
        return sorted(events, key=lambda event: event.at, reverse=True)[:LISTED]


def _broken_promise(health: AssetHealth) -> Iterator[Cause]:
    """A broken SLA, if there is no other problem."""
    if health.freshness.within_sla is False:
        yield Cause(
            kind="stale",
            asset=health.asset,
            text=f"{health.asset} is {health.reasons[0]}",
            at=health.freshness.last_materialized_at,
            remedies=(remedy("run it again", f"servo run {health.asset}"),),
        )


def _attempt(row: AttemptRow, hold: QuarantineRow | None) -> ActivityEvent:
    """`hold`: of the output of its task, if that is held or was."""
    number = f", attempt {row.attempt}" if row.attempt > 1 else ""
    held = ""
    if hold is not None and row.outcome == "succeeded":
        held = _HOLDS[hold.status].format(by=hold.held_by or "checks")
    return ActivityEvent(
        at=row.finished_at,
        kind="attempt",
        text=f"{row.outcome} in {row.wall_ms / 1000:.1f} s{number}{held}",
        partition=row.partition_key,
        run_id=row.run_id,
    )


def _summary(
    asset: str,
    partition: str,
    health: AssetHealth,
    causes: Sequence[Cause],
    observations: Sequence[Cause],
) -> str:
    if causes:
        return causes[-1].text
    if observations:
        return observations[0].text
    if health.reasons:
        return health.reasons[0]
    return f"{place(asset, partition)} is up to date, and nothing stands out"
