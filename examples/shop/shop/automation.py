"""What happens by itself: every night, when the till corrects a day, and when something is wrong.

What runs because something new is there says so itself: `automation=eager()` in `marts.py`.
"""

from __future__ import annotations

from servo import RunRequest, SensorContext, SensorResult, notify, schedule, webhook_sensor

nightly = schedule(
    "nightly", cron="15 3 * * *", timezone="Europe/Berlin", selection=["+marts.daily_revenue"]
)


@webhook_sensor(
    "corrections",
    selection=["raw.orders", "clean.orders", "clean.sales", "marts.daily_revenue"],
)
def corrections(ctx: SensorContext) -> SensorResult:
    """The till sends a day again: `{"day": "2025-01-04"}`."""
    day = ctx.json()["day"]
    again = RunRequest(key=ctx.message_id, partitions=f"date={day}", config={"bad_day": "never"})
    return SensorResult(runs=[again])


notify(
    "trouble",
    on=["asset_failed", "quarantined", "stale", "contract_breach", "recovered"],
    to="operators",
)
