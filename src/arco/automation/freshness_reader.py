"""Reading how fresh assets are, at one generation and one time."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from arco.automation.controllers.freshness import explain, verdict
from arco.automation.deadlines import DeadlineRule
from arco.automation.freshness_events import SeriesData
from arco.automation.freshness_tables import (
    FRESHNESS,
    FRESHNESS_POLICIES,
    FreshnessPolicyRow,
    FreshnessRow,
    FreshnessStatus,
    StaleCause,
)
from arco.epoch import EPOCH
from arco.execution.tables import PARTITION_STATUS, PartitionStatusRow
from arco.orchestration.tables import DYNAMIC_KEYS
from arco.state.snapshot import Snapshot

SEPARATOR = "\t"
"""Occurs in no partition key, and in no id."""


class SeriesFreshness(Struct, frozen=True, kw_only=True):
    """How fresh a series is."""

    asset: str
    asset_id: str
    series: str
    status: FreshnessStatus
    partition: str
    """The due partition if it is stale, and otherwise the newest one."""
    newest: str
    """The partition of the newest data."""
    materialized_at: datetime | None
    due_at: datetime | None
    """When newer data is due, or was."""
    cause: StaleCause
    reason: str
    since: datetime | None
    """Since when an orchestrator has recorded this status; None if it has not yet."""


def newest_data(snapshot: Snapshot, policy: FreshnessPolicyRow) -> list[SeriesData]:
    """The newest data of each series of an asset, by its current versions."""
    if not policy.dimension_names:
        row = snapshot.get(PARTITION_STATUS, policy.asset_id, "")
        return [] if row is None else _data_of(row)
    status = snapshot.columns(PARTITION_STATUS, policy.asset_id, ["current", "good_at"])
    shape = ",".join(f"{re.escape(name)}=[^,]*" for name in policy.dimension_names)
    counts = pc.and_(
        pc.match_substring_regex(status["partition_key"], f"^{shape}$"),
        pc.and_(pc.not_equal(status["current"], ""), pc.is_valid(status["good_at"])),
    )
    status = status.filter(counts)
    if policy.time_dimension:
        return _newest_periods(status, policy.time_dimension)
    names = ("partition_key", "current", "good_at")
    columns = [status[name].to_pylist() for name in names]
    return [
        SeriesData(series=key, partition=key, materialization_id=id, made_at=at)
        for key, id, at in zip(*columns, strict=True)
    ]


def _data_of(row: PartitionStatusRow) -> list[SeriesData]:
    if not row.current or row.good_at is None:
        return []
    return [SeriesData(materialization_id=row.current, made_at=row.good_at)]


def _newest_periods(status: pa.Table, dimension: str) -> list[SeriesData]:
    """Dates and timestamps of partition keys sort as texts."""
    keys, name = status["partition_key"], re.escape(dimension)
    series = pc.replace_substring_regex(keys, f"(^|,){name}=[^,]*", "")
    period = pc.struct_field(pc.extract_regex(keys, f"(?:^|,){name}=(?P<period>[^,]*)"), "period")
    made_at = pc.cast(pc.cast(status["good_at"], pa.int64()), pa.string())
    text = pc.binary_join_element_wise(period, keys, made_at, status["current"], SEPARATOR)
    table = pa.table({"series": pc.utf8_ltrim(series, ","), "text": text})
    newest = table.group_by("series").aggregate([("text", "max")])
    data = []
    for name, text in zip(
        newest["series"].to_pylist(), newest["text_max"].to_pylist(), strict=True
    ):
        _, key, at, id = text.split(SEPARATOR)
        when = EPOCH + timedelta(microseconds=int(at))
        data.append(SeriesData(series=name, partition=key, materialization_id=id, made_at=when))
    return sorted(data, key=lambda each: each.series)


class FreshnessReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._dynamic_keys = functools.cache(self._read_keys)

    def _read_keys(self, name: str) -> frozenset[str]:
        return frozenset(row.key for row in self.snapshot.rows(DYNAMIC_KEYS, name))

    def policies(self) -> list[FreshnessPolicyRow]:
        rows = [row for row in self.snapshot.all(FRESHNESS_POLICIES) if row.active]
        return sorted(rows, key=lambda row: row.asset_key)

    def series(self, assets: Collection[str], now: datetime) -> Iterator[SeriesFreshness]:
        """How fresh the series of assets (by key) are, in the order of keys."""
        for policy in self.policies():
            if policy.asset_key in assets:
                yield from self._of(policy, now)

    def policy(self, asset_id: str) -> FreshnessPolicyRow | None:
        """That of one asset, if its project still declares it."""
        row = self.snapshot.get(FRESHNESS_POLICIES, asset_id)
        return row if row is not None and row.active else None

    def series_of(self, policy: FreshnessPolicyRow, now: datetime) -> list[SeriesFreshness]:
        """How fresh the series of one asset are."""
        return list(self._of(policy, now))

    def _of(self, policy: FreshnessPolicyRow, now: datetime) -> Iterator[SeriesFreshness]:
        rule = DeadlineRule(policy)
        rows: dict[str, FreshnessRow | None] = dict.fromkeys(rule.expected())
        for each in self.snapshot.rows(FRESHNESS, policy.asset_id):
            if each.shape == policy.shape and self._has_series(rule, each.series):
                rows[each.series] = each
        earlier = {} if policy.observed else self._unobserved(policy)
        for series in sorted(rows.keys() | earlier.keys()):
            row = rows.get(series)
            if row is None or not rule.counts(row):
                row = earlier.get(series, row)
            yield self._series(policy, rule, series, row, now)

    def _has_series(self, rule: DeadlineRule, series: str) -> bool:
        return rule.has(series) and all(
            key in self._dynamic_keys(keys) for keys, key in rule.dynamic(series)
        )

    def _unobserved(self, policy: FreshnessPolicyRow) -> dict[str, FreshnessRow]:
        """Series of a policy that no orchestrator has evaluated yet."""
        return {
            data.series: FreshnessRow(
                asset_id=policy.asset_id,
                series=data.series,
                status=FreshnessStatus.FRESH,
                shape=policy.shape,
                partition_key=data.partition,
                materialization_id=data.materialization_id,
                made_at=data.made_at,
                judged="",
                due_at=None,
                cause="",
                reason="",
                changed_at=policy.since,
            )
            for data in newest_data(self.snapshot, policy)
        }

    def _series(
        self,
        policy: FreshnessPolicyRow,
        rule: DeadlineRule,
        series: str,
        row: FreshnessRow | None,
        now: datetime,
    ) -> SeriesFreshness:
        current = verdict(rule, series, row, now)
        is_recorded = row is not None and row.status == current.status
        if is_recorded and row is not None and row.reason:
            cause, reason = row.cause, row.reason
        else:
            attempt = self.snapshot.get(PARTITION_STATUS, policy.asset_id, current.partition)
            cause, reason = explain(policy, current, row, attempt, "")
        counts = row is not None and rule.counts(row)
        return SeriesFreshness(
            asset=policy.asset_key,
            asset_id=policy.asset_id,
            series=series,
            status=current.status,
            partition=current.partition,
            newest=row.partition_key if row is not None and counts else "",
            materialized_at=row.made_at if row is not None and counts else None,
            due_at=current.due_at,
            cause=cause,
            reason=reason,
            since=row.changed_at if row is not None and is_recorded else None,
        )
