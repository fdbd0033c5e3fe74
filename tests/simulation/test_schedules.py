"""Orchestrators that die at any call of the store, while schedules are due.

Each tick fires once, each request becomes one run, and nothing is stuck: across a change of the
clocks, a deployment that changes the cron expression, and a pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from arco.orchestration.states import RequestState
from arco.storage.port import Store
from tests.kit.depth import scaled
from tests.kit.flows import check_store
from tests.kit.schedules import Town, fired, project
from tests.kit.simulated_run import die_everywhere, noted

BERLIN = {"timezone": "Europe/Berlin"}
BEFORE_CHANGE = datetime(2026, 10, 25, 0, 21)
"""In UTC: 02:21 in Berlin, for the first time on this day."""


def check(town: Town, times: list[str], *, thorough: bool = False) -> None:
    assert [tick for tick, _ in town.states()] == times
    assert town.states() == fired(*times)
    requests, _ = town.fresh().read.orchestration().run_requests(limit=100)
    assert Counter(row.state for row in requests) == {RequestState.TRIGGERED: len(times)}
    assert len(town.runs()) == len(times)
    assert len({run.run_key for run in town.runs()}) == len(times)
    if thorough:
        check_store(town.fresh())


@pytest.mark.parametrize("both", [False, True])
def test_an_orchestrator_may_die_at_any_call_between_tick_and_run(both: bool) -> None:
    every = scaled(12, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = Town(project("*/30 * * * *", **BERLIN), start=BEFORE_CHANGE)
        town.crowd.orchestrator(dying(town.store))
        if both:
            town.crowd.orchestrator()
        with noted(where):
            town.until(BEFORE_CHANGE + timedelta(minutes=75), step_s=120)
            check(town, ["02:30", "02:00/2", "02:30/2"], thorough=not count % 12)

    assert die_everywhere(story) > 20


def test_ticks_go_on_through_a_deployment_and_a_pause_whoever_dies() -> None:
    every = scaled(20, 1)
    start = datetime(2026, 1, 5, 8, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = Town(start=start)
        town.crowd.orchestrator(dying(town.store))
        town.crowd.orchestrator()
        with noted(where):
            town.until(start + timedelta(minutes=10), step_s=60)
            town.fresh().commands.automation.pause("often")
            town.until(start + timedelta(minutes=20), step_s=60)
            town.fresh().commands.automation.resume("often")
            town.deploy(project("*/15 * * * *"))
            town.until(start + timedelta(minutes=45), step_s=60)
            check(town, ["08:10", "08:30#2", "08:45#2"], thorough=not count % 20)

    assert die_everywhere(story) > 20
