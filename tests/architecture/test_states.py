"""States are compared with members of their enumerations, which a type checker knows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.source import modules, nodes


def words_of_states() -> set[str]:
    """The values in upper case of all enumerations in the source."""
    return {
        statement.value.value
        for module in modules()
        for node in nodes(module)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "StrEnum" for base in node.bases)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        and statement.value.value.isupper()
    }


def compared(node: ast.AST) -> Iterator[ast.Constant]:
    """The literals that a comparison or a pattern has, also within a collection or a call."""
    operands: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
    elif isinstance(node, ast.MatchValue):
        operands = [node.value]
    for operand in operands:
        parts = [operand, *ast.iter_child_nodes(operand)]
        if isinstance(operand, ast.Call):  # frozenset({…})
            parts += [part for each in operand.args for part in ast.iter_child_nodes(each)]
        yield from (part for part in parts if isinstance(part, ast.Constant))


def literals(nodes: Iterable[ast.AST], words: set[str]) -> list[tuple[int, str]]:
    """The line and the value of each literal that a state is compared with."""
    return [
        (literal.lineno, literal.value)
        for node in nodes
        for literal in compared(node)
        if isinstance(literal.value, str) and literal.value in words
    ]


def test_no_source_compares_a_state_with_a_literal() -> None:
    words = words_of_states()
    assert {"SUCCEEDED", "PENDING", "BLOCKED", "HEALTHY"} <= words
    found = {module: literals(nodes(module), words) for module in modules()}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_comparisons_with_literals_are_found() -> None:
    source = """
if row.state == "FAILED" or "PENDING" != state or state in ("FAILED", x):
    y = state not in frozenset({"PENDING"}) or state == State.FAILED or kind == "GET"
match state:
    case "FAILED" | "PENDING":
        pass
    case State.FAILED:
        z = {"FAILED": 1}
"""
    found = literals(ast.walk(ast.parse(source)), {"FAILED", "PENDING"})
    assert sorted(found) == [
        (2, "FAILED"),
        (2, "FAILED"),
        (2, "PENDING"),
        (3, "PENDING"),
        (5, "FAILED"),
        (5, "PENDING"),
    ]
