"""Declaring tables, and carrying rows to columns and back."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from arco.errors import Invalid
from arco.state.table import History, Row, Table, bucket_of, shard_text

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456)


class Everything(Row, frozen=True):
    name: str
    number: int
    yes: bool
    share: float
    blob: bytes
    at: datetime
    day: date
    maybe: str | None
    words: list[str]
    tags: dict[str, str]
    extra: str = "default"


TABLE = Table("test", "everything", Everything, key=["name", "number"])
ROW = Everything(
    "é", -5, True, 0.5, b"\x00\xff", NOW, date(2026, 1, 2), None, ["b", "a"], {"k": "v", "a": "b"}
)


def test_rows_and_tombstones_survive_the_journey() -> None:
    rows: dict[Any, Any] = {("é", -5): (7, ROW), ("gone", 1): (8, None)}
    assert TABLE.versioned(TABLE.to_arrow(rows)) == rows


def test_file_order_is_bucket_then_key() -> None:
    rows: dict[Any, Any] = {(f"n{i}", j): (1, None) for i in range(40) for j in (2, 1)}
    table = TABLE.to_arrow(rows)
    buckets = table.column("_bucket").to_pylist()
    keys = list(zip(table["name"].to_pylist(), table["number"].to_pylist(), strict=True))
    order = list(zip(buckets, keys, strict=True))
    assert order == sorted(order)
    assert all(b == TABLE.bucket(k) for b, k in order)


def test_bucket_is_the_same_in_every_language() -> None:
    # zlib's CRC-32, low byte; the browser computes it too.
    found = [bucket_of(t) for t in ("", "sales", "é", "01KDVDNA00YPRPA8JAB2VS3WES")]
    assert found == [0, 68, 62, 105]
    assert TABLE.bucket(("sales", 1)) == TABLE.bucket(("sales", 2)) == 68


def test_integers_and_several_columns_make_a_shard_key_too() -> None:
    both = Table("test", "both", Everything, key=["name", "number"], shard=2)
    assert both.shard_text(("a", 3)) == shard_text(("a", 3)) == "a\x1f3"
    assert both.bucket(("a", 3)) == bucket_of("a\x1f3")


def test_columns_that_a_file_does_not_have_yet_get_their_defaults() -> None:
    old = TABLE.to_arrow({("é", -5): (7, ROW)}).drop_columns(["extra"])
    ((_, (version, row)),) = TABLE.versioned(old).items()
    assert (version, row) == (7, ROW)
    assert TABLE.row_at(old.combine_chunks().to_batches()[0], 0) == ROW


def test_single_rows_are_read_as_they_were_written() -> None:
    other = msgspec.structs.replace(
        ROW, name="", number=3, maybe="x", at=datetime(1969, 12, 31, 23, 59, 59, 1), extra="ü" * 300
    )
    rows: dict[Any, Any] = {("é", -5): (7, ROW), ("", 3): (8, other)}
    whole = TABLE.to_arrow(rows).combine_chunks().to_batches()[0]
    for batch in (whole, whole.slice(1)):  # one that begins in the middle of its buffers, too
        read = TABLE.reader(batch)
        for i in range(batch.num_rows):
            key = (batch.column("name")[i].as_py(), batch.column("number")[i].as_py())
            assert read(i, key) == TABLE.row_at(batch, i) == rows[key][1]


def test_number_that_its_column_cannot_hold_is_invalid() -> None:
    TABLE.check(msgspec.structs.replace(ROW, number=2**63 - 1))
    with pytest.raises(Invalid, match=r"test\.everything\.number"):
        TABLE.check(msgspec.structs.replace(ROW, number=2**63))
    with pytest.raises(Invalid):
        TABLE.check(msgspec.structs.replace(ROW, number=-(2**63) - 1))


def test_key_must_be_the_leading_columns() -> None:
    with pytest.raises(Invalid, match="first columns"):
        Table("test", "t", Everything, key=["number"])


@pytest.mark.parametrize("shard", [0, 3])
def test_shard_key_must_be_part_of_the_key(shard: int) -> None:
    with pytest.raises(Invalid, match="shard"):
        Table("test", "t", Everything, key=["name", "number"], shard=shard)


def test_key_columns_are_text_or_integers() -> None:
    with pytest.raises(Invalid, match="text or integers"):
        Table("test", "t", Everything, key=["name", "number", "yes"])


def test_column_of_an_unknown_type_is_refused() -> None:
    class Odd(Row, frozen=True):
        name: str
        what: complex

    with pytest.raises(Invalid, match="complex"):
        Table("test", "t", Odd, key=["name"])


def test_timestamps_have_no_zone() -> None:
    assert TABLE.schema.field("at").type == pa.timestamp("us")


def test_row_leaves_once_its_time_is_strictly_older() -> None:
    history = History("at", timedelta(days=1))
    assert not history.has_left(ROW, NOW + timedelta(days=1))
    assert history.has_left(ROW, NOW + timedelta(days=1, microseconds=1))
    assert not History("maybe", timedelta(days=1)).has_left(ROW, datetime.max)
