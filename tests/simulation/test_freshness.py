"""Orchestrators that die at any call of the store, while data becomes stale and fresh again.

Each transition is recorded once, each run is asked for once, and nothing is stuck.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from arco.orchestration.states import RunState
from arco.storage.port import Store
from tests.kit.depth import scaled
from tests.kit.flows import check_store
from tests.kit.freshness import AgingTown, policy, succeed
from tests.kit.schedules import START
from tests.kit.simulated_run import die_everywhere, noted


@pytest.mark.parametrize("both", [False, True])
def test_an_orchestrator_may_die_at_any_call_and_each_transition_is_recorded_once(
    both: bool,
) -> None:
    every = scaled(16, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = AgingTown(policy("30m", request_run=True), orchestrators=0)
        town.crowd.orchestrator(dying(town.store))
        if both:
            town.crowd.orchestrator()
        with noted(where):
            town.until(START + timedelta(minutes=60), step_s=60)
            assert town.history() == ["city.alone STALE", "city.alone FRESH"]
            (run,) = town.runs()
            assert (run.state, run.trigger) == (RunState.SUCCEEDED, "freshness")
            if not count % 12:
                check_store(town.fresh())

    assert die_everywhere(story) > 20


def test_a_policy_on_data_of_before_is_observed_once_whoever_dies() -> None:
    every = scaled(16, 1)
    partitions = "static('region', ['eu', 'us'])"
    text = policy("1h", partitions=partitions)
    without = text.replace("freshness=Freshness(max_age='1h'), ", "")
    assert without != text

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = AgingTown(without, script=succeed)
        town.run("region=eu")
        town.wait(minutes=90, step_s=900)
        town.deploy(text)
        town.crowd.orchestrators.clear()
        town.crowd.orchestrator(dying(town.store))
        town.crowd.orchestrator()
        with noted(where):
            town.wait(minutes=10)
            assert town.history() == ["region=s:eu STALE"]
            town.wait(minutes=60, step_s=300)
            assert town.history() == ["region=s:eu STALE", "region=s:us STALE"]

    assert die_everywhere(story) > 20
