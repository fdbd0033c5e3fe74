"""What others may rely on: one truth about each order. Runs on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.raw import DAYS
from servo import AssetIn, In, accepted_values, asset, in_range, unique

NAMESPACE = "clean"


@asset(
    # The parameter `orders` is the day of raw.orders that this task's partition names.
    ins={"orders": In("raw.orders")},
    partitions=DAYS,
    checks=[
        unique("order_id"),
        in_range("amount", min=0, max=10_000),
        accepted_values("country", ["DE", "FR", "IT", "ES"]),
    ],
    # A failed check keeps the output from being read, until a person decides:
    # servo quarantine list, then approve or reject.
    gating="quarantine",
)
def orders(orders: AssetIn) -> DataFrame:
    """Paid orders, in euros, without personal data."""
    return tidy(orders.read())


def tidy(orders: DataFrame) -> DataFrame:
    """From frame to frame: it can be called in a test, or in a notebook."""
    return orders.where("cents > 0").select(
        "order_id",
        "ordered_on",
        F.sha2("email", 256).alias("customer"),
        F.upper(F.trim("country")).alias("country"),
        (F.col("cents") / 100).cast("decimal(12,2)").alias("amount"),
    )
