"""The states of tasks and runs, as tables.

`TRANSITIONS` is all there is: what is not in it does not happen. A fact that would
take a task along a road that is not there (a report that came late, or twice)
changes nothing. `docs/concepts/states.md` is generated from it.
"""

from __future__ import annotations

from typing import Final

PLANNED: Final = "PLANNED"
BLOCKED: Final = "BLOCKED"
READY: Final = "READY"
DISPATCHED: Final = "DISPATCHED"
RUNNING: Final = "RUNNING"
RETRY_WAIT: Final = "RETRY_WAIT"
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
SKIPPED: Final = "SKIPPED"
CANCELLED: Final = "CANCELLED"
REUSED: Final = "REUSED"

TASK_STATES: Final = (
    PLANNED,
    BLOCKED,
    READY,
    DISPATCHED,
    RUNNING,
    RETRY_WAIT,
    SUCCEEDED,
    REUSED,
    FAILED,
    SKIPPED,
    CANCELLED,
)
TERMINAL: Final = frozenset({SUCCEEDED, REUSED, FAILED, SKIPPED, CANCELLED})
GOOD: Final = frozenset({SUCCEEDED, REUSED})
IN_FLIGHT: Final = frozenset({DISPATCHED, RUNNING})
ACTIVE_ATTEMPT: Final = frozenset({READY, DISPATCHED, RUNNING})
"""States in which the row's `attempt_id` may still report."""

TRANSITIONS: Final[dict[str, dict[str, str]]] = {
    PLANNED: {
        "depends on others": BLOCKED,
        "depends on nothing": READY,
        "is up to date": REUSED,
        "run cancelled": CANCELLED,
    },
    BLOCKED: {
        "all upstreams are good": READY,
        "an upstream failed": SKIPPED,
        "an upstream was cancelled": CANCELLED,
        "run cancelled": CANCELLED,
    },
    READY: {
        "enqueued": DISPATCHED,
        "started": RUNNING,
        "succeeded": SUCCEEDED,
        "failed for good": FAILED,
        "failed, to be retried": RETRY_WAIT,
        "attempt cancelled": CANCELLED,
        "run cancelled": CANCELLED,
    },
    DISPATCHED: {
        "enqueued": DISPATCHED,
        "started": RUNNING,
        "succeeded": SUCCEEDED,
        "failed for good": FAILED,
        "failed, to be retried": RETRY_WAIT,
        "attempt cancelled": CANCELLED,
    },
    RUNNING: {
        "succeeded": SUCCEEDED,
        "failed for good": FAILED,
        "failed, to be retried": RETRY_WAIT,
        "attempt cancelled": CANCELLED,
    },
    RETRY_WAIT: {
        "retry is due": READY,
        "run cancelled": CANCELLED,
    },
}
"""For each state, what may happen to a task in it, and where that leads."""

RUN_PLANNING: Final = "PLANNING"
RUN_RUNNING: Final = "RUNNING"
RUN_CANCELLING: Final = "CANCELLING"
RUN_SUCCEEDED: Final = "SUCCEEDED"
RUN_FAILED: Final = "FAILED"
RUN_CANCELLED: Final = "CANCELLED"
RUN_TIMED_OUT: Final = "TIMED_OUT"
RUN_ACTIVE: Final = frozenset({RUN_PLANNING, RUN_RUNNING, RUN_CANCELLING})
RUN_STATES: Final = (
    RUN_PLANNING,
    RUN_RUNNING,
    RUN_CANCELLING,
    RUN_SUCCEEDED,
    RUN_FAILED,
    RUN_CANCELLED,
    RUN_TIMED_OUT,
)


def after(state: str, cause: str) -> str | None:
    """The state that `cause` leads to, or None where it leads nowhere."""
    return TRANSITIONS.get(state, {}).get(cause)
