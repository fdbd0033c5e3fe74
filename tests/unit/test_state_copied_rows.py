"""Rows from events: fields of one name are copied."""

from __future__ import annotations

import pytest
from msgspec import Struct

from arco.state.copied_rows import row_from
from arco.state.table import Row


class Sale(Struct, frozen=True):
    sku: str
    tags: tuple[str, ...] = ()
    note: str = "of the sale"


class Place(Struct, frozen=True):
    city: str
    note: str = "of the place"


class SaleRow(Row, frozen=True):
    sku: str
    number: int
    tags: list[str]
    city: str
    note: str
    comment: str = "none"


def test_fields_come_from_whoever_has_them_first_and_the_others_are_given() -> None:
    row = row_from(SaleRow, Sale("a", ("x", "y")), Place("Graz"), number=7)
    assert row == SaleRow("a", 7, ["x", "y"], "Graz", "of the sale", "none")


def test_what_is_given_wins() -> None:
    row = row_from(SaleRow, Sale("a"), Place("Graz"), number=7, note="mine", city="Linz")
    assert row == SaleRow("a", 7, [], "Linz", "mine", "none")


def test_a_field_that_nobody_has_is_missing() -> None:
    with pytest.raises(TypeError, match="number"):
        row_from(SaleRow, Sale("a"), Place("Graz"))
