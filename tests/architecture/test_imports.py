"""Imports stand at the top of modules."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest

from tests.architecture.source import imported, imports, modules, nodes, within

pytestmark = pytest.mark.xdist_group("architecture")

DEFERRED = {
    "arco": "everything imports it, and few open a workspace",
    "arco.cli": "defers imports before it imports the commands",
    "arco.cli.app": "start-up time: errors and --version are rare",
    "arco.spark.archive": "the session imports it for its options",
}
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


def test_only_spark_needs_the_optional_packages() -> None:
    assert [
        module
        for module in modules()
        if not within(module, "arco.spark")
        and any(within(name, *OPTIONAL) for name in imports(module))
    ] == []
