"""Checks a history, and says of a violation what a person needs to understand it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.linearizability import history
from tests.linearizability.checker import Operation, Undecided, Violation, violations
from tests.linearizability.models import Model

CONTEXT = 12
"""How many operations before the first that does not fit are shown."""


def check(operations: Sequence[Operation], file: Path) -> None:
    """Assert that a history is linearizable; write it to `file` if it is not."""
    try:
        problems = [describe(operations, v) for v in violations(operations, Model())]
    except Undecided as undecided:
        problems = [str(undecided)]
    if problems:
        history.write(file, operations)
        hint = f"check it again with: python -m tests.linearizability {file}"
        raise AssertionError("\n".join([*problems, hint]))


def describe(operations: Sequence[Operation], violation: Violation) -> str:
    by_id = {operation.id: operation for operation in operations}
    lines = [f"{violation.key} is not linearizable; {len(violation.longest)} operations fit:"]
    lines += [f"  {_line(by_id[id])}" for id in violation.longest[-CONTEXT:]]
    lines.append("none of these can come next:")
    lines += [f"  {_line(by_id[id])}" for id in violation.stuck]
    return "\n".join(lines)


def _line(o: Operation) -> str:
    end = "open" if o.end is None else f"{o.end / 1e9:.4f}"
    return f"{o.call / 1e9:.4f}–{end} {o.id} {o.input} -> {'?' if o.open else o.output}"
