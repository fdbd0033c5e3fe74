"""Automation in large graphs, and of assets with many partitions."""

from __future__ import annotations

from datetime import datetime

from arco.orchestration.states import RUN_ACTIVE
from arco.orchestration.tables import RUN_REQUESTS, RUNS
from tests.kit.automation import Mill, declared, project, source
from tests.kit.latency import LatencyStore

YEARS = 'daily("date", start="2018-01-01")'


def test_a_version_that_all_days_read_becomes_few_requests() -> None:
    text = project(
        source("raw", partitions=YEARS),
        source("rates"),
        declared("days", "raw", "rates", partitions=YEARS, automation="eager()"),
    )
    mill = Mill(text, start=datetime(2021, 1, 1, 8))
    mill.run("m.rates")
    days = ("date=2018-01-01..2020-12-31",)
    mill.run("m.raw", partitions=days, settle=False)
    mill.settle()
    assert sum(mill.made().values()) == 1_096 == len(mill.made())
    before = len(mill.automated())
    mill.run("m.rates", settle=False)
    most = 0
    for _ in range(200):
        mill.crowd.step()
        runs = mill.fresh().read.snapshot().hot(RUNS)
        active = [run for run in runs if run.state in RUN_ACTIVE]
        most = max(most, sum(run.trigger == "materialization" for run in active))
        if len(mill.automated()) > before and not active and not mill.pending():
            break
    assert set(mill.made().values()) == {2}
    assert len(mill.automated()) - before <= 4
    assert most <= 3
    rows = mill.fresh().read.snapshot().hot(RUN_REQUESTS)
    assert max(len(row.request) for row in rows) < 1_000


def calls_of_a_reaction(assets: int) -> int:
    """How many calls of the store an orchestrator needs, from a new version to its reader's run."""
    others = [declared(f"b{n}", "other", automation="eager()") for n in range(assets)]
    own = declared("total", "raw", automation="eager()")
    mill = Mill(project(source("raw"), source("other"), own, *others), orchestrators=0)
    store = LatencyStore(mill.store, 0.0)
    mill.crowd.orchestrator(store)
    mill.run("m.raw")
    before = len(store.calls)
    mill.run("m.raw")
    assert mill.made() == {"total": 2}
    return len(store.calls) - before


def test_what_a_version_costs_does_not_grow_with_the_graph() -> None:
    assert calls_of_a_reaction(400) <= calls_of_a_reaction(4) + 4
