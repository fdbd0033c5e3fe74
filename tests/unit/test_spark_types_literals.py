"""Texts in SQL: right whatever the session's parser makes of backslashes, quotes and `${}`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.spark.template import literal


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_text_is_quoted_only_where_every_parser_reads_it_alike(value: str) -> None:
    text = literal(value)
    if text.startswith("CAST"):
        spelled = text.removeprefix("CAST(X'").removesuffix("' AS STRING)")
        assert bytes.fromhex(spelled).decode() == value
    else:
        assert text == f"'{value}'"
        assert not set(value) & set("'\\$\n\r\0")


@pytest.mark.parametrize("value", ["it's", "a\\", "${spark.app.name}", "'; SELECT 1 --", "a\nb"])
def test_what_settings_give_a_meaning_to_is_spelled_in_bytes(value: str) -> None:
    assert literal(value) == f"CAST(X'{value.encode().hex().upper()}' AS STRING)"
