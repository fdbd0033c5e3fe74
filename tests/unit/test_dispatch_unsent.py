"""When what could not be sent is tried again, and when it is given up."""

from __future__ import annotations

import msgspec
import pytest

from arco.dispatch.unsent import DAMAGE_S, SEND_AGAIN_S, EnqueueFailures
from arco.errors import Corrupt, Denied, Invalid, NotFound, Unavailable
from arco.orchestration.controllers.ready_dispatch import Deferred
from arco.orchestration.tables import TaskRow
from tests.kit.clocks import SimClock
from tests.kit.runs import RUN, Node, started_run
from tests.unit.test_orchestration_controllers import board_of


class Setting:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.unsent = EnqueueFailures(self.clock)
        tasks = board_of(started_run((Node(),) * 3)).tasks[RUN]
        self.first, self.second, self.third = tasks.values()


@pytest.fixture
def at() -> Setting:
    return Setting()


def test_task_that_could_not_be_sent_waits_a_little(at: Setting) -> None:
    assert at.unsent.task_may_pass(at.first, Unavailable("503"))
    assert at.unsent.later() == Deferred(tasks=frozenset({(RUN, at.first.task_id)}))
    assert (at.unsent.waits(at.first), at.unsent.waits(at.second)) == (True, False)
    at.clock.sleep(SEND_AGAIN_S)
    assert at.unsent.later() == Deferred()
    assert not at.unsent.waits(at.first)


def test_what_keeps_one_task_of_a_run_keeps_all(at: Setting) -> None:
    assert at.unsent.run_may_pass(at.first, NotFound("plan"))
    assert at.unsent.later() == Deferred(runs=frozenset({RUN}))
    assert at.unsent.waits(at.second)


@pytest.mark.parametrize("error", [NotFound("plan"), Corrupt("plan")])
def test_time_of_all_tasks_of_a_run_begins_with_the_first(at: Setting, error: Exception) -> None:
    assert at.unsent.run_may_pass(at.first, error)
    at.clock.sleep(DAMAGE_S - 1)
    assert at.unsent.run_may_pass(at.second, error)
    at.clock.sleep(1)
    assert not at.unsent.run_may_pass(at.third, error)


def test_time_of_a_task_is_its_own(at: Setting) -> None:
    assert at.unsent.task_may_pass(at.first, NotFound("input"))
    at.clock.sleep(DAMAGE_S)
    assert at.unsent.task_may_pass(at.second, NotFound("input"))
    assert not at.unsent.task_may_pass(at.first, NotFound("input"))


def test_time_begins_anew_after_it_has_passed(at: Setting) -> None:
    for may_pass, passed in [
        (at.unsent.run_may_pass, at.unsent.run_passed),
        (at.unsent.task_may_pass, at.unsent.task_passed),
    ]:
        assert may_pass(at.first, NotFound("plan"))
        passed(at.first)
        at.clock.sleep(DAMAGE_S)
        assert may_pass(at.first, NotFound("plan"))


@pytest.mark.parametrize("error", [Unavailable("503"), Denied("403")])
def test_failures_of_the_store_are_waited_for_without_end(at: Setting, error: Exception) -> None:
    for _ in range(5):
        assert at.unsent.run_may_pass(at.first, error)
        assert at.unsent.task_may_pass(at.first, error)
        at.clock.sleep(DAMAGE_S)


@pytest.mark.parametrize("error", [Invalid("no"), KeyError("asset")])
def test_what_cannot_pass_is_given_up_at_once(at: Setting, error: Exception) -> None:
    assert not at.unsent.task_may_pass(at.first, error)
    assert len(at.unsent) == 0


def test_runs_that_ended_and_attempts_that_went_are_forgotten(at: Setting) -> None:
    other: TaskRow = msgspec.structs.replace(at.third, run_id="other")
    at.unsent.run_may_pass(at.first, Denied("403"))
    at.unsent.run_may_pass(other, Denied("403"))
    at.unsent.task_may_pass(at.first, Denied("403"))
    at.unsent.task_may_pass(at.second, Denied("403"))
    at.unsent.keep({RUN}, lambda attempt, run, task: attempt == at.second.attempt_id)
    assert at.unsent.later() == Deferred(frozenset({RUN}), frozenset({(RUN, at.second.task_id)}))
