"""`docs/concepts/states.md`: the tables of `arco.orchestration.states`, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from arco.orchestration.states import (
    GOOD,
    IN_FLIGHT,
    RUN_TRANSITIONS,
    TASK_TRANSITIONS,
    TERMINAL,
    RunState,
    TaskState,
)

S = TypeVar("S", bound=StrEnum)
C = TypeVar("C", bound=StrEnum)

_MEANING: Final[Mapping[TaskState, str]] = {
    TaskState.PLANNED: "part of a plan that is not yet complete in the log",
    TaskState.BLOCKED: "waits for upstream tasks",
    TaskState.READY: "can start: the next attempt has its id and is not yet enqueued",
    TaskState.DISPATCHED: "the attempt is enqueued",
    TaskState.RUNNING: "a worker runs the attempt",
    TaskState.RETRY_WAIT: "an attempt failed; the next one starts at a known time",
    TaskState.SUCCEEDED: "its output is the newest good version of its partition, or is held",
    TaskState.REUSED: "an existing version is up to date and was reused",
    TaskState.FAILED: "the last attempt failed, or one with an error that is not retried",
    TaskState.SKIPPED: "an upstream task failed, or its output is held",
    TaskState.CANCELLED: "its attempt, its run or an upstream task was cancelled",
}


def describe() -> str:
    """The page, as it must be."""
    tasks = [f"| `{state}` | {_MEANING[state]} | {_kind(state)} |" for state in TaskState]
    lines = [
        "# States of tasks and runs",
        "",
        "Generated from `arco.orchestration.states`; do not edit. The tables",
        "have all transitions: an event that is not listed for a state changes nothing. One event",
        "may cause several transitions of a run.",
        "",
        "## Tasks",
        "",
        *_diagram(TASK_TRANSITIONS, TaskState.PLANNED),
        "",
        "| state | meaning | |",
        "|---|---|---|",
        *tasks,
        "",
        *_transitions(TASK_TRANSITIONS),
        "",
        "## Runs",
        "",
        *_diagram(RUN_TRANSITIONS, RunState.PLANNING),
        "",
        *_transitions(RUN_TRANSITIONS),
    ]
    return "\n".join(lines) + "\n"


def _kind(state: TaskState) -> str:
    if state in GOOD:
        return "ended, good"
    if state in TERMINAL:
        return "ended"
    return "in flight" if state in IN_FLIGHT else ""


def _diagram(table: Mapping[S, Mapping[C, S]], first: S) -> Iterable[str]:
    """As a picture; transitions between the same two states are drawn once."""
    causes: dict[tuple[S, S], list[C]] = {}
    for state, transitions in table.items():
        for cause, to in transitions.items():
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


def _transitions(table: Mapping[S, Mapping[C, S]]) -> Iterable[str]:
    rows = [
        f"| `{state}` | {cause} | `{to}` |"
        for state, transitions in table.items()
        for cause, to in transitions.items()
    ]
    return ["| from | when | to |", "|---|---|---|", *rows]
