from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from arco.quality.events import ChecksEvaluated, ChecksRecorded
from arco.quality.fold import CHECKS
from arco.quality.tables import (
    CHECK_RESULTS,
    CHECK_STATUS,
    EVALUATIONS,
    KEPT_HOT,
    CheckResultRow,
    CheckStatusRow,
    EvaluationRow,
)
from arco.state.fold import Fact, FoldFailure, NoRows, Rows, fold_stage
from arco.state.table import Table
from servo.contract.task import CheckResult

START = datetime(2026, 1, 1)
GOOD = CheckResult(name="unique(id)", passed=True, kind="unique", columns=("id",), rows=10)
BAD = CheckResult(
    name="unique(id)",
    passed=False,
    kind="unique",
    columns=("id",),
    status="failed",
    action="block",
    message="2 of 10 rows",
    expected="no two alike",
    actual="2",
    rows=10,
    failing=2,
    method="duckdb",
    sample=('{"id": 1}',),
    wall_ms=12,
)


def evaluated(
    attempt: str, *results: CheckResult, partition: str = "", materialization: str = "M"
) -> ChecksEvaluated:
    return ChecksEvaluated(
        asset_id="A",
        asset="sales.orders",
        partition=partition,
        materialization_id=materialization,
        run_id="R",
        task_id="T",
        attempt_id=attempt,
        results=results,
    )


def folded(*payloads: ChecksEvaluated, hours: Sequence[int] = ()) -> Rows:
    rows = Rows(NoRows())
    failures: list[FoldFailure] = []
    facts = [
        Fact(n + 1, START + timedelta(hours=(hours or range(99))[n]), f"E{n}", "", "", payload)
        for n, payload in enumerate(payloads)
    ]
    derived = fold_stage(CHECKS, rows, facts, failures)
    assert {type(fact.payload) for fact in derived} <= {ChecksRecorded}
    assert failures == []
    return rows


def alive(rows: Rows, table: Table[Any]) -> dict[Any, Any]:
    changes = rows.changes.get(table, {})
    return {key: row for key, (_, row) in changes.items() if row is not None}


def test_results_are_kept_whole() -> None:
    rows = folded(evaluated("1", BAD, partition="date=d:2026-01-01"))
    assert alive(rows, CHECK_RESULTS) == {
        ("A", "1", "unique(id)"): CheckResultRow(
            asset_id="A",
            attempt_id="1",
            check_id="unique(id)",
            asset_key="sales.orders",
            partition_key="date=d:2026-01-01",
            check_name="unique(id)",
            kind="unique",
            phase="after",
            input="",
            columns=["id"],
            severity="error",
            status="failed",
            action="block",
            message="2 of 10 rows",
            expected="no two alike",
            actual="2",
            rows=10,
            failing=2,
            method="duckdb",
            sample=['{"id": 1}'],
            wall_ms=12,
            materialization_id="M",
            run_id="R",
            task_id="T",
            evaluated_at=START,
        )
    }


def status(rows: Rows, check: str = "unique(id)", partition: str = "") -> CheckStatusRow:
    found = rows.get(CHECK_STATUS, "A", partition, check)
    assert found is not None
    return found


def test_failures_are_counted_from_the_first_one_on() -> None:
    rows = folded(evaluated("1", GOOD), evaluated("2", BAD), evaluated("3", BAD))
    found = status(rows)
    assert (found.status, found.consecutive_failures) == ("failed", 2)
    assert found.failing_since == START + timedelta(hours=1)
    assert found.last_passed_at == START
    assert found.attempt_id == "3"


def test_passing_again_ends_the_failure() -> None:
    found = status(folded(evaluated("1", BAD), evaluated("2", GOOD)))
    assert (found.status, found.consecutive_failures, found.failing_since) == ("passed", 0, None)
    assert found.last_passed_at == START + timedelta(hours=1)


def test_the_same_evaluation_twice_changes_nothing() -> None:
    once = folded(evaluated("1", BAD))
    twice = folded(evaluated("1", BAD), evaluated("1", BAD))
    assert once.changes == twice.changes


def test_partitions_stand_apart() -> None:
    rows = folded(evaluated("1", BAD, partition="a=i:1"), evaluated("2", GOOD, partition="a=i:2"))
    assert status(rows, partition="a=i:1").status == "failed"
    assert status(rows, partition="a=i:2").status == "passed"


def test_a_check_of_two_inputs_has_two_results() -> None:
    one = CheckResult(name="row_count", passed=True, phase="before", input="raw.a")
    other = CheckResult(name="row_count", passed=True, phase="before", input="raw.b")
    rows = folded(evaluated("1", one, other, materialization=""))
    ids = ["row_count@raw.a", "row_count@raw.b"]
    assert [key[2] for key in alive(rows, CHECK_RESULTS)] == ids
    assert [key[2] for key in alive(rows, CHECK_STATUS)] == ids


def test_a_check_of_an_asset_that_is_two_inputs_has_two_results() -> None:
    bad = CheckResult(
        name="row_count",
        passed=False,
        phase="before",
        input="raw.orders",
        parameter="yesterday",
        status="failed",
    )
    good = CheckResult(
        name="row_count", passed=True, phase="before", input="raw.orders", parameter="orders"
    )
    rows = folded(evaluated("1", bad, good, materialization=""))
    ids = ["row_count@raw.orders[yesterday]", "row_count@raw.orders"]
    assert [key[2] for key in alive(rows, CHECK_RESULTS)] == ids
    assert [status(rows, each).status for each in ids] == ["failed", "passed"]


def test_a_check_that_was_taken_away_has_no_status() -> None:
    other = CheckResult(name="row_count", passed=True)
    rows = folded(evaluated("1", GOOD, other), evaluated("2", other))
    assert [key[2] for key in alive(rows, CHECK_STATUS)] == ["row_count"]
    assert len(alive(rows, CHECK_RESULTS)) == 3


def test_an_attempt_that_ended_before_its_output_says_nothing_about_it() -> None:
    before = CheckResult(
        name="row_count", passed=False, phase="before", input="raw.a", status="failed"
    )
    rows = folded(evaluated("1", GOOD), evaluated("2", before, materialization=""))
    assert status(rows).status == "passed"
    assert status(rows, "row_count@raw.a").status == "failed"
    found = rows.get(EVALUATIONS, "A", "")
    assert found is not None
    assert (found.before, found.after) == (["row_count@raw.a"], ["unique(id)"])


def test_an_evaluation_sums_its_results_up() -> None:
    error = CheckResult(
        name="mine", passed=False, status="error", action="quarantine", severity="critical"
    )
    rows = folded(evaluated("1", BAD, error, CheckResult(name="row_count", passed=True)))
    assert alive(rows, EVALUATIONS) == {
        ("A", ""): EvaluationRow(
            asset_id="A",
            partition_key="",
            asset_key="sales.orders",
            passed=1,
            failed=1,
            errors=1,
            action="block",
            before=[],
            after=["unique(id)", "mine", "row_count"],
            materialization_id="M",
            run_id="R",
            attempt_id="1",
            evaluated_at=START,
        )
    }


def test_no_results_leave_no_trace() -> None:
    assert folded(evaluated("1")).changes == {}


def test_results_leave_for_history_and_the_status_stays() -> None:
    late = int(KEPT_HOT.total_seconds() // 3600) + 2
    rows = folded(evaluated("1", BAD), evaluated("2", BAD), hours=[0, late])
    assert rows.get(CHECK_RESULTS, "A", "1", "unique(id)") is None
    assert status(rows).consecutive_failures == 2


def test_an_output_without_checks_has_lost_those_of_before() -> None:
    rows = folded(evaluated("1", BAD, partition="p"), evaluated("2", partition="p"))
    assert not alive(rows, CHECK_STATUS) and not alive(rows, EVALUATIONS)
    assert len(alive(rows, CHECK_RESULTS)) == 1


def test_an_asset_that_never_had_checks_has_no_rows() -> None:
    assert not folded(evaluated("1", partition="p")).changes
