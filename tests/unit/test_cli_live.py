"""A run that somebody watches, while the store fails and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from arco.cli.live import follow
from arco.errors import Corrupt, Denied, Error, Refused, Unavailable
from arco.orchestration.states import RunState
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.flows import CITY, Crowd, deploy, trigger
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace


class Watched:
    """A run, and a viewer with a store of its own that can fail."""

    def __init__(self) -> None:
        self.clock = SimClock()
        store = MemoryStore(self.clock)
        w = make_workspace(store, 1, clock=self.clock)
        deploy(w, CITY)
        self.run_id = trigger(w, "city.alone")
        self.crowd = Crowd(store, self.clock, self.run_id)
        self.crowd.orchestrator()
        self.crowd.worker()
        self.store = HookStore(store)
        self.viewer = make_workspace(self.store, 2, clock=self.clock)
        self.waits = 0

    def wait(self, seconds: float) -> None:
        self.waits += 1
        self.clock.sleep(seconds)
        self.crowd.step()

    def fail(self, error: Error, times: int) -> None:
        def act() -> None:
            raise error

        self.store.before("get", "manifests/0", act, times=times)


@pytest.mark.parametrize("error", [Denied("x"), Unavailable("x"), Corrupt("x")])
def test_whoever_follows_a_run_sees_its_end_after_an_outage(error: Error) -> None:
    at = Watched()

    def wait(seconds: float) -> None:
        if at.waits == 0:
            at.fail(error, times=5)
        at.wait(seconds)

    row = follow(at.viewer, at.run_id, progress=dict, wait=wait, quiet=True)
    assert row.state == RunState.SUCCEEDED


def test_a_store_that_denies_the_first_look_is_told_at_once() -> None:
    at = Watched()
    at.fail(Denied("x"), times=1)
    with pytest.raises(Denied):
        follow(at.viewer, at.run_id, progress=dict, wait=at.wait, quiet=True)


def test_an_interruption_during_an_outage_cancels_when_it_is_over() -> None:
    at = Watched()
    at.crowd.workers.clear()
    failures = 0
    cancel = at.viewer.commands.orchestration.cancel

    def refuse_twice(run: str, **settings: Any) -> object:
        nonlocal failures
        failures += 1
        if failures < 3:
            raise Denied("x")
        return cancel(run, **settings)

    at.viewer.commands.orchestration.cancel = refuse_twice  # type: ignore[method-assign, assignment]
    row = follow(
        at.viewer,
        at.run_id,
        progress=dict,
        wait=at.wait,
        quiet=True,
        interrupted=lambda: at.waits > 0,
    )
    assert (row.state, failures) == (RunState.CANCELLED, 3)


def test_a_refused_cancellation_is_no_outage() -> None:
    at = Watched()

    def refuse(run: str, **settings: str) -> object:
        raise Refused("not_now", "no")

    at.viewer.commands.orchestration.cancel = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(Refused):
        follow(
            at.viewer,
            at.run_id,
            progress=dict,
            wait=at.wait,
            quiet=True,
            interrupted=lambda: True,
        )
