"""Requests for runs that may be planned now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from arco.automation.backfill_runs import backfill_of
from arco.automation.backfill_states import BackfillState
from arco.automation.tables import BackfillRow, ScheduleRow
from arco.orchestration.limit_tables import DeclaredLimits
from arco.orchestration.limit_usage import RunUse, run_limit_reached
from arco.orchestration.states import RunTrigger
from arco.orchestration.tables import RunRequestRow, RunRow

RUNS_OF_ASSET = 3
"""Maximum of concurrent runs of an asset's automation; other requests wait."""


def schedule_of(row: RunRequestRow | RunRow) -> str:
    """The schedule that caused a request or a run; empty if none did."""
    kind = row.kind if isinstance(row, RunRequestRow) else row.trigger
    return row.reference.rpartition("@")[0] if kind == RunTrigger.SCHEDULE else ""


def active_by_schedule(
    runs: Iterable[RunRow], requests: Iterable[RunRequestRow] = ()
) -> dict[str, str]:
    """By schedule, a run or a request of it that is not over."""
    active: dict[str, str] = {}
    for run in runs:
        if key := schedule_of(run):
            active[key] = f"run {run.run_id}"
    for request in requests:
        if key := schedule_of(request):
            active.setdefault(key, f"the request of {request.reference.rpartition('@')[2]}")
    return active


def _automated_asset(row: RunRequestRow | RunRow) -> str:
    """The first asset of a request or a run of automation."""
    kind = row.kind if isinstance(row, RunRequestRow) else row.trigger
    return row.selection[0] if kind == RunTrigger.MATERIALIZATION and row.selection else ""


def to_plan(
    requests: Iterable[RunRequestRow],
    schedules: Mapping[str, ScheduleRow],
    runs: Collection[RunRow],
    backfills: Mapping[str, BackfillRow],
) -> list[RunRequestRow]:
    """Requests in their order: of a schedule that queues one at a time, of a paused backfill none,
    and of an asset's automation a few."""
    waiting = sorted(requests, key=lambda row: (-row.priority, row.requested_at, row.request_key))
    active: dict[str, str] | None = None
    by_asset: Counter[str] | None = None
    chosen = []
    for request in waiting:
        if request.kind == RunTrigger.BACKFILL:
            backfill = backfills.get(backfill_of(request.reference))
            if backfill is not None and backfill.state == BackfillState.PAUSED:
                continue
        if request.kind == RunTrigger.MATERIALIZATION:
            if by_asset is None:
                by_asset = Counter(_automated_asset(run) for run in runs)
            if by_asset[_automated_asset(request)] >= RUNS_OF_ASSET:
                continue
            by_asset[_automated_asset(request)] += 1
        schedule = schedules.get(schedule_of(request))
        if schedule is not None and schedule.overlap == "queue":
            if active is None:
                active = active_by_schedule(runs)
            if schedule.schedule_id in active:
                continue
            active[schedule.schedule_id] = request.request_key
        chosen.append(request)
    return chosen


def within_limits(
    requests: Iterable[RunRequestRow], declared: DeclaredLimits, use: RunUse
) -> list[RunRequestRow]:
    """The requests that limits leave room for. The others wait.

    Nothing is planned while dispatch is paused.
    """
    chosen: list[RunRequestRow] = []
    if declared.is_paused:
        return chosen
    for request in requests:
        if run_limit_reached(declared, use, request.kind) is None:
            chosen.append(request)
            use = use.with_one(request.kind)
    return chosen
