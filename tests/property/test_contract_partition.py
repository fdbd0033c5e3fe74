from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta, timezone
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.contract.identity import task_id
from servo.contract.keys import AssetId, AssetKey
from servo.contract.partition import MAX_INT, MIN_INT, PartitionKey, path_segment
from servo.errors import Invalid

names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
zones = st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
texts = st.text(st.characters(codec="utf-8")) | st.text(",=/%:.~ -+\x00é\u0301", max_size=6)
near = st.sampled_from([True, False, 0, 1, -1, None, "0", "1", "true", "null", "", "2000-01-01"])
kinds: list[st.SearchStrategy[Any]] = [
    st.booleans(),
    texts,
    st.integers(MIN_INT, MAX_INT),
    st.integers(-3, 3),
    st.dates(),
    st.datetimes(),
]
scalars: st.SearchStrategy[Any] = st.one_of(near, *kinds)
dimensions = st.dictionaries(names, scalars, max_size=4)
few = st.dictionaries(st.sampled_from(["a", "aa", "b"]), scalars, max_size=3)
keys = few.map(PartitionKey)

ASSET = AssetId("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def typed(values: Any) -> set[tuple[str, type, Any]]:
    """Dimensions as Python tells them apart once bool, int, date and datetime are not mixed."""
    return {(name, type(value), value) for name, value in values.items()}


@given(dimensions)
def test_parse_is_the_inverse_of_str(values: dict[str, Any]) -> None:
    key = PartitionKey(values)
    again = PartitionKey.parse(str(key))
    assert again == key
    assert hash(again) == hash(key)
    assert typed(again.dimensions) == typed(values)
    assert str(again) == str(key)


@given(dimensions, st.data())
def test_the_order_of_dimensions_given_does_not_matter(
    values: dict[str, Any], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(list(values)))
    assert str(PartitionKey({name: values[name] for name in order})) == str(PartitionKey(values))


@given(few, few)
def test_different_dimensions_have_different_keys_segments_and_ids(
    a: dict[str, Any], b: dict[str, Any]
) -> None:
    x, y = PartitionKey(a), PartitionKey(b)
    same = typed(a) == typed(b)
    assert (x == y) == same
    assert (str(x) == str(y)) == same
    assert (path_segment(x) == path_segment(y)) == same
    assert (task_id(ASSET, x, "v") == task_id(ASSET, y, "v")) == same


@given(dimensions)
def test_texts_are_plain_ascii(values: dict[str, Any]) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._~%=:,-]*", str(PartitionKey(values)))


@given(st.dictionaries(names, texts, max_size=4) | dimensions)
def test_segments_are_safe_in_any_path(values: dict[str, Any]) -> None:
    segment = path_segment(PartitionKey(values))
    assert re.fullmatch(r"[A-Za-z0-9._~=:,-]{1,200}", segment)
    assert ".." not in segment
    assert segment != "."


@given(st.datetimes(), zones)
def test_one_instant_is_one_key_in_every_zone(instant: Any, zone: timezone) -> None:
    utc = instant.replace(tzinfo=timezone.utc)  # noqa: UP017
    try:
        local = utc.astimezone(zone)
    except OverflowError:
        return  # this zone has no such year
    assert PartitionKey({"t": local}) == PartitionKey({"t": instant})


@given(names, st.floats())
def test_floats_are_refused(name: str, value: Any) -> None:
    with pytest.raises(Invalid, match="float"):
        PartitionKey({name: value})


@given(dimensions, st.data())
def test_a_mutated_text_is_refused_or_is_the_text_of_another_key(
    values: dict[str, Any], data: st.DataObject
) -> None:
    text = str(PartitionKey(values))
    at = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.text("0123456789abTZ=:,%+- .\n_é", max_size=2))
    mutated = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]
    try:
        key = PartitionKey.parse(mutated)
    except Invalid:
        return
    assert str(key) == mutated
    assert (key == PartitionKey(values)) == (mutated == text)


MUTATIONS: dict[str, Callable[[str], str]] = {
    "lower-case escapes": lambda t: re.sub("%..", lambda m: m[0].lower(), t),
    "needless escapes": lambda t: re.sub(r"(?<=s:)[A-Za-z0-9]", lambda m: f"%{ord(m[0]):02X}", t),
    "decoded escapes": lambda t: re.sub("%2[0-9A-F]", lambda m: chr(int(m[0][1:], 16)), t),
    "reversed dimensions": lambda t: ",".join(reversed(t.split(","))),
    "a dimension twice": lambda t: f"{t},{t}",
    "leading zeros": lambda t: re.sub(r"i:(-?)", r"i:\g<1>0", t),
    "plus signs": lambda t: re.sub(r"i:(?=\d)", "i:+", t),
    "milliseconds": lambda t: re.sub(r"\.(\d{3})\d{3}Z", r".\1Z", t),
    "an offset for Z": lambda t: re.sub(r"(\.\d{6})Z", r"\1+00:00", t),
    "capitals": lambda t: t.replace("true", "True").replace("null", "NULL"),
    "blanks": lambda t: t.replace(",", ", "),
    "escaped once more": lambda t: quote(t, safe=",=:-._~"),
}
# Inside a string these may spell the text of another key, and rightly so.
AMBIGUOUS = {"decoded escapes", "milliseconds", "capitals", "escaped once more"}


@pytest.mark.parametrize("mutation", MUTATIONS)
@given(values=dimensions)
def test_other_spellings_of_a_key_are_refused(mutation: str, values: dict[str, Any]) -> None:
    text = str(PartitionKey(values))
    other = MUTATIONS[mutation](text)
    if other == text:
        return
    if mutation in AMBIGUOUS and "s:" in text:
        with suppress(Invalid):
            assert str(PartitionKey.parse(other)) == other
    else:
        with pytest.raises(Invalid):
            PartitionKey.parse(other)


@given(st.lists(keys, max_size=8), st.data())
def test_the_order_is_total_and_does_not_depend_on_arrival(
    some: list[PartitionKey], data: st.DataObject
) -> None:
    assert sorted(data.draw(st.permutations(some))) == sorted(some)


@given(keys, keys, keys)
def test_comparisons_agree_with_each_other(
    a: PartitionKey, b: PartitionKey, c: PartitionKey
) -> None:
    assert [a < b, a == b, a > b].count(True) == 1
    assert (a <= b) == (a < b or a == b)
    assert (a >= b) == (not a < b)
    if a < b and b < c:
        assert a < c


@given(st.sampled_from(kinds).flatmap(lambda kind: st.tuples(kind, kind)))
def test_values_of_one_kind_sort_by_value(pair: tuple[Any, Any]) -> None:
    a, b = pair
    assert (PartitionKey({"k": a}) < PartitionKey({"k": b})) == (a < b)


@given(names, names, names, names)
def test_asset_keys_round_trip_and_sort_as_their_texts(a: str, b: str, c: str, d: str) -> None:
    x, y = AssetKey(a, b), AssetKey(c, d)
    assert AssetKey.parse(str(x)) == x
    assert (x < y) == (str(x) < str(y))
