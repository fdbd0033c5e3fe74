"""The fold of runs: which tasks become ready, and what a failure does to those below."""

from __future__ import annotations

from typing import Any

import pytest

from arco.execution.tables import MATERIALIZATIONS
from arco.orchestration.tables import (
    KEPT_HOT,
    TASKS,
)
from tests.kit.run_fold import ok
from tests.kit.runs import (
    Attempt,
    Dag,
    Node,
    chain_of,
    started_run,
)

# 0 → 1, 2 → 3, and 4 beside them.
DIAMOND: Dag = (Node(), Node((0,)), Node((0,)), Node((1, 2)), Node())


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
    assert {t.task_id: (t.deps_satisfied, t.deps_total) for t in f.all(TASKS)} == {
        "t00": (0, 0),
        "t01": (1, 1),
        "t02": (1, 1),
        "t03": (1, 2),
        "t04": (0, 0),
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
    assert [t.deps_satisfied for t in f.all(TASKS)] == [0] * 5
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


def test_run_of_reused_tasks_alone_has_succeeded_at_once() -> None:
    f = started_run((Node(reused=True), Node((0,), reused=True)))
    assert f.run().state == "SUCCEEDED"
    assert (f.run().tasks_reused, f.all(MATERIALIZATIONS)) == (2, [])


def test_reused_task_satisfies_what_is_below_and_is_moved_by_nothing_above() -> None:
    f = started_run((Node(), Node((0,), reused=True), Node((1,))))
    assert f.states() == {"t00": "READY", "t01": "REUSED", "t02": "READY"}
    f.add(Attempt("t00").failed("user_code"))
    assert f.states() == {"t00": "FAILED", "t01": "REUSED", "t02": "READY"}
    f.add(ok("t02"))
    assert f.run().state == "FAILED"
    assert [t.deps_satisfied for t in f.all(TASKS)] == [0, 0, 1]
