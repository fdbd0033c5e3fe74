"""Footers: read from the end of files, and believed only where they are exact."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.errors import Corrupt
from arco.storage import footers as stored
from arco.storage.footers import NAN_METADATA, nan_columns, nan_metadata
from arco.storage.memory import MemoryStore
from arco.worker.footers import (
    Footer,
    Statistics,
    columns_of,
    read_footers,
    schema_hash,
    statistics_of,
)
from arco.worker.output import tables_of, write
from arco.worker.secrets import Redactor
from tests.kit.clocks import SimClock


class Counting(MemoryStore):
    """Notes how much was read."""

    def __init__(self) -> None:
        super().__init__(SimClock())
        self.ranges: list[int] = []

    def get_range(self, path: str, start: int, length: int) -> bytes:
        self.ranges.append(length)
        return self.get(path).data[start : start + length]


def parquet(table: pa.Table, **options: Any) -> bytes:
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, **options)
    return bytes(buffer.getvalue().to_pybytes())


def footer(table: pa.Table, **options: Any) -> Footer:
    data = parquet(table, **options)
    return Footer("f.parquet", len(data), pq.read_metadata(pa.BufferReader(data)))


def test_only_the_end_of_a_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Counting()
    table = pa.table({f"column{i}": range(10_000) for i in range(4)})
    store.put("out/b.parquet", parquet(table))
    store.put("out/a.parquet", parquet(table.slice(0, 5)))
    store.put("out/_note.txt", b"x")
    found = read_footers(store, "out")
    assert [(f.path, f.metadata.num_rows) for f in found] == [
        ("out/a.parquet", 5),
        ("out/b.parquet", 10_000),
    ]
    assert max(store.ranges) <= stored.TAIL_BYTES < found[1].size
    store.ranges.clear()
    monkeypatch.setattr(stored, "TAIL_BYTES", 16)
    assert read_footers(store, "out")[1].metadata.equals(found[1].metadata)
    assert store.ranges[0] == 16
    assert len(store.ranges) == 4


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all", b"\xff" * 8 + b"PAR1"])
def test_what_is_no_parquet_is_corrupt(data: bytes) -> None:
    store = Counting()
    store.put("out/a.parquet", data)
    with pytest.raises(Corrupt, match=r"out/a\.parquet"):
        read_footers(store, "out")


def test_statistics_go_over_all_files_and_groups() -> None:
    found = statistics_of(
        [
            footer(pa.table({"x": [5, None, 7], "s": ["b", "c", None]}), row_group_size=1),
            footer(pa.table({"x": [1], "s": ["a"]})),
            footer(pa.table({"x": pa.array([], pa.int64()), "s": pa.array([], pa.string())})),
        ]
    )
    assert found == {"x": Statistics(4, 1, 1, 7), "s": Statistics(4, 1, "a", "c")}


def test_bounds_are_values_of_their_types() -> None:
    table = pa.table(
        {
            "d": [date(2025, 1, 1)],
            "t": pa.array([datetime(2025, 1, 1)], pa.timestamp("us")),
            "m": pa.array([Decimal("1.50")], pa.decimal128(20, 2)),
            "b": [True],
            "u": pa.array([1 << 63], pa.uint64()),
        }
    )
    assert {name: s.least for name, s in statistics_of([footer(table)]).items()} == {
        "d": date(2025, 1, 1),
        "t": datetime(2025, 1, 1),
        "m": Decimal("1.50"),
        "b": True,
        "u": 1 << 63,
    }


def test_columns_inside_of_others_do_not_lend_their_bounds() -> None:
    struct = pa.array(
        [{"b": 1, "c": [1, 2]}], pa.struct({"b": pa.int64(), "c": pa.list_(pa.int64())})
    )
    table = pa.table({"a": struct, "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
                      "a.b": [7]})  # fmt: skip
    assert statistics_of([footer(table)]) == {"a.b": Statistics(1, 0, 7, 7)}


def test_floats_have_bounds_only_if_their_writer_looked_for_nan() -> None:
    table = pa.table({"f": [1.0, math.nan], "g": [1.0, 2.0]})
    unmarked = statistics_of([footer(table)])
    marked = statistics_of(
        [footer(table.replace_schema_metadata(nan_metadata(nan_columns(table))))]
    )
    assert unmarked == {"f": Statistics(2, 0), "g": Statistics(2, 0)}
    assert marked == {"f": Statistics(2, 0), "g": Statistics(2, 0, 1.0, 2.0)}
    assert nan_metadata({"b", "a"}) == {NAN_METADATA: '["a","b"]'}


def test_no_statistics_are_no_knowledge() -> None:
    assert statistics_of([footer(pa.table({"x": [1]}), write_statistics=False)]) == {
        "x": Statistics(1)
    }
    assert statistics_of([]) == {}


def test_dates_that_python_does_not_have_are_no_bounds() -> None:
    late = pa.array([4_000_000], pa.int32()).cast(pa.date32())
    assert statistics_of([footer(pa.table({"d": late}))]) == {"d": Statistics(1, 0)}


def test_columns_have_sparks_names_for_their_types() -> None:
    store = MemoryStore(SimClock())
    table = pa.table({"x": [1], "s": ["hunter2"], "l": pa.array([[1]], pa.list_(pa.int8()))})
    written = write(store, "out", tables_of(table), redact=Redactor())
    found = columns_of(read_footers(store, "out"), None, str)
    assert [(c.name, c.type, c.max) for c in found] == [
        ("x", "bigint", "1"),
        ("s", "string", "hunter2"),
        ("l", "array<tinyint>", None),
    ]
    assert found == written.schema
    assert schema_hash(found) == written.schema_hash
    assert columns_of(written.footers, None, Redactor(["hunter2"]))[1].max is None
    assert columns_of([], None, str) == ()
    assert [c.name for c in columns_of([], table.schema, str)] == ["x", "s", "l"]
