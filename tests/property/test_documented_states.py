"""Columns with a closed set of values: folds write no others, and documentation lists no others."""

from __future__ import annotations

import ast
import enum
import inspect
import random
import re
import sys
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.execution.tables import PARTITION_STATUS, QUARANTINE
from arco.orchestration.tables import RUNS, TASKS, TIMERS
from arco.quality.tables import CHECK_STATUS
from arco.state.system import OUTCOMES
from arco.state.table import Row, Table
from tests.kit.depth import examples
from tests.kit.runs import ANYTHING, CHAIN, World, dags
from tests.property.test_execution_fold import commands

Place = tuple[Table[Any], str]


def values_of(hint: Any) -> frozenset[str] | None:
    """The values of a closed type; None for a type that is open."""
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return frozenset(hint)
    options = [values_of(option) for option in typing.get_args(hint)]
    if typing.get_origin(hint) is typing.Literal:
        return frozenset(typing.get_args(hint))
    if options and None not in options:
        return frozenset().union(*(option for option in options if option is not None))
    return None


CLOSED: dict[Place, frozenset[str]] = {
    (table, name): values
    for table in CHAIN.tables
    for name, hint in typing.get_type_hints(table.row).items()
    if (values := values_of(hint)) is not None
}


def name_of(at: Place) -> str:
    """The same in every process, as the names of tests must be."""
    return f"{at[0]}.{at[1]}"


def documented(row: type[Row], field: str) -> str:
    """What stands below a field of a row."""
    tree = ast.parse(inspect.getsource(sys.modules[row.__module__]))
    (cls,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == row.__name__]
    for node, below in zip(cls.body, [*cls.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == field:
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            return str(below.value.value) if is_text else ""  # type: ignore[union-attr]
    raise AssertionError(f"{row.__name__} has no {field}")


def test_columns_of_states_are_closed() -> None:
    states = {(t, c) for t in CHAIN.tables for c in t.columns if c in ("state", "status", "gate")}
    assert states <= CLOSED.keys()


@pytest.mark.parametrize(
    ("at", "values"),
    [
        ((TASKS, "gate"), {"", "warn", "quarantine", "block"}),
        ((RUNS, "state"), None),
        ((TIMERS, "kind"), None),
        ((QUARANTINE, "status"), {"QUARANTINED", "BLOCKED", "APPROVED", "REJECTED"}),
        ((PARTITION_STATUS, "status"), None),
        ((CHECK_STATUS, "status"), {"passed", "failed", "error"}),
        ((OUTCOMES, "status"), {"applied", "refused"}),
    ],
    ids=lambda part: name_of(part) if isinstance(part, tuple) else "values",
)
def test_values_of_a_column_follow_from_its_type(at: Place, values: set[str] | None) -> None:
    assert at in CLOSED
    assert values is None or CLOSED[at] == values


PLACES: list[Place] = sorted(CLOSED, key=name_of)


@pytest.mark.parametrize("at", PLACES, ids=name_of)
def test_documentation_of_a_column_names_only_values_that_it_has(at: Place) -> None:
    table, field = at
    named = set(re.findall(r"\b[A-Z][A-Z_]{2,}\b", documented(table.row, field)))
    assert named <= CLOSED[at]


@given(dags(6), st.integers(0, 10_000))
@settings(max_examples=examples(60))
def test_folds_write_documented_states_only(dag: Any, seed: int) -> None:
    world = World(dag, seed, fates=ANYTHING, chaos=True)
    world.played()
    for payload in commands(world, random.Random(seed)):
        f = world.folding
        f.fold([f.record(payload, key=f"k{f.position}", actor="ana")])
    for (table, field), allowed in CLOSED.items():
        written = {getattr(row, field) for row in world.folding.all(table)}
        assert written <= allowed, f"{table}.{field}"
