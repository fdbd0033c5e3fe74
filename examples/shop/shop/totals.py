"""Sums over days, months and lifetimes."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

MONEY = "decimal(18,2)"


def over_days(days: DataFrame) -> DataFrame:
    """Days of revenue by country and category, as one sum and its best day."""
    return days.groupBy("country", "category").agg(
        F.sum("orders").alias("orders"),
        F.sum("revenue").cast(MONEY).alias("revenue"),
        F.count_distinct("date").alias("days"),
        F.max_by("date", F.struct("revenue", "date")).alias("best_day"),
    )


def customer_value(sales: DataFrame, customers: DataFrame) -> DataFrame:
    """What each customer has bought so far, and where that stands in its country."""
    bought = sales.groupBy("customer_id").agg(
        F.count("*").alias("orders"),
        F.sum("revenue").cast(MONEY).alias("revenue"),
        F.min("ordered_at").alias("first_order"),
        F.max("ordered_at").alias("last_order"),
    )
    best_first = Window.partitionBy("country").orderBy(F.desc("revenue"), "customer_id")
    return customers.join(bought, "customer_id").select(
        "customer_id",
        "email_hash",
        "country",
        "orders",
        "revenue",
        "first_order",
        "last_order",
        F.ntile(10).over(best_first).alias("decile"),
    )
