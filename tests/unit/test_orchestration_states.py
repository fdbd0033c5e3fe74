"""The tables of states: complete, without dead ends, and what really happens.

After a change that is meant: ARCO_UPDATE_GOLDEN=1 pytest tests/unit/test_orchestration_states.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from arco.orchestration import states
from tests.kit.runs import ANYTHING, Dag, Node, World

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "states.md"
Table = Mapping[str, Mapping[str, str]]
TABLES = [
    pytest.param(states.TRANSITIONS, states.TASK_STATES, states.PLANNED, id="tasks"),
    pytest.param(states.RUN_TRANSITIONS, states.RUN_STATES, states.RUN_PLANNING, id="runs"),
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
def test_every_state_can_be_reached(table: Table, all_states: tuple[str, ...], first: str) -> None:
    assert reachable(table, first) == set(all_states)


@pytest.mark.parametrize(("table", "all_states", "first"), TABLES)
def test_every_state_has_a_way_to_an_end(
    table: Table, all_states: tuple[str, ...], first: str
) -> None:
    ends = set(all_states) - set(table)
    assert all(reachable(table, state) & ends for state in all_states)


def test_only_states_that_have_ended_have_no_way_out() -> None:
    assert set(states.TASK_STATES) - set(states.TRANSITIONS) == states.TERMINAL
    assert set(states.RUN_TRANSITIONS) == states.RUN_ACTIVE
    assert states.GOOD < states.TERMINAL
    assert states.IN_FLIGHT < states.ACTIVE_ATTEMPT
    assert not states.ACTIVE_ATTEMPT & states.TERMINAL


def test_cause_that_a_state_does_not_know_leads_nowhere() -> None:
    assert states.after("SUCCEEDED", "started") is None
    assert states.after("BLOCKED", "started") is None
    assert states.after("READY", "started") == "RUNNING"


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
    roads = direct(states.TRANSITIONS)
    assert tasks == {road for road in roads if road[0] != road[1]}
    assert runs == direct(states.RUN_TRANSITIONS)


def direct(table: Table) -> set[tuple[str, str]]:
    return {(state, to) for state, roads in table.items() for to in roads.values()}


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
        PAGE.write_text(states.describe())
    assert PAGE.read_text() == states.describe()
