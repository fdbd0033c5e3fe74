"""Values as JSON has them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from arco.plain_json import plain


class _Line(msgspec.Struct):
    asset_key: str
    day: str | UnsetType = UNSET
    run_id: str | None = None


def test_a_field_that_is_not_set_is_left_out() -> None:
    assert plain(_Line(asset_key="a.b")) == {"asset": "a.b", "run_id": None}
    assert plain([_Line(asset_key="a.b", day="2026-01-01")]) == [
        {"asset": "a.b", "day": "2026-01-01", "run_id": None}
    ]
