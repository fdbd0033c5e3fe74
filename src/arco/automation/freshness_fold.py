"""The fold of freshness: one key for each asset.

There are two stages. Requests for runs come before the stages of runs (`REQUESTS`). New versions
come after that of outputs (`STAGE`), which has the policies and the status of each series. Whether
something is fresh is not computed here, because that needs a clock and zone data: an orchestrator
reports it, and it counts once, for the version and the policy that it read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from arco.automation.deadlines import Series, decode_dimensions
from arco.automation.freshness_events import (
    FreshnessChanged,
    FreshnessEvaluated,
    FreshnessObserved,
    FreshnessRestarted,
    FreshnessRunDue,
    SeriesData,
)
from arco.automation.freshness_tables import (
    FRESHNESS,
    FRESHNESS_CHANGES,
    FRESHNESS_POLICIES,
    FRESHNESS_REQUESTS,
    STALE_SERIES,
    FreshnessChangeRow,
    FreshnessPolicyRow,
    FreshnessRequestRow,
    FreshnessRow,
    FreshnessStatus,
    StaleSeriesRow,
)
from arco.execution.events import PartitionMaterialized, VersionWithdrawn
from arco.orchestration.declarations import DeployedFreshness, FreshnessDeclared, FreshnessRemoved
from arco.orchestration.derived import PartitionKeysRemoved
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import RunAsked, packed_request, request_fingerprint
from arco.orchestration.states import RunTrigger
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from servo.contract.manifest import DynamicDimension, TimeDimension
from servo.contract.partition import PartitionKey
from servo.errors import Invalid

replace = msgspec.structs.replace
EARLY = timedelta(minutes=5)
"""A report that a series is stale does not count if it is earlier than this before the deadline."""


# -- policies -----------------------------------------------------------------------------


def _declare(rows: Rows, fact: Fact, e: FreshnessDeclared) -> Iterator[Change]:
    if not e.asset_id:
        return
    policy = e.declaration
    old = rows.get(FRESHNESS_POLICIES, e.asset_id)
    dimensions = msgspec.json.encode(policy.partitions).decode()
    continues = old is not None and old.active and old.dimensions == dimensions
    yield Put(
        FRESHNESS_POLICIES,
        row_from(
            FreshnessPolicyRow,
            e,
            policy,
            asset_key=policy.name,
            active=True,
            number=1 if old is None else old.number + 1,
            shape=1 if old is None else old.shape + (not continues),
            time_dimension=_time_dimension(policy),
            dimension_names=sorted(each.name for each in policy.partitions),
            dimensions=dimensions,
            since=old.since if old is not None and continues else fact.received_at,
            observed=old is not None and continues and old.observed,
        ),
    )
    if old is not None and not continues:
        yield from _restart(rows, e.asset_id)


def _time_dimension(policy: DeployedFreshness) -> str:
    times = [each.name for each in policy.partitions if isinstance(each, TimeDimension)]
    return times[0] if times else ""


def _remove(rows: Rows, fact: Fact, e: FreshnessRemoved) -> Iterator[Change]:
    row = rows.get(FRESHNESS_POLICIES, e.asset_id) if e.asset_id else None
    if row is not None and row.asset_key == e.name:
        removed = replace(row, active=False, number=row.number + 1, deployment_id=e.deployment_id)
        yield Put(FRESHNESS_POLICIES, removed)
        yield from _restart(rows, e.asset_id)


def _restart(rows: Rows, asset_id: str) -> Iterator[Change]:
    for row in rows.scan(STALE_SERIES, asset_id):
        yield Delete(STALE_SERIES, (asset_id, row.series))
    yield Emit(FreshnessRestarted(asset_id=asset_id))


# -- data ---------------------------------------------------------------------------------


def _materialize(rows: Rows, fact: Fact, e: PartitionMaterialized) -> Iterator[Change]:
    policy = rows.get(FRESHNESS_POLICIES, e.asset_id)
    if policy is None or not policy.active:
        return
    series = Series(policy.time_dimension, e.partition)
    if series.names != policy.dimension_names:
        return  # planned before its partitions were changed
    data = SeriesData(
        series=series.name,
        partition=e.partition,
        materialization_id=e.materialization_id,
        made_at=e.made_at,
    )
    yield from _take(rows, fact, policy, data)


def _withdraw(rows: Rows, fact: Fact, e: VersionWithdrawn) -> Iterator[Change]:
    """A partition whose only version was quarantined has no data. An orchestrator looks up the
    newest period with data."""
    policy = rows.get(FRESHNESS_POLICIES, e.asset_id)
    if e.previous_id or policy is None or not policy.active:
        return
    row = _current(rows, policy, Series(policy.time_dimension, e.partition).name)
    if row is None or row.materialization_id != e.materialization_id:
        return
    yield Put(FRESHNESS, replace(row, partition_key="", materialization_id="", made_at=None))
    if policy.time_dimension:
        yield Put(FRESHNESS_POLICIES, replace(policy, observed=False))


def _observe(rows: Rows, fact: Fact, e: FreshnessObserved) -> Iterator[Change]:
    policy = rows.get(FRESHNESS_POLICIES, e.asset_id)
    if policy is None or not policy.active or policy.observed or policy.shape != e.shape:
        return
    for data in e.data:
        if not has_series(policy, data.series):
            continue
        if policy.time_dimension or _current(rows, policy, data.series) is None:
            yield from _take(rows, fact, policy, data)
    if e.last:
        yield Put(FRESHNESS_POLICIES, replace(policy, observed=True))


def has_series(policy: FreshnessPolicyRow, series: str) -> bool:
    """Whether a series may be one of the asset: it names every dimension but the time."""
    try:
        names = list(PartitionKey.parse(series).dimensions)
    except Invalid:
        return False
    return names == [name for name in policy.dimension_names if name != policy.time_dimension]


def _take(rows: Rows, fact: Fact, policy: FreshnessPolicyRow, data: SeriesData) -> Iterator[Change]:
    """Store the newest data of a series. Its status is evaluated later."""
    row = _current(rows, policy, data.series)
    if row is None:
        row = _new(policy, data.series, fact.received_at)
    elif _is_older(policy, data, row):
        return
    yield Put(
        FRESHNESS,
        replace(
            row,
            partition_key=data.partition,
            materialization_id=data.materialization_id,
            made_at=data.made_at,
        ),
    )


def _current(rows: Rows, policy: FreshnessPolicyRow, series: str) -> FreshnessRow | None:
    """The row of a series, unless it has another shape: then its data and status do not count."""
    row = rows.get(FRESHNESS, policy.asset_id, series)
    return None if row is None or row.shape != policy.shape else row


def _new(policy: FreshnessPolicyRow, series: str, at: datetime) -> FreshnessRow:
    return FreshnessRow(
        asset_id=policy.asset_id,
        series=series,
        status=FreshnessStatus.FRESH,
        shape=policy.shape,
        partition_key="",
        materialization_id="",
        made_at=None,
        judged="",
        due_at=None,
        cause="",
        reason="",
        changed_at=at,
    )


def _is_older(policy: FreshnessPolicyRow, data: SeriesData, row: FreshnessRow) -> bool:
    """Whether a period is before the newest one."""
    if not policy.time_dimension or not row.partition_key:
        return False
    new = Series(policy.time_dimension, data.partition).period
    newest = Series(policy.time_dimension, row.partition_key).period
    return type(new) is type(newest) and new < newest  # type: ignore[operator]


# -- status -------------------------------------------------------------------------------


def judged_as(policy: FreshnessPolicyRow, materialization_id: str) -> str:
    return f"{policy.number}:{materialization_id}"


def _evaluate(rows: Rows, fact: Fact, e: FreshnessEvaluated) -> Iterator[Change]:
    policy = rows.get(FRESHNESS_POLICIES, e.asset_id)
    if policy is None or not policy.active or not policy.observed or policy.number != e.number:
        return
    if not has_series(policy, e.series):
        return
    row = _current(rows, policy, e.series) or _new(policy, e.series, fact.received_at)
    newest = row.materialization_id
    if newest != e.materialization_id or row.status == e.status:
        return
    judged = judged_as(policy, newest)
    if e.status == FreshnessStatus.STALE:
        if e.due_at is None or e.due_at > fact.received_at + EARLY:
            return  # of a machine whose clock is far ahead
    elif row.judged == judged:
        return
    yield from _set_status(fact, policy, row, e, judged)


def _set_status(
    fact: Fact, policy: FreshnessPolicyRow, row: FreshnessRow, e: FreshnessEvaluated, judged: str
) -> Iterator[Change]:
    is_stale = e.status == FreshnessStatus.STALE
    yield Put(
        FRESHNESS,
        replace(
            row,
            status=e.status,
            judged=judged if is_stale else "",
            due_at=e.due_at if is_stale else None,
            cause=e.cause,
            reason=e.reason,
            changed_at=fact.received_at,
        ),
    )
    if not is_stale:
        yield Delete(STALE_SERIES, (row.asset_id, row.series))
    elif _is_dynamic(policy):
        yield Put(STALE_SERIES, StaleSeriesRow(row.asset_id, row.series))
    yield Emit(
        FreshnessChanged(
            asset_id=e.asset_id,
            asset=policy.asset_key,
            series=e.series,
            partition=e.partition,
            status=e.status,
            cause=e.cause,
            reason=e.reason,
            due_at=e.due_at,
        )
    )


def _is_dynamic(policy: FreshnessPolicyRow) -> bool:
    dimensions = decode_dimensions(policy.dimensions)
    return any(isinstance(each, DynamicDimension) for each in dimensions)


def _remove_keys(rows: Rows, fact: Fact, e: PartitionKeysRemoved) -> Iterator[Change]:
    """End the staleness of removed partitions."""
    policy = rows.get(FRESHNESS_POLICIES, e.asset_id)
    if policy is None or not policy.active:
        return
    for stale in rows.scan(STALE_SERIES, e.asset_id):
        row = _current(rows, policy, stale.series) if e.takes(stale.series) else None
        if row is not None:
            fresh = FreshnessEvaluated(
                asset_id=e.asset_id,
                series=row.series,
                number=policy.number,
                status=FreshnessStatus.FRESH,
                partition=row.partition_key,
                reason="its key was removed",
            )
            yield from _set_status(fact, policy, row, fresh, "")


def _record(rows: Rows, fact: Fact, e: FreshnessChanged) -> Iterator[Change]:
    yield Put(
        FRESHNESS_CHANGES,
        row_from(
            FreshnessChangeRow,
            e,
            position=fact.position,
            asset_key=e.asset,
            partition_key=e.partition,
            changed_at=fact.received_at,
        ),
    )


# -- runs ---------------------------------------------------------------------------------


def request_key(asset_id: str, series: str, due_at: datetime) -> str:
    return f"{RunTrigger.FRESHNESS}:{asset_id}/{series}@{due_at:%Y-%m-%dT%H:%M:%S}"


def _ask(rows: Rows, fact: Fact, e: FreshnessRunDue) -> Iterator[Change]:
    row = rows.get(FRESHNESS_REQUESTS, e.asset_id, e.series)
    if e.asked != (0 if row is None else row.asked) or e.due_at > fact.received_at + EARLY:
        return
    if row is not None and e.due_at <= row.due_at:
        return
    key = request_key(e.asset_id, e.series, e.due_at)
    request_row = FreshnessRequestRow(e.asset_id, e.series, e.asked + 1, e.due_at, key)
    yield Put(FRESHNESS_REQUESTS, request_row)
    request = PlanRequest(selection=(e.asset,), partitions=e.partitions, force=e.force)
    named = f"{e.asset} {' '.join(e.partitions)}".strip()
    yield Emit(
        RunAsked(
            request_key=key,
            fingerprint=request_fingerprint(request),
            kind=RunTrigger.FRESHNESS,
            reference=f"{named}@{e.due_at:%Y-%m-%dT%H:%M}",
            until=e.due_at,
            **packed_request(request),
        )
    )


_by_asset = by("asset_id")
REQUESTS = Stage(
    "freshness_requests", (FRESHNESS_REQUESTS,), (On(FreshnessRunDue, _by_asset, _ask),)
)
STAGE = Stage(
    "freshness",
    (FRESHNESS_POLICIES, FRESHNESS, STALE_SERIES),
    (
        On(FreshnessDeclared, _by_asset, _declare),
        On(FreshnessRemoved, _by_asset, _remove),
        On(PartitionMaterialized, _by_asset, _materialize),
        On(VersionWithdrawn, _by_asset, _withdraw),
        On(FreshnessObserved, _by_asset, _observe),
        On(FreshnessEvaluated, _by_asset, _evaluate),
        On(PartitionKeysRemoved, _by_asset, _remove_keys),
    ),
)
CHANGES = Stage(
    "freshness_changes", (FRESHNESS_CHANGES,), (On(FreshnessChanged, _by_asset, _record),)
)
AFTER_OUTPUTS = (STAGE, CHANGES)
