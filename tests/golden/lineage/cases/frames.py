"""Views, caches, Python over whole rows, and data from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.golden.lineage.case import Case

ORDER = ["orders.order_id transformation", "orders.amount transformation"]


def _same(frames: Iterator[Any]) -> Iterator[Any]:
    return frames


def _ids(rows: Any) -> Any:
    return rows[["order_id"]].rename(columns={"order_id": "a"})


def _view(x: Any) -> Any:
    x.orders.filter("amount > 1").createOrReplaceTempView("large_orders")
    return x.spark.sql("select order_id, amount * 2 as twice from large_orders")


def _cached(x: Any) -> Any:
    kept = x.orders.filter("amount > 1").cache()
    kept.count()
    return kept.select("order_id")


def _deep(x: Any) -> Any:
    frame = x.orders.select("order_id", "amount")
    for _ in range(150):
        frame = frame.withColumn("amount", x.F.col("amount") + 1)
    return frame


def _nested(x: Any) -> Any:
    label = x.F.col("note")
    for level in range(6):
        label = x.F.when(x.F.col("amount") > level, x.F.col("status")).otherwise(label)
    return x.orders.select(label.alias("label"))


def _checkpointed(x: Any) -> Any:
    return x.orders.select("order_id").localCheckpoint()


CASES = (
    Case(
        "temporary view",
        frame=_view,
        columns={"order_id": ["orders.order_id"], "twice": ["orders.amount transformation"]},
        influences=["orders.amount filter"],
    ),
    Case(
        "cached frame",
        frame=_cached,
        columns={"order_id": ["orders.order_id"]},
        influences=["orders.amount filter"],
    ),
    Case(
        "a plan of 150 projections",
        frame=_deep,
        columns={"order_id": ["orders.order_id"], "amount": ["orders.amount transformation"]},
    ),
    Case(
        "a long list of values",
        frame=lambda x: x.orders.filter(x.F.col("order_id").isin(list(range(3000)))).select(
            x.F.col("note").isin([f"x, y ({n})" for n in range(100)]).alias("known")
        ),
        columns={"known": ["orders.note transformation"]},
        influences=["orders.order_id filter"],
    ),
    Case(
        "nested conditions",
        frame=_nested,
        columns={
            "label": [
                "orders.note transformation",
                "orders.status transformation",
                "orders.amount conditional",
            ]
        },
    ),
    Case(
        "an alias in between",
        frame=lambda x: x.orders.alias("o").select("o.order_id").alias("p"),
        columns={"order_id": ["orders.order_id"]},
    ),
    Case(
        "mapInPandas",
        frame=lambda x: x.orders.select("order_id", "amount").mapInPandas(
            _same, "order_id long, amount double"
        ),
        columns={"order_id": ORDER, "amount": ORDER},
        confidence="medium",
    ),
    Case(
        "mapInArrow",
        frame=lambda x: x.orders.select("order_id", "amount").mapInArrow(_same, "a long"),
        columns={"a": ORDER},
        confidence="medium",
    ),
    Case(
        "applyInPandas",
        frame=lambda x: (
            x.orders.select("order_id", "amount").groupBy("order_id").applyInPandas(_ids, "a long")
        ),
        columns={"a": ORDER},
        influences=["orders.order_id group_by"],
        confidence="medium",
    ),
    Case(
        "cogrouped applyInPandas",
        frame=lambda x: (
            x.orders.select("order_id", "amount")
            .groupBy("order_id")
            .cogroup(x.customers.select("id", "name").groupBy("id"))
            .applyInPandas(lambda left, right: _ids(left), "a long")
        ),
        columns={"a": [*ORDER, "customers.id transformation", "customers.name transformation"]},
        influences=["orders.order_id group_by", "customers.id group_by"],
        confidence="medium",
    ),
    Case(
        "data made in the code",
        frame=lambda x: x.spark.createDataFrame([(1, "a")], "k long, v string").join(
            x.orders.select("order_id"), x.F.col("k") == x.F.col("order_id")
        ),
        columns={"order_id": ["orders.order_id"]},
        influences=["orders.order_id join"],
        unmapped=["k", "v"],
    ),
    Case(
        "a range is made of nothing",
        frame=lambda x: x.spark.range(3).crossJoin(x.orders.select("note")),
        columns={"id": [], "note": ["orders.note"]},
    ),
    Case(
        "a checkpoint forgets",
        frame=_checkpointed,
        columns={},
        unmapped=["order_id"],
    ),
)
