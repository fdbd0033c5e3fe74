"""Expressions of one row, as frames."""

from __future__ import annotations

from typing import Any

from tests.golden.lineage.case import Case


def _python_udf(x: Any) -> Any:
    shout = x.F.udf(lambda text: text, "string")
    return x.orders.select(shout("note").alias("loud"), "order_id")


def _pandas_udf(x: Any) -> Any:
    import pandas as pd

    def add(one: pd.Series, other: pd.Series) -> pd.Series:
        return one + other

    add.__annotations__ = {"one": pd.Series, "other": pd.Series, "return": pd.Series}
    made = x.F.pandas_udf(add, "double")
    return x.orders.select(made("amount", "order_id").alias("sum"))


CASES = (
    Case(
        "select",
        frame=lambda x: x.orders.select("order_id", "amount"),
        columns={"order_id": ["orders.order_id"], "amount": ["orders.amount"]},
    ),
    Case(
        "alias is identity",
        frame=lambda x: x.orders.select(x.F.col("amount").alias("price")),
        columns={"price": ["orders.amount"]},
    ),
    Case(
        "rename",
        frame=lambda x: x.customers.select("id", "name").withColumnRenamed("name", "title"),
        columns={"id": ["customers.id"], "title": ["customers.name"]},
    ),
    Case(
        "withColumn over an expression",
        frame=lambda x: x.orders.select("order_id", "amount").withColumn(
            "double", x.F.col("amount") * 2 + x.F.col("order_id")
        ),
        columns={
            "order_id": ["orders.order_id"],
            "amount": ["orders.amount"],
            "double": ["orders.amount transformation", "orders.order_id transformation"],
        },
    ),
    Case(
        "withColumn replaces a column by itself",
        frame=lambda x: (
            x.customers.select("id", "name")
            .withColumn("name", x.F.upper("name"))
            .withColumn("name", x.F.trim("name"))
        ),
        columns={"id": ["customers.id"], "name": ["customers.name transformation"]},
    ),
    Case(
        "cast",
        frame=lambda x: x.orders.select(x.F.col("amount").cast("int").alias("whole")),
        columns={"whole": ["orders.amount transformation"]},
    ),
    Case(
        "literals come from nothing",
        frame=lambda x: x.orders.select(
            "order_id", x.F.lit(1).alias("one"), x.F.current_date().alias("today")
        ),
        columns={"order_id": ["orders.order_id"], "one": [], "today": []},
    ),
    Case(
        "when and otherwise",
        frame=lambda x: x.orders.select(
            x.F.when(x.F.col("amount") > 10, x.F.col("note"))
            .when(x.F.col("day") > "2025-01-01", x.F.lit("late"))
            .otherwise(x.F.col("status"))
            .alias("label")
        ),
        columns={
            "label": [
                "orders.note transformation",
                "orders.status transformation",
                "orders.amount conditional",
                "orders.day conditional",
            ]
        },
    ),
    Case(
        "a column that decides and flows",
        frame=lambda x: x.orders.select(
            x.F.when(x.F.col("amount") > 0, x.F.col("amount")).alias("positive")
        ),
        columns={"positive": ["orders.amount transformation", "orders.amount conditional"]},
    ),
    Case(
        "coalesce",
        frame=lambda x: x.orders.select(x.F.coalesce("note", "status", x.F.lit("-")).alias("n")),
        columns={"n": ["orders.note transformation", "orders.status transformation"]},
    ),
    Case(
        "hashes mask",
        frame=lambda x: x.customers.select(
            x.F.md5("email").alias("md5"),
            x.F.sha2("email", 256).alias("sha2"),
            x.F.xxhash64("email", "id").alias("xx"),
            x.F.hash("name").alias("h"),
            x.F.upper(x.F.sha1("name")).alias("upper"),
        ),
        columns={
            "md5": ["customers.email transformation masked"],
            "sha2": ["customers.email transformation masked"],
            "xx": ["customers.email transformation masked", "customers.id transformation masked"],
            "h": ["customers.name transformation masked"],
            "upper": ["customers.name transformation masked"],
        },
    ),
    Case(
        "masked only if every way is",
        frame=lambda x: x.customers.select(
            x.F.concat(x.F.md5("email"), x.F.col("email")).alias("both")
        ),
        columns={"both": ["customers.email transformation"]},
    ),
    Case(
        "python udf",
        frame=_python_udf,
        columns={
            "loud": ["orders.note transformation"],
            "order_id": ["orders.order_id"],
        },
    ),
    Case(
        "pandas udf",
        frame=_pandas_udf,
        columns={
            "sum": ["orders.amount transformation", "orders.order_id transformation"],
        },
    ),
    Case(
        "struct, array and map are built",
        frame=lambda x: x.orders.select(
            x.F.struct("note", "amount").alias("s"),
            x.F.array("order_id", "customer_id").alias("a"),
            x.F.create_map("status", "amount").alias("m"),
        ),
        columns={
            "s": ["orders.note transformation", "orders.amount transformation"],
            "a": ["orders.order_id transformation", "orders.customer_id transformation"],
            "m": ["orders.status transformation", "orders.amount transformation"],
        },
    ),
    Case(
        "fields, items and values are taken out",
        frame=lambda x: x.orders.select(
            "address.city",
            x.F.col("tags")[0].alias("first"),
            x.F.col("attrs")["colour"].alias("colour"),
        ),
        columns={
            "city": ["orders.address transformation"],
            "first": ["orders.tags transformation"],
            "colour": ["orders.attrs transformation"],
        },
    ),
    Case(
        "higher-order functions",
        frame=lambda x: x.orders.select(
            x.F.transform("tags", lambda t: x.F.concat(t, x.F.col("note"))).alias("noted"),
            x.F.aggregate("tags", x.F.lit(""), lambda a, t: x.F.concat(a, t)).alias("all"),
            x.F.filter("tags", lambda t: t == x.F.col("status")).alias("some"),
        ),
        columns={
            "noted": ["orders.tags transformation", "orders.note transformation"],
            "all": ["orders.tags transformation"],
            "some": ["orders.tags transformation", "orders.status conditional"],
        },
    ),
)
