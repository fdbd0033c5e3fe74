"""The shapes of answers: causes with their facts and remedies, explanations, recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from arco.answers.asset_health import AssetHealth, HealthStatus, LastRunHealth, QualityHealth
from arco.answers.html import ChainLink, as_chain

FactValue = str | int | float | datetime | None | list[str]


CauseKind = Literal[
    "cancelled",
    "different",
    "empty",
    "expensive",
    "failed",
    "held",
    "materializing",
    "never_materialized",
    "not_deployed",
    "out_of_date",
    "rejected",
    "retries",
    "run_failed",
    "skew",
    "skipped",
    "stale",
    "stopped_by_checks",
    "timed_out",
    "waiting",
    "warned",
]
"""Causes of a state, and observations about a version or a run."""
RecommendationKind = Literal[
    "check_never_fails",
    "failing_checks",
    "fix_upstream",
    "retries",
    "skew",
    "small_files",
    "unread",
    "wide_window",
]


class RemediationHint(Struct, frozen=True, kw_only=True):
    action: str
    command: str | None = None
    documentation_url: str | None = None


class Cause(Struct, frozen=True, kw_only=True):
    """One link of a chain: a problem of a partition of an asset, or of a run."""

    kind: CauseKind
    asset: str = ""
    partition: str = ""
    """As in the partition key."""
    text: str
    at: datetime | None = None
    facts: dict[str, FactValue] = {}
    remedies: tuple[RemediationHint, ...] = ()


class NoRecentRuns(Struct, frozen=True, kw_only=True):
    kind: Literal["NoRecentRuns"] = "NoRecentRuns"
    last_run_at: datetime | None = None


class RunFailed(Struct, frozen=True, kw_only=True):
    kind: Literal["RunFailed"] = "RunFailed"
    run_id: str
    failed_at: datetime | None
    error: str


class UpstreamStale(Struct, frozen=True, kw_only=True):
    kind: Literal["UpstreamStale"] = "UpstreamStale"
    upstream_asset: str
    upstream_staleness: timedelta | None


class QualityBlocked(Struct, frozen=True, kw_only=True):
    kind: Literal["QualityBlocked"] = "QualityBlocked"
    check_name: str
    failed_at: datetime | None


class QuarantinedOutput(Struct, frozen=True, kw_only=True):
    kind: Literal["Quarantined"] = "Quarantined"
    quarantined_by: str
    quarantined_at: datetime | None
    reason: str


StaleReason = NoRecentRuns | RunFailed | UpstreamStale | QualityBlocked | QuarantinedOutput


class FreshnessExplanation(Struct, frozen=True, kw_only=True):
    last_materialized_at: datetime | None
    staleness: timedelta | None
    sla: str | None
    within_sla: bool | None
    stale_reason: StaleReason | None
    """Null for what is not stale."""


class LineageNeighbour(Struct, frozen=True, kw_only=True):
    asset: str
    status: HealthStatus


class LineageSummary(Struct, frozen=True, kw_only=True):
    upstream: tuple[LineageNeighbour, ...]
    downstream: tuple[str, ...]
    """The first of them."""
    downstream_count: int


class ActivityEvent(Struct, frozen=True, kw_only=True):
    at: datetime
    kind: Literal["attempt", "freshness"]
    text: str
    partition: str = ""
    run_id: str = ""


class Priority(StrEnum):
    HIGH = "High"
    MEDIUM = "Medium"
    LOW = "Low"


class Recommendation(Struct, frozen=True, kw_only=True):
    priority: Priority
    kind: RecommendationKind
    asset: str
    action: str
    reason: str
    command: str | None = None
    facts: dict[str, FactValue] = {}


class AssetExplanation(Struct, frozen=True, kw_only=True):
    generation: int
    asset: str
    partition: str
    """The one that is explained: as asked for, or the one that matters most."""
    status: HealthStatus
    summary: str
    causes: tuple[Cause, ...]
    """The chain: the first is about this asset, the last is the first cause. Empty: all is well."""
    observations: tuple[Cause, ...]
    """What stands out of its current version: that it is empty, expensive, or different."""
    freshness: FreshnessExplanation
    quality: QualityHealth
    lineage: LineageSummary
    last_run: LastRunHealth | None
    recent_activity: tuple[ActivityEvent, ...]
    recommendations: tuple[Recommendation, ...]
    health: AssetHealth

    def _repr_html_(self) -> str:
        title = place(self.asset, self.partition)
        return as_chain(
            title, self.status, self.summary, _links(self.causes), _links(self.observations)
        )


class RunExplanation(Struct, frozen=True, kw_only=True):
    generation: int
    run_id: str
    state: str
    summary: str
    causes: tuple[Cause, ...]
    """The chain: the first is about this run, the last is the first cause. Empty: all is well."""
    observations: tuple[Cause, ...]
    triggered_by: tuple[str, ...]
    """What asked for it, and the runs before it that led to it."""

    def _repr_html_(self) -> str:
        title = f"run {self.run_id}"
        return as_chain(
            title, self.state, self.summary, _links(self.causes), _links(self.observations)
        )


def _links(causes: Sequence[Cause]) -> list[ChainLink]:
    return [
        ChainLink(cause.text, tuple(each.command for each in cause.remedies if each.command))
        for cause in causes
    ]


def place(asset: str, partition: str) -> str:
    """`shop.orders[date=2026-01-01]`."""
    parts = (part.partition("=") for part in partition.split(",") if part)
    text = ",".join(f"{name}={tagged.partition(':')[2]}" for name, _, tagged in parts)
    return f"{asset}[{text}]" if text else asset


def remedy(action: str, command: str = "") -> RemediationHint:
    return RemediationHint(action=action, command=command or None)
