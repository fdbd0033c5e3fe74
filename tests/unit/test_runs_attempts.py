"""The fold of runs: retries, stale and lost attempts, deliveries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, TASK_COSTS
from arco.orchestration.events import TaskFinished
from arco.orchestration.runs import DISPATCH_S, TIMEOUT_GRACE_S
from servo.contract.task import Cost, Usage
from tests.kit.run_fold import fire, ok, run_rows
from tests.kit.runs import (
    RUN,
    Attempt,
    Folding,
    chain_of,
    plan,
    started_run,
    triggered,
)


def test_flaky_task_that_succeeds_on_attempt_three() -> None:
    f = started_run(chain_of(2))
    for number in (1, 2):
        f.add(Attempt("t00", number).started(), Attempt("t00", number).failed())
        assert f.task("t00").state == "RETRY_WAIT"
        fire(f, "retry")
        assert f.task("t00").attempt == number + 1
    f.add(ok("t00", 3), ok("t01"))
    assert f.run().state == "SUCCEEDED"
    assert f.run().retries == 2
    row = f.task("t00")
    assert (row.attempt, row.error_code, row.error_message) == (3, "", "")


def test_backoff_doubles_from_a_minute_up_to_an_hour() -> None:
    f = started_run(chain_of(1), max_attempts=10)
    waits = []
    for number in range(1, 10):
        f.add(Attempt("t00", number).failed())
        due = f.task("t00").retry_not_before
        assert due is not None
        waits.append(int((due - f.now).total_seconds()))
        fire(f, "retry")
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    f.add(Attempt("t00", 10).failed())
    assert f.run().state == "FAILED"
    assert f.timers() == []


@pytest.mark.parametrize(
    ("policy", "error", "again"),
    [
        ({}, {"category": "transient"}, True),
        ({}, {"category": "infrastructure"}, True),
        ({}, {"category": "timeout"}, True),
        ({}, {"category": "user_code"}, False),
        ({}, {"category": "input"}, False),
        ({}, {"category": "user_code", "retriable": True}, True),
        ({"retry_on": ("user_code",)}, {"category": "user_code"}, True),
        ({"retry_on": ("OSError",)}, {"category": "user_code", "exception": "OSError"}, True),
        ({"retry_on": ("OSError",)}, {"category": "user_code", "exception": "KeyError"}, False),
        ({"never_on": ("transient",)}, {"category": "transient"}, False),
        ({"never_on": ("transient.x",)}, {"category": "transient"}, False),
        (
            {"retry_on": ("user_code",), "never_on": ("KeyError",)},
            {"category": "user_code", "exception": "KeyError", "retriable": True},
            False,
        ),
        ({"max_attempts": 1}, {"category": "transient"}, False),
    ],
)
def test_policy_decides_what_is_tried_again(
    policy: dict[str, Any], error: dict[str, Any], again: bool
) -> None:
    f = started_run(chain_of(1), **policy)
    f.add(Attempt("t00").failed(**error))
    assert f.task("t00").state == ("RETRY_WAIT" if again else "FAILED")


def test_reports_of_a_stale_attempt_move_nothing() -> None:
    f = started_run(chain_of(2))
    first, second = Attempt("t00", 1), Attempt("t00", 2)
    f.add(first.enqueued(), first.started(), first.failed())
    fire(f, "retry")
    f.add(second.enqueued(), second.started("w2"))
    before = f.task("t00")
    for stale in (first.enqueued(3), first.started(), first.failed(), first.lost()):
        assert run_rows(f.wait(5).add(stale)) == []
    assert f.task("t00") == before


@pytest.mark.parametrize("number", [0, 2, 7])
def test_attempt_that_nobody_made_moves_nothing(number: int) -> None:
    f = started_run(chain_of(2))
    stranger = Attempt("t00", number or 99)
    for report in (stranger.started(), stranger.failed(), stranger.lost(), stranger.enqueued()):
        assert run_rows(f.add(report)) == []


def test_an_attempt_that_lost_the_race_costs_what_it_took() -> None:
    f = started_run(chain_of(1))
    f.add(Attempt("t00").lost())
    fire(f, "retry")
    second = Attempt("t00", 2).succeeded(adopted_from=1).result
    assert second.adopted
    took = msgspec.structs.replace(second, cost=Cost(), usage=Usage(wall_ms=5))
    f.add(TaskFinished(result=took))
    assert f.one(TASK_COSTS, "a0", second.attempt_id).wall_ms == 5


def test_late_success_of_a_lost_attempt_is_good_once_when_it_is_adopted() -> None:
    f = started_run(chain_of(1))
    first, second = Attempt("t00", 1), Attempt("t00", 2)
    f.add(first.started(), first.lost(), first.succeeded())
    late = f.one(MATERIALIZATIONS, "a0", f"{RUN}-t00-1")
    assert (late.status, late.version) == ("LATE", 0)
    assert f.all(PARTITIONS) == []
    fire(f, "retry")
    f.add(second.succeeded(adopted_from=1))
    for again in (first.succeeded(), second.succeeded(adopted_from=1)):
        assert run_rows(f.wait(1).add(again)) == []
    row = f.one(MATERIALIZATIONS, "a0", f"{RUN}-t00-1")
    assert (row.status, row.reason, row.version) == ("GOOD", "", 1)
    current = f.one(PARTITIONS, "a0", "0")
    assert (current.materialization_id, current.version) == (f"{RUN}-t00-1", 1)
    assert f.task("t00").adopted


def test_other_output_of_a_lost_attempt_never_becomes_current() -> None:
    f = started_run(chain_of(1))
    f.add(Attempt("t00").lost())
    fire(f, "retry")
    f.add(ok("t00", 2), ok("t00", 1))
    assert {m.materialization_id: m.status for m in f.all(MATERIALIZATIONS)} == {
        f"{RUN}-t00-1": "LATE",
        f"{RUN}-t00-2": "GOOD",
    }
    assert f.one(PARTITIONS, "a0", "0").materialization_id == f"{RUN}-t00-2"


def test_later_run_makes_the_next_version_of_a_partition() -> None:
    f = started_run(chain_of(1))
    f.add(ok("t00"), triggered(1, "run2"), *plan(chain_of(1), "run2"))
    f.add(Attempt("t00", 1, "run2").succeeded())
    current = f.one(PARTITIONS, "a0", "0")
    assert (current.run_id, current.version) == ("run2", 2)
    assert [m.version for m in f.all(MATERIALIZATIONS)] == [1, 2]


def test_output_that_two_runs_report_is_one_version() -> None:
    f = started_run(chain_of(1))
    f.add(ok("t00"), triggered(1, "run2"), *plan(chain_of(1), "run2"))
    made = ok("t00").result.materialization
    theirs = Attempt("t00", 1, "run2").succeeded().result
    f.add(TaskFinished(result=msgspec.structs.replace(theirs, materialization=made, adopted=True)))
    assert f.run("run2").state == "SUCCEEDED"
    assert [m.version for m in f.all(MATERIALIZATIONS)] == [1]
    assert f.one(PARTITIONS, "a0", "0").version == 1


def test_acknowledgement_that_comes_after_the_start_does_not_take_a_task_back() -> None:
    a = Attempt("t00")
    f, g = started_run(chain_of(1)), started_run(chain_of(1))
    f.add(a.enqueued(), a.enqueued(1), a.started())
    g.add(a.started(), a.enqueued(1), a.enqueued())
    assert f.task("t00") == g.task("t00")


def test_acknowledgement_of_a_redelivery_that_comes_twice_changes_nothing() -> None:
    f = started_run(chain_of(1))
    f.add(Attempt("t00").enqueued())
    f.wait(100).add(Attempt("t00").enqueued(1))
    sent = f.now
    assert run_rows(f.wait(50).add(Attempt("t00").enqueued(1))) == []
    assert run_rows(f.wait(50).add(Attempt("t00").enqueued(0))) == []
    assert f.task("t00").dispatched_at == sent


def test_next_attempt_has_deliveries_and_a_worker_of_its_own() -> None:
    f = started_run(chain_of(1))
    f.add(Attempt("t00").enqueued(2), Attempt("t00").started("w1"), Attempt("t00").failed())
    fire(f, "retry")
    row = f.task("t00")
    assert (row.redelivery, row.worker_id, row.dispatched_at, row.started_at) == (0, "", None, None)
    assert (row.retry_not_before, row.ready_at) == (None, f.now)


def test_second_worker_that_starts_an_attempt_is_watched_from_its_own_start() -> None:
    f = Folding()
    f.add(triggered(1), *plan(chain_of(1), timeout_s=300))
    f.add(Attempt("t00").started("w1"))
    assert run_rows(f.wait(5).add(Attempt("t00").started("w1"))) == []
    f.wait(200).add(Attempt("t00").started("w2"))
    assert (f.task("t00").worker_id, f.task("t00").started_at) == ("w2", f.now)
    [timer] = f.timers("task_timeout")
    assert timer.fire_at == f.now + timedelta(seconds=300 + TIMEOUT_GRACE_S)
    f.add(ok("t00"))
    assert f.timers() == []


def test_an_attempt_that_no_worker_reports_ends_by_a_timer_from_its_dispatch() -> None:
    f = Folding()
    f.add(triggered(1), *plan(chain_of(1), timeout_s=300, max_attempts=2))
    f.add(Attempt("t00").enqueued())
    f.wait(60).add(Attempt("t00").enqueued(1))
    [timer] = f.timers("task_timeout")
    assert timer.fire_at == f.now + timedelta(seconds=DISPATCH_S + 300 + TIMEOUT_GRACE_S)
    fire(f, "task_timeout")
    row = f.task("t00")
    assert (row.state, row.error_code, row.attempt) == ("RETRY_WAIT", "timeout.dispatch", 1)


def test_success_without_an_output_is_a_failure() -> None:
    f = started_run(chain_of(2), max_attempts=1)
    result = msgspec.structs.replace(ok("t00").result, materialization=None)
    f.add(TaskFinished(result=result))
    assert f.states() == {"t00": "FAILED", "t01": "SKIPPED"}
    assert f.task("t00").error_code == "infrastructure.unexplained"
