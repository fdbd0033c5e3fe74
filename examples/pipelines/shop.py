"""A small shop: orders come in by day and region, and totals go out.

Nothing here talks to the world: each asset is a plain function over Arrow tables,
and can be called in a test as it is.
"""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from servo import (
    AssetContext,
    AssetIn,
    AssetOut,
    In,
    Resources,
    Retry,
    accepted_values,
    all_upstream,
    asset,
    by_dimension,
    check,
    column,
    daily,
    in_range,
    not_null,
    references,
    row_count,
    schedule,
    static,
    unique,
    window,
)

NAMESPACE = "shop"

DAYS = daily("date", start="2025-01-01")
REGIONS = static("region", ["eu", "us"])
PRICES = {"pen": 120, "ink": 450, "pad": 300}


@asset(
    owners=["data@example.com"],
    columns=[column("sku", "string", nullable=False), column("price_cents", "bigint")],
    checks=[unique("sku"), in_range("price_cents", min=1)],
)
def products() -> pa.Table:
    """What the shop sells, and for how much."""
    return pa.table({"sku": list(PRICES), "price_cents": list(PRICES.values())})


@asset(
    partitions=DAYS * REGIONS,
    columns=[
        column("order_id", "string", nullable=False),
        column("sku", "string", nullable=False),
        column("quantity", "bigint"),
        column("email", "string", pii="email"),
    ],
    checks=[
        row_count(min=1),
        accepted_values("sku", list(PRICES), severity="warning"),
        not_null("order_id", "sku"),
        unique("order_id"),
        references("sku", "shop.products.sku"),
    ],
    gating="quarantine",
    retry=Retry(max_attempts=5, delay="30s", retry_on=(ConnectionError,)),
    timeout="30m",
    secrets={"api_token": "env:SHOP_API_TOKEN"},
    deps=["products"],
    tags={"source": "api"},
)
def orders(ctx: AssetContext) -> AssetOut:
    """The orders of one day in one region, as the shop's API gives them."""
    ctx.secret("api_token")  # a real one would be sent along
    day, region = ctx.partition_value("date"), ctx.partition_value("region")
    assert isinstance(day, date)
    count = 3 + day.day % 3
    ctx.log.info("fetching %s orders of %s", count, region)
    table = pa.table(
        {
            "order_id": [f"{region}-{day}-{number}" for number in range(count)],
            "sku": [list(PRICES)[number % len(PRICES)] for number in range(count)],
            "quantity": [1 + number % 2 for number in range(count)],
            "email": [f"customer{number}@example.com" for number in range(count)],
        }
    )
    return ctx.output(table, source="api", pages=1)


@check(severity="warning")
def quantities_are_small(data: AssetIn) -> tuple[bool, str]:
    """Nobody buys a hundred pens."""
    most = pc.max(data.arrow()["quantity"]).as_py() or 0
    return most < 100, f"the greatest quantity is {most}"


@asset(
    partitions=DAYS * REGIONS,
    checks=[quantities_are_small, not_null("email", phase="before", input="orders")],
)
def sales(orders: AssetIn, products: AssetIn) -> pa.Table:
    """Orders with their value, and without their customers."""
    joined = orders.arrow().drop_columns(["email"]).join(products.arrow(), "sku")
    value = pc.multiply(joined["quantity"], joined["price_cents"])
    return joined.append_column("value_cents", value)


@asset(
    partitions=DAYS,
    group="reports",
    ins={"sales": In("shop.sales", by_dimension(region=all_upstream))},
    checks=[in_range("value_cents", min=0)],
)
def daily_totals(sales: AssetIn) -> pa.Table:
    """Value by product, over all regions."""
    grouped = sales.arrow().group_by("sku").aggregate([("value_cents", "sum")])
    return grouped.rename_columns({"value_cents_sum": "value_cents"})


@asset(
    partitions=DAYS,
    group="reports",
    ins={"totals": In("daily_totals", window(-6, 0))},
    resources=Resources(priority=10),
)
def weekly_trend(totals: AssetIn) -> pa.Table:
    """Value over the last seven days."""
    return pa.table({"value_cents": [pc.sum(totals.arrow()["value_cents"]).as_py()]})


@asset(
    partitions=DAYS,
    group="reports",
    deps=[weekly_trend],
    config={"channel": "sales"},
)
def announcement(ctx: AssetContext) -> None:
    """Tells people that the reports are there; it has no data of its own."""
    ctx.log.info("the reports of %s are ready for %s", ctx.partition, ctx.config["channel"])


nightly = schedule(
    "nightly", cron="30 2 * * *", timezone="Europe/Berlin", selection=["+shop.announcement"]
)
