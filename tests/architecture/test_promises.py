"""Every promise that the documentation makes has its test, and what decides does no I/O."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.source import ROOT, imports, modules, within

pytestmark = pytest.mark.xdist_group("architecture")

EFFECTS = (
    "arco.storage",
    "arco.clock",
    *(f"arco.log.{name}" for name in ("append", "commit", "publish", "head", "inbox")),
    *(f"arco.state.{name}" for name in ("snapshot", "parquet", "tier1", "core", "writer")),
    *("os", "io", "time", "random", "secrets", "socket", "threading", "subprocess", "tempfile"),
    *("pathlib", "obstore"),
)
READS = {
    "arco.orchestration.board": "is filled from snapshots by the loop; controllers look at it",
}


def test_every_promise_names_a_test_that_can_fail() -> None:
    text = (ROOT / "docs" / "concepts" / "promises.md").read_text("utf-8")
    promised = re.findall(r"`(test_\w+)`", text)
    assert len(promised) > 400
    functions = {
        node.name: node
        for file in (ROOT / "tests").rglob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert [name for name in promised if name not in functions] == []
    assert [name for name in promised if is_skipped(functions[name])] == []
    assert [name for name in promised if not can_fail(functions[name], functions)] == []


def is_skipped(test: ast.FunctionDef) -> bool:
    marks = " ".join(ast.unparse(each) for each in test.decorator_list)
    return "mark.skip" in marks or "xfail" in marks


def can_fail(test: ast.FunctionDef, functions: dict[str, ast.FunctionDef], depth: int = 2) -> bool:
    """Whether it, or a function of the tests that it calls, asserts something."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in ("raises", "check_golden"):
                return True
            called = functions.get(name)
            if called is not None and depth and can_fail(called, functions, depth - 1):
                return True
    return False


def deciding() -> set[str]:
    """Folds, controllers and planners, and what they import of their own domain."""
    found: set[str] = set()
    waiting = [module for module in modules() if is_deciding(module)]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            domain = ".".join(module.split(".")[:2])
            if domain != "arco.state":  # the driver; what else is there has other jobs
                waiting += [each for each in imports(module) if within(each, domain)]
    return found


def is_deciding(module: str) -> bool:
    package, _, name = module.rpartition(".")
    if not within(module, "arco"):
        return False
    return name == "fold" or name.startswith("planner") or package.endswith(".controllers")


def test_folds_controllers_and_planners_are_found() -> None:
    domains = ("catalog", "execution", "lineage", "orchestration", "quality", "state")
    assert {f"arco.{domain}.fold" for domain in domains} <= deciding()
    assert {"arco.orchestration.runs", "arco.orchestration.derived"} <= deciding()
    assert len([module for module in deciding() if ".controllers." in module]) > 5


def test_what_decides_does_no_input_and_output() -> None:
    effects = {
        module: sorted(each for each in imports(module) if within(each, *EFFECTS))
        for module in sorted(deciding() - READS.keys())
    }
    assert {module: each for module, each in effects.items() if each} == {}
