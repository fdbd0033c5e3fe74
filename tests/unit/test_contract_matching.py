"""Which dimensions a mapping can match: validation and planning ask the same functions."""

from __future__ import annotations

from typing import Any

import pytest

from servo.contract.manifest import Identity, TimeDimension, TimeWindow, Window
from servo.contract.matching import Mismatch, are_in_step, unit_mismatch, window_mismatch


@pytest.mark.parametrize(
    ("rule", "source", "mismatch"),
    [
        (Identity(), None, None),
        (Window(-1, 0), "day", None),
        (Window(-1, 0), None, Mismatch.NOT_TIME),
        (TimeWindow(), None, Mismatch.NOT_TIME),
        (Window(1, 0), "day", Mismatch.REVERSED),
    ],
)
def test_windows_are_over_periods_and_end_after_they_start(
    rule: Any, source: Any, mismatch: Mismatch | None
) -> None:
    assert window_mismatch(rule, source) is mismatch


@pytest.mark.parametrize(
    ("rule", "source", "own", "mismatch"),
    [
        (Identity(), None, None, None),
        (Identity(), "day", None, Mismatch.ONE_OF_TIME),
        (Identity(), None, "day", Mismatch.ONE_OF_TIME),
        (Identity(), "day", "month", None),
        (Window(0, 0), "day", "month", Mismatch.OTHER_UNIT),
        (TimeWindow(), "week", "month", Mismatch.UNNESTED),
        (TimeWindow(), "hour", "day", Mismatch.OUT_OF_STEP),
        (TimeWindow(), "day", "week", None),
    ],
)
def test_units_are_equal_or_nested_and_hours_in_step(
    rule: Any, source: Any, own: Any, mismatch: Mismatch | None
) -> None:
    assert unit_mismatch(rule, source, own, lambda: False) is mismatch


@pytest.mark.parametrize(
    ("start", "zone", "in_step"),
    [
        ("2025-01-01T00:00", "UTC", True),
        ("2025-01-01T00:00", "Europe/Berlin", True),
        ("2025-01-01T00:00", "Asia/Kolkata", False),
        ("2025-01-01T00:30", "Asia/Kolkata", True),
        ("2025-01-01T00:30", "UTC", False),
        ("2025-01-01T00:00+05:30", "UTC", False),
    ],
)
def test_hours_begin_when_their_start_does(start: str, zone: str, in_step: bool) -> None:
    hours = TimeDimension(name="at", every="hour", start=start, timezone=zone)
    days = TimeDimension(name="date", every="day", start="2025-01-01", timezone="UTC")
    assert are_in_step(hours, days) is in_step
    assert are_in_step(days, hours) is in_step
