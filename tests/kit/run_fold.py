"""Short forms for tests of the fold of runs."""

from __future__ import annotations

from typing import Any

from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.orchestration.events import TimerFired
from arco.state.system import OUTCOMES
from tests.kit.runs import (
    RUN,
    RUN_TABLES,
    Attempt,
    Changes,
    Folding,
)


def ok(task: str, number: int = 1) -> Any:
    return Attempt(task, number).succeeded()


def fire(f: Folding, kind: str = "") -> Changes:
    """Wait for the next timer of a kind, and fire it."""
    timer = min(f.timers(kind), key=lambda timer: timer.fire_at)
    f.now = max(f.now, timer.fire_at)
    return f.add(TimerFired(run_id=RUN, timer_id=timer.timer_id))


def run_rows(changes: Changes) -> list[str]:
    return [str(table) for table in changes if table in (*RUN_TABLES, MATERIALIZATIONS, PARTITIONS)]


def outcome(f: Folding) -> tuple[str, str]:
    row = f.all(OUTCOMES)[-1]
    return row.status, row.code
