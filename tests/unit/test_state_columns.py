from __future__ import annotations

import bisect
import random
from typing import Any

import pyarrow as pa
import pytest

from arco.state.arrow_columns import Texts, values_of

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


def test_ids_are_found_among_texts_that_contain_them() -> None:
    """Also where one begins inside another, or goes over the end of one into the next."""
    rng = random.Random(7)
    for _ in range(200):
        texts = sorted("".join(rng.choices("ab", k=rng.choice((26, 27, 52)))) for _ in range(40))
        texts[10:12] = [texts[10]] * 2
        column = pa.array(["aa", *texts, "zz"], pa.string()).slice(1, len(texts))
        values = values_of(column)
        assert isinstance(values, Texts)
        start, end = rng.randrange(10), rng.randrange(20, len(texts) + 1)
        for text in (*texts, texts[3][1:] + texts[4][0], "b" * 26):
            expected = bisect.bisect_left(texts, text, start, end)
            is_there = text in texts[start:end]
            assert values.first(text, start, end) == (expected if is_there else end)


def test_an_id_is_found_after_empty_texts() -> None:
    texts = ["", "", "a" * 26, "b" * 30]
    column = Texts(pa.array(texts, pa.string()))
    assert [column.first(text, 0, 4) for text in texts[2:]] == [2, 3]
    assert [column.first(text, 1, 4) for text in texts[2:]] == [2, 3]
