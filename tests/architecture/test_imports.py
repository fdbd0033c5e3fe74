"""Imports stand at the top of modules, and form no cycles."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest

from tests.architecture.source import imported, imported_by_name, imports, modules, nodes, within

pytestmark = pytest.mark.xdist_group("architecture")

DEFERRED = {
    "arco": "everything imports it, and few open a workspace",
    "arco.cli": "defers imports before it imports the commands",
    "arco.cli.app": "start-up time: errors and --version are rare",
}
BY_NAME = {
    ("arco.cli.app", "arco.cli.*"): "start-up time: the module of the command that is called",
    ("arco.cli.session", "arco.remote.workspace"): "start-up time: few commands use the API",
    ("arco.cli.slots", "arco.worker.slots"): "the slot host starts before other imports",
    ("arco.notebook", "*"): "a library of the reader's choice, which may be missing",
    ("arco.worker.inputs", "*"): "a library of the asset's choice, which may be missing",
    ("arco.worker.loader", "*"): "the code of a project",
    ("arco.worker.secrets", "arco.worker.secret_managers.*"): "its libraries may be missing",
    ("servo.discover", "*"): "the code of a project",
    ("servo.testing", "arco.worker.trial"): "what users import works without what runs it",
}
"""Calls of `import_module`: by module, what they import."""
OPTIONAL = ("pyspark", "pandas", "py4j")
"""Packages that an installation without Spark does not have; `arco.spark` alone uses them."""


@cache
def in_functions(module: str) -> list[str]:
    if not any(
        isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset for node in nodes(module)
    ):
        return []
    return [
        name
        for function in nodes(module)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported(node)
    ]


def test_imports_inside_functions_have_a_reason() -> None:
    counts: Counter[str] = Counter()
    for module in modules().keys() - DEFERRED.keys():
        found = in_functions(module)
        if within(module, "arco.spark"):
            found = [name for name in found if not within(name, *OPTIONAL)]
        counts[module] += len(found)
    assert +counts == Counter()


def test_every_exception_is_needed() -> None:
    assert [module for module in DEFERRED if not in_functions(module)] == []


def test_imports_by_name_have_a_reason() -> None:
    assert {(module, name) for module in modules() for name in imported_by_name(module)} == {
        *BY_NAME
    }


def test_no_modules_import_each_other() -> None:
    """Neither directly nor through others; imports for type checkers and in functions count."""
    remaining = {module: imports(module) & modules().keys() - {module} for module in modules()}
    while free := [module for module, names in remaining.items() if not names & remaining.keys()]:
        for module in free:
            del remaining[module]
    needed = {name for names in remaining.values() for name in names}
    assert sorted(remaining.keys() & needed) == []


def test_only_spark_needs_the_optional_packages() -> None:
    assert [
        module
        for module in modules()
        if not within(module, "arco.spark")
        and any(within(name, *OPTIONAL) for name in imports(module))
    ] == []
