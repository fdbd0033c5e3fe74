"""What a module defines is used somewhere in the program, not only by its own tests."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from tests.architecture.source import modules, tree

pytestmark = pytest.mark.xdist_group("architecture")
USED_FROM_OUTSIDE = {
    "servo.mypy_plugin": {"plugin"},  # mypy calls it
}
GENERATED = {"arco.remote.documents", "arco.remote.methods"}
_WORD = re.compile(r"\w+")


def definitions(module: str) -> list[str]:
    """Functions, classes and constants of a module; decorators register what they decorate."""
    names = []
    for node in tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names += [node.name] if not node.decorator_list else []
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return [name for name in names if not name.startswith("__")]


def test_every_definition_is_used() -> None:
    words = Counter[str]()
    for file in modules().values():
        words.update(_WORD.findall(file.read_text("utf-8")))
    dead = {
        f"{module}.{name}"
        for module in modules().keys() - GENERATED
        for name in definitions(module)
        if words[name] == 1 and name not in USED_FROM_OUTSIDE.get(module, set())
    }
    assert dead == set()
