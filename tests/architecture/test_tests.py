"""Tests that cannot fail, and tests that turn a missing dependency green, are none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def called(function: ast.AST) -> set[str]:
    return {
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    }


def judges(function: ast.AST) -> bool:
    """Whether it can fail by itself: an assertion, or an error that must or must not come."""
    names = called(function)
    return (
        any(isinstance(node, ast.Assert) for node in ast.walk(function))
        or bool(names & {"raises", "warns", "fail", "AssertionError"})
        or any(name.startswith("check") for name in names)
    )


def helpers(tree: ast.AST) -> set[str]:
    """Functions of the tests that a module defines or imports."""
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.")
        for alias in node.names
    }
    return imported | {function.name for function in functions(tree)}


def test_every_test_can_fail() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in TESTS.rglob("*.py")}
    defined = [function for tree in trees.values() for function in functions(tree)]
    judging = {function.name for function in defined if judges(function)}
    while more := {f.name for f in defined if f.name not in judging and called(f) & judging}:
        judging |= more  # by what they call
    idle = [
        f"{path.relative_to(TESTS)}: {function.name}"
        for path, tree in trees.items()
        for function in functions(tree)
        if function.name.startswith("test_")
        and not judges(function)
        and not called(function) & judging & helpers(tree)
    ]
    assert idle == []


def test_a_missing_dependency_fails_the_tests_that_need_it() -> None:
    # Skips that are meant are in the kit, and say NOT COVERED.
    skipping = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("test_*.py")
        if path != Path(__file__)
        and called(ast.parse(path.read_text("utf-8"))) & {"importorskip", "find_spec"}
    ]
    assert skipping == []


FOREIGN = {"_replace", "_asdict", "_exit", "_jdf", "_jsc", "_jsparkSession"}
"""Of named tuples, of `os`, and of PySpark, which has no other way to its JVM."""
PRIVATE_REACHES = 26
"""It may only become smaller: give the class a seam instead."""


def private_reaches(tree: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr in FOREIGN:
            continue
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        inherited = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
        if node.attr.startswith("_") and not node.attr.startswith("__") and not own | inherited:
            yield node


def test_tests_reach_into_no_more_private_attributes() -> None:
    reaches = [
        f"{path.relative_to(TESTS)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in private_reaches(ast.parse(path.read_text("utf-8")))
    ]
    assert len(reaches) <= PRIVATE_REACHES, "\n".join(reaches)
