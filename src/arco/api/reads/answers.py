"""Health, causes, costs, differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from arco.answers.asset_health import (
    AssetHealth,
    HealthStatus,
    LastRunHealth,
    QualityHealth,
)
from arco.answers.cost_report import CostGrouping, CostReport, first_day
from arco.answers.questions import RANK, Answers
from arco.answers.shapes import (
    ActivityEvent,
    Cause,
    LineageSummary,
    Priority,
    RemediationHint,
)
from arco.answers.snapshot_diff import SnapshotDiff, snapshot_diff
from arco.api.page_tokens import PageKey
from arco.api.problems import invalid_field
from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.run_reads import RunId
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.run_visibility import require_run, sees_whole_run
from arco.api.views import View
from arco.execution.reader import ExecutionReader
from arco.plain_json import plain
from arco.security.permissions import Permission
from arco.security.visibility import Visible


def answers_of(view: View) -> Answers:
    return Answers(view.snapshot, view.library, view.now, view.store if view.is_current else None)


class CauseBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is the matter with a partition of an asset, or with a run."""

    kind: str
    asset: str
    partition: str
    text: str
    at: datetime | None
    facts: dict[str, Any]
    remedies: tuple[RemediationHint, ...]


class RecommendationBody(msgspec.Struct, frozen=True, kw_only=True):
    priority: Priority
    kind: str
    asset: str
    action: str
    reason: str
    command: str | None
    facts: dict[str, Any]


class FreshnessExplanationBody(msgspec.Struct, frozen=True, kw_only=True):
    last_materialized_at: datetime | None
    staleness: timedelta | None
    sla: str | None
    within_sla: bool | None
    stale_reason: dict[str, Any] | None
    """Its `kind` says which; null for what is not stale."""


class AssetExplanationBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    """The one that is explained: as asked for, or the one that matters most."""
    status: HealthStatus
    summary: str
    causes: list[CauseBody]
    """The chain: the first is about this asset, the last is the first cause. Empty: all is well."""
    observations: list[CauseBody]
    freshness: FreshnessExplanationBody
    quality: QualityHealth
    lineage: LineageSummary
    last_run: LastRunHealth | None
    recent_activity: list[ActivityEvent]
    recommendations: list[RecommendationBody]
    health: AssetHealth


class RunExplanationBody(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    state: str
    summary: str
    causes: list[CauseBody]
    observations: list[CauseBody]
    triggered_by: list[str]


class ExplainAssetParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    partition: Annotated[
        list[Annotated[str, Meta(max_length=2000)]],
        Meta(max_length=20, description="The partition: date=2026-01-31."),
    ] = []


def explain_asset(
    view: View, visible: Visible, parameters: ExplainAssetParameters
) -> AssetExplanationBody:
    """Explain why an asset is in its state."""
    asset_id_of(view, visible, parameters.asset)
    explanation = answers_of(view).explain_asset(parameters.asset, parameters.partition)
    freshness, lineage = explanation.freshness, explanation.lineage
    reason = None if freshness.stale_reason is None else plain(freshness.stale_reason)
    upstream = tuple(each for each in lineage.upstream if visible.sees_asset(each.asset))
    downstream = tuple(each for each in lineage.downstream if visible.sees_asset(each))
    hidden = len(lineage.downstream) - len(downstream)
    return AssetExplanationBody(
        asset=explanation.asset,
        partition=explanation.partition,
        status=explanation.status,
        summary=explanation.summary,
        causes=_causes(visible, explanation.causes),
        observations=_causes(visible, explanation.observations),
        freshness=FreshnessExplanationBody(
            last_materialized_at=freshness.last_materialized_at,
            staleness=freshness.staleness,
            sla=freshness.sla,
            within_sla=freshness.within_sla,
            stale_reason=reason,
        ),
        quality=explanation.quality,
        lineage=LineageSummary(
            upstream=upstream,
            downstream=downstream,
            downstream_count=lineage.downstream_count - hidden if visible.all else len(downstream),
        ),
        last_run=explanation.last_run,
        recent_activity=list(explanation.recent_activity),
        recommendations=[
            RecommendationBody(**msgspec.structs.asdict(each))
            for each in explanation.recommendations
            if _is_seen(visible, each.asset)
        ],
        health=explanation.health,
    )


def _causes(visible: Visible, causes: Sequence[Cause]) -> list[CauseBody]:
    return [
        CauseBody(**msgspec.structs.asdict(each))
        for each in causes
        if _is_seen(visible, each.asset)
    ]


def _is_seen(visible: Visible, asset: str) -> bool:
    return not asset or visible.sees_asset(asset)


class ExplainRunParameters(AtParameters, frozen=True, kw_only=True):
    run_id: RunId


def explain_run(
    view: View, visible: Visible, parameters: ExplainRunParameters
) -> RunExplanationBody:
    """Explain why a run is in its state."""
    row = require_run(view, visible, parameters.run_id)
    explanation = answers_of(view).explain_run(row.run_id)
    sees_all = sees_whole_run(view, visible, row)
    return RunExplanationBody(
        run_id=explanation.run_id,
        state=explanation.state,
        summary=explanation.summary,
        causes=_causes(visible, explanation.causes),
        observations=_causes(visible, explanation.observations),
        triggered_by=list(explanation.triggered_by) if sees_all else [],
    )


class HealthParameters(PageParameters, frozen=True, kw_only=True):
    status: Annotated[list[HealthStatus], Meta(max_length=4)] | UnsetType = UNSET


def list_health(
    view: View, visible: Visible, parameters: HealthParameters, window: PageWindow
) -> Iterator[tuple[PageKey, AssetHealth]]:
    """List the health of deployed assets, worst first."""
    for each in _health(view, visible):
        key = (RANK[each.status], each.asset)
        is_selected = parameters.status is UNSET or each.status in parameters.status
        if is_selected and (window.after is None or key > window.after):
            yield key, each


def _health(view: View, visible: Visible) -> list[AssetHealth]:
    return [each for each in answers_of(view).health() if visible.sees_asset(each.asset)]


class HealthSummary(msgspec.Struct, frozen=True, kw_only=True):
    assets: int
    counts: dict[str, int]


def get_health_summary(view: View, visible: Visible, parameters: AtParameters) -> HealthSummary:
    """Count deployed assets by their health."""
    healths = _health(view, visible)
    counts = Counter(each.status for each in healths)
    return HealthSummary(
        assets=len(healths), counts={status.value: counts[status] for status in HealthStatus}
    )


class AssetHealthParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName


def get_asset_health(
    view: View, visible: Visible, parameters: AssetHealthParameters
) -> AssetHealth:
    """Show the health of an asset, with the reason."""
    asset_id_of(view, visible, parameters.asset)
    answers = answers_of(view)
    return answers.explain_asset(parameters.asset).health


# -- costs ------------------------------------------------------------------------------------


class CostParameters(AtParameters, frozen=True, kw_only=True):
    by: Annotated[CostGrouping, Meta(description="Group by asset, day or run.")] = "asset"
    days: Annotated[int, Meta(ge=1, le=366, description="The last days, today included (UTC).")] = (
        30
    )
    asset: Annotated[AssetName, Meta(description="Only this asset.")] = ""


class CostLine(msgspec.Struct, frozen=True, kw_only=True):
    tasks: int
    attempts: int
    failed_attempts: int
    cpu_ms: int
    executor_cpu_ms: int
    memory_kib_ms: int
    bytes_read: int
    bytes_written: int
    cost_nanos: dict[str, int]
    """By currency, in 10⁻⁹ of its unit."""
    unpriced_attempts: int
    asset: str | UnsetType = UNSET
    day: str | UnsetType = UNSET
    run_id: str | UnsetType = UNSET


class CostBody(msgspec.Struct, frozen=True, kw_only=True):
    since: datetime
    by: CostGrouping
    lines: list[CostLine]
    truncated: bool
    total: CostLine


MAX_COST_LINES = 1_000


def get_costs(view: View, visible: Visible, parameters: CostParameters) -> CostBody:
    """Show the usage and cost of tasks, for the assets that the caller sees."""
    since = first_day(view.now, parameters.days)
    rows = [
        row
        for row in ExecutionReader(view.snapshot).costs(since)
        if visible.sees_asset(row.asset_key) and parameters.asset in ("", row.asset_key)
    ]
    report = CostReport.of(parameters.by, rows, None, view.tenant).document()
    lines = report["lines"]
    return CostBody(
        since=since,
        by=parameters.by,
        lines=[CostLine(**line) for line in lines[:MAX_COST_LINES]],
        truncated=len(lines) > MAX_COST_LINES,
        total=CostLine(**report["total"]),
    )


# -- differences ------------------------------------------------------------------------------


class DiffParameters(AtParameters, frozen=True, kw_only=True):
    since: Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="The earlier generation.")]
    limit: Annotated[int, Meta(ge=1, le=1000, description="Of each kind of change.")] = 100


class DiffBody(msgspec.Struct, frozen=True, kw_only=True):
    difference: SnapshotDiff
    truncated: list[str]
    """Kinds of changes of which there are more."""


def get_diff(view: View, visible: Visible, parameters: DiffParameters) -> DiffBody:
    """Show what changed since an earlier generation: assets, partitions, schemas and lineage."""
    if parameters.since > view.generation:
        raise invalid_field("since", f"is later than generation {view.generation}")
    older = view.earlier(parameters.since)
    difference = snapshot_diff(older, view.snapshot)
    kinds = SnapshotDiff.__struct_fields__[4:]
    visible_changes = {
        kind: tuple(e for e in getattr(difference, kind) if _sees(visible, e)) for kind in kinds
    }
    limit = parameters.limit
    return DiffBody(
        difference=msgspec.structs.replace(
            difference, **{kind: changes[:limit] for kind, changes in visible_changes.items()}
        ),
        truncated=[kind for kind, changes in visible_changes.items() if len(changes) > limit],
    )


def _sees(visible: Visible, change: Any) -> bool:
    if isinstance(change, str):
        return visible.sees_asset(change)
    ends = [getattr(change, name, "") for name in ("asset", "source", "target")]
    # A column's change has a `source` that is no asset.
    return all(visible.sees_asset(end) for end in ends if "." in end)


_READ = Permission.ASSETS_READ
ROUTES: tuple[Any, ...] = (
    read("/assets/{asset}/explain", _READ, explain_asset, live=True),
    read("/assets/{asset}/health", _READ, get_asset_health, live=True),
    read("/runs/{run_id}/explain", Permission.RUNS_READ, explain_run, live=True),
    listing("/health", _READ, list_health, live=True),
    read("/health/summary", _READ, get_health_summary, live=True),
    read("/costs", Permission.RUNS_READ, get_costs, live=True),
    read("/diff", _READ, get_diff),
)
