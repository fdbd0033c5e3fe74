"""Tests that stop Spark, kill it, or need another one than the others do.

A process has one Spark. So each file of `alone/` runs in a process of its own, with
nothing of it skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.depth import deep_only

ALONE = Path(__file__).parent / "alone"
ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.xdist_group("spark_alone")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=[deep_only] if path.stem == "spark_cluster" else [])
        for path in sorted(ALONE.glob("spark_*.py"))
    ],
)
def test_in_a_process_of_its_own(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, str(ALONE / f"{name}.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1100,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert re.search(r"^\.+ +\[100%\]$", done.stdout, re.MULTILINE), done.stdout[-5_000:]
