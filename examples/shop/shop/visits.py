"""Clicks become visits: a visit ends when nothing is clicked for half an hour."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

GAP = timedelta(minutes=30)


def sessionize(clicks: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("visitor").orderBy("clicked_at", "click_id")
    pause = F.col("clicked_at") - F.lag("clicked_at").over(in_order)
    begins = F.when(pause <= F.lit(GAP), 0).otherwise(1)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = clicks.withColumn("begins", begins).withColumn(
        "visit", F.sum("begins").over(so_far).cast("int")
    )
    return numbered.groupBy("visitor", "visit").agg(
        F.min("clicked_at").alias("started_at"),
        F.max("clicked_at").alias("ended_at"),
        F.max("customer_id").alias("customer_id"),
        F.count("*").alias("clicks"),
        F.count("sku").alias("products_seen"),
        F.max(F.col("page") == "cart").alias("saw_cart"),
    )
