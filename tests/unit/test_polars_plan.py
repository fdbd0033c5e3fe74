"""Lineage of polars' plans: what it says, and that changes of data agree with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
from polars.io.plugins import register_io_source

from arco.lineage.polars_plan import scan_function, trace
from arco.lineage.traced import TracedColumns

Data = dict[str, list[Any]]
ORDERS: Data = {
    "id": [1, 2, 3, 4, 5, 6],
    "customer": [1, 1, 2, 2, 3, 3],
    "amount": [10, 25, 31, 47, 52, 68],
    "fee": [1, 2, 3, 4, 5, 6],
    "note": ["a", "b", "c", "d", "e", "f"],
}
CUSTOMERS: Data = {"customer": [1, 2, 3], "name": ["ana", "bo", "cy"], "limit": [20, 40, 60]}


class Lake:
    """Inputs as scans of data that a test can change."""

    def __init__(self, **data: Data) -> None:
        self.data = data
        self._assets: dict[Any, str] = {}

    def lazy(self, name: str) -> pl.LazyFrame:
        def read(columns: Any, predicate: Any, rows: Any, batch: Any) -> Iterator[pl.DataFrame]:
            frame = pl.DataFrame(self.data[name])
            frame = frame if columns is None else frame.select(columns)
            yield frame if predicate is None else frame.filter(predicate)

        frame = register_io_source(read, schema=pl.DataFrame(self.data[name]).schema)
        self._assets[scan_function(frame)] = f"shop.{name}"
        return frame

    def trace(self, frame: pl.LazyFrame) -> TracedColumns:
        return trace(frame, self._assets.get)


Query = Callable[[pl.LazyFrame, pl.LazyFrame], pl.LazyFrame]
c = pl.col
QUERIES: dict[str, Query] = {
    "select": lambda o, u: o.select("id", total=c("amount") + c("fee")),
    "with_columns": lambda o, u: o.with_columns(c("amount").cast(pl.Float64) * 2, x=pl.lit(7)),
    "rename": lambda o, u: o.rename({"amount": "fee", "fee": "amount"}).drop("note"),
    "selectors": lambda o, u: o.select(pl.all().exclude("note").name.suffix("_x")),
    "filter": lambda o, u: o.filter(c("amount") > 30).select("id", "note"),
    "when": lambda o, u: o.select("id", x=pl.when(c("amount") > 30).then("fee").otherwise(0)),
    "sort and head": lambda o, u: o.sort("amount").head(3).select("id"),
    "group_by": lambda o, u: (
        o.group_by("customer", maintain_order=True)
        .agg(c("amount").sum(), n=pl.len(), biggest=c("fee").max())
        .sort("customer")
    ),
    "aggregate of some": lambda o, u: o.group_by("customer", maintain_order=True).agg(
        c("amount").filter(c("fee") > 2).sum()
    ),
    "window": lambda o, u: o.with_columns(
        share=c("amount").sum().over("customer"), before=c("amount").shift(1)
    ),
    "inner join": lambda o, u: o.join(u, on="customer", maintain_order="left").select(
        "id", "name", "limit", "amount"
    ),
    "left join": lambda o, u: o.join(u, on="customer", how="left", maintain_order="left"),
    "right join": lambda o, u: o.join(u, on="customer", how="right", maintain_order="right_left"),
    "full join": lambda o, u: o.join(u, on="customer", how="full", coalesce=True).sort("id"),
    "semi join": lambda o, u: o.join(u.filter(c("limit") > 30), on="customer", how="semi"),
    "join with itself": lambda o, u: o.join(
        o.group_by("customer").agg(total=c("amount").sum()), on="customer", maintain_order="left"
    ),
    "same names": lambda o, u: o.join(
        u.rename({"limit": "amount"}), on="customer", maintain_order="left"
    ),
    "concat": lambda o, u: pl.concat([o.select(x="amount"), u.select(x="limit")]),
    "side by side": lambda o, u: pl.concat(
        [o.select("amount"), o.select(x="fee")], how="horizontal"
    ),
    "unpivot": lambda o, u: o.unpivot(on=["amount", "fee"], index="id"),
    "explode": lambda o, u: (
        o.group_by("customer", maintain_order=True).agg("amount").explode("amount")
    ),
    "row index": lambda o, u: o.with_row_index("at").select("at", "note"),
    "distinct": lambda o, u: o.unique(subset=["customer"], keep="first", maintain_order=True),
    "text": lambda o, u: o.select(x=pl.concat_str("note", "note"), y=c("note").str.to_uppercase()),
    "hash": lambda o, u: o.select(x=c("note").hash()),
    "struct": lambda o, u: o.select(s=pl.struct("amount", "fee")).select(
        c("s").struct.field("fee")
    ),
}


def changed(data: Data, column: str, rng: random.Random) -> Data:
    """The same data with other values in a column, of which some stay."""
    old = data[column]
    pool = [*old, *(("zz", "y") if isinstance(old[0], str) else (0, 100))]
    return data | {column: [rng.choice(pool) if rng.random() < 0.7 else each for each in old]}


def observed(name: str) -> dict[tuple[str, str], set[str]]:
    """By column of an input: the output's columns that change with it; `` if rows come or go."""
    lake = Lake(orders=ORDERS, customers=CUSTOMERS)
    query = QUERIES[name](lake.lazy("orders"), lake.lazy("customers"))
    before = query.collect()
    effects: dict[tuple[str, str], set[str]] = {}
    for asset, data in (("orders", ORDERS), ("customers", CUSTOMERS)):
        for column in data:
            seen = effects.setdefault((f"shop.{asset}", column), set())
            for seed in range(25):
                lake.data = {"orders": ORDERS, "customers": CUSTOMERS} | {
                    asset: changed(data, column, random.Random(f"{name}{column}{seed}"))
                }
                after = query.collect()
                if after.height != before.height:
                    seen.add("")
                else:
                    seen |= {n for n in before.columns if not before[n].equals(after[n])}
    return effects


@pytest.mark.parametrize("name", QUERIES)
def test_a_plan_agrees_with_what_changes_of_data_do(name: str) -> None:
    lake = Lake(orders=ORDERS, customers=CUSTOMERS)
    traced = lake.trace(QUERIES[name](lake.lazy("orders"), lake.lazy("customers")))
    assert (traced.unmapped, traced.reason if name != "struct" else "") == ((), "")
    effects = observed(name)
    rows = {(source.asset, source.column) for source in traced.influences}
    for place, columns in effects.items():
        for column in columns:
            own = {
                (source.asset, source.column)
                for each in traced.columns
                if each.column == column
                for source in each.sources
            }
            assert place in own | rows, f"{place} changes {column!r}, and the plan does not say so"
    for each in traced.columns:
        for source in each.sources:
            if each.confidence == "high":
                effect = effects[source.asset, source.column]
                assert each.column in effect or "" in effect, f"{source} does not reach {each}"
    for source in traced.influences:
        assert effects[source.asset, source.column], f"{source} decides nothing"


def kinds(traced: TracedColumns) -> set[tuple[str, str, str, bool]]:
    return {
        (each.column, source.column, source.kind, source.masked)
        for each in traced.columns
        for source in each.sources
    }


def test_kinds_are_those_of_other_plans() -> None:
    lake = Lake(orders=ORDERS, customers=CUSTOMERS)
    orders = lake.lazy("orders")
    traced = lake.trace(
        orders.select(
            "id",
            a=c("amount") + 1,
            s=c("amount").sum(),
            n=c("note").n_unique(),
            h=c("note").hash(),
            w=c("amount").sum().over("customer"),
            d=pl.when(c("fee") > 1).then("amount"),
        )
    )
    assert kinds(traced) == {
        ("id", "id", "identity", False),
        ("a", "amount", "transformation", False),
        ("s", "amount", "aggregation", False),
        ("n", "note", "aggregation", True),
        ("h", "note", "transformation", True),
        ("w", "amount", "aggregation", False),
        ("w", "customer", "window", False),
        ("d", "amount", "transformation", False),
        ("d", "fee", "conditional", False),
    }


def test_what_a_plan_does_not_show_has_no_sources() -> None:
    lake = Lake(orders=ORDERS)
    orders = lake.lazy("orders")
    extra = pl.LazyFrame({"customer": [1], "rate": [2.0]})
    traced = lake.trace(
        orders.join(extra, on="customer").select(
            "id", "rate", p=c("amount").map_elements(lambda x: x + 1, return_dtype=pl.Int64)
        )
    )
    assert (traced.unmapped, kinds(traced)) == (("rate", "p"), {("id", "id", "identity", False)})
    assert traced.reason == "Some of the plan of polars is not known: Python, or other data."


def test_python_over_whole_frames_leaves_it_open_which_columns_it_takes() -> None:
    lake = Lake(orders=ORDERS)
    traced = lake.trace(lake.lazy("orders").select("id", "fee").map_batches(lambda frame: frame))
    assert {each.confidence for each in traced.columns} == {"medium"}
    assert {s.column for each in traced.columns for s in each.sources} == {"id", "fee"}
