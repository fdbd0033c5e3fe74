"""When each series is to be evaluated, in memory: a heap of deadlines.

It follows the rows of policies and series from commit to commit. Of a fresh series only the
deadline is kept; its row is read when it is due. New series, and stale series with new data, are
due at once.
"""

from __future__ import annotations

import heapq
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from arco.automation.deadlines import DeadlineRule
from arco.automation.freshness_fold import judged_as
from arco.automation.freshness_tables import (
    FreshnessPolicyRow,
    FreshnessRequestRow,
    FreshnessRow,
    FreshnessStatus,
)

log = logging.getLogger(__name__)

NOW = datetime.min


class SeriesKey(NamedTuple):
    asset_id: str
    series: str


class FreshnessAgenda:
    def __init__(self) -> None:
        self.policies: dict[str, FreshnessPolicyRow] = {}
        """Those that are active."""
        self.rules: dict[str, DeadlineRule] = {}
        self.unobserved: dict[str, FreshnessPolicyRow] = {}
        """Policies whose earlier data is to be read."""
        self.changed: set[str] = set()
        """Assets whose policy changed: all their series are to be read again."""
        self.requests: dict[SeriesKey, FreshnessRequestRow] = {}
        self._stale: defaultdict[str, set[str]] = defaultdict(set)
        self._ids: dict[str, str] = {}
        self._next: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        """By asset and series, when it is evaluated next."""
        self._groups: defaultdict[tuple[datetime, str], list[str]] = defaultdict(list)
        """The series of an asset with one deadline. Those that differ from `_next` are obsolete."""
        self._heap: list[tuple[datetime, str]] = []
        self._due: dict[SeriesKey, None] = {}

    # -- rows ----------------------------------------------------------------------------

    def take(
        self,
        policies: Iterable[FreshnessPolicyRow],
        rows: Iterable[FreshnessRow],
        requests: Iterable[FreshnessRequestRow],
    ) -> None:
        for policy in policies:
            self._put_policy(policy)
        for request in requests:
            key = SeriesKey(request.asset_id, request.series)
            self.requests[key] = request
            if request.series in self._stale.get(request.asset_id, ()):
                self._schedule(key, NOW)
        for row in rows:
            self.put(row)

    def _put_policy(self, policy: FreshnessPolicyRow) -> None:
        key = policy.asset_id
        before = self.policies.get(key)
        if before is not None and before.number == policy.number:
            self.policies[key] = policy
            if policy.observed:
                self.unobserved.pop(key, None)
                self._expect(policy)
            elif key in self.rules:
                self.unobserved[key] = policy
            return
        self._forget(key)
        if not policy.active:
            return
        try:
            self.rules[key] = DeadlineRule(policy)
        except Exception:  # zone data of this machine; the others are served
            log.exception("the freshness of %s cannot be judged here", policy.asset_key)
            return
        self.policies[key] = policy
        self._ids[policy.asset_key] = key
        if policy.observed:
            self._expect(policy)
        else:
            self.unobserved[key] = policy
        if policy.number > 1:
            self.changed.add(key)

    def _expect(self, policy: FreshnessPolicyRow) -> None:
        """Series that may have no row: the first deadline follows from the policy alone."""
        for series in self.rules[policy.asset_id].expected():
            if series not in self._next[policy.asset_id]:
                self._settle(SeriesKey(policy.asset_id, series), None)

    def _forget(self, asset_id: str) -> None:
        old = self.policies.pop(asset_id, None)
        if old is not None and self._ids.get(old.asset_key) == asset_id:
            del self._ids[old.asset_key]
        for index in (self.rules, self.unobserved, self._next, self._stale):
            index.pop(asset_id, None)
        self.changed.discard(asset_id)
        self._due = {key: None for key in self._due if key.asset_id != asset_id}

    def put(self, row: FreshnessRow) -> None:
        """A series has changed."""
        policy = self.policies.get(row.asset_id)
        if policy is None:
            return
        counts = row.shape == policy.shape
        is_stale = counts and row.status == FreshnessStatus.STALE
        (self._stale[row.asset_id].add if is_stale else self._stale[row.asset_id].discard)(
            row.series
        )
        self._settle(SeriesKey(row.asset_id, row.series), row if counts else None)

    def _settle(self, key: SeriesKey, row: FreshnessRow | None) -> None:
        self._due.pop(key, None)
        try:
            self._schedule(key, self._next_evaluation(key, row))
        except Exception:  # zone data of this machine; the others are served
            log.exception("the freshness of %s %s cannot be judged here", *key)
            self._schedule(key, None)

    def _next_evaluation(self, key: SeriesKey, row: FreshnessRow | None) -> datetime | None:
        policy, rule = self.policies[key.asset_id], self.rules[key.asset_id]
        if row is None or row.status == FreshnessStatus.FRESH:
            return rule.deadline(row)
        if row.judged != judged_as(policy, row.materialization_id if rule.counts(row) else ""):
            return NOW
        if not policy.request_run:
            return None
        request = self.requests.get(key)
        if request is None or row.due_at is None or request.due_at < row.due_at:
            return NOW
        return rule.next_due(row, request.due_at)

    def postpone(self, key: SeriesKey, until: datetime | None) -> None:
        """Evaluate a series again at this time, unless it changes before."""
        self._due.pop(key, None)
        self._schedule(key, until)

    def _schedule(self, key: SeriesKey, at: datetime | None) -> None:
        series = self._next[key.asset_id]
        if at is None:
            series.pop(key.series, None)
        elif at is NOW:
            series.pop(key.series, None)
            self._due[key] = None
        elif series.get(key.series) != at:
            series[key.series] = at
            group = at, key.asset_id
            if group not in self._groups:
                heapq.heappush(self._heap, group)
            self._groups[group].append(key.series)

    # -- what is due ---------------------------------------------------------------------

    def due(self, now: datetime, limit: int) -> list[SeriesKey]:
        """Series to evaluate now, up to a maximum."""
        while (at := self.next_due()) is not None and at <= now and len(self._due) < limit:
            group = heapq.heappop(self._heap)
            self._due.update(dict.fromkeys(self._pop(group)))
        return list(islice(self._due, limit))

    def _pop(self, group: tuple[datetime, str]) -> Iterator[SeriesKey]:
        at, asset_id = group
        series = self._next.get(asset_id, {})
        for name in self._groups.pop(group):
            if series.get(name) == at:
                del series[name]
                yield SeriesKey(asset_id, name)

    def next_due(self) -> datetime | None:
        """When the next series is due that is not due yet."""
        while self._heap:
            at, asset_id = self._heap[0]
            series = self._next.get(asset_id, {})
            names = self._groups[self._heap[0]]
            while names and series.get(names[-1]) != at:
                names.pop()
            if names:
                return at
            del self._groups[heapq.heappop(self._heap)]
        return None

    def is_due(self, now: datetime) -> bool:
        """Whether there is something to do."""
        if self._due or self.unobserved or self.changed:
            return True
        at = self.next_due()
        return at is not None and at <= now

    def stale_upstream(self, policy: FreshnessPolicyRow) -> str:
        """The key of an asset that this one reads, and that is stale; empty if none is."""
        for key in policy.upstream:
            if self._stale.get(self._ids.get(key, "")):
                return key
        return ""
