"""The fold of schedules: one key for each.

A tick counts once. It must be later than the last one, of the schedule's current cron expression,
and the schedule must be active; repeated and late ticks change nothing. A tick that fires requests
a run by a derived fact, so that both become visible together.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from arco.automation import asset_fold, backfill_runs, backfills, freshness_fold
from arco.automation.events import SchedulePaused, ScheduleResumed, ScheduleTicked
from arco.automation.tables import (
    SCHEDULE_TICKS,
    SCHEDULES,
    ScheduleRow,
    ScheduleState,
    ScheduleTickRow,
    TickState,
    schedule_id,
)
from arco.orchestration.declarations import ScheduleDeclared, ScheduleRemoved
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import RunAsked, packed_request, request_fingerprint
from arco.orchestration.states import RunTrigger
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused

replace = msgspec.structs.replace
EARLY = timedelta(minutes=5)
"""A tick that is recorded earlier than this before its time does not count."""


def request_key(reference: str) -> str:
    return f"{RunTrigger.SCHEDULE}:{reference}"


def _declare(rows: Rows, fact: Fact, e: ScheduleDeclared) -> Iterator[Change]:
    key, schedule = schedule_id(e.project, e.declaration.name), e.declaration
    old = rows.get(SCHEDULES, key)
    now = fact.received_at
    row = row_from(
        ScheduleRow,
        e,
        schedule,
        schedule_id=key,
        state=ScheduleState.ACTIVE,
        config=msgspec.json.encode(schedule.config, order="sorted").decode(),
        since=now,
        last_tick="",
        last_scheduled_at=None,
        paused_at=None,
        paused_by="",
        pause_reason="",
        catchup_once=None,
        timing_number=1,
    )
    if old is not None:
        continues = old.timing == row.timing and old.state != ScheduleState.REMOVED
        row = replace(
            row,
            state=ScheduleState.ACTIVE if old.paused_at is None else ScheduleState.PAUSED,
            since=old.since if continues else now,
            last_tick=old.last_tick if continues else "",
            last_scheduled_at=old.last_scheduled_at if continues else None,
            timing_number=old.timing_number + (old.timing != row.timing),
            paused_at=old.paused_at,
            paused_by=old.paused_by,
            pause_reason=old.pause_reason,
            catchup_once=old.catchup_once if continues else None,
        )
    yield Put(SCHEDULES, row)


def _remove(rows: Rows, fact: Fact, e: ScheduleRemoved) -> Iterator[Change]:
    row = rows.get(SCHEDULES, schedule_id(e.project, e.name))
    if row is not None:
        yield Put(
            SCHEDULES, replace(row, state=ScheduleState.REMOVED, deployment_id=e.deployment_id)
        )


def _pause(rows: Rows, fact: Fact, e: SchedulePaused) -> Iterator[Change]:
    row = rows.get(SCHEDULES, e.schedule_id)
    if row is None or row.state == ScheduleState.REMOVED:
        yield refused(fact, "schedule_not_found", f"there is no schedule {e.schedule_id}")
        return
    if row.state == ScheduleState.ACTIVE:
        paused = replace(
            row,
            state=ScheduleState.PAUSED,
            paused_at=fact.received_at,
            paused_by=fact.actor,
            pause_reason=e.reason,
        )
        yield Put(SCHEDULES, paused)
    yield applied(fact)


def _resume(rows: Rows, fact: Fact, e: ScheduleResumed) -> Iterator[Change]:
    row = rows.get(SCHEDULES, e.schedule_id)
    if row is None or row.state == ScheduleState.REMOVED:
        yield refused(fact, "schedule_not_found", f"there is no schedule {e.schedule_id}")
        return
    if row.state == ScheduleState.PAUSED:
        forgets = e.catchup == "none"
        resumed = replace(
            row,
            state=ScheduleState.ACTIVE,
            since=fact.received_at if forgets else row.since,
            paused_at=None,
            paused_by="",
            pause_reason="",
            catchup_once=None if forgets else e.catchup,
        )
        yield Put(SCHEDULES, resumed)
    yield applied(fact)


def _tick(rows: Rows, fact: Fact, e: ScheduleTicked) -> Iterator[Change]:
    row = rows.get(SCHEDULES, e.schedule_id)
    if row is None or row.state != ScheduleState.ACTIVE or row.timing != e.timing:
        return
    if e.scheduled_at <= row.done_until or e.tick == row.last_tick:
        return
    if e.scheduled_at > fact.received_at + EARLY:
        return  # of a machine whose clock is far ahead
    tick = e.tick if row.timing_number == 1 else f"{e.tick}#{row.timing_number}"
    reference = f"{row.schedule_id}@{tick}"
    fires = e.outcome == "fired"
    yield Put(
        SCHEDULE_TICKS,
        row_from(
            ScheduleTickRow,
            e,
            tick=tick,
            state=TickState(e.outcome.upper()),
            request_key=request_key(reference) if fires else "",
            recorded_at=fact.received_at,
        ),
    )
    ticked = replace(row, last_tick=e.tick, last_scheduled_at=e.scheduled_at, catchup_once=None)
    yield Put(SCHEDULES, ticked)
    if fires:
        request = request_of(row)
        yield Emit(
            RunAsked(
                request_key=request_key(reference),
                fingerprint=request_fingerprint(request),
                kind=RunTrigger.SCHEDULE,
                reference=reference,
                until=e.scheduled_at,
                **packed_request(request),
            )
        )


def request_of(row: ScheduleRow) -> PlanRequest:
    """The request of a schedule's tick."""
    return PlanRequest(
        selection=tuple(row.selection),
        partitions=tuple(row.partitions),
        config=msgspec.json.decode(row.config),
        refresh_sources=row.refresh_sources,
    )


_by_schedule = by("schedule_id")
STAGES = (
    Stage(
        "schedules",
        (SCHEDULES, SCHEDULE_TICKS),
        (
            On(ScheduleDeclared, lambda _, e: schedule_id(e.project, e.declaration.name), _declare),
            On(ScheduleRemoved, lambda _, e: schedule_id(e.project, e.name), _remove),
            On(SchedulePaused, _by_schedule, _pause),
            On(ScheduleResumed, _by_schedule, _resume),
            On(ScheduleTicked, _by_schedule, _tick),
        ),
    ),
    backfills.STAGE,
    asset_fold.STAGE,
    freshness_fold.REQUESTS,
)
"""The stages that request runs."""
AFTER_RUNS = (backfill_runs.STAGE,)
"""Stages after those of runs."""
AFTER_OUTPUTS = freshness_fold.AFTER_OUTPUTS
"""Stages after those of outputs."""
