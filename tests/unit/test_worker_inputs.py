"""Versions of inputs, read as one table."""

from __future__ import annotations

import sys
from datetime import datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.storage.memory import MemoryStore
from arco.worker.failures import TaskFailed
from arco.worker.inputs import read_input
from arco.worker.output import tables_of, write
from arco.worker.secrets import Redactor
from servo.contract.task import InputRef, MaterializationRef
from tests.kit.clocks import SimClock

TABLE = pa.table({"x": [1, 2, 3]})


def store() -> MemoryStore:
    return MemoryStore(SimClock())


def ref(target: MemoryStore, **versions: Any) -> InputRef:
    """An input of these tables, by their partition's `region`."""
    refs = []
    for region, table in versions.items():
        path = f"data/up/{region}/m"
        if table is not None:
            write(target, path, tables_of(table), redact=Redactor())
        refs.append(
            MaterializationRef(partition=f"region=s:{region}", materialization_id="m", path=path)
        )
    return InputRef(asset="sales.up", parameter="up", materializations=tuple(refs))


def test_versions_are_joined_by_name_with_their_dimensions() -> None:
    target = store()
    given = ref(
        target, eu=pa.table({"x": pa.array([1], pa.int32())}), us=pa.table({"y": ["a"], "x": [2]})
    )
    sizes: list[int] = []
    found = read_input(target, given, "arrow", on_bytes=sizes.append)
    assert found.to_pylist() == [
        {"x": 1, "region": "eu", "y": None},
        {"x": 2, "region": "us", "y": "a"},
    ]
    assert sizes == [sum(m.size for m in target.list("data/"))]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (["y", "X"], [{"y": None, "x": 1}, {"y": "a", "x": 2}]),
        (["region"], [{"region": "eu"}, {"region": "us"}]),
        (
            ["odd.name", "region"],
            [{"odd.name": 7, "region": "eu"}, {"odd.name": 8, "region": "us"}],
        ),
    ],
)
def test_some_columns_are_read_alone(columns: list[str], rows: list[dict[str, object]]) -> None:
    target = store()
    given = ref(
        target,
        eu=pa.table({"x": [1], "z": [0.5], "odd.name": [7]}),
        us=pa.table({"y": ["a"], "x": [2], "odd.name": [8]}),
    )
    assert read_input(target, given, columns=columns).to_pylist() == rows


def test_a_column_that_no_version_has_is_told() -> None:
    target = store()
    given = ref(target, eu=pa.table({"amount": [1], "id": [2]}))
    with pytest.raises(TaskFailed, match=r"sales.up has no column 'amonut'") as caught:
        read_input(target, given, columns=["amonut"])
    assert caught.value.info.hint == "did you mean 'amount'?"
    with pytest.raises(TaskFailed) as caught:
        read_input(target, given, columns=["w"])
    assert caught.value.info.hint == "its columns: amount, id, region"


def test_a_dimension_that_is_a_column_already_stays() -> None:
    target = store()
    given = ref(target, eu=pa.table({"region": ["EU!"]}))
    assert read_input(target, given).to_pydict() == {"region": ["EU!"]}


def test_an_input_is_read_as_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    target = store()
    given = ref(target, eu=TABLE)
    assert isinstance(read_input(target, given, "pandas"), pd.DataFrame)
    assert isinstance(read_input(target, given, "polars"), pl.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)  # as where it is not installed
    with pytest.raises(TaskFailed, match="polars"):
        read_input(target, given, "polars")
    with pytest.raises(TaskFailed, match="spark"):
        read_input(target, given, "spark")


def test_a_version_without_files_is_missing_and_not_empty() -> None:
    target = store()
    for given in (ref(target, eu=TABLE, us=None), InputRef(asset="sales.up")):
        with pytest.raises(TaskFailed) as caught:
            read_input(target, given)
        assert (caught.value.info.category, caught.value.info.code) == ("input", "input.missing")


def test_broken_files_and_types_that_do_not_meet_are_told_apart() -> None:
    target = store()
    target.put("data/up/eu/m/part-00001.parquet", b"no parquet")
    with pytest.raises(TaskFailed, match="part-00001"):
        read_input(target, ref(target, eu=TABLE))
    other = store()
    given = ref(other, a=TABLE, b=pa.table({"x": ["s"]}))
    with pytest.raises(TaskFailed, match="incompatible columns"):
        read_input(other, given)


@pytest.mark.parametrize(
    ("one", "other", "wide"),
    [
        (pa.int64(), pa.float64(), None),
        (pa.int64(), pa.float32(), None),
        (pa.decimal128(5, 2), pa.float64(), None),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int8(), pa.float32(), pa.float64()),
        (pa.int64(), pa.decimal128(5, 2), pa.decimal128(22, 2)),
        (pa.large_string(), pa.string_view(), pa.string()),
        (
            pa.struct([("a", pa.int32())]),
            pa.struct([("b", pa.string()), ("a", pa.int64())]),
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
        ),
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.int64())),
    ],
)
def test_versions_are_widened_only_as_far_as_nothing_is_lost(
    one: pa.DataType, other: pa.DataType, wide: pa.DataType | None
) -> None:
    target = store()
    given = ref(target, a=pa.table({"x": pa.nulls(1, one)}), b=pa.table({"x": pa.nulls(1, other)}))
    if wide is not None:
        assert read_input(target, given).schema.field("x").type == wide
        return
    with pytest.raises(TaskFailed, match=r"column 'x' is .* in one and .* in another") as caught:
        read_input(target, given)
    assert (caught.value.info.category, caught.value.info.code) == ("input", "input.schema")


def put(target: MemoryStore, *tables: pa.Table) -> InputRef:
    """An input of versions that hold tables just as they are."""
    refs = []
    for at, table in enumerate(tables):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        target.put(f"data/up/{at}/part-0.parquet", sink.getvalue().to_pybytes())
        version = MaterializationRef(partition="", materialization_id="m", path=f"data/up/{at}")
        refs.append(version)
    return InputRef(asset="sales.up", parameter="up", materializations=tuple(refs))


def test_zones_and_dictionaries_do_not_keep_versions_apart() -> None:
    noon = pa.array([datetime(2025, 7, 1, 12)], pa.timestamp("us", "UTC"))
    packed = pa.array(["a"]).dictionary_encode()
    tables = [
        pa.table({"at": noon.cast(pa.timestamp("us", zone)), "kind": kind})
        for zone, kind in (("+01:00", packed), ("Europe/Berlin", pa.array(["a"])), ("UTC", packed))
    ]
    expected = pa.table({"at": noon, "kind": ["a"]})
    for count in (1, 2, 3):
        target = store()
        found = read_input(target, put(target, *tables[:count]))
        assert found.equals(pa.concat_tables([expected] * count))


def test_names_that_differ_only_in_case_are_refused_as_spark_refuses_them() -> None:
    target = store()
    given = ref(target, a=pa.table({"ID": [1]}), b=pa.table({"id": [2]}))
    with pytest.raises(TaskFailed, match="'ID' and 'id' differ only in case") as caught:
        read_input(target, given)
    assert (caught.value.info.category, caught.value.info.code) == ("input", "input.schema")


def test_large_whole_numbers_survive_a_version_with_decimals() -> None:
    target = store()
    given = put(
        target,
        pa.table({"x": [1 << 62]}),
        pa.table({"x": pa.array([Decimal("0.25")], pa.decimal128(5, 2))}),
    )
    assert read_input(target, given).to_pydict() == {"x": [Decimal(1 << 62), Decimal("0.25")]}
