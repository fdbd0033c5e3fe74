"""Orchestrators that die at any call of the store, while assets run by themselves.

Each new version is reacted to once: nothing is lost, nothing is made twice, nothing is stuck.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arco.orchestration.states import RequestState
from arco.storage.port import Store
from tests.kit.automation import DIAMOND, START, Mill, declared, project, source
from tests.kit.depth import scaled
from tests.kit.flows import check_store
from tests.kit.simulated_run import die_everywhere, noted


@pytest.mark.parametrize("both", [False, True])
def test_an_orchestrator_may_die_at_any_call_between_a_version_and_its_runs(both: bool) -> None:
    every = scaled(100, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        mill = Mill(DIAMOND, orchestrators=int(both))
        mill.crowd.orchestrator(dying(mill.store))
        with noted(where):
            mill.run("m.raw")
            mill.run("m.raw")
            assert mill.made() == {"left": 2, "right": 2, "bottom": 2}
            requests, _ = mill.fresh().read.orchestration().run_requests(limit=100)
            assert {row.state for row in requests} == {RequestState.TRIGGERED}
            assert len({row.request_key for row in requests}) == len(mill.automated())
            if not count % 20:
                check_store(mill.fresh())

    assert die_everywhere(story) > 20


def test_ticks_and_periods_are_not_lost_whoever_dies() -> None:
    every = scaled(100, 1)
    text = project(
        source("raw", partitions="day", automation="on_missing()"),
        declared("days", "raw", partitions="day", automation="on_cron('0 6 * * *')"),
    )

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        mill = Mill(text, orchestrators=1)
        mill.crowd.orchestrator(dying(mill.store))
        with noted(where):
            mill.until(START.replace(day=7, hour=9), step_s=3_600)
            mill.settle()
            days = ["2026-01-05", "2026-01-06"]
            assert mill.made() == {f"{n}[{day}]": 1 for n in ("raw", "days") for day in days}

    assert die_everywhere(story) > 20
