"""Checks that take more than a line."""

from __future__ import annotations

import pyarrow.compute as pc

from servo import AssetIn, check


@check(severity="warning")
def few_refunds(orders: AssetIn) -> tuple[bool, str]:
    """Customers are happy: at most one order in ten comes back."""
    status = orders.arrow(columns=["status"])["status"]
    share = (pc.sum(pc.equal(status, "refunded")).as_py() or 0) / max(len(status), 1)
    return share <= 0.1, f"{share:.1%} of the orders were refunded"


@check(severity="info")
def no_country_is_everything(revenue: AssetIn) -> tuple[bool, str]:
    """No country brings more than half of the revenue."""
    table = revenue.arrow().group_by("country").aggregate([("revenue", "sum")]).to_pydict()
    by_country = dict(zip(table["country"], table["revenue_sum"], strict=True))
    if not by_country:
        return True, "there is no revenue"
    first = max(by_country, key=by_country.__getitem__)
    share = by_country[first] / sum(by_country.values())
    return share <= 0.5, f"{first} brings {share:.0%} of the revenue"
