"""What needs attention in a workspace, at one generation and one time.

Failures, stale assets, held outputs, active runs, and next ticks. The cost depends on the number of
problems, not on that of assets or runs: failures and holds have their own tables, active runs are
hot rows, and freshness is evaluated for assets with a policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfoNotFoundError

from msgspec import Struct

from arco.answers.asset_states import ASSET_STATES
from arco.automation.freshness_reader import FreshnessReader, SeriesFreshness
from arco.automation.freshness_tables import FreshnessStatus
from arco.automation.reader import AutomationReader
from arco.automation.sensor_reader import SensorReader
from arco.automation.sensor_tables import SensorStatus
from arco.automation.tables import ScheduleState
from arco.automation.ticks import next_tick
from arco.catalog.tables import ASSETS
from arco.execution.reader import ExecutionReader
from arco.execution.states import GOOD_PARTITIONS, PartitionStatus
from arco.execution.tables import PARTITION_STATUS, QuarantineRow
from arco.notifications.tables import ASSET_FAILURES
from arco.orchestration.limit_tables import DispatchControlRow
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RUN_ACTIVE, RequestState
from arco.orchestration.tables import RUNS, RunRow
from arco.state.snapshot import Snapshot

MAX_REQUESTS: Final = 1_000


class FailingAsset(Struct, frozen=True, kw_only=True):
    """An asset of which at least one partition's last attempt failed."""

    asset: str
    partitions: int
    """How many had no good output at their last attempt."""
    partition: str
    """The one that failed last; so is the rest."""
    run_id: str
    failed_at: datetime
    error_code: str
    message: str


class FailingSensor(Struct, frozen=True, kw_only=True):
    sensor: str
    failures: int
    """Evaluations in a row."""
    message: str


class ComingTick(Struct, frozen=True, kw_only=True):
    schedule: str
    at: datetime
    tick: str
    selection: tuple[str, ...]


class PausedDispatch(Struct, frozen=True, kw_only=True):
    at: datetime
    by: str
    reason: str


class WorkspaceOverview(Struct, frozen=True, kw_only=True):
    generation: int
    at: datetime
    assets: int
    """That are deployed."""
    paused: PausedDispatch | None
    failed: tuple[FailingAsset, ...]
    """The newest failure first."""
    sensors: tuple[FailingSensor, ...]
    stale: tuple[SeriesFreshness, ...]
    held: tuple[QuarantineRow, ...]
    """What waits for a person, the newest first."""
    running: tuple[RunRow, ...]
    """The newest first."""
    requested: int
    """Requests that no orchestrator has planned yet; counted up to a maximum."""
    next: tuple[ComingTick, ...]
    """The next tick of each active schedule, the earliest first."""


def overview(snapshot: Snapshot, now: datetime) -> WorkspaceOverview:
    runs = OrchestrationReader(snapshot)
    freshness = FreshnessReader(snapshot)
    policies = {policy.asset_key for policy in freshness.policies()}
    stale = [s for s in freshness.series(policies, now) if s.status == FreshnessStatus.STALE]
    active = [run for run in snapshot.hot(RUNS) if run.state in RUN_ACTIVE]
    pending, _ = runs.run_requests(limit=MAX_REQUESTS, in_states=(RequestState.PENDING,))
    return WorkspaceOverview(
        generation=snapshot.generation,
        at=now,
        assets=sum(row.assets for row in runs.current_deployments()),
        paused=_paused(runs.limits().control),
        failed=tuple(sorted(_failing(snapshot), key=lambda each: each.failed_at, reverse=True)),
        sensors=tuple(
            FailingSensor(sensor=row.sensor_id, failures=row.failures, message=row.error)
            for row in SensorReader(snapshot).sensors()
            if row.status == SensorStatus.ERROR or row.failures
        ),
        stale=tuple(sorted(stale, key=lambda each: (each.asset, each.series))),
        held=tuple(ExecutionReader(snapshot).quarantine()),
        running=tuple(sorted(active, key=lambda run: (run.created_at, run.run_id), reverse=True)),
        requested=len(pending),
        next=tuple(sorted(_coming(snapshot, now), key=lambda each: (each.at, each.schedule))),
    )


def _paused(control: DispatchControlRow) -> PausedDispatch | None:
    if control.paused_at is None:
        return None
    return PausedDispatch(at=control.paused_at, by=control.paused_by, reason=control.pause_reason)


def _failing(snapshot: Snapshot) -> Iterator[FailingAsset]:
    """Assets whose newest bad partition failed; held outputs are listed separately."""
    for counts in snapshot.all(ASSET_FAILURES):
        if not counts.failing:
            continue
        state = snapshot.get(ASSET_STATES, counts.asset_id)
        asset = snapshot.get(ASSETS, counts.asset_id)
        if state is None or asset is None or not asset.active:
            continue
        status = snapshot.get(PARTITION_STATUS, counts.asset_id, state.last_failure_partition)
        if status is None or status.status in GOOD_PARTITIONS:
            message, code, at, run_id = "", state.last_failure_code, state.last_failure_at, ""
        elif status.status == PartitionStatus.FAILED:
            message, code, at = status.message, status.error_code, status.last_at
            run_id = status.last_run_id
        else:
            continue
        yield FailingAsset(
            asset=f"{asset.namespace}.{asset.name}",
            partitions=counts.failing,
            partition=state.last_failure_partition,
            run_id=run_id or state.last_failure_run_id,
            failed_at=at or state.updated_at,
            error_code=code,
            message=message,
        )


def _coming(snapshot: Snapshot, now: datetime) -> Iterator[ComingTick]:
    for row in AutomationReader(snapshot).schedules():
        if row.state != ScheduleState.ACTIVE:
            continue
        try:
            tick = next_tick(row.cron, row.timezone, max(now, row.done_until))
        except ZoneInfoNotFoundError:  # `servo schedules list` says so
            continue
        if tick is not None:
            yield ComingTick(
                schedule=row.schedule_id, at=tick.at, tick=tick.name, selection=tuple(row.selection)
            )
