"""What an orchestrator keeps in memory for automation of assets, and what it forgets."""

from __future__ import annotations

from datetime import datetime

from tests.kit.automation import Mill, declared, project, source
from tests.kit.watching import Watcher

DAYS = declared("days", "raw", partitions="day", automation="on_missing()")
TOTAL = declared("total", "raw", automation="eager()")


def test_partitions_that_wait_are_forgotten_when_their_automation_leaves() -> None:
    mill = Mill(project(source("raw"), DAYS, TOTAL), orchestrators=0)
    watcher = Watcher(mill)
    mill.until(datetime(2026, 1, 6, 1), step_s=3_600)
    assert watcher.look() == []
    assert [node.asset for node in watcher.watch.held.of("m.days")] == ["m.days"]
    mill.deploy(project(source("raw"), declared("days", "raw", partitions="day"), TOTAL))
    watcher.look()
    assert not watcher.watch.held.of("m.days")
