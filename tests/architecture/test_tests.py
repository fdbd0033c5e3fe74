"""Tests that cannot fail, and tests that turn a missing dependency green, are none."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.xdist_group("architecture")

TESTS = Path(__file__).parents[1]


class Definition(NamedTuple):
    """Of the tests, what it calls and whether it can fail by itself."""

    name: str
    called: frozenset[str]
    judges: bool


class SourceFile(NamedTuple):
    """What the tests below ask of a file. Its syntax tree is too large to be kept."""

    functions: tuple[Definition, ...]
    imported: frozenset[str]
    """Of the tests' own modules."""
    called: frozenset[str]
    reaches: tuple[str, ...]


@cache
def files() -> dict[Path, SourceFile]:
    return {path: read(path) for path in sorted(TESTS.rglob("*.py"))}


def read(path: Path) -> SourceFile:
    every = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    return SourceFile(
        tuple(function(node) for node in every if isinstance(node, ast.FunctionDef)),
        frozenset(
            alias.name
            for node in every
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.")
            for alias in node.names
        ),
        called(every),
        tuple(f"{node.lineno}: {ast.unparse(node)}" for node in private_reaches(every)),
    )


def called(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    )


def function(definition: ast.FunctionDef) -> Definition:
    """It can fail by itself: by an assertion, or an error that must or must not come."""
    nodes = list(ast.walk(definition))
    names = called(nodes)
    judges = (
        any(isinstance(node, ast.Assert) for node in nodes)
        or bool(names & {"raises", "warns", "fail", "expect", "AssertionError"})
        or any(name.startswith("check") for name in names)
    )
    return Definition(definition.name, names, judges)


def test_every_test_can_fail() -> None:
    defined = [each for file in files().values() for each in file.functions]
    judging = {each.name for each in defined if each.judges}
    while more := {f.name for f in defined if f.name not in judging and f.called & judging}:
        judging |= more  # by what they call
    idle = [
        f"{path.relative_to(TESTS)}: {each.name}"
        for path, file in files().items()
        for each in file.functions
        if each.name.startswith("test_")
        and not each.judges
        and not each.called & judging & (file.imported | {own.name for own in file.functions})
    ]
    assert idle == []


def test_a_missing_dependency_fails_the_tests_that_need_it() -> None:
    # Skips that are meant are in the kit, and say NOT COVERED.
    skipping = [
        str(path.relative_to(TESTS))
        for path, file in files().items()
        if path.name.startswith("test_")
        and path != Path(__file__)
        and file.called & {"importorskip", "find_spec"}
    ]
    assert skipping == []


FOREIGN = {"_replace", "_asdict", "_exit", "_jdf", "_jsc", "_jsparkSession", "_gateway"}
"""Of named tuples, of `os`, and of PySpark, which has no other way to its JVM."""
BY_TEXT = {"getattr", "setattr", "delattr", "hasattr"}
"""Functions, and methods of `monkeypatch`, whose text argument names an attribute."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in FOREIGN


def private_reaches(nodes: Iterable[ast.AST]) -> Iterator[ast.expr | ast.stmt]:
    for node in nodes:
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            inherited = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            if is_private(node.attr) and not own | inherited:
                yield node
        elif isinstance(node, ast.ImportFrom):
            if any(is_private(alias.name) for alias in node.names) and is_ours(node.module):
                yield node
        elif isinstance(node, ast.Call) and any(map(is_private, attributes_by_text(node))):
            yield node


def is_ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] in ("arco", "servo", "tests", "benchmarks")


def attributes_by_text(call: ast.Call) -> list[str]:
    """Of `getattr(x, "name")` and of `monkeypatch.setattr("package.module.name", value)`."""
    if not called([call]) & BY_TEXT:
        return []
    texts = [each.value for each in call.args[:2] if isinstance(each, ast.Constant)]
    return [part for text in texts[:1] if isinstance(text, str) for part in text.split(".")]


@pytest.mark.parametrize(
    "text",
    [
        "warm._load",
        "getattr(warm, '_load')",
        "setattr(warm, '_load', load)",
        "monkeypatch.setattr(Warm, '_load', load)",
        "monkeypatch.setattr('arco.state.warm.Warm._load', load)",
        "from arco.cli.runs import _settled",
    ],
)
def test_private_attributes_are_seen_in_each_form(text: str) -> None:
    assert [ast.unparse(node) for node in private_reaches(ast.walk(ast.parse(text)))] == [text]


@pytest.mark.parametrize("text", ["self._load", "getattr(warm, '__name__')", "setattr(x, key, 1)"])
def test_own_and_special_attributes_are_not_private(text: str) -> None:
    assert list(private_reaches(ast.walk(ast.parse(text)))) == []


def test_tests_access_no_private_attributes() -> None:
    reaches = [
        f"{path.relative_to(TESTS)}:{each}"
        for path, file in files().items()
        for each in file.reaches
    ]
    assert reaches == [], "give the class a seam, or the function a public name"
