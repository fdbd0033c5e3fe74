"""The numbers that people look at. In SQL; `ref` names an asset, and makes it an input."""

from __future__ import annotations

from pipeline.raw import DAYS
from servo import Freshness, in_range, sql_asset, unique

NAMESPACE = "marts"

revenue = sql_asset(
    "revenue",
    """
    SELECT
      country,
      count(*) AS orders,
      count(DISTINCT customer) AS customers,
      CAST(sum(amount) AS DECIMAL(18, 2)) AS revenue
    FROM {{ ref("clean.orders") }}
    GROUP BY country
    """,
    description="What was sold on a day, by country, in euros.",
    partitions=DAYS,
    owners=["you@example.com"],
    checks=[unique("country"), in_range("revenue", min=0)],
    # `servo status` and `servo freshness` say when newer data is due.
    freshness=Freshness(max_age="36h"),
)
