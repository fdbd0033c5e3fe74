"""What the shop's systems send: orders and clicks by day, customers and products as a whole.

How much of it there is, is configuration: `servo run '*' --config rows_per_day=1000000`.
On `bad_day` the till has its currencies mixed up.
"""

from __future__ import annotations

from datetime import date

from pyspark.sql import DataFrame

from servo import (
    AssetContext,
    AssetOut,
    Resources,
    Retention,
    Retry,
    asset,
    column,
    matches,
    not_null,
    row_count,
    row_count_change,
    schema_is,
)
from shop import generate
from shop.calendar import DAYS

NAMESPACE = "raw"
SHOP = {"customers": 20_000, "products": 500}
TILL_SENDS = {
    "order_id": "bigint",
    "ordered_at": "timestamp_ntz",
    "customer_id": "bigint",
    "sku": "string",
    "quantity": "int",
    "unit_price": "decimal(12,2)",
    "currency": "string",
    "status": "string",
    "coupon": "string",
}


@asset(
    group="sources",
    owners=["crm@example.com"],
    tags={"source": "crm"},
    columns=[
        column("customer_id", "bigint", nullable=False),
        column("name", "string", pii="name"),
        column("email", "string", pii="email", description="As it was typed in."),
        column("country", "string"),
        column("signed_up", "date"),
    ],
    checks=[
        row_count(min=1, severity="critical"),
        not_null("customer_id", "email"),
        matches("email", r"\s*[^@\s]+@[^@\s]+\s*", severity="warning"),
    ],
    config=SHOP,
)
def customers(ctx: AssetContext) -> DataFrame:
    """Everybody who has an account."""
    return generate.customers(ctx.spark, _number(ctx, "customers"))


@asset(group="sources", owners=["range@example.com"], tags={"source": "warehouse"}, config=SHOP)
def products(ctx: AssetContext) -> DataFrame:
    """What the shop sells, and for how much."""
    return generate.products(ctx.spark, _number(ctx, "products"))


@asset(
    partitions=DAYS,
    group="sources",
    owners=["shop@example.com"],
    tags={"source": "till"},
    columns=[column(name, type) for name, type in TILL_SENDS.items()],
    checks=[
        row_count(min=1, severity="critical"),
        row_count_change(min_percent=-50, max_percent=100, severity="warning"),
        schema_is(TILL_SENDS),
        not_null("order_id", "customer_id", "sku"),
    ],
    retry=Retry(max_attempts=5, delay="5s", retry_on=(ConnectionError,)),
    retention=Retention(versions=2, days=30),
    timeout="1h",
    resources=Resources(pool="till"),
    config={**SHOP, "rows_per_day": 20_000, "bad_day": "2025-01-04"},
)
def orders(ctx: AssetContext) -> AssetOut:
    """One day's orders, as the till sent them."""
    day, rows = _day(ctx), _number(ctx, "rows_per_day")
    ctx.log.info("the till sent %s orders of %s", f"{rows:,}", day)
    sent = generate.orders(
        ctx.spark,
        day,
        rows,
        customers=_number(ctx, "customers"),
        products=_number(ctx, "products"),
        bad=day.isoformat() == ctx.config["bad_day"],
    )
    return ctx.output(sent, source="till", day=day.isoformat())


@asset(
    partitions=DAYS,
    group="sources",
    owners=["web@example.com"],
    tags={"source": "web"},
    columns=[
        column("click_id", "bigint", nullable=False),
        column("clicked_at", "timestamp_ntz"),
        # It flows on into visits: `servo pii list` says where it is, `servo pii explain` why.
        column(
            "visitor",
            "string",
            pii="custom:cookie",
            sensitivity="internal",
            description="A cookie.",
        ),
        column("customer_id", "bigint", description="Null as long as nobody has logged in."),
        column("url", "string"),
        column("ip", "string", pii="ip_address"),
    ],
    checks=[row_count(min=1), not_null("click_id", "clicked_at", "visitor")],
    retention=Retention(versions=1),
    config={**SHOP, "rows_per_day": 20_000},
)
def clicks(ctx: AssetContext) -> DataFrame:
    """One day's clicks: as many as there are orders."""
    return generate.clicks(
        ctx.spark,
        _day(ctx),
        _number(ctx, "rows_per_day"),
        customers=_number(ctx, "customers"),
        products=_number(ctx, "products"),
    )


def _day(ctx: AssetContext) -> date:
    day = ctx.partition_value("date")
    assert isinstance(day, date)
    return day


def _number(ctx: AssetContext, name: str) -> int:
    value = ctx.config[name]
    assert isinstance(value, int)
    return value
