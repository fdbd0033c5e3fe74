"""Files of cases against mypy: each `# E: text` is an error that must be on its line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
CONFIG = "[mypy]\nstrict = True\nplugins = servo.mypy_plugin\n"

Found = dict[tuple[str, int], list[str]]

pytestmark = pytest.mark.xdist_group("typing")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy has learnt of the standard library and of servo serves all runs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Found:
    """Errors by file and line, of one run over all cases.

    The cases are not `.py`, so that the project's own linters leave them alone.
    """
    folder = tmp_path_factory.mktemp("typing")
    for case in CASES.glob("*.txt"):
        (folder / f"{case.stem}.py").write_text(case.read_text())
    return _errors(_mypy(folder, cache))


def _mypy(folder: Path, cache: Path) -> str:
    (folder / "mypy.ini").write_text(CONFIG)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", f"--cache-dir={cache}", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


def _errors(output: str) -> Found:
    errors: Found = {}
    for file, line, message in re.findall(r"^(\w+)\.py:(\d+): error: (.*)$", output, re.MULTILINE):
        errors.setdefault((file, int(line)), []).append(message)
    return errors


def _expected(case: Path) -> dict[int, str]:
    lines = enumerate(case.read_text().splitlines(), start=1)
    parts = ((number, line.partition("  # E: ")[2]) for number, line in lines)
    return {number: text for number, text in parts if text}


@pytest.mark.parametrize("case", sorted(CASES.glob("*.txt")), ids=lambda case: case.stem)
def test_mypy_says_what_the_case_expects(case: Path, found: Found) -> None:
    expected = _expected(case)
    said = {line: errors for (file, line), errors in found.items() if file == case.stem}
    surprises = {line: errors for line, errors in said.items() if line not in expected}
    assert surprises == {}
    missing = {
        line: (text, said.get(line))
        for line, text in expected.items()
        if not any(text in error for error in said.get(line, []))
    }
    assert missing == {}


def test_a_file_that_is_checked_again_for_anothers_sake_is_still_understood(
    tmp_path: Path, cache: Path
) -> None:
    lines = [
        "from servo import AssetIn, asset",
        "from other import VALUE",
        "@asset",
        'def totals(orders: AssetIn["shop.orders"]) -> int:',
        "    return len(str(VALUE))",
    ]
    (tmp_path / "pipeline.py").write_text("\n".join(lines))
    (tmp_path / "other.py").write_text("VALUE: int = 1")
    assert _mypy(tmp_path, cache) == ""
    (tmp_path / "other.py").write_text('VALUE: str = "1"')
    assert _mypy(tmp_path, cache) == ""
