from __future__ import annotations

import msgspec
import pytest

from servo.contract import keys
from servo.contract.keys import AssetKey
from servo.errors import Invalid

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def test_the_error_says_which_part_is_wrong_and_how_to_write_it() -> None:
    with pytest.raises(Invalid, match="'Raw' is not a valid namespace") as error:
        AssetKey.parse("Raw.orders")
    assert "a-z first" in error.value.hint
    with pytest.raises(Invalid, match="not a valid asset name"):
        AssetKey.parse("raw.orders.v2")
    with pytest.raises(Invalid, match=r"write namespace\.name"):
        AssetKey.parse("orders")


def test_a_huge_name_does_not_flood_the_error() -> None:
    with pytest.raises(Invalid) as error:
        AssetKey("a" * 10_000, "b")
    assert len(str(error.value)) < 200


def test_keys_are_checked_when_they_are_decoded() -> None:
    assert msgspec.json.decode(b'{"namespace":"a","name":"b"}', type=AssetKey) == AssetKey("a", "b")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"namespace":"a","name":"B"}', type=AssetKey)


def test_keys_can_be_members_of_sets() -> None:
    assert {AssetKey("a", "b"), AssetKey.parse("a.b")} == {AssetKey("a", "b")}


def test_ids_must_be_ulids() -> None:
    assert keys.asset_id(ULID) == ULID
    with pytest.raises(Invalid, match="is not a valid asset id"):
        keys.asset_id("a_00042")
