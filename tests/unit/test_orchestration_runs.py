"""What becomes of a run, task by task, whatever is reported of its attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, TASK_COSTS
from arco.orchestration.events import RunCancelRequested, TaskFinished, TimerFired
from arco.orchestration.runs import TIMEOUT_GRACE_S
from arco.orchestration.tables import (
    DEP_SATISFACTION,
    DISPATCH_OUTBOX,
    KEPT_HOT,
    RUN_KEYS,
    RUNS,
    TASKS,
    TIMERS,
)
from arco.state.system import OUTCOMES
from servo.contract.task import Cost, Usage
from tests.kit.runs import (
    RUN,
    RUN_TABLES,
    Attempt,
    Changes,
    Dag,
    Folding,
    Node,
    chain_of,
    plan,
    started_run,
    triggered,
)

DIAMOND: Dag = (Node(), Node((0,)), Node((0,)), Node((1, 2)), Node())
"""0 → 1, 2 → 3, and 4 beside them."""
CANCEL = RunCancelRequested(run_id=RUN, reason="enough")
FORCED = RunCancelRequested(run_id=RUN, reason="enough", force=True)


def ok(task: str, number: int = 1) -> Any:
    return Attempt(task, number).succeeded()


def fire(f: Folding, kind: str = "") -> Changes:
    """Wait for the next timer of a kind, and fire it."""
    timer = min(f.timers(kind), key=lambda timer: timer.fire_at)
    f.now = max(f.now, timer.fire_at)
    return f.add(TimerFired(run_id=RUN, timer_id=timer.timer_id))


def run_rows(changes: Changes) -> list[str]:
    return [str(table) for table in changes if table in (*RUN_TABLES, MATERIALIZATIONS, PARTITIONS)]


def resolutions(f: Folding) -> dict[tuple[str, str], str]:
    return {
        (row.upstream_task_id, row.downstream_task_id): row.resolution
        for row in f.all(DEP_SATISFACTION)
    }


# -- readiness, and what failures do ------------------------------------------------------


def test_task_is_ready_only_when_all_its_upstreams_are_good() -> None:
    f = started_run(DIAMOND)
    assert f.states() == {
        "t00": "READY",
        "t01": "BLOCKED",
        "t02": "BLOCKED",
        "t03": "BLOCKED",
        "t04": "READY",
    }
    f.add(ok("t00"), ok("t01"))
    assert f.task("t03").state == "BLOCKED"
    f.add(ok("t02"))
    assert f.task("t03").state == "READY"
    f.add(ok("t03"), ok("t04"))
    assert f.run().state == "SUCCEEDED"
    assert f.run().tasks_succeeded == 5


def test_failed_branch_of_a_diamond_skips_its_end_and_the_others_go_on() -> None:
    f = started_run(DIAMOND)
    f.add(ok("t00"), Attempt("t01").failed("user_code"))
    assert f.task("t03").state == "SKIPPED"
    assert f.run().state == "RUNNING"
    f.add(ok("t02"), ok("t04"))
    assert f.run().state == "FAILED"
    assert f.states() == {
        "t00": "SUCCEEDED",
        "t01": "FAILED",
        "t02": "SUCCEEDED",
        "t03": "SKIPPED",
        "t04": "SUCCEEDED",
    }
    assert resolutions(f) == {
        ("t00", "t01"): "SUCCESS",
        ("t00", "t02"): "SUCCESS",
        ("t01", "t03"): "FAILED",
        ("t02", "t03"): "SUCCESS",
    }


@pytest.mark.parametrize(
    ("report", "below"),
    [(Attempt("t00").failed("input"), "SKIPPED"), (Attempt("t00").cancelled(), "CANCELLED")],
)
def test_failure_skips_and_cancellation_cancels_all_below(report: Any, below: str) -> None:
    f = started_run((*chain_of(4), Node()))
    f.add(report)
    first = "FAILED" if below == "SKIPPED" else "CANCELLED"
    assert f.states() == {"t00": first, "t01": below, "t02": below, "t03": below, "t04": "READY"}
    assert resolutions(f) == {
        ("t00", "t01"): first,
        ("t01", "t02"): below,
        ("t02", "t03"): below,
    }
    f.add(ok("t04"))
    assert f.run().state == first


def test_wide_failure_is_finished_within_its_fact() -> None:
    f = started_run((Node(), *(Node((0,)) for _ in range(50)), Node(tuple(range(1, 51)))))
    f.add(Attempt("t00").failed("configuration"))
    assert f.run().state == "FAILED"
    assert f.run().tasks_skipped == 51


def test_task_that_was_skipped_days_ago_does_not_hold_up_its_other_upstreams() -> None:
    f = started_run((Node(), Node(), Node((0, 1)), Node((2,))))
    f.add(Attempt("t00").failed("user_code"), Attempt("t01").started())
    f.wait(KEPT_HOT.total_seconds() + 3600)
    f.add(ok("t01"))
    assert f.run().state == "FAILED"
    assert f.run().tasks_skipped == 2


def test_failure_meets_a_task_that_was_skipped_days_ago() -> None:
    f = started_run((Node(), Node(), Node((0, 1)), Node((2,))))
    f.add(Attempt("t00").failed("user_code"), Attempt("t01").started())
    f.wait(KEPT_HOT.total_seconds() + 3600)
    f.add(Attempt("t01").failed("user_code"))
    assert f.run().state == "FAILED"
    assert (f.run().tasks_failed, f.run().tasks_skipped) == (2, 2)


# -- retries ------------------------------------------------------------------------------


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
    assert {d.dispatch_id: d.status for d in f.all(DISPATCH_OUTBOX)} == {
        f"dispatch:{RUN}:t00:{n}": "ENDED" for n in (1, 2, 3)
    } | {f"dispatch:{RUN}:t01:1": "ENDED"}


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


# -- attempts that are not the active one --------------------------------------------------


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


# -- deliveries ---------------------------------------------------------------------------


def test_acknowledgement_that_comes_after_the_start_does_not_take_a_task_back() -> None:
    a = Attempt("t00")
    f, g = started_run(chain_of(1)), started_run(chain_of(1))
    f.add(a.enqueued(), a.enqueued(1), a.started())
    g.add(a.started(), a.enqueued(1), a.enqueued())
    assert f.task("t00") == g.task("t00")
    assert f.all(DISPATCH_OUTBOX) == g.all(DISPATCH_OUTBOX)
    assert f.all(DISPATCH_OUTBOX)[0].status == "ACKED"


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


def test_success_without_an_output_is_a_failure() -> None:
    f = started_run(chain_of(2), max_attempts=1)
    result = msgspec.structs.replace(ok("t00").result, materialization=None)
    f.add(TaskFinished(result=result))
    assert f.states() == {"t00": "FAILED", "t01": "SKIPPED"}
    assert f.task("t00").error_code == "infrastructure.unexplained"


# -- reuse --------------------------------------------------------------------------------


def test_run_of_reused_tasks_alone_has_succeeded_at_once() -> None:
    f = started_run((Node(reused=True), Node((0,), reused=True)))
    assert f.run().state == "SUCCEEDED"
    assert (f.run().tasks_reused, f.all(DISPATCH_OUTBOX), f.all(MATERIALIZATIONS)) == (2, [], [])


def test_reused_task_satisfies_what_is_below_and_is_moved_by_nothing_above() -> None:
    f = started_run((Node(), Node((0,), reused=True), Node((1,))))
    assert f.states() == {"t00": "READY", "t01": "REUSED", "t02": "READY"}
    f.add(Attempt("t00").failed("user_code"))
    assert f.states() == {"t00": "FAILED", "t01": "REUSED", "t02": "READY"}
    f.add(ok("t02"))
    assert f.run().state == "FAILED"
    assert resolutions(f) == {("t00", "t01"): "FAILED", ("t01", "t02"): "SUCCESS"}


# -- cancelling ---------------------------------------------------------------------------


def outcome(f: Folding) -> tuple[str, str]:
    row = f.all(OUTCOMES)[-1]
    return row.status, row.code


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
    assert [d.status for d in f.all(DISPATCH_OUTBOX)] == ["ENDED"]


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


# -- time-outs ----------------------------------------------------------------------------


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


# -- triggers and plans -------------------------------------------------------------------


def test_same_run_key_and_request_is_the_same_run() -> None:
    f = Folding()
    f.add(triggered(1, run_key="k", request_fingerprint="x"), *plan(chain_of(1)))
    before = {t: dict(f.rows.get(t, {})) for t in (*RUN_TABLES, RUN_KEYS)}
    again = triggered(1, "run2", run_key="k", request_fingerprint="x")
    f.add(again, *plan(chain_of(1), "run2"))
    assert outcome(f)[0] == "applied"
    assert {t: dict(f.rows.get(t, {})) for t in (*RUN_TABLES, RUN_KEYS)} == before


def test_same_run_key_with_another_request_is_refused_and_changes_nothing() -> None:
    f = Folding()
    f.add(triggered(1, run_key="k", request_fingerprint="x"), *plan(chain_of(1)))
    other = triggered(1, "run2", run_key="k", request_fingerprint="y")
    changes = f.add(other, *plan(chain_of(1), "run2"))
    assert outcome(f) == ("refused", "run_key_conflict")
    assert {str(table) for table in changes} == {"log.commands", "log.outcomes"}


def test_runs_without_a_key_are_all_runs_of_their_own() -> None:
    f = Folding()
    f.add(triggered(1, "run1"), triggered(1, "run2"))
    assert [run.run_id for run in f.all(RUNS)] == ["run1", "run2"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 1, 0, 0, 2)])
def test_plan_in_chunks_starts_the_run_with_the_last_in_whatever_order(
    order: tuple[int, ...],
) -> None:
    dag = (Node(), Node((0,)), Node(), Node((1, 2)), Node((0,)), Node((3, 4)))
    parts = plan(dag, chunks=3)
    f, whole = Folding(), started_run(dag)
    f.add(triggered(6))
    for i in order[:-1]:
        f.add(parts[i])
    assert f.run().state == "PLANNING"
    assert set(f.states().values()) == {"PLANNED"}
    f.add(parts[order[-1]])
    assert (f.run(), f.all(TASKS)) == (whole.run(), whole.all(TASKS))
    for part in parts:
        assert run_rows(f.add(part)) == []


def test_run_of_no_tasks_has_succeeded() -> None:
    f = Folding()
    f.add(triggered(0, timeout_s=60))
    assert f.run().state == "SUCCEEDED"
    assert f.timers() == []


def test_unknown_runs_tasks_and_timers_are_ignored() -> None:
    f = started_run(chain_of(1))
    strangers = [Attempt("t00", 1, "run9"), Attempt("t77")]
    for a in strangers:
        reports = (a.enqueued(), a.started(), a.succeeded(), a.failed(), a.lost())
        assert run_rows(f.add(*reports)) == []
    assert run_rows(f.add(TimerFired(run_id=RUN, timer_id="timer:none"))) == []
    assert run_rows(f.add(*plan(chain_of(1), "run9"))) == []


def test_priority_of_a_task_is_that_of_its_asset_and_its_run() -> None:
    f = Folding()
    f.add(triggered(1, priority=10), *plan(chain_of(1), priority=5))
    assert f.task("t00").priority == 15


def test_reports_about_a_run_that_left_change_nothing() -> None:
    f = started_run(chain_of(1))
    f.add(ok("t00"))
    f.wait(KEPT_HOT.total_seconds() + 1)
    assert run_rows(f.add(ok("t00"), Attempt("t00").started(), *plan(chain_of(1)))) == []
