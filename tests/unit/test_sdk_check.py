"""What a check's declaration keeps."""

from __future__ import annotations

from datetime import timedelta

import pytest

from servo.check import CheckDefinition, check, not_null, row_count
from servo.context import AssetIn
from servo.contract.manifest import Check
from servo.errors import Misdeclared


def test_a_time_out_is_kept_in_seconds() -> None:
    assert row_count(min=1, timeout="10m") == Check(
        kind="row_count", name="row_count", params={"min": "1"}, timeout_s=600
    )
    assert not_null("x", timeout=timedelta(seconds=5)).timeout_s == 5
    assert not_null("x").timeout_s == 0


def test_a_python_check_has_a_time_out_too() -> None:
    @check(timeout=30)
    def mine(data: AssetIn) -> bool:
        return True

    assert mine.check.timeout_s == 30


@pytest.mark.parametrize("timeout", ["soon", 0, -1])
def test_a_time_out_is_a_length_of_time(timeout: str | int) -> None:
    with pytest.raises(Misdeclared, match=r"row_count: .*timeout"):
        row_count(min=1, timeout=timeout)


def test_a_bare_decorator_makes_a_check_of_its_function() -> None:
    @check
    def positive(data: AssetIn) -> bool:
        return True

    assert isinstance(positive, CheckDefinition)
    assert (positive.check.kind, positive.check.name) == ("python", "positive")
