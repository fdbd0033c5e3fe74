from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.contract import ulid
from servo.errors import Invalid

values = st.integers(0, ulid.MAX)


@given(values)
def test_text_and_value_are_inverse(value: int) -> None:
    assert ulid.decode(ulid.encode(value)) == value


@given(values, values)
def test_texts_sort_as_their_values(a: int, b: int) -> None:
    assert (ulid.encode(a) < ulid.encode(b)) == (a < b)


@given(st.one_of(st.text(), st.text(ulid.ALPHABET, min_size=26, max_size=26)))
def test_any_text_is_refused_or_is_the_only_spelling_of_its_value(text: str) -> None:
    if ulid.is_ulid(text):
        assert ulid.encode(ulid.decode(text)) == text
    else:
        with pytest.raises(Invalid):
            ulid.decode(text)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=30),
    st.lists(st.sampled_from([0, 1, (1 << 20) - 2, (1 << 80) - 2, (1 << 80) - 1]), min_size=60),
)
def test_ids_rise_for_any_clock_and_any_randomness(clock: list[int], randomness: list[int]) -> None:
    times, parts = iter(clock), iter(randomness)
    make = ulid.UlidFactory(lambda: next(times), lambda n: next(parts).to_bytes(n, "big"))
    made = [ulid.decode(make()) for _ in clock]
    assert all(a < b for a, b in pairwise(made))
    assert all(value >> 80 >= ms for value, ms in zip(made, clock, strict=True))
