"""The log of an orchestrator, and of a worker: what they do, a line for each event."""

from __future__ import annotations

import logging
import re

import pytest

from tests.kit.backfills import BackfillTown
from tests.kit.latency import LatencyStore

ID = re.compile(r"\b01[0-9A-Z]{24}\b")


def run_two_days() -> int:
    """A run that another process asked for; how often an orchestrator has called the store."""
    town = BackfillTown()
    store = LatencyStore(town.store, 0.0)
    town.crowd.orchestrator(store)
    town.crowd.worker(script=town.tasks)
    town.settle()
    town.tasks.bad = {"-02"}
    town.create("date=2025-01-01..2025-01-02", chunk_size=2)
    town.crowd.until(lambda: town.runs() and town.runs()[0].finished_at is not None, steps=400)
    town.settle()
    return len(store.calls)


def test_each_event_is_one_line_and_lines_cost_no_call_of_the_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent = run_two_days()
    assert caplog.messages == []
    with caplog.at_level(logging.INFO, "arco.dispatch.journal"):
        assert run_two_days() == silent
    assert [ID.sub("ID", line) for line in caplog.messages if "of run" not in line] == [
        "run ID started: 2 tasks, backfill ID:0",
        "run ID FAILED: 1 of 2 tasks succeeded, 0 reused, 1 failed",
    ]
    tasks = [ID.sub("ID", line) for line in caplog.messages if "2025-01-02" in line]
    assert tasks[0] == "sent task city.days date=2025-01-02 of run ID, attempt 1"
    assert tasks[-1] == "task city.days date=2025-01-02 of run ID FAILED: user_code.ValueError"
