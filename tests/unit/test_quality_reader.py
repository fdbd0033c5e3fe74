"""Reading results, and how the command line names and words them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

import pytest

from arco.cli.checks import find_check_name, status_reason
from arco.cli.live import is_partition
from arco.errors import NotFound
from arco.quality.events import ChecksEvaluated
from arco.quality.reader import QualityReader
from servo.contract.task import CheckResult
from tests.kit.clocks import SimClock
from tests.kit.derived import derived_workspace
from tests.unit.test_quality_fold import BAD, GOOD, evaluated


def reader(*evaluations: ChecksEvaluated) -> QualityReader:
    """What a snapshot shows after these evaluations, one an hour."""
    clock = SimClock()
    workspace = derived_workspace(clock=clock)
    for each in evaluations:
        workspace.ledger.append([each])
        workspace.committer.commit()
        clock.advance(timedelta(hours=1))
    return QualityReader(workspace.read.snapshot())


COUNT = CheckResult(name="row_count", passed=True, kind="row_count")
FOUND = reader(
    evaluated("1", BAD, COUNT, partition="day=d:2025-01-01"),
    evaluated("2", GOOD, partition="day=d:2025-01-02"),
    evaluated("3", BAD, COUNT, partition="day=d:2025-01-01"),
)


def test_the_status_is_that_of_each_partition() -> None:
    assert [(row.partition_key, row.check_id, row.status) for row in FOUND.status("A")] == [
        ("day=d:2025-01-01", "row_count", "passed"),
        ("day=d:2025-01-01", "unique(id)", "failed"),
        ("day=d:2025-01-02", "unique(id)", "passed"),
    ]
    assert len(FOUND.status("A", "day=d:2025-01-02")) == 1
    assert FOUND.status("B") == []


def test_results_are_newest_first() -> None:
    unique = FOUND.results("A", matches=lambda row: row.check_name == "unique(id)")
    assert [row.attempt_id for row in unique] == ["3", "2", "1"]
    counts = FOUND.results("A", matches=lambda row: row.check_id == "row_count", limit=1)
    assert [row.attempt_id for row in counts] == ["3"]
    late = FOUND.results("A", since=unique[1].evaluated_at)
    assert {row.attempt_id for row in late} == {"2", "3"}
    assert len(FOUND.of_attempt("A", "3")) == 2


def test_a_part_of_a_name_names_a_check() -> None:
    results = FOUND.results("A")
    assert find_check_name("unique(id)", "a.b", results) == "unique(id)"
    assert find_check_name("uni", "a.b", results) == "unique(id)"
    with pytest.raises(NotFound, match=r"more than one check of a\.b matches 'u'"):
        find_check_name("u", "a.b", results)
    assert find_check_name("zzz", "a.b", results) == ""
    with pytest.raises(NotFound, match=r"checks: row_count, unique\(id\)"):
        find_check_name("zzz", "a.b", results, last=True)


def test_a_failure_says_since_when() -> None:
    (row,) = [row for row in FOUND.status("A") if row.status == "failed"]
    assert status_reason(row) == "2 of 10 rows (since 2026-01-01 00:00, 2 times)"
    assert row.evaluated_at - cast(datetime, row.failing_since) == timedelta(hours=2)


def test_a_partition_is_named_with_or_without_its_tags() -> None:
    key = "day=d:2025-01-01,region=s:eu"
    for text in (None, key, "day=2025-01-01,region=eu", "region=eu"):
        assert is_partition(key, text)
    assert not is_partition(key, "region=us")
