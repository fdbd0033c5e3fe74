"""One truth about each order, customer, product, click and visit."""

from __future__ import annotations

from pyspark.sql import DataFrame

from servo import (
    AssetIn,
    In,
    Retention,
    accepted_values,
    asset,
    column,
    expression,
    freshness,
    in_range,
    matches,
    not_null,
    references,
    row_count,
    unique,
)
from shop import checks, cleaning, generate, visits
from shop.calendar import DAYS

NAMESPACE = "clean"


@asset(
    ins={"customers": In("raw.customers")},
    group="cleaning",
    owners=["data@example.com"],
    columns=[
        column("customer_id", "bigint", nullable=False),
        column("email_hash", "string", description="SHA-256 of the address, in lower case."),
        column("country", "string"),
        column("signed_up", "date"),
    ],
    checks=[
        unique("customer_id"),
        matches("email_hash", "[0-9a-f]{64}"),
        accepted_values("country", generate.COUNTRIES),
    ],
)
def customers(customers: AssetIn) -> DataFrame:
    """Customers without their names and addresses."""
    return cleaning.tidy_customers(customers.read())


@asset(
    ins={"products": In("raw.products")},
    group="cleaning",
    owners=["data@example.com"],
    checks=[
        unique("sku"),
        accepted_values("category", generate.CATEGORIES, severity="warning"),
        in_range("price", min=0.01),
    ],
)
def products(products: AssetIn) -> DataFrame:
    """What the shop sells."""
    return cleaning.tidy_products(products.read())


@asset(
    ins={"orders": In("raw.orders")},
    partitions=DAYS,
    group="cleaning",
    owners=["data@example.com"],
    tags={"tier": "gold"},
    columns=[
        column("order_id", "bigint", nullable=False),
        column("ordered_at", "timestamp_ntz"),
        column("customer_id", "bigint"),
        column("sku", "string"),
        column("quantity", "int"),
        column("amount", "decimal(14,2)", description="In euros."),
        column("status", "string"),
        column("has_coupon", "boolean"),
    ],
    checks=[
        row_count(min=1, phase="before", input="orders"),
        unique("order_id"),
        in_range("amount", min=0, max=10_000),
        accepted_values("status", ["paid", "refunded"]),
        expression("quantity BETWEEN 1 AND 100", name="quantities are those of people"),
        # Of last year's days this cannot be true: good to know, and no reason to stop.
        freshness("ordered_at", max_age="2d", severity="info"),
        checks.few_refunds,
    ],
    gating="quarantine",
    retention=Retention(versions=3),
)
def orders(orders: AssetIn) -> DataFrame:
    """Each order once, in euros. What cannot be right waits in quarantine for a person."""
    return cleaning.tidy_orders(orders.read())


@asset(
    ins={"clicks": In("raw.clicks")},
    partitions=DAYS,
    group="web",
    owners=["web@example.com"],
    checks=[
        not_null("visitor", "clicked_at"),
        unique("click_id", severity="warning"),
        accepted_values("page", ["", "search", "product", "cart"], severity="warning"),
    ],
)
def clicks(clicks: AssetIn) -> DataFrame:
    """Which page was seen when, from which network."""
    return cleaning.tidy_clicks(clicks.read())


@asset(
    renamed_from="clean.visits",
    partitions=DAYS,
    group="web",
    owners=["web@example.com"],
    checks=[
        unique("visitor", "visit"),
        in_range("clicks", min=1, max=10_000),
        expression("ended_at >= started_at", severity="critical"),
    ],
)
def sessions(clicks: AssetIn) -> DataFrame:
    """Visits: clicks of one visitor with less than half an hour between them."""
    return visits.sessionize(clicks.read())


@asset(
    partitions=DAYS,
    group="sales",
    owners=["data@example.com"],
    tags={"tier": "gold"},
    checks=[
        # An order that the joins do not find would be lost without a word.
        references("sku", "clean.products.sku", phase="before", input="orders"),
        references("customer_id", "clean.customers.customer_id", phase="before", input="orders"),
        not_null("country", "category", "revenue"),
        row_count(min=1),
    ],
)
def sales(orders: AssetIn, customers: AssetIn, products: AssetIn) -> DataFrame:
    """Orders with their customers' countries and their products' categories."""
    return cleaning.join_sales(orders.read(), customers.read(), products.read())
