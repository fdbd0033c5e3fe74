from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from servo.contract import canonical
from servo.errors import Invalid


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Inner(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag="inner"):
    some_value: int
    a_list: tuple[str, ...] = ()
    left_out: int | msgspec.UnsetType = msgspec.UNSET


class Outer(msgspec.Struct, frozen=True, omit_defaults=True):
    z: Inner
    a: Any = None


def test_structs_are_written_as_msgspec_writes_them_with_sorted_members() -> None:
    value = Outer(z=Inner(some_value=1, a_list=("é",)))
    expected = '{"z":{"aList":["é"],"kind":"inner","someValue":1}}'
    assert canonical.encode(value) == expected.encode()
    assert canonical.encode({"z": value.z}) == expected.encode()


def test_enum_members_are_their_values() -> None:
    assert canonical.encode([Colour.RED, Level.HIGH]) == b'["red",3]'


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (1.5, "$"),
        (1.0, "$"),
        (float("nan"), "$"),
        ([0, {"a": [1, -0.0]}], "$[1].a[1]"),
        (Outer(z=Inner(1), a={"x": 2.5}), "$.a.x"),
    ],
)
def test_floats_are_refused_with_their_path(value: object, path: str) -> None:
    with pytest.raises(Invalid) as error:
        canonical.encode(value)
    assert error.value.message.startswith(f"{path}: ")
    assert "float" in error.value.message
    assert "integer" in error.value.hint


class LooseText(str):
    pass


class Ratio(enum.Enum):
    HALF = 0.5


@pytest.mark.parametrize(
    "value",
    [
        {"a", "b"},
        Outer(z=Inner(1), a={"a", "b"}),
        frozenset("a"),
        b"bytes",
        Decimal("1.0"),
        dt.date(2025, 1, 15),
        dt.datetime(2025, 1, 15),
        object(),
        LooseText("x"),
        Ratio.HALF,
        msgspec.UNSET,
        msgspec.Raw(b"1"),
        range(3),
    ],
)
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(Invalid, match=r"\$.*has no canonical JSON"):
        canonical.encode(value)


@pytest.mark.parametrize("key", [1, None, True, 1.5, b"a", ("a",), Colour.RED, LooseText("a")])
def test_keys_must_be_plain_strings(key: object) -> None:
    with pytest.raises(Invalid, match="keys must be plain strings"):
        canonical.encode({"x": {key: 1, "red": 2}})
    with pytest.raises(Invalid, match="keys must be plain strings"):
        canonical.encode(Outer(z=Inner(1), a={key: 1, "red": 2}))


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63), 10**30])
def test_integers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(Invalid, match=r"\$\.n: .*beyond"):
        canonical.encode({"n": value})


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", {"\udc00": 1}, "\ud83d\ude00"])
def test_lone_surrogates_are_refused(value: object) -> None:
    with pytest.raises(Invalid, match="surrogate"):
        canonical.encode(value)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_is_bounded() -> None:
    deepest = nested(canonical.MAX_DEPTH)
    assert canonical.decode(canonical.encode(deepest)) == deepest
    with pytest.raises(Invalid, match="nested deeper"):
        canonical.encode(nested(canonical.MAX_DEPTH + 1))
    with pytest.raises(Invalid):
        canonical.decode(b"[" * 100_000)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(Invalid, match="contain itself"):
        canonical.encode(loop)


def test_decode_says_where_the_bytes_stop_being_canonical() -> None:
    with pytest.raises(Invalid, match="differs at byte 5"):
        canonical.decode(b'{"a":  1}')
