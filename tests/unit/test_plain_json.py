"""Documents of structs, whatever their fields are declared to hold."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from arco.plain_json import plain


class Color(enum.StrEnum):
    RED = "red"


class Inner(msgspec.Struct, frozen=True):
    at: datetime


class Nothing(msgspec.Struct, frozen=True):
    pass


class Tagged(msgspec.Struct, frozen=True, tag="t"):
    name: str


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    asset_key: str
    count: int
    color: Color
    reason: str | None = None
    share: float = float("nan")
    at: datetime | None = None
    inner: list[Inner] = []
    anything: Any = None
    left_out: str | UnsetType = UNSET
    one: Tagged | Nothing = Nothing()


def test_fields_are_as_json_has_them_under_their_documented_names() -> None:
    time = datetime(2026, 1, 31)
    row = Outer(
        asset_key="a.b",
        count=1,
        color=Color.RED,
        at=time,
        inner=[Inner(time)],
        anything={"x": (time,)},
        one=Tagged("n"),
    )
    text = "2026-01-31T00:00:00.000000Z"
    assert msgspec.json.decode(msgspec.json.encode(plain(row))) == {
        "asset": "a.b",
        "count": 1,
        "color": "red",
        "reason": None,
        "share": None,
        "at": text,
        "inner": [{"at": text}],
        "anything": {"x": [text]},
        "one": {"type": "t", "name": "n"},
    }


def test_structs_of_no_field_and_of_one_are_documents_too() -> None:
    assert plain([Nothing(), Inner(datetime(2026, 1, 1))]) == [
        {},
        {"at": "2026-01-01T00:00:00.000000Z"},
    ]
