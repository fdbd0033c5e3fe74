"""When things happen: by day, and by month."""

from __future__ import annotations

from servo import daily, monthly

DAYS = daily("date", start="2025-01-01", end="2026-01-01")
MONTHS = monthly("month", start="2025-01-01", end="2026-01-01")
