"""The numbers that people look at."""

from __future__ import annotations

from pyspark.sql import DataFrame

from servo import (
    AssetIn,
    Freshness,
    In,
    Resources,
    Retention,
    all_upstream,
    asset,
    column,
    contract,
    eager,
    expression,
    in_range,
    not_null,
    row_count,
    sql_asset,
    time_window,
    unique,
    window,
)
from shop import checks, totals
from shop.calendar import DAYS, MONTHS

NAMESPACE = "marts"

daily_revenue = sql_asset(
    "daily_revenue",
    """
    SELECT
      country,
      category,
      count(*) AS orders,
      count(DISTINCT customer_id) AS customers,
      CAST(sum(revenue) AS DECIMAL(18, 2)) AS revenue
    FROM {{ ref("clean.sales") }}
    GROUP BY country, category
    """,
    description="What was sold on a day, by country and category, in euros.",
    partitions=DAYS,
    group="sales",
    owners=["finance@example.com"],
    tags={"tier": "gold"},
    checks=[
        unique("country", "category"),
        expression("customers <= orders"),
        checks.no_country_is_everything,
    ],
    freshness=Freshness(max_age="6h"),
)

conversion = sql_asset(
    "conversion",
    """
    WITH visits AS (
      SELECT customer_id, count(*) AS visits, max(saw_cart) AS saw_cart
      FROM {{ ref("clean.sessions") }}
      WHERE customer_id IS NOT NULL
      GROUP BY customer_id
    ),
    buyers AS (
      SELECT DISTINCT customer_id FROM {{ ref("clean.sales") }}
    )
    SELECT
      c.country,
      sum(v.visits) AS visits,
      count(*) AS visitors,
      count_if(v.saw_cart) AS saw_cart,
      count(b.customer_id) AS bought
    FROM visits v
    JOIN {{ ref("clean.customers") }} c ON c.customer_id = v.customer_id
    LEFT JOIN buyers b ON b.customer_id = v.customer_id
    GROUP BY c.country
    """,
    description="From a visit to a purchase: known visitors of a day, by country.",
    partitions=DAYS,
    group="web",
    owners=["web@example.com"],
    checks=[expression("bought <= visitors"), in_range("visits", min=1)],
)


@asset(
    ins={"days": In("daily_revenue", window(-6, 0))},
    partitions=DAYS,
    group="sales",
    owners=["finance@example.com"],
    checks=[in_range("days", min=1, max=7), not_null("revenue")],
    deprecated="sum up marts.daily_revenue over the days that you need",
    automation=eager(),
)
def weekly_revenue(days: AssetIn) -> DataFrame:
    """The last seven days, every day anew."""
    return totals.over_days(days.read())


@asset(
    ins={"days": In("daily_revenue", time_window())},
    partitions=MONTHS,
    group="sales",
    owners=["finance@example.com"],
    checks=[in_range("days", min=1, max=31), unique("country", "category")],
    retention=Retention(versions=5),
    automation=eager(),
)
def monthly_revenue(days: AssetIn) -> DataFrame:
    """The revenue of a month, from those of its days that there are."""
    return totals.over_days(days.read())


@asset(
    ins={"sales": In("clean.sales", all_upstream), "customers": In("clean.customers")},
    group="sales",
    owners=["crm@example.com"],
    columns=[
        column("customer_id", "bigint", nullable=False),
        column("email_hash", "string", description="To meet the newsletter's list by."),
        column("country", "string"),
        column("orders", "bigint"),
        column("revenue", "decimal(18,2)", sensitivity="confidential"),
        column("first_order", "timestamp_ntz"),
        column("last_order", "timestamp_ntz"),
        column("decile", "int", description="1 is the best tenth of the country."),
    ],
    checks=[
        row_count(min=1),
        unique("customer_id"),
        in_range("decile", min=1, max=10),
        expression("first_order <= last_order"),
    ],
    resources=Resources(priority=10),
    automation=eager(),
)
def customer_value(sales: AssetIn, customers: AssetIn) -> DataFrame:
    """What each customer has been worth so far."""
    return totals.customer_value(sales.read(), customers.read())


contract(
    daily_revenue,
    version="1.0.0",
    description="Revenue of each day, for the reports of finance.",
    consumers=[weekly_revenue, monthly_revenue, "controlling@example.com"],
    columns=[
        column("country", "string"),
        column("category", "string"),
        column("orders", "bigint"),
        column("revenue", "decimal(18,2)", nullable=False, description="In euros."),
    ],
    key=["country", "category"],
    checks=[in_range("orders", min=1)],
    terms="Final after seven days: orders may be refunded until then.",
)
