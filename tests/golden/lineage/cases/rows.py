"""What happens to the rows of one frame."""

from __future__ import annotations

from typing import Any

from tests.golden.lineage.case import Case


def _window(x: Any) -> Any:
    return x.Window.partitionBy("customer_id").orderBy("day")


def _pandas_aggregate(x: Any) -> Any:
    import pandas as pd

    def mean(v: pd.Series) -> float:
        return float(v.mean())

    mean.__annotations__ = {"v": pd.Series, "return": float}
    made = x.F.pandas_udf(mean, "double")
    return x.orders.groupBy("status").agg(made("amount").alias("mean"))


CASES = (
    Case(
        "filter",
        frame=lambda x: x.orders.filter("amount > 1 and status = 'paid'").select("order_id"),
        columns={"order_id": ["orders.order_id"]},
        influences=["orders.amount filter", "orders.status filter"],
    ),
    Case(
        "filter on a hash",
        frame=lambda x: x.customers.filter(x.F.md5("email") == "x").select("id"),
        columns={"id": ["customers.id"]},
        influences=["customers.email filter masked"],
    ),
    Case(
        "filter on a derived column",
        frame=lambda x: (
            x.orders.withColumn("total", x.F.col("amount") * x.F.col("order_id"))
            .filter("total > 1")
            .select("day")
        ),
        columns={"day": ["orders.day"]},
        influences=["orders.amount filter", "orders.order_id filter"],
    ),
    Case(
        "group by and aggregates",
        frame=lambda x: x.orders.groupBy("customer_id").agg(
            x.F.sum("amount").alias("total"),
            x.F.max(x.F.upper("note")).alias("last"),
            x.F.collect_list("status").alias("states"),
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "total": ["orders.amount aggregation"],
            "last": ["orders.note aggregation"],
            "states": ["orders.status aggregation"],
        },
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "counts mask",
        frame=lambda x: x.orders.groupBy("customer_id").agg(
            x.F.count("*").alias("rows"),
            x.F.count("note").alias("notes"),
            x.F.countDistinct("status").alias("states"),
            x.F.approx_count_distinct("day").alias("days"),
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "rows": [],
            "notes": ["orders.note aggregation masked"],
            "states": ["orders.status aggregation masked"],
            "days": ["orders.day aggregation masked"],
        },
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "group by an expression",
        frame=lambda x: x.orders.groupBy(x.F.month("day").alias("month")).agg(
            (x.F.sum("amount") / x.F.count("order_id")).alias("mean")
        ),
        columns={
            "month": ["orders.day transformation"],
            "mean": ["orders.amount aggregation", "orders.order_id aggregation masked"],
        },
        influences=["orders.day group_by"],
    ),
    Case(
        "pandas aggregate",
        frame=_pandas_aggregate,
        columns={
            "status": ["orders.status"],
            "mean": ["orders.amount aggregation"],
        },
        influences=["orders.status group_by"],
    ),
    Case(
        "rollup",
        frame=lambda x: x.orders.rollup("customer_id", "status").agg(
            x.F.sum("amount").alias("total"), x.F.grouping_id().alias("level")
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "status": ["orders.status"],
            "total": ["orders.amount aggregation"],
            "level": [],
        },
        influences=["orders.customer_id group_by", "orders.status group_by"],
    ),
    Case(
        "cube",
        frame=lambda x: x.orders.cube("day", "status").count(),
        columns={"day": ["orders.day"], "status": ["orders.status"], "count": []},
        influences=["orders.day group_by", "orders.status group_by"],
    ),
    Case(
        "window functions",
        frame=lambda x: x.orders.select(
            "order_id",
            x.F.row_number().over(_window(x)).alias("n"),
            x.F.rank().over(_window(x)).alias("rank"),
            x.F.lag("amount").over(_window(x)).alias("before"),
            x.F.sum("amount").over(_window(x)).alias("running"),
            x.F.count("note").over(_window(x)).alias("notes"),
        ),
        columns={
            "order_id": ["orders.order_id"],
            "n": ["orders.customer_id window", "orders.day window"],
            "rank": ["orders.customer_id window", "orders.day window"],
            "before": [
                "orders.amount transformation",
                "orders.customer_id window",
                "orders.day window",
            ],
            "running": [
                "orders.amount aggregation",
                "orders.customer_id window",
                "orders.day window",
            ],
            "notes": [
                "orders.note aggregation masked",
                "orders.customer_id window",
                "orders.day window",
            ],
        },
    ),
    Case(
        "the newest row of each key",
        frame=lambda x: (
            x.orders.withColumn("n", x.F.row_number().over(_window(x)))
            .filter("n = 1")
            .select("order_id")
        ),
        columns={"order_id": ["orders.order_id"]},
        influences=["orders.customer_id filter", "orders.day filter"],
    ),
    Case(
        "explode an array",
        frame=lambda x: x.orders.select("order_id", x.F.explode("tags").alias("tag")),
        columns={"order_id": ["orders.order_id"], "tag": ["orders.tags transformation"]},
        influences=["orders.tags filter"],
    ),
    Case(
        "explode a map with positions",
        frame=lambda x: x.orders.select(x.F.posexplode_outer("attrs")),
        columns={
            "pos": ["orders.attrs transformation"],
            "key": ["orders.attrs transformation"],
            "value": ["orders.attrs transformation"],
        },
        influences=["orders.attrs filter"],
    ),
    Case(
        "distinct",
        frame=lambda x: x.orders.select("customer_id", "status").distinct(),
        columns={"customer_id": ["orders.customer_id"], "status": ["orders.status"]},
        influences=["orders.customer_id group_by", "orders.status group_by"],
    ),
    Case(
        "dropDuplicates",
        frame=lambda x: x.orders.dropDuplicates(["customer_id"]).select("order_id"),
        columns={"order_id": ["orders.order_id"]},
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "sort, limit and offset",
        frame=lambda x: x.orders.orderBy(x.F.desc("amount")).offset(1).limit(10).select("order_id"),
        columns={"order_id": ["orders.order_id"]},
        influences=["orders.amount sort"],
    ),
    Case(
        "sample, repartition, coalesce, hint",
        frame=lambda x: (
            x.orders.sample(fraction=0.5, seed=1)
            .repartition(4, "status")
            .coalesce(1)
            .hint("broadcast")
            .select("order_id")
        ),
        columns={"order_id": ["orders.order_id"]},
    ),
    Case(
        "fill and replace",
        frame=lambda x: x.orders.select("note", "amount").fillna({"note": "-"}),
        columns={"note": ["orders.note transformation"], "amount": ["orders.amount"]},
    ),
    Case(
        "drop rows with nulls",
        frame=lambda x: x.orders.select("order_id", "note").dropna(subset=["note"]),
        columns={"order_id": ["orders.order_id"], "note": ["orders.note"]},
        influences=["orders.note filter"],
    ),
    Case(
        "pivot",
        frame=lambda x: (
            x.orders.groupBy("customer_id").pivot("status", ["paid", "open"]).sum("amount")
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "paid": ["orders.amount aggregation", "orders.status conditional"],
            "open": ["orders.amount aggregation", "orders.status conditional"],
        },
        influences=["orders.customer_id group_by", "orders.status group_by"],
    ),
    Case(
        "unpivot",
        frame=lambda x: x.customers.unpivot("id", ["name", "email"], "what", "text"),
        columns={
            "id": ["customers.id"],
            "what": [],
            "text": ["customers.name", "customers.email"],
        },
    ),
)
