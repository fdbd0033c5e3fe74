"""The fold of limits: one key for all, so that what is counted together is decided together.

The numbers of active tasks and runs are not stored: the process that starts one counts the rows of
runs and tasks as of a position in the log, and records that position. All starts go through here;
ends only lower the count. So a count that includes all earlier admissions is never too low, and a
count that does not is refused and repeated. Without limits, nothing is counted and nothing is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.orchestration.events import RunTriggered
from arco.orchestration.limit_events import (
    DispatchPaused,
    DispatchResumed,
    LimitSet,
    LimitUnset,
    RunPermitted,
    TaskAdmitted,
    TasksAdmitted,
)
from arco.orchestration.limit_tables import (
    DISPATCH_CONTROL,
    LARGEST,
    LIMITS,
    OF_RUNS,
    WORKSPACE,
    DispatchControlRow,
    LimitRow,
    Permit,
    least_value,
    limits_of,
    pause_text,
)
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, always
from arco.state.system import applied, refused

replace = msgspec.structs.replace
MOVED = "limits_moved"
"""The code of a refusal after which the count is repeated."""


def _control(rows: Rows) -> DispatchControlRow:
    return rows.get(DISPATCH_CONTROL, WORKSPACE) or DispatchControlRow(WORKSPACE)


def _changed(rows: Rows, fact: Fact, **fields: object) -> Put:
    """The changed control row: earlier counts are refused from now on."""
    return Put(
        DISPATCH_CONTROL,
        replace(
            _control(rows),
            tasks_position=fact.position,
            tasks_proposal="",
            runs_position=fact.position,
            runs_proposal="",
            **fields,
        ),
    )


def _set(rows: Rows, fact: Fact, e: LimitSet) -> Iterator[Change]:
    if e.name not in limits_of(e.scope) or not least_value(e.scope, e.name) <= e.value <= LARGEST:
        yield refused(fact, "limit_invalid", f"{e.scope} cannot have {e.name} {e.value}")
        return
    yield from _put(rows, fact, e, e.value)


def _unset(rows: Rows, fact: Fact, e: LimitUnset) -> Iterator[Change]:
    row = rows.get(LIMITS, e.scope, e.name)
    if row is None or row.value is None:
        yield refused(fact, "limit_not_set", f"{e.name} of {e.scope} is not set")
        return
    yield from _put(rows, fact, e, None)


def _put(rows: Rows, fact: Fact, e: LimitSet | LimitUnset, value: int | None) -> Iterator[Change]:
    row = LimitRow(e.scope, e.name, value, e.reason, fact.received_at, fact.actor)
    yield Put(LIMITS, row)
    yield _changed(rows, fact)
    yield applied(fact)


def _pause(rows: Rows, fact: Fact, e: DispatchPaused) -> Iterator[Change]:
    if _control(rows).paused_at is None:
        yield _changed(
            rows,
            fact,
            paused_at=fact.received_at,
            paused_by=fact.actor,
            pause_reason=e.reason,
        )
    yield applied(fact)


def _resume(rows: Rows, fact: Fact, e: DispatchResumed) -> Iterator[Change]:
    if _control(rows).paused_at is not None:
        yield _changed(rows, fact, paused_at=None, paused_by="", pause_reason="")
    yield applied(fact)


def _admit(rows: Rows, fact: Fact, e: TasksAdmitted) -> Iterator[Change]:
    control = _control(rows)
    if not _counts(e.permit, control.tasks_position, ""):
        return
    yield Put(
        DISPATCH_CONTROL,
        replace(control, tasks_position=fact.position, tasks_proposal=e.permit.proposal),
    )
    for task in e.tasks:
        yield Emit(
            TaskAdmitted(run_id=task.run_id, task_id=task.task_id, attempt_id=task.attempt_id)
        )


def _trigger(rows: Rows, fact: Fact, e: RunTriggered) -> Iterator[Change]:
    control = _control(rows)
    if control.paused_at is not None:
        yield refused(fact, "dispatch_paused", pause_text(control))
        return
    if any(_is_set(rows, name) for name in OF_RUNS):
        permit = e.permit or None
        if permit is None or not _counts(permit, control.runs_position, control.runs_proposal):
            yield refused(fact, MOVED, "other runs were started, or limits changed, meanwhile")
            return
        yield Put(
            DISPATCH_CONTROL,
            replace(control, runs_position=fact.position, runs_proposal=permit.proposal),
        )
    yield Emit(RunPermitted(trigger=e))


def _is_set(rows: Rows, name: str) -> bool:
    row = rows.get(LIMITS, WORKSPACE, name)
    return row is not None and row.value is not None


def _counts(permit: Permit, position: int, proposal: str) -> bool:
    return permit.position >= position or (proposal != "" and permit.proposal == proposal)


_one_key = always("")
STAGE = Stage(
    "limits",
    (LIMITS, DISPATCH_CONTROL),
    (
        On(LimitSet, _one_key, _set),
        On(LimitUnset, _one_key, _unset),
        On(DispatchPaused, _one_key, _pause),
        On(DispatchResumed, _one_key, _resume),
        On(TasksAdmitted, _one_key, _admit),
        On(RunTriggered, _one_key, _trigger),
    ),
)
