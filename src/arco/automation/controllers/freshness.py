"""Evaluates series that are due: whether they are fresh, why not, and which run to request."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from arco.automation.deadlines import DeadlineRule
from arco.automation.freshness_events import FreshnessEvaluated, FreshnessRunDue
from arco.automation.freshness_fold import judged_as
from arco.automation.freshness_tables import (
    FreshnessPolicyRow,
    FreshnessRequestRow,
    FreshnessRow,
    FreshnessStatus,
    StaleCause,
)
from arco.execution.states import PartitionState, Quality
from arco.execution.tables import PartitionStatusRow
from servo.contract.partition import PartitionKey

FRESH, STALE = FreshnessStatus.FRESH, FreshnessStatus.STALE


class FreshnessVerdict(NamedTuple):
    """How fresh a series is at a time."""

    status: FreshnessStatus
    due_at: datetime | None
    """When newer data is due, or was; None if it never will be."""
    partition: str
    """The due partition; for an asset with periods, the newest due one."""


class NextEvaluation(NamedTuple):
    """Nothing is due before a time; None: before it changes."""

    at: datetime | None


Judgement = FreshnessEvaluated | FreshnessRunDue | NextEvaluation


def verdict(
    rule: DeadlineRule, series: str, row: FreshnessRow | None, now: datetime
) -> FreshnessVerdict:
    due_at = rule.deadline(row)
    is_stale = due_at is not None and due_at <= now
    partition = rule.due_partition(series, now) if is_stale else _newest(series, row)
    return FreshnessVerdict(STALE if is_stale else FRESH, due_at, partition)


def _newest(series: str, row: FreshnessRow | None) -> str:
    return series if row is None or not row.partition_key else row.partition_key


def judge(
    policy: FreshnessPolicyRow,
    rule: DeadlineRule,
    series: str,
    row: FreshnessRow | None,
    attempt: PartitionStatusRow | None,
    request: FreshnessRequestRow | None,
    *,
    upstream: str,
    is_active: bool,
    now: datetime,
) -> Judgement:
    """`attempt` is the last one of the due partition, `upstream` an upstream asset that is stale;
    `is_active`: a run that it requested is active."""
    if row is not None and row.shape != policy.shape:
        row = None
    current = verdict(rule, series, row, now)
    recorded = FRESH if row is None else row.status
    version = row.materialization_id if row is not None and rule.counts(row) else ""
    if current.status != recorded:
        if recorded == STALE and row is not None and row.judged == judged_as(policy, version):
            return NextEvaluation(None)  # by another machine's zone data it is stale
        cause, reason = explain(policy, current, row, attempt, upstream)
        return FreshnessEvaluated(
            asset_id=policy.asset_id,
            series=series,
            number=policy.number,
            status=current.status,
            materialization_id=version,
            partition=current.partition,
            due_at=current.due_at if current.status == STALE else None,
            cause=cause,
            reason=reason,
        )
    if current.status == FRESH:
        return NextEvaluation(current.due_at)
    if not policy.request_run or row is None or row.due_at is None:
        return NextEvaluation(None)
    return _ask(policy, rule, row, request, is_active=is_active, now=now)


def _ask(
    policy: FreshnessPolicyRow,
    rule: DeadlineRule,
    row: FreshnessRow,
    request: FreshnessRequestRow | None,
    *,
    is_active: bool,
    now: datetime,
) -> FreshnessRunDue | NextEvaluation:
    due_at = rule.latest_due(row, now)
    if is_active or (request is not None and due_at <= request.due_at):
        return NextEvaluation(rule.next_due(row, now))
    partition = rule.due_partition(row.series, now)
    return FreshnessRunDue(
        asset_id=policy.asset_id,
        series=row.series,
        asset=policy.asset_key,
        partitions=terms_of(partition),
        due_at=due_at,
        asked=0 if request is None else request.asked,
        force=not policy.time_dimension,
    )


def terms_of(partition: str) -> tuple[str, ...]:
    """A partition as the command line names it."""
    return tuple(
        f"{name}={_text(v)}" for name, v in PartitionKey.parse(partition).dimensions.items()
    )


def _text(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# -- reasons ------------------------------------------------------------------------------


def explain(
    policy: FreshnessPolicyRow,
    current: FreshnessVerdict,
    row: FreshnessRow | None,
    attempt: PartitionStatusRow | None,
    upstream: str,
) -> tuple[StaleCause, str]:
    """Why a series is fresh or stale, in one line."""
    has_data = row is not None and row.materialization_id and row.shape == policy.shape
    newest = " ".join(terms_of(row.partition_key)) if row is not None and has_data else ""
    made_at = row.made_at if row is not None and has_data else None
    if current.status == FRESH:
        if made_at is None:
            return "", f"not materialized yet; {_when_due(current.due_at)}"
        since = f"{newest} was " if policy.time_dimension and newest else ""
        return "", f"{since}materialized at {_time(made_at)}"
    what = " ".join(terms_of(current.partition))
    due = "" if current.due_at is None else _time(current.due_at)
    cause, because = _cause(attempt, upstream)
    if made_at is None:
        text = f"{what} was never materialized; it was due at {due}".lstrip()
        cause = "never_materialized" if cause == "no_recent_run" else cause
    elif policy.time_dimension:
        text = f"{what} is missing; the newest is {newest}; newer data was due at {due}"
    else:
        text = f"materialized at {_time(made_at)}; newer data was due at {due}"
    return cause, "; ".join(part for part in (text, because) if part)


def _cause(attempt: PartitionStatusRow | None, upstream: str) -> tuple[StaleCause, str]:
    if attempt is not None and attempt.state == PartitionState.FAILED:
        return "run_failed", f"its last attempt failed: {attempt.message or attempt.error_code}"
    if attempt is not None and attempt.quality in (Quality.QUARANTINED, Quality.BLOCKED):
        return "held", f"its last output is held: {attempt.message}"
    if attempt is not None and attempt.quality == Quality.REJECTED:
        return "rejected", f"its last output was rejected: {attempt.message}"
    if upstream:
        return "upstream_stale", f"{upstream}, which it reads, is stale"
    return "no_recent_run", ""


def _when_due(due_at: datetime | None) -> str:
    return "no partition is due" if due_at is None else f"due at {_time(due_at)}"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
