"""One name, one thing: classes, modules and variables; see docs/concepts/glossary.md."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from tests.architecture.source import modules, nodes

pytestmark = pytest.mark.xdist_group("architecture")
EVERY_DOMAIN = {"__init__", "events", "fold", "tables", "reader", "commands"}
"""Modules that each domain has."""


def test_no_class_or_alias_name_exists_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in nodes(module):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module}:{node.lineno}")
        for name, line in aliases(module):
            places[name].append(f"{module}:{line}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


ALIAS = re.compile(r"_?[A-Z]\w*[a-z]\w*")
"""Type variables have one letter, and constants have only capitals."""


def aliases(module: str) -> Iterator[tuple[str, int]]:
    """Names of types: `X: TypeAlias = …`, `type X = …`, `X = A | B`, `X = Callable[…]`. An
    `Annotated` type is left out: it describes one parameter of the commands of one module."""
    for node in nodes(module):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name, node.lineno
            case ast.Assign(targets=[ast.Name(id=name)]) if ALIAS.fullmatch(name):
                if is_type(node.value):
                    yield name, node.lineno
            case _ if type(node).__name__ == "TypeAlias":  # since Python 3.12
                yield ast.unparse(node).split()[1], getattr(node, "lineno", 0)


def is_type(value: ast.expr) -> bool:
    match value:
        case ast.BinOp(op=ast.BitOr()):
            return True
        case ast.Subscript(value=ast.Name(id=name)):
            return name != "Annotated"
    return False


def test_no_module_name_exists_three_times() -> None:
    names = Counter(path.stem for path in modules().values() if path.stem not in EVERY_DOMAIN)
    assert {name: count for name, count in names.items() if count > 2} == {}


VAGUE = {"asked", "found", "gone", "heard", "kept", "known", "look", "looks", "made", "mine"}
VAGUE |= {"said", "shown", "taken", "theirs", "there", "those", "told", "wanted", "way", "ways"}
"""Names that say nothing of what they hold: give a noun of the glossary."""
PARTICLES = {"about", "again", "back", "for", "from", "not", "on", "the", "to"}
"""They add nothing to a vague name."""
STORED = {
    "arco.api.reads.data": {"looks"},
    "arco.api.reads.personal_reads": {"ways"},
    "arco.automation.freshness_events": {"asked"},
    "arco.automation.freshness_tables": {"asked"},
    "arco.automation.tables": {"asked"},
    "arco.remote.documents": {"asked", "looks", "ways"},
    "servo.contract.task": {"kept"},
}
"""Fields of events, rows and JSON documents. These never change."""
HALF_VAGUE_MAX = 47
"""The number of names with a vague word beside another one, such as `made_at`. It only decreases;
most of those that are left are stored, or follow a stored one."""


def names(module: str) -> Iterator[str]:
    """Functions, methods, attributes, variables and parameters that a module names."""
    for node in nodes(module):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name


def words(name: str) -> set[str]:
    return set(name.strip("_").split("_"))


def test_names_have_nouns() -> None:
    vague = Counter(
        (module, name)
        for module in modules()
        for name in names(module)
        if words(name) & VAGUE
        and words(name) <= VAGUE | PARTICLES
        and name not in STORED.get(module, set())
    )
    assert vague == {}, "use nouns of the glossary"


def test_names_with_a_vague_word_become_fewer() -> None:
    half = {
        (module, name)
        for module in modules()
        for name in names(module)
        if words(name) & VAGUE and not words(name) <= VAGUE | PARTICLES
    }
    assert len(half) <= HALF_VAGUE_MAX, f"use nouns of the glossary for new names: {sorted(half)}"
