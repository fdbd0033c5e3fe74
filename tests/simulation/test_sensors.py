"""Orchestrators and workers that die at any call of the store, while sensors are evaluated.

Each item that a sensor saw becomes one run, each message is dealt with once, the cursor is right,
and nothing is stuck: across a deployment, a pause and a reset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from arco.automation.sensor_tables import EvaluationState
from arco.orchestration.states import RequestState
from arco.storage.port import Store
from tests.kit.depth import scaled
from tests.kit.flows import check_store
from tests.kit.schedules import START
from tests.kit.sensors import HOOK, POLL, SensorTown
from tests.kit.simulated_run import die_everywhere, noted

ITEMS = ["a", "b", "c", "d", "e"]


def check(town: SensorTown, keys: list[str], *, thorough: bool) -> None:
    assert Counter(town.asked()) == Counter(dict.fromkeys(keys, RequestState.TRIGGERED))
    assert Counter(run.run_key.removeprefix("sensor:main/") for run in town.runs()) == Counter(keys)
    assert all(e.merged == 0 for name in ("poll", "hook") for e in town.history(name))
    assert town.sensor("hook").waiting == 0
    if thorough:
        check_store(town.fresh())


@pytest.mark.parametrize("who", ["orchestrator", "one of two orchestrators", "worker"])
def test_who_evaluates_or_asks_may_die_at_any_call(who: str) -> None:
    every = scaled(48, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = SensorTown(POLL, HOOK)
        town.items = list(ITEMS[:3])
        town.fresh().commands.sensors.push("hook", "m1", "x")
        if who == "worker":
            town.crowd.orchestrator()
            town.crowd.worker(dying(town.store))
        else:
            town.crowd.orchestrator(dying(town.store))
            town.crowd.worker()
        if who.startswith("one"):
            town.crowd.orchestrator()
        with noted(where):
            town.until(START + timedelta(minutes=2), step_s=30)
            town.items += ITEMS[3:]
            town.fresh().commands.sensors.push("hook", "m2", "y")
            town.until(START + timedelta(minutes=6), step_s=30)
            keys = [*(f"poll:{item}" for item in ITEMS), "hook:m1=x", "hook:m2=y"]
            check(town, keys, thorough=not count % 48)
            assert town.sensor().cursor == "5"

    assert die_everywhere(story) > 20


def test_sensors_go_on_through_a_deployment_a_pause_and_a_reset_whoever_dies() -> None:
    every = scaled(60, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = SensorTown(POLL, HOOK)
        town.items = ["a"]
        town.crowd.orchestrator(dying(town.store))
        town.crowd.orchestrator()
        town.crowd.worker()
        with noted(where):
            town.until(START + timedelta(minutes=2), step_s=30)
            town.fresh().commands.sensors.pause("poll")
            town.items.append("b")
            town.until(START + timedelta(minutes=4), step_s=30)
            assert town.sensor().cursor == "1"
            town.redeclare(POLL.replace("1m", "90s"), HOOK)
            town.fresh().commands.sensors.resume("poll")
            town.until(START + timedelta(minutes=7), step_s=30)
            check(town, ["poll:a", "poll:b"], thorough=not count % 60)
            town.fresh().commands.sensors.reset("poll")
            town.until(START + timedelta(minutes=9), step_s=30)
            assert town.sensor().cursor == "2"
            last = [e for e in town.history() if e.state == EvaluationState.REQUESTED][-1]
            assert (last.requests, last.merged) == (2, 2)  # said, and not dropped in silence
            assert len(town.runs()) == 2

    assert die_everywhere(story) > 20
