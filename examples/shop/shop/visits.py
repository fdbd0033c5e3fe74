"""Clicks become visits: a visit ends when nothing is clicked for half an hour."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

GAP_S = 30 * 60


def sessionize(clicks: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("visitor").orderBy("clicked_at", "click_id")
    pause = F.unix_micros(F.col("clicked_at").cast("timestamp")) - F.unix_micros(
        F.lag("clicked_at").over(in_order).cast("timestamp")
    )
    begins = F.when(pause <= GAP_S * 1_000_000, 0).otherwise(1)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = clicks.withColumn("begins", begins).withColumn(
        "visit", F.sum("begins").over(so_far).cast("int")
    )
    return numbered.groupBy("visitor", "visit").agg(
        F.min("clicked_at").alias("started_at"),
        F.max("clicked_at").alias("ended_at"),
        F.max("customer_id").alias("customer_id"),
        F.count("*").alias("clicks"),
        F.count_distinct("sku").alias("products_seen"),
        F.max(F.col("page") == "cart").alias("saw_cart"),
        F.min_by("page", F.struct("clicked_at", "click_id")).alias("landing_page"),
    )
