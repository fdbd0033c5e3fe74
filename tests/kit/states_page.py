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
    TaskState.PLANNED: "part of a plan that is not complete yet",
    TaskState.BLOCKED: "waits for upstreams",
    TaskState.READY: "may go: an attempt has its id, and is to be sent",
    TaskState.DISPATCHED: "the queue has the attempt",
    TaskState.RUNNING: "a worker has the attempt",
    TaskState.RETRY_WAIT: "an attempt failed, and the next one has a time",
    TaskState.SUCCEEDED: (
        "its output is the partition's newest good version, unless checks hold it back"
    ),
    TaskState.REUSED: "an output of before is still up to date",
    TaskState.FAILED: "the last attempt failed, or one that is not to be tried again",
    TaskState.SKIPPED: "something above it failed, or its output is held back",
    TaskState.CANCELLED: "its attempt, its run or something above it was cancelled",
}


def describe() -> str:
    """The page, as it must be."""
    tasks = [f"| `{state}` | {_MEANING[state]} | {_kind(state)} |" for state in TaskState]
    lines = [
        "# States of tasks and runs",
        "",
        "Generated from `arco.orchestration.states`; do not edit. These are all transitions:",
        "an event that a state does not list changes nothing. One event may take a run",
        "through several of its transitions.",
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
