from __future__ import annotations

import copy
import enum
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from servo.contract.partition import PartitionKey, path_segment
from servo.errors import Invalid


class Text(str):
    pass


class Region(enum.StrEnum):
    EU = "eu"


class Stamp(datetime):
    """Like pandas.Timestamp: a datetime that knows more than a datetime."""


@pytest.mark.parametrize("value", [0.5, 1.0, float("nan"), float("inf")])
def test_floats_are_refused_with_a_way_out(value: Any) -> None:
    with pytest.raises(Invalid, match=r"dimension 'price'.*float") as error:
        PartitionKey({"price": value})
    assert "integer" in error.value.hint


@pytest.mark.parametrize("value", [b"x", [], {}, (), 1j, Text("x"), Region.EU, Stamp(2025, 1, 1)])
def test_other_types_and_subclasses_are_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="cannot be a partition key"):
        PartitionKey({"k": value})


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1])
def test_integers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(Invalid, match="64 bits"):
        PartitionKey({"k": value})


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "a\n", "é", "n" * 129])
def test_bad_dimension_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="partition dimension"):
        PartitionKey({name: 1})


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(Invalid, match="surrogate"):
        PartitionKey({"k": "a\ud800"})


def test_aware_timestamps_are_converted_and_naive_ones_are_utc() -> None:
    naive = datetime(2025, 1, 15, 6)
    aware = datetime(2025, 1, 15, 11, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert PartitionKey({"t": naive}) == PartitionKey({"t": aware})
    assert PartitionKey({"t": aware}).dimensions == {"t": naive}
    assert PartitionKey({"t": naive.replace(fold=1)}) == PartitionKey({"t": naive})


def test_a_timestamp_that_utc_cannot_hold_is_refused() -> None:
    first = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))
    with pytest.raises(Invalid, match="outside the years"):
        PartitionKey({"t": first})
    assert str(PartitionKey({"t": datetime.max.replace(tzinfo=UTC)})).startswith("t=t:9999-12-31")


def test_values_that_python_calls_equal_are_different_keys() -> None:
    values: list[Any] = [True, 1, "1", "true", None, "null", "", False, 0]
    values += [date(2025, 1, 1), datetime(2025, 1, 1), "2025-01-01"]
    assert len({PartitionKey({"k": v}) for v in values}) == len(values)


def test_the_empty_key_is_the_unpartitioned_one() -> None:
    assert PartitionKey() == PartitionKey({}) == PartitionKey.parse("")
    assert str(PartitionKey()) == ""
    assert path_segment(PartitionKey()) == "_"


def test_dimensions_are_sorted_and_cannot_be_changed() -> None:
    key = PartitionKey({"b": 1, "a": 2})
    assert list(key.dimensions) == ["a", "b"]
    with pytest.raises(TypeError):
        key.dimensions["a"] = 3  # type: ignore[index]


def test_the_callers_mapping_is_not_kept() -> None:
    mine: dict[str, Any] = {"a": 1}
    key = PartitionKey(mine)
    mine["a"] = 2
    assert key.dimensions == {"a": 1}


def test_keys_survive_pickle_and_copy() -> None:
    key = PartitionKey({"a": "é", "b": datetime(2025, 1, 1)})
    assert pickle.loads(pickle.dumps(key)) == copy.deepcopy(key) == key
    assert eval(repr(key)) == key


def test_keys_compare_only_with_keys() -> None:
    assert PartitionKey({"a": 1}) != "a=i:1"
    with pytest.raises(TypeError):
        _ = PartitionKey({"a": 1}) < "a=i:1"


def test_the_refusal_of_another_spelling_shows_the_right_one() -> None:
    with pytest.raises(Invalid, match="write 'a=i:2,b=i:1'"):
        PartitionKey.parse("b=i:1,a=i:2")
    with pytest.raises(Invalid, match="floats cannot"):
        PartitionKey.parse("a=f:1.5")
    with pytest.raises(Invalid, match=r"write it like t:2025-01-15T06:00:00\.000000Z"):
        PartitionKey.parse("a=t:2025-01-15T06:00:00Z")
    with pytest.raises(Invalid, match="appears twice"):
        PartitionKey.parse("a=i:1,a=i:2")
    with pytest.raises(Invalid, match="does not exist"):
        PartitionKey.parse("a=d:2025-02-29")
