"""Every promise that the documentation makes has its test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PURE = (
    "src/arco/orchestration/controllers",
    "src/arco/orchestration/planner.py",
    "src/arco/orchestration/planner_tasks.py",
    "src/arco/orchestration/selection.py",
    "src/arco/orchestration/mapping.py",
    "src/arco/orchestration/partitions.py",
    "src/arco/orchestration/runs.py",
    "src/arco/orchestration/states.py",
    "src/arco/execution/fold.py",
    "src/arco/catalog/fold.py",
)
FORBIDDEN = ("arco.storage", "arco.clock", "arco.log.append", "arco.log.commit", "os", "time")


def test_every_promise_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "concepts" / "promises.md").read_text("utf-8")
    promised = re.findall(r"\| `(test_\w+)` \|", text)
    assert len(promised) > 35
    known = {
        name
        for file in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
    }
    assert [name for name in promised if name not in known] == []


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_what_decides_does_no_input_and_output() -> None:
    files = [
        file
        for path in PURE
        for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).glob("*.py"))
    ]
    assert len(files) > 12
    for file in files:
        bad = {
            name
            for name in imports(file)
            for forbidden in FORBIDDEN
            if name == forbidden or name.startswith(f"{forbidden}.")
        }
        assert not bad, f"{file.relative_to(ROOT)} imports {bad}"
