from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.errors import Invalid
from arco.storage import keys

SEGMENTS = st.text(min_size=1, max_size=40)


def test_whole_key_is_limited_to_what_clouds_take() -> None:
    keys.check_key("/".join(["x" * 127] * 8))
    with pytest.raises(Invalid):
        keys.check_key("/".join(["x" * 128] * 8))


@pytest.mark.parametrize(
    "key", ["a", "a/b", "...", ".hidden", "a/..b", "a/b..", ".tmp", "%zz", "é"]
)
def test_odd_but_harmless_key_is_accepted(key: str) -> None:
    keys.check_key(key)


@given(st.lists(SEGMENTS, min_size=1, max_size=5))
def test_accepted_key_stays_below_its_root(segments: list[str]) -> None:
    key = "/".join(segments)
    try:
        keys.check_key(key)
    except Invalid:
        return
    parts = key.split("/")
    assert not {"", ".", ".."} & set(parts)
    assert all(len(part.encode()) <= 255 for part in parts)
    assert "\\" not in key
    assert "\0" not in key


@given(st.lists(SEGMENTS, min_size=1, max_size=5), st.integers(0, 200))
def test_every_beginning_of_a_key_is_a_prefix(segments: list[str], cut: int) -> None:
    key = "/".join(segments)
    try:
        keys.check_key(key)
    except Invalid:
        return
    beginning = key[:cut]
    if beginning.rpartition("/")[2] in (".", ".."):
        return  # refused on purpose: it looks like a way out
    keys.check_prefix(beginning)
