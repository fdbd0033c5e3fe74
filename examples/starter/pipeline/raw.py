"""What comes in: orders, one partition for each day."""

from __future__ import annotations

import random
from datetime import date

import pyarrow as pa

from servo import AssetContext, asset, column, daily, not_null, row_count, unique

# Assets in this file are named raw.….
NAMESPACE = "raw"

# One partition for each day. `servo run '*'` runs the last complete day;
# `servo run '*' -p date=2025-01-01..2025-01-31` runs these.
DAYS = daily("date", start="2025-01-01")

SCHEMA = pa.schema(
    {
        "order_id": pa.int64(),
        "ordered_on": pa.date32(),
        "email": pa.string(),
        "country": pa.string(),
        "cents": pa.int64(),
    }
)


@asset(
    partitions=DAYS,
    owners=["you@example.com"],
    # Declared columns are compared with what the function returns. `pii` marks personal data:
    # `servo pii list` shows where it flows.
    columns=[
        column("order_id", "bigint", nullable=False),
        column("ordered_on", "date"),
        column("email", "string", pii="email"),
        column("country", "string"),
        column("cents", "bigint"),
    ],
    # Checks are evaluated before the output becomes visible to others.
    checks=[row_count(min=1), unique("order_id"), not_null("order_id", "ordered_on")],
    # Can be replaced for one run: servo run raw.orders --config rows=1000
    config={"rows": 200},
)
def orders(ctx: AssetContext) -> pa.Table:
    """The orders of one day. Replace this with a call of your own source."""
    day = ctx.partition_value("date")
    rows = ctx.config["rows"]
    assert isinstance(day, date) and isinstance(rows, int)
    ctx.log.info("reading %d orders of %s", rows, day)
    return pa.Table.from_pylist([order(day, number) for number in range(rows)], SCHEMA)


def order(day: date, number: int) -> dict[str, object]:
    """An order that is made up; the same one each time."""
    draw = random.Random(f"{day}-{number}")
    return {
        "order_id": int(f"{day:%Y%m%d}") * 100_000 + number,
        "ordered_on": day,
        "email": f"customer{draw.randrange(50)}@example.com",
        "country": draw.choice(["DE", "FR", "it", "ES "]),
        # Some are refunds. `clean.orders` leaves them out.
        "cents": draw.randrange(500, 20_000) * draw.choice([1, 1, 1, 1, -1]),
    }
