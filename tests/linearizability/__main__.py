"""Checks a history that a test left behind: `python -m tests.linearizability FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.linearizability import history
from tests.linearizability.checker import violations
from tests.linearizability.models import Model
from tests.linearizability.report import describe


def main() -> int:
    operations = history.read(*map(Path, sys.argv[1:]))
    problems = violations(operations, Model())
    for problem in problems:
        print(describe(operations, problem))
    print(f"{len(operations)} operations, {len(problems)} keys are not linearizable")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
