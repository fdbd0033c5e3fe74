"""Automatic requests for runs: schedules, sensors, backfills, freshness, automation of assets."""
