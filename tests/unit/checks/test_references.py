"""Checks of references to another asset."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from servo.check import (
    references,
)
from servo.contract.task import InputRef
from tests.kit.checked_files import ORDERS, Files


def test_orphans_are_found_and_shown(files: Files) -> None:
    ref, known = files.put("shop.orders", ORDERS), files.put("shop.known", pa.table({"K": [1, 2]}))
    (found,) = files.results(ref, references("id", "shop.known.k"), references=(known,))
    assert (found.failing, found.expected) == (1, "in shop.known.K")
    assert found.message == "Id is missing from shop.known.K in 1 of 5 rows"
    assert [json.loads(each)["Id"] for each in found.sample] == [5]


def test_a_reference_may_be_the_partition_of_the_other(files: Files) -> None:
    ref = files.put("a.b", pa.table({"region": ["eu", "us", None]}))
    known = files.put("a.regions", pa.table({"x": [1]}), partition="region=s:eu")
    (found,) = files.results(ref, references("region", "a.regions.region"), references=(known,))
    assert found.failing == 1


def test_columns_of_any_name_do_not_get_in_the_way_of_references(files: Files) -> None:
    names = ["_k", "_key", "__K"]
    table = pa.table({**{name: ["k1", "k2", "k1"] for name in names}, "cid": ["no", "k2", None]})
    known = files.put("a.known", pa.table({"id": ["k1", "k2"], "_key": ["no", "no"]}))
    (found,) = files.results(
        files.put("a.b", table), references("cid", "a.known.id"), references=(known,)
    )
    assert (found.status, found.failing) == ("failed", 1)
    row = {"cid": "no", "_k": "k1", "_key": "k1", "__K": "k1"}
    assert [json.loads(each) for each in found.sample] == [row]


@pytest.mark.parametrize("known", [(), (InputRef(asset="shop.known"),)])
def test_without_the_other_asset_a_reference_is_an_error(files: Files, known: Any) -> None:
    ref = files.put("shop.orders", ORDERS)
    (found,) = files.results(ref, references("id", "shop.known.k"), references=known)
    assert (found.status, found.message) == ("error", "shop.known has no data yet")
    assert found.action == "block"
