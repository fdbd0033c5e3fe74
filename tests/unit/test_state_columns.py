from __future__ import annotations

import bisect
from typing import Any

import pyarrow as pa
import pytest

from arco.state.arrow_columns import values_of

COLUMNS = [
    pa.array(["", "a", "ä", "日本", "😀", "z" * 300], pa.string()),
    pa.array(["", "", ""], pa.string()),
    pa.array([-(1 << 63), -1, 0, (1 << 63) - 1], pa.int64()),
    pa.array([0, 1, 127, 128, 255], pa.uint8()),
]


@pytest.mark.parametrize("column", COLUMNS, ids=["text", "blank", "integers", "buckets"])
def test_values_are_what_arrow_says_in_every_slice(column: Any) -> None:
    for start in range(len(column) + 1):
        for length in range(len(column) - start + 1):
            part = column.slice(start, length)
            assert list(values_of(part)) == part.to_pylist()


def test_text_is_found_by_bisection() -> None:
    texts = sorted(["b", "ä", "a", "日本", "😀", "ab"])
    column = pa.array(["", *texts, "￿"], pa.string()).slice(1, len(texts))
    assert [bisect.bisect_left(values_of(column), text) for text in texts] == list(range(6))
