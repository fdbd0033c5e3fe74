"""The fold of runs: cancellation and timeouts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.orchestration.events import RunCancelRequested, TimerFired
from arco.orchestration.runs import TIMEOUT_GRACE_S
from arco.orchestration.tables import (
    TIMERS,
)
from arco.state.system import OUTCOMES
from tests.kit.run_fold import fire, ok, outcome, run_rows
from tests.kit.runs import (
    RUN,
    Attempt,
    Folding,
    Node,
    chain_of,
    plan,
    started_run,
    triggered,
)

CANCEL = RunCancelRequested(run_id=RUN, reason="enough")
FORCED = RunCancelRequested(run_id=RUN, reason="enough", force=True)


def test_cancel_ends_at_once_what_nobody_works_on_and_waits_for_the_rest() -> None:
    f = started_run((Node(), Node(), Node(), Node((0,)), Node()))
    f.add(Attempt("t00").started(), Attempt("t01").enqueued(), Attempt("t02").failed(), ok("t04"))
    f.add(CANCEL)
    assert f.run().state == "CANCELLING"
    assert f.states() == {
        "t00": "RUNNING",
        "t01": "DISPATCHED",
        "t02": "CANCELLED",
        "t03": "CANCELLED",
        "t04": "SUCCEEDED",
    }
    f.add(Attempt("t00").cancelled(), Attempt("t01").lost())
    assert f.run().state == "CANCELLED"
    assert f.run().cancel_reason == "enough"
    assert f.timers() == []


def test_cancelled_retry_leaves_no_timer_behind() -> None:
    f = started_run(chain_of(2))
    f.add(Attempt("t00").failed(), CANCEL)
    assert f.run().state == "CANCELLED"
    assert [t.state for t in f.all(TIMERS)] == ["CANCELLED"]


def test_forced_cancel_waits_for_nobody_even_after_a_gentle_one() -> None:
    f = started_run((Node(), Node((0,))), timeout_s=100)
    f.add(Attempt("t00").started(), CANCEL)
    assert f.run().state == "CANCELLING"
    f.wait(5).add(FORCED)
    assert f.run().state == "CANCELLED"
    assert f.states() == {"t00": "CANCELLED", "t01": "CANCELLED"}
    assert f.timers() == []


def test_first_request_to_cancel_is_the_one_that_is_told() -> None:
    f = started_run(chain_of(1))
    f.add(Attempt("t00").started(), CANCEL)
    asked = f.now
    f.wait(9).add(RunCancelRequested(run_id=RUN, reason="really"))
    assert (f.run().cancel_requested_at, f.run().cancel_reason) == (asked, "enough")


@pytest.mark.parametrize("force", [False, True])
def test_success_after_the_cancellation_is_recorded_as_late_and_never_current(force: bool) -> None:
    f = started_run(chain_of(2))
    f.add(Attempt("t00").started(), FORCED if force else CANCEL, ok("t00"))
    assert f.run().state == "CANCELLED"
    assert f.states() == {"t00": "CANCELLED", "t01": "CANCELLED"}
    assert [(m.status, m.version) for m in f.all(MATERIALIZATIONS)] == [("LATE", 0)]
    assert f.all(PARTITIONS) == []
    assert run_rows(f.wait(3).add(ok("t00"))) == []


@pytest.mark.parametrize("report", ["failed", "cancelled", "lost"])
def test_attempt_that_ends_while_cancelling_is_not_tried_again(report: str) -> None:
    f = started_run(chain_of(1))
    f.add(Attempt("t00").started(), CANCEL, getattr(Attempt("t00"), report)())
    assert f.run().state == "CANCELLED"
    assert f.run().retries == 0


@pytest.mark.parametrize("chunks", [0, 1])
def test_cancel_while_chunks_of_the_plan_are_missing_ends_the_run(chunks: int) -> None:
    f = Folding()
    parts = plan(chain_of(4), chunks=2)
    f.add(triggered(4, timeout_s=60), *parts[:chunks])
    assert f.run().state == "PLANNING"
    f.add(CANCEL)
    assert (f.run().state, f.run().tasks_cancelled) == ("CANCELLED", 4)
    assert f.timers() == []
    assert run_rows(f.add(*parts)) == []


def test_cancel_of_what_is_over_or_unknown_is_refused() -> None:
    f = started_run(chain_of(1))
    f.add(ok("t00"))
    before = f.run()
    f.add(CANCEL)
    assert outcome(f) == ("refused", "run_finished")
    f.add(RunCancelRequested(run_id="nowhere"))
    assert "run_not_found" in {row.code for row in f.all(OUTCOMES)}
    assert f.run() == before


def test_run_that_takes_too_long_is_timed_out_and_its_work_told_to_stop() -> None:
    f = started_run(chain_of(3), timeout_s=600)
    f.add(ok("t00"), Attempt("t01").started())
    fire(f, "run_timeout")
    assert (f.run().state, f.run().timed_out) == ("CANCELLING", True)
    assert f.states() == {"t00": "SUCCEEDED", "t01": "RUNNING", "t02": "CANCELLED"}
    f.add(Attempt("t01").cancelled())
    assert f.run().state == "TIMED_OUT"


def test_run_time_out_while_planning_ends_the_run() -> None:
    f = Folding()
    f.add(triggered(3, timeout_s=5))
    fire(f)
    assert f.run().state == "TIMED_OUT"


def test_run_that_somebody_cancels_in_time_has_not_timed_out() -> None:
    f = started_run(chain_of(1), timeout_s=600)
    f.add(Attempt("t00").started(), CANCEL)
    fire(f, "run_timeout")
    f.add(Attempt("t00").cancelled())
    assert (f.run().state, f.run().timed_out) == ("CANCELLED", False)


def test_run_that_ended_in_time_has_no_timers_left() -> None:
    f = started_run(chain_of(1), timeout_s=600)
    timer = f.timers()[0]
    f.add(ok("t00"))
    assert f.timers() == []
    assert run_rows(f.add(TimerFired(run_id=RUN, timer_id=timer.timer_id))) == []


def test_task_without_a_result_after_its_time_out_is_tried_again() -> None:
    f = started_run(chain_of(1), timeout_s=0, max_attempts=2)
    assert f.timers() == []
    f = Folding()
    f.add(triggered(1), *plan(chain_of(1), timeout_s=300, max_attempts=2))
    f.add(Attempt("t00").enqueued(), Attempt("t00").started())
    assert f.timers()[0].fire_at == f.now + timedelta(seconds=300 + TIMEOUT_GRACE_S)
    fire(f, "task_timeout")
    assert (f.task("t00").state, f.task("t00").error_code) == ("RETRY_WAIT", "timeout.task")
    fire(f, "retry")
    f.add(Attempt("t00", 2).started())
    fire(f, "task_timeout")
    assert f.run().state == "FAILED"
    assert f.timers() == []


def test_time_out_of_an_attempt_that_ended_fires_on_nothing() -> None:
    f = Folding()
    f.add(triggered(1), *plan(chain_of(1), timeout_s=300))
    f.add(Attempt("t00").started())
    timer = f.timers()[0]
    f.add(Attempt("t00").failed())
    assert [t.kind for t in f.timers()] == ["retry"]
    assert run_rows(f.add(TimerFired(run_id=RUN, timer_id=timer.timer_id))) == []
