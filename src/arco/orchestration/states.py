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
        "an upstream's output is held back": SKIPPED,
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

RUN_TRANSITIONS: Final[dict[str, dict[str, str]]] = {
    RUN_PLANNING: {
        "all of its tasks are there": RUN_RUNNING,
        "all of its tasks are up to date": RUN_SUCCEEDED,
        "cancelled, with tasks that are there": RUN_CANCELLING,
        "cancelled": RUN_CANCELLED,
        "took too long": RUN_TIMED_OUT,
    },
    RUN_RUNNING: {
        "cancelled, or took too long, with tasks that have not ended": RUN_CANCELLING,
        "all tasks are good": RUN_SUCCEEDED,
        "all tasks have ended, and one failed, or its checks ended the run": RUN_FAILED,
        "cancelled, or all tasks have ended, and one was cancelled": RUN_CANCELLED,
        "took too long": RUN_TIMED_OUT,
    },
    RUN_CANCELLING: {
        "all tasks have ended": RUN_CANCELLED,
        "all tasks have ended, after checks ended the run": RUN_FAILED,
        "all tasks have ended, after a time-out": RUN_TIMED_OUT,
    },
}
"""The same for runs. These follow from the states of the tasks, and are checked in tests."""

_MEANING: Final = {
    PLANNED: "part of a plan that is not complete yet",
    BLOCKED: "waits for upstreams",
    READY: "may go: an attempt has its id, and is to be sent",
    DISPATCHED: "the queue has the attempt",
    RUNNING: "a worker has the attempt",
    RETRY_WAIT: "an attempt failed, and the next one has a time",
    SUCCEEDED: "its output is the partition's newest good version, unless checks hold it back",
    REUSED: "an output of before is still up to date",
    FAILED: "the last attempt failed, or one that is not to be tried again",
    SKIPPED: "something above it failed, or its output is held back",
    CANCELLED: "its attempt, its run or something above it was cancelled",
}


def after(state: str, cause: str) -> str | None:
    """The state that `cause` leads to, or None where it leads nowhere."""
    return TRANSITIONS.get(state, {}).get(cause)


def describe() -> str:
    """`docs/concepts/states.md`: the tables of this module, for people."""
    tasks = [f"| `{s}` | {_MEANING[s]} | {_kind(s)} |" for s in TASK_STATES]
    lines = [
        "# States of tasks and runs",
        "",
        "Generated from `arco.orchestration.states`; do not edit. What is not here does not",
        "happen: a report that would take a task along another road changes nothing.",
        "",
        "## Tasks",
        "",
        *_diagram(TRANSITIONS, PLANNED),
        "",
        "| state | meaning | |",
        "|---|---|---|",
        *tasks,
        "",
        *_roads(TRANSITIONS),
        "",
        "## Runs",
        "",
        *_diagram(RUN_TRANSITIONS, RUN_PLANNING),
        "",
        *_roads(RUN_TRANSITIONS),
    ]
    return "\n".join(lines) + "\n"


def _kind(state: str) -> str:
    if state in GOOD:
        return "ended, good"
    if state in TERMINAL:
        return "ended"
    return "in flight" if state in IN_FLIGHT else ""


def _diagram(table: dict[str, dict[str, str]], first: str) -> list[str]:
    """As a picture; roads between the same two states are drawn once."""
    causes: dict[tuple[str, str], list[str]] = {}
    for state, roads in table.items():
        for cause, to in roads.items():
            causes.setdefault((state, to), []).append(cause)
    drawn = [f"    {a} --> {b}: {' / '.join(texts)}" for (a, b), texts in causes.items()]
    ends = dict.fromkeys(to for _, to in causes if to not in table)
    return [
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {first}",
        *drawn,
        *(f"    {state} --> [*]" for state in ends),
        "```",
    ]


def _roads(table: dict[str, dict[str, str]]) -> list[str]:
    rows = [
        f"| `{state}` | {cause} | `{to}` |"
        for state, roads in table.items()
        for cause, to in roads.items()
    ]
    return ["| from | when | to |", "|---|---|---|", *rows]
