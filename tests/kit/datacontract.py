"""`datacontract-cli`, an independent judge of contracts that are exported.

It conflicts with our own dependencies, so it lives in an environment of its own, which `make setup`
creates, and is called as a process. Tests that use it share the xdist group `datacontract`, so that
no two of them create it at the same time.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ".tools/datacontract/.installed"


def lint(document: Path) -> str:
    """What it finds wrong with a document of the Open Data Contract Standard; empty if nothing."""
    if not (ROOT / INSTALLED).exists():
        subprocess.run(["make", "-s", INSTALLED], cwd=ROOT, check=True)
    program = ROOT / ".tools/datacontract/bin/datacontract"
    done = subprocess.run(
        [program, "lint", str(document)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "Data contract is" in done.stdout, done.stderr
    return "" if done.returncode == 0 else done.stdout
