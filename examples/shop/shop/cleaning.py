"""From what was sent to what is true."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from shop.generate import RATES


def tidy_customers(customers: DataFrame) -> DataFrame:
    """One row for each customer, recognizable by a hash and not by name or address."""
    return customers.select(
        "customer_id",
        F.sha2(F.lower(F.trim("email")), 256).alias("email_hash"),
        code("country"),
        "signed_up",
    )


def tidy_products(products: DataFrame) -> DataFrame:
    return products.select("sku", F.trim("title").alias("title"), "category", "price")


def tidy_orders(orders: DataFrame) -> DataFrame:
    """Each order once, without those that were cancelled; its amount is in euros.

    What is sent twice is the same in all columns, so that comparing whole rows is enough.
    """
    in_euros = F.col("quantity") * F.col("unit_price") * rate(code("currency"))
    return (
        orders.where(F.col("status") != "cancelled")
        .select(
            "order_id",
            "ordered_at",
            "customer_id",
            "sku",
            "quantity",
            in_euros.cast("decimal(14,2)").alias("amount"),
            "status",
            F.col("coupon").isNotNull().alias("has_coupon"),
        )
        .distinct()
    )


def tidy_clicks(clicks: DataFrame) -> DataFrame:
    """Which page was seen, and of which product; addresses become networks."""
    sku = F.regexp_extract("url", r"^/product/(P\d+)$", 1)
    return clicks.select(
        "click_id",
        "clicked_at",
        "visitor",
        "customer_id",
        F.regexp_extract("url", r"^/([a-z]*)", 1).alias("page"),
        F.nullif(sku, F.lit("")).alias("sku"),
        F.sha2(F.substring_index("ip", ".", 3), 256).alias("network"),
    )


def join_sales(orders: DataFrame, customers: DataFrame, products: DataFrame) -> DataFrame:
    """Every order with where it went and what it was; refunds count against it."""
    sign = F.when(F.col("status") == "refunded", -1).otherwise(1)
    return (
        orders.join(customers.select("customer_id", "country"), "customer_id")
        .join(products.select("sku", "category"), "sku")
        .select(
            "order_id",
            "ordered_at",
            "customer_id",
            "country",
            "sku",
            "category",
            "quantity",
            (F.col("amount") * sign).cast("decimal(14,2)").alias("revenue"),
        )
    )


def code(name: str) -> Column:
    """A code as it should be written."""
    return F.upper(F.trim(name)).alias(name)


def rate(currency: Column) -> Column:
    pairs = [F.lit(each) for pair in RATES.items() for each in pair]
    return F.create_map(*pairs)[currency].cast("decimal(4,2)")
