"""The code in the reference pages and in the README: it runs, is valid, and needs no `noqa`."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from servo.discover import discover
from servo.validate import validate

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "guides" / "testing.md",
    ROOT / "docs" / "guides" / "contracts.md",
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
]
BLOCKS = [
    (page, code)
    for page in PAGES
    for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    if "from servo import" in code
]
IDS = [f"{page.stem}-{number}" for number, (page, _) in enumerate(BLOCKS)]


@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=IDS)
def test_code_is_a_valid_project(page: Path, code: str, tmp_path: Path) -> None:
    file = tmp_path / f"page_{page.parent.name}_{page.stem.replace('-', '_').lower()}.py"
    file.write_text(code)
    project = discover(tmp_path)
    assert validate(project) == []
    assert project.assets
    for test in re.findall(r"^def (test_\w+)\(\)", code, re.M):
        runpy.run_path(str(file))[test]()


def test_code_needs_no_exception_from_linters(tmp_path: Path) -> None:
    for number, (_, code) in enumerate(BLOCKS):
        (tmp_path / f"block{number}.py").write_text(code)
    examples = str(ROOT / "examples")
    settings = str(ROOT / "pyproject.toml")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", settings]
    done = subprocess.run(
        [*command, str(tmp_path), examples], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    files = [*PAGES, *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py")]
    assert [str(file) for file in files if "noqa" in file.read_text("utf-8")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
    assert [each for each in targets if not (page.parent / each).exists()] == []
