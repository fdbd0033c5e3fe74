"""The states of tasks, runs and timers, and the tables that move them.

`TASK_TRANSITIONS` and `RUN_TRANSITIONS` are the only way from one state to another: the fold
names a cause, and the table has the state that it leads to. A cause that a state does not
have (a report that came late, or twice) changes nothing. `docs/concepts/states.md` is
generated from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal


class TaskState(StrEnum):
    PLANNED = "PLANNED"
    BLOCKED = "BLOCKED"
    READY = "READY"
    DISPATCHED = "DISPATCHED"
    RUNNING = "RUNNING"
    RETRY_WAIT = "RETRY_WAIT"
    SUCCEEDED = "SUCCEEDED"
    REUSED = "REUSED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"


class RunState(StrEnum):
    PLANNING = "PLANNING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"


Gate = Literal["", "warn", "quarantine", "block"]
"""The gate of a task's output; empty if all checks passed."""
HELD_GATES: Final[frozenset[Gate]] = frozenset({"quarantine", "block"})


class TimerState(StrEnum):
    SCHEDULED = "SCHEDULED"
    FIRED = "FIRED"
    CANCELLED = "CANCELLED"


class TimerKind(StrEnum):
    RETRY = "retry"
    TASK_TIMEOUT = "task_timeout"
    RUN_TIMEOUT = "run_timeout"


TERMINAL: Final = frozenset(
    {
        TaskState.SUCCEEDED,
        TaskState.REUSED,
        TaskState.FAILED,
        TaskState.SKIPPED,
        TaskState.CANCELLED,
    }
)
GOOD: Final = frozenset({TaskState.SUCCEEDED, TaskState.REUSED})
IN_FLIGHT: Final = frozenset({TaskState.DISPATCHED, TaskState.RUNNING})
ACTIVE_ATTEMPT: Final = frozenset({TaskState.READY, TaskState.DISPATCHED, TaskState.RUNNING})
"""States in which the row's `attempt_id` may still report."""
RUN_ACTIVE: Final = frozenset({RunState.PLANNING, RunState.RUNNING, RunState.CANCELLING})


class RunTrigger(StrEnum):
    """What requested a run, or started it.

    Events and rows of newer programs may have other values. They are read as members that equal
    none of these, and written as they are; so a `match` has a case for them.
    """

    MANUAL = "manual"
    RETRY = "retry"
    SCHEDULE = "schedule"
    SENSOR = "sensor"
    WEBHOOK = "webhook"
    BACKFILL = "backfill"
    MATERIALIZATION = "materialization"
    """An asset's automation."""
    FRESHNESS = "freshness"

    @classmethod
    def _missing_(cls, value: object) -> RunTrigger | None:
        if not isinstance(value, str):
            return None
        other = str.__new__(cls, value)
        other._name_, other._value_ = "OTHER", value
        return other


AUTOMATIC: Final = frozenset(RunTrigger) - {RunTrigger.MANUAL, RunTrigger.RETRY}
"""Triggers of runs that nobody requested one by one."""
SENSOR_TRIGGERS: Final = (RunTrigger.SENSOR, RunTrigger.WEBHOOK)


class TaskCause(StrEnum):
    """What may happen to a task; the text is for the documentation."""

    HAS_UPSTREAMS = "has upstream tasks"
    HAS_NO_UPSTREAMS = "has no upstream tasks"
    UP_TO_DATE = "is up to date"
    UPSTREAMS_GOOD = "all upstream tasks are good"
    UPSTREAM_FAILED = "an upstream task failed"
    UPSTREAM_HELD = "the output of an upstream task is held"
    UPSTREAM_CANCELLED = "an upstream task was cancelled"
    ENQUEUED = "enqueued"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED_FOR_GOOD = "failed, not retried"
    TO_BE_RETRIED = "failed, will be retried"
    RETRY_DUE = "retry is due"
    ATTEMPT_CANCELLED = "attempt cancelled"
    RUN_CANCELLED = "run cancelled"


TASK_TRANSITIONS: Final[Mapping[TaskState, Mapping[TaskCause, TaskState]]] = {
    TaskState.PLANNED: {
        TaskCause.HAS_UPSTREAMS: TaskState.BLOCKED,
        TaskCause.HAS_NO_UPSTREAMS: TaskState.READY,
        TaskCause.UP_TO_DATE: TaskState.REUSED,
        TaskCause.RUN_CANCELLED: TaskState.CANCELLED,
    },
    TaskState.BLOCKED: {
        TaskCause.UPSTREAMS_GOOD: TaskState.READY,
        TaskCause.UPSTREAM_FAILED: TaskState.SKIPPED,
        TaskCause.UPSTREAM_HELD: TaskState.SKIPPED,
        TaskCause.UPSTREAM_CANCELLED: TaskState.CANCELLED,
        TaskCause.RUN_CANCELLED: TaskState.CANCELLED,
    },
    TaskState.READY: {
        TaskCause.ENQUEUED: TaskState.DISPATCHED,
        TaskCause.STARTED: TaskState.RUNNING,
        TaskCause.SUCCEEDED: TaskState.SUCCEEDED,
        TaskCause.FAILED_FOR_GOOD: TaskState.FAILED,
        TaskCause.TO_BE_RETRIED: TaskState.RETRY_WAIT,
        TaskCause.ATTEMPT_CANCELLED: TaskState.CANCELLED,
        TaskCause.RUN_CANCELLED: TaskState.CANCELLED,
    },
    TaskState.DISPATCHED: {
        TaskCause.ENQUEUED: TaskState.DISPATCHED,
        TaskCause.STARTED: TaskState.RUNNING,
        TaskCause.SUCCEEDED: TaskState.SUCCEEDED,
        TaskCause.FAILED_FOR_GOOD: TaskState.FAILED,
        TaskCause.TO_BE_RETRIED: TaskState.RETRY_WAIT,
        TaskCause.ATTEMPT_CANCELLED: TaskState.CANCELLED,
    },
    TaskState.RUNNING: {
        TaskCause.ENQUEUED: TaskState.RUNNING,
        TaskCause.STARTED: TaskState.RUNNING,
        TaskCause.SUCCEEDED: TaskState.SUCCEEDED,
        TaskCause.FAILED_FOR_GOOD: TaskState.FAILED,
        TaskCause.TO_BE_RETRIED: TaskState.RETRY_WAIT,
        TaskCause.ATTEMPT_CANCELLED: TaskState.CANCELLED,
    },
    TaskState.RETRY_WAIT: {
        TaskCause.RETRY_DUE: TaskState.READY,
        TaskCause.RUN_CANCELLED: TaskState.CANCELLED,
    },
}
"""For each state, what may happen to a task in it, and the state that follows."""


class RequestState(StrEnum):
    """The state of a request for a run."""

    PENDING = "PENDING"
    TRIGGERED = "TRIGGERED"
    REFUSED = "REFUSED"
    MERGED = "MERGED"
    """Its key has a run already, which another request started."""


class RunCause(StrEnum):
    """What may happen to a run; the text is for the documentation."""

    PLAN_COMPLETE = "all tasks are planned"
    CANCELLED = "cancelled"
    TIMED_OUT = "timeout exceeded"
    STOPPED_BY_CHECKS = "checks of a task ended the run"
    ALL_GOOD = "all tasks are good"
    TASK_FAILED = "all tasks have ended, and one failed"
    TASK_CANCELLED = "all tasks have ended, and one was cancelled"
    ENDED_AFTER_CANCEL = "all tasks have ended, after a cancellation"
    ENDED_AFTER_CHECKS = "all tasks have ended, after checks ended the run"
    ENDED_AFTER_TIMEOUT = "all tasks have ended, after a timeout"


RUN_TRANSITIONS: Final[Mapping[RunState, Mapping[RunCause, RunState]]] = {
    RunState.PLANNING: {
        RunCause.PLAN_COMPLETE: RunState.RUNNING,
        RunCause.ALL_GOOD: RunState.SUCCEEDED,
        RunCause.CANCELLED: RunState.CANCELLING,
        RunCause.TIMED_OUT: RunState.CANCELLING,
    },
    RunState.RUNNING: {
        RunCause.CANCELLED: RunState.CANCELLING,
        RunCause.TIMED_OUT: RunState.CANCELLING,
        RunCause.STOPPED_BY_CHECKS: RunState.CANCELLING,
        RunCause.ALL_GOOD: RunState.SUCCEEDED,
        RunCause.TASK_FAILED: RunState.FAILED,
        RunCause.TASK_CANCELLED: RunState.CANCELLED,
    },
    RunState.CANCELLING: {
        RunCause.CANCELLED: RunState.CANCELLING,
        RunCause.ENDED_AFTER_CANCEL: RunState.CANCELLED,
        RunCause.ENDED_AFTER_CHECKS: RunState.FAILED,
        RunCause.ENDED_AFTER_TIMEOUT: RunState.TIMED_OUT,
    },
}
"""The same for runs. One event may take a run through several of these."""

_NOWHERE: Final[Mapping[TaskCause, TaskState]] = {}


def after(state: TaskState, cause: TaskCause) -> TaskState | None:
    """The state of a task that `cause` leads to, or None where it changes nothing."""
    return TASK_TRANSITIONS.get(state, _NOWHERE).get(cause)


def run_after(state: RunState, cause: RunCause) -> RunState | None:
    """The same for a run."""
    return RUN_TRANSITIONS.get(state, {}).get(cause)
