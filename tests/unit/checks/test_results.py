"""What a result of a check says, and what the gating makes of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from servo.check import (
    in_range,
    matches,
    not_null,
    row_count,
    unique,
)
from servo.contract.manifest import Gating
from servo.contract.task import CheckResult
from tests.kit.checked_files import ORDERS, Files, told


def test_a_result_says_what_was_expected_and_what_was_found(files: Files) -> None:
    (found,) = files.results(files.put("shop.orders", ORDERS), unique("id", severity="critical"))
    assert msgspec.structs.replace(found, wall_ms=0, sample=()) == CheckResult(
        name="unique(id)",
        passed=False,
        severity="critical",
        message="Id is a duplicate in 1 of 5 rows",
        kind="unique",
        columns=("id",),
        status="failed",
        action="fail_run",
        expected="no two rows with the same Id",
        actual="1 of 5 rows",
        rows=5,
        failing=1,
        method="duckdb",
    )
    assert {json.loads(each)["Id"] for each in found.sample} == {2}


def test_results_keep_the_order_of_the_checks(files: Files) -> None:
    checks = [
        unique("id"),
        row_count(min=1),
        matches("email", ".+@.+"),
        not_null("id"),
        in_range("amount", min=1, max=4),
    ]
    found = files.results(files.put("shop.orders", ORDERS), *checks)
    assert told(found) == {
        "unique(id)": ("failed", "duckdb", 1),
        "row_count": ("passed", "footer", None),
        "matches(email)": ("failed", "duckdb", 1),
        "not_null(id)": ("failed", "footer", 1),
        "in_range(amount)": ("passed", "footer", 0),
    }
    assert [each.name for each in found] == [check.name for check in checks]


@pytest.mark.parametrize(
    ("gating", "severity", "action"),
    [
        (Gating(), "info", "continue"),
        (Gating(), "error", "block"),
        (Gating(preset="quarantine"), "critical", "quarantine"),
        (Gating(warning="fail_task"), "warning", "fail_task"),
    ],
)
def test_gating_turns_a_failure_into_an_action(
    files: Files, gating: Gating, severity: Any, action: str
) -> None:
    ref = files.put("shop.orders", ORDERS)
    bad, good = files.results(
        ref,
        row_count(max=1, severity=severity, name="bad"),
        row_count(max=9, severity=severity, name="good"),
        gating=gating,
    )
    assert (bad.action, good.action) == (action, "continue")


def test_a_check_of_an_input_says_which(files: Files) -> None:
    ref = msgspec.structs.replace(files.put("raw.orders", ORDERS), parameter="yesterday")
    before, after = files.results(ref, row_count(min=1, phase="before"), row_count(min=1))
    assert (before.phase, before.input, before.parameter) == ("before", "raw.orders", "yesterday")
    assert (after.phase, after.input, after.parameter) == ("after", "", "")
