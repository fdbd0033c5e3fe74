"""Columns of few different values are the same as columns of many."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from arco.log.arrays import FEW, array_of

NOON = datetime(2026, 1, 1, 12, 0, 0, 1)
MANY = 10 * FEW
MOMENTS = [NOON + timedelta(seconds=n // FEW) for n in range(MANY)]


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["a"] * MANY, pa.string()),
        ([None] * MANY, pa.string()),
        (["a", *["b"] * MANY, "a"], pa.string()),
        ([7] * MANY, pa.int64()),
        ([*[7] * MANY, None], pa.int64()),
        (MOMENTS, pa.timestamp("us")),
        ([*MOMENTS, *reversed(MOMENTS)], pa.timestamp("us")),
        ([None, *MOMENTS, None, None, *MOMENTS, None], pa.timestamp("us")),
        ([None if n % 2 else NOON for n in range(MANY)], pa.timestamp("us")),
        ([NOON + timedelta(microseconds=n) for n in range(MANY)], pa.timestamp("us")),
        ([m.replace(tzinfo=UTC) for m in MOMENTS], pa.timestamp("us")),
        ([["a"]] * MANY, pa.list_(pa.string())),
        ([], pa.string()),
        ([NOON], pa.timestamp("us")),
    ],
    ids=str,
)
def test_column_is_what_arrow_makes_of_the_values(values: list[Any], type: pa.DataType) -> None:
    assert array_of(values, type).equals(pa.array(values, type))
    assert array_of(tuple(values), type).equals(pa.array(values, type))


def test_zero_keeps_its_sign() -> None:
    values = [0.0] * MANY + [-0.0] + [0.0] * MANY
    assert math.copysign(1.0, array_of(values, pa.float64())[MANY].as_py()) == -1.0
