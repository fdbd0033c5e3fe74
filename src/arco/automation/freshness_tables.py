"""Freshness tables: policies, the status of each series, requests, and changes.

A *series* is the unit of freshness. For an asset with a time dimension it is all periods with the
same other values: the newest period counts. For any other asset it is one partition. It is named by
the partition key without the time dimension.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from arco.state.table import History, Row, Table

SPREAD = 32
CHANGES_KEPT_HOT = timedelta(days=2)


class FreshnessStatus(StrEnum):
    FRESH = "FRESH"
    STALE = "STALE"


StaleCause = Literal[
    "",
    "never_materialized",
    "no_recent_run",
    "run_failed",
    "held",
    "rejected",
    "upstream_stale",
]
"""Why an asset is stale; empty for one that is fresh."""


class FreshnessPolicyRow(Row, frozen=True):
    asset_id: str
    asset_key: str
    project: str
    deployment_id: str
    active: bool
    """Whether the current deployment has it."""
    number: int
    """Increased with each change: results for another number do not count."""
    shape: int
    """Increased when partitions change, and when a removed policy returns: data and status of
    another shape do not count."""
    max_age_s: int
    cron: str
    timezone: str
    request_run: bool
    time_dimension: str
    """Empty for an asset without."""
    dimension_names: list[str]
    dimensions: str
    """As JSON."""
    upstream: list[str]
    """Keys of the assets that it reads."""
    since: datetime
    """When this shape began: series without data are due from then on."""
    observed: bool
    """Whether earlier data is in the table of series."""


class FreshnessRow(Row, frozen=True):
    """A series that has data, or is overdue."""

    asset_id: str
    series: str
    status: FreshnessStatus
    shape: int
    partition_key: str
    """Of the newest data."""
    materialization_id: str
    """The version that is the newest data; empty if there is none."""
    made_at: datetime | None
    judged: str
    """The policy's number and the version that were last evaluated as stale."""
    due_at: datetime | None
    """When newer data was due, while it is stale."""
    cause: StaleCause
    reason: str
    changed_at: datetime
    """Since when it has this status."""


class StaleSeriesRow(Row, frozen=True):
    """A stale series of an asset with a dynamic dimension: it ends when its key is removed."""

    asset_id: str
    series: str


class FreshnessRequestRow(Row, frozen=True):
    """The last run that a stale series requested."""

    asset_id: str
    series: str
    asked: int
    """How many runs it has requested."""
    due_at: datetime
    request_key: str


class FreshnessChangeRow(Row, frozen=True):
    """A transition between FRESH and STALE."""

    asset_id: str
    series: str
    position: int
    asset_key: str
    partition_key: str
    status: FreshnessStatus
    cause: StaleCause
    reason: str
    due_at: datetime | None
    changed_at: datetime


FRESHNESS_POLICIES = Table("automation", "freshness_policies", FreshnessPolicyRow, key=["asset_id"])
FRESHNESS = Table(
    "automation", "freshness", FreshnessRow, key=["asset_id", "series"], spread=SPREAD
)
STALE_SERIES = Table("automation", "stale_series", StaleSeriesRow, key=["asset_id", "series"])
FRESHNESS_REQUESTS = Table(
    "automation",
    "freshness_requests",
    FreshnessRequestRow,
    key=["asset_id", "series"],
    spread=SPREAD,
)
FRESHNESS_CHANGES = Table(
    "automation",
    "freshness_changes",
    FreshnessChangeRow,
    key=["asset_id", "series", "position"],
    spread=SPREAD,
    history=History("changed_at", CHANGES_KEPT_HOT),
)
