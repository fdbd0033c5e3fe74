"""Requests for runs that may be planned now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arco.automation.fold import KIND
from arco.automation.tables import ScheduleRow
from arco.orchestration.limit_tables import DeclaredLimits
from arco.orchestration.limit_usage import RunUse, run_limit_reached
from arco.orchestration.tables import RunRequestRow, RunRow


def schedule_of(row: RunRequestRow | RunRow) -> str:
    """The schedule that caused a request or a run; empty if none did."""
    kind = row.kind if isinstance(row, RunRequestRow) else row.trigger
    return row.reference.rpartition("@")[0] if kind == KIND else ""


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


def to_plan(
    requests: Iterable[RunRequestRow],
    schedules: Mapping[str, ScheduleRow],
    runs: Iterable[RunRow],
) -> list[RunRequestRow]:
    """Requests in the order in which they came; of a schedule that queues, one at a time."""
    waiting = sorted(requests, key=lambda row: (-row.priority, row.requested_at, row.request_key))
    active: dict[str, str] | None = None
    chosen = []
    for request in waiting:
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
    """Those that limits leave room for. The others wait: no request is refused for want of room.

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
