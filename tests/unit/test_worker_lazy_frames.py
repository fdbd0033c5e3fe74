"""polars LazyFrames as inputs and outputs of assets."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from arco.errors import Unavailable
from arco.lineage.polars_plan import trace
from arco.storage.memory import MemoryStore
from arco.storage.port import Object
from arco.worker.failures import TaskFailed
from arco.worker.inputs import read_input
from arco.worker.lazy_frames import LazyInputs, is_lazy_frame, lazy_tables
from arco.worker.output import tables_of, write
from arco.worker.secrets import Redactor
from servo import AssetIn, asset
from servo.contract.task import ColumnLineage, ColumnSource, InputRef, MaterializationRef
from servo.testing import run_asset
from tests.kit.clocks import SimClock

NAMESPACE = "shop"
SHOP = {
    "eu": pa.table({"id": [1, 2], "amount": [10, 20], "note": ["x" * 40_000, "y" * 40_000]}),
    "us": pa.table({"id": [3], "amount": pa.array([7], pa.int32()), "extra": ["e"]}),
}


class Counted(MemoryStore):
    """Fails when it is told to."""

    broken = False

    def get(self, path: str) -> Object:
        if self.broken:
            raise Unavailable("the store is away")
        return super().get(path)


@pytest.fixture
def store() -> Counted:
    return Counted(SimClock())


@pytest.fixture
def orders(store: Counted) -> InputRef:
    versions = []
    for region, table in SHOP.items():
        path = f"data/shop/orders/{region}/m"
        write(store, path, tables_of(table), redact=Redactor())
        partition = f"region=s:{region}"
        versions.append(MaterializationRef(partition=partition, materialization_id="m", path=path))
    return InputRef(asset="shop.orders", parameter="orders", materializations=tuple(versions))


def test_a_lazy_input_has_the_rows_and_columns_of_a_frame(store: Counted, orders: InputRef) -> None:
    frame, schema = LazyInputs(store, lambda size: None).scan(orders)
    assert is_lazy_frame(frame)
    eager = read_input(store, orders, "polars")
    assert frame.collect().equals(eager)
    assert schema.names == eager.columns
    assert frame.select(pl.len()).collect().item() == 3
    assert frame.head(1).select("id").collect().rows() == [(1,)]
    assert frame.filter(pl.col("region") == "us").select("amount").collect().rows() == [(7,)]


def test_columns_that_a_plan_does_not_need_are_not_read(store: Counted, orders: InputRef) -> None:
    sizes: list[int] = []
    frame, _ = LazyInputs(store, sizes.append).scan(orders)
    assert sizes == []  # footers alone
    frame.collect()
    whole = sum(sizes)
    sizes.clear()
    frame.filter(pl.col("amount") > 8).select("id").collect()
    assert 0 < sum(sizes) <= whole
    narrow, _ = LazyInputs(store, sizes.append).scan(orders, ["id"])
    assert narrow.collect().columns == ["id"]


def test_an_output_without_rows_has_its_columns(store: Counted, orders: InputRef) -> None:
    inputs = LazyInputs(store, lambda size: None)
    frame, _ = inputs.scan(orders)
    tables = list(lazy_tables(frame.filter(pl.col("id") > 9).select("id"), inputs))
    assert [table.num_rows for table in tables if table.num_rows] == []
    assert tables[0].column_names == ["id"]


def test_a_store_that_fails_while_polars_reads_is_told_as_such(
    store: Counted, orders: InputRef
) -> None:
    inputs = LazyInputs(store, lambda size: None)
    frame, _ = inputs.scan(orders)
    store.broken = True
    with pytest.raises((Unavailable, TaskFailed), match="away"):
        list(lazy_tables(frame, inputs))


def test_the_plan_of_a_lazy_input_names_its_asset(store: Counted, orders: InputRef) -> None:
    inputs = LazyInputs(store, lambda size: None)
    frame, _ = inputs.scan(orders)
    query = frame.group_by("region").agg(total=pl.col("amount").sum())
    traced = trace(query, inputs.asset_of)
    total = ColumnLineage(
        column="total", sources=(ColumnSource("shop.orders", "amount", "aggregation"),)
    )
    assert total in traced.columns
    assert traced.influences == (ColumnSource("shop.orders", "region", "group_by"),)


@asset
def totals(orders: AssetIn) -> Any:
    frame = orders.lazy()
    return frame.group_by("id").agg(pl.col("amount").sum()).sort("id")


def test_an_asset_may_return_a_lazy_frame() -> None:
    rows = [{"id": 1, "amount": 3}, {"id": 1, "amount": 4}, {"id": 2, "amount": 5}]
    assert run_asset(totals, {"orders": rows}).rows == [
        {"id": 1, "amount": 7},
        {"id": 2, "amount": 5},
    ]
