"""What runs by itself: while `servo dev` runs, or `servo orchestrator` and `servo worker`."""

from __future__ import annotations

from pipeline.marts import revenue
from servo import schedule

# Every night, the day that has just ended, with all that the revenue is made of.
nightly = schedule(
    "nightly", cron="15 3 * * *", timezone="Europe/Berlin", selection=[f"+{revenue.key}"]
)
