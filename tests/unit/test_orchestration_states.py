"""The tables of states: complete, without dead ends, and what really happens.

After a change that is meant: ARCO_UPDATE_GOLDEN=1 pytest tests/unit/test_orchestration_states.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from arco.orchestration import states
from arco.orchestration.states import RunState, TaskCause, TaskState
from tests.kit.runs import ANYTHING, Dag, Folding, Node, World, triggered
from tests.kit.states_page import describe

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "states.md"
Table = Mapping[Any, Mapping[Any, Any]]
TABLES = [
    pytest.param(states.TASK_TRANSITIONS, set(TaskState), TaskState.PLANNED, id="tasks"),
    pytest.param(states.RUN_TRANSITIONS, set(RunState), RunState.PLANNING, id="runs"),
]


def reachable(table: Table, first: str) -> set[str]:
    found, new = {first}, [first]
    while new:
        for to in table.get(new.pop(), {}).values():
            if to not in found:
                found.add(to)
                new.append(to)
    return found


@pytest.mark.parametrize(("table", "all_states", "first"), TABLES)
def test_every_state_can_be_reached(table: Table, all_states: set[str], first: str) -> None:
    assert reachable(table, first) == all_states


@pytest.mark.parametrize(("table", "all_states", "first"), TABLES)
def test_every_state_has_a_way_to_an_end(table: Table, all_states: set[str], first: str) -> None:
    ends = all_states - set(table)
    assert all(reachable(table, state) & ends for state in all_states)


def test_every_cause_is_in_a_table() -> None:
    for causes, table in (
        (TaskCause, states.TASK_TRANSITIONS),
        (states.RunCause, states.RUN_TRANSITIONS),
    ):
        listed: Table = table
        assert {cause for row in listed.values() for cause in row} == set(causes)


def test_only_states_that_have_ended_have_no_way_out() -> None:
    assert set(TaskState) - set(states.TASK_TRANSITIONS) == states.TERMINAL
    assert set(states.RUN_TRANSITIONS) == states.RUN_ACTIVE
    assert states.GOOD < states.TERMINAL
    assert states.IN_FLIGHT < states.ACTIVE_ATTEMPT
    assert not states.ACTIVE_ATTEMPT & states.TERMINAL


def test_cause_that_a_state_does_not_have_changes_nothing() -> None:
    assert states.after(TaskState.SUCCEEDED, TaskCause.STARTED) is None
    assert states.after(TaskState.BLOCKED, TaskCause.STARTED) is None
    assert states.after(TaskState.READY, TaskCause.STARTED) == TaskState.RUNNING


def test_tasks_and_runs_move_only_along_the_tables_and_along_all_of_them() -> None:
    tasks: set[tuple[str, str]] = set()
    runs: set[tuple[str, str]] = set()
    for seed in range(300):
        world = World(random_dag(seed), seed, fates=ANYTHING, chaos=True)
        before: dict[str, str] = {}
        was = ""
        for _ in world.play():
            now, run = world.folding.states(), world.folding.run().state
            tasks |= {(before[id], now[id]) for id in before if before[id] != now[id]}
            runs |= {(was, run)} if was and was != run else set()
            before, was = now, run
    assert tasks == direct(states.TASK_TRANSITIONS)
    assert runs >= direct(states.RUN_TRANSITIONS)
    # One event may end all tasks, and so take a run through two transitions.
    assert all(to in reachable(states.RUN_TRANSITIONS, state) for state, to in runs)


def test_run_without_tasks_has_succeeded_at_once() -> None:
    folding = Folding()
    folding.add(triggered(0))
    assert folding.run().state == RunState.SUCCEEDED


def direct(table: Table) -> set[tuple[str, str]]:
    """Transitions to another state."""
    return {(state, to) for state, row in table.items() for to in row.values() if state != to}


def random_dag(seed: int) -> Dag:
    rng = random.Random(seed)
    nodes = []
    for i in range(rng.randint(1, 6)):
        deps = sorted(rng.sample(range(i), min(i, rng.randrange(3))))
        nodes.append(Node(tuple(deps), rng.random() < 0.15))
    return tuple(nodes)


def test_page_of_states_is_what_the_tables_say() -> None:
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(describe())
    assert PAGE.read_text() == describe()
