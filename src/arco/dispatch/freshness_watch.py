"""Watches freshness: reads the rows of series that are due, and reports their changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice

from arco.automation.controllers.freshness import NextEvaluation, judge, verdict
from arco.automation.freshness_agenda import FreshnessAgenda, SeriesKey
from arco.automation.freshness_events import (
    FreshnessEvaluated,
    FreshnessObserved,
    FreshnessRunDue,
)
from arco.automation.freshness_reader import newest_data
from arco.automation.freshness_tables import FRESHNESS
from arco.execution.tables import PARTITION_STATUS
from arco.log.envelope import Payload
from arco.orchestration.states import RunTrigger
from arco.orchestration.tables import DYNAMIC_KEYS, RunRequestRow, RunRow
from arco.state.snapshot import Snapshot
from arco.storage.outage import STORE_ERRORS

log = logging.getLogger(__name__)

ROUND = 500
"""Maximum of series that are checked, and of policies that are first read, in one round."""
OBSERVED_TOGETHER = 1_000


class FreshnessWatch:
    def __init__(self, is_first_report: Callable[[str], bool]) -> None:
        self._is_first_report = is_first_report

    def facts(
        self,
        agenda: FreshnessAgenda,
        snapshot: Snapshot,
        runs: Iterable[RunRow],
        requests: Iterable[RunRequestRow],
        now: datetime,
    ) -> list[Payload]:
        """What is to be reported now. `agenda` is at the snapshot's generation."""
        for asset_id in list(agenda.changed):
            agenda.changed.discard(asset_id)
            for row in snapshot.rows(FRESHNESS, asset_id):
                agenda.put(row)
        facts: list[Payload] = list(self._observed(agenda, snapshot))
        due = agenda.due(now, ROUND)
        active = _active(runs, requests) if due else frozenset()
        for key in due:
            try:
                facts += self._judged(agenda, snapshot, key, active, now)
            except STORE_ERRORS:
                raise
            except Exception:  # it must not stop the others
                log.exception("the freshness of %s %s cannot be judged", *key)
                agenda.postpone(key, None)
        return facts

    def _observed(self, agenda: FreshnessAgenda, snapshot: Snapshot) -> Iterator[Payload]:
        for policy in list(islice(agenda.unobserved.values(), ROUND)):
            name = f"{RunTrigger.FRESHNESS}:{policy.asset_id}#{policy.shape}"
            if not self._is_first_report(name):
                continue
            data = newest_data(snapshot, policy)
            for start in range(0, len(data) or 1, OBSERVED_TOGETHER):
                part = data[start : start + OBSERVED_TOGETHER]
                yield FreshnessObserved(
                    asset_id=policy.asset_id,
                    shape=policy.shape,
                    data=tuple(part),
                    last=start + OBSERVED_TOGETHER >= len(data),
                )

    def _judged(
        self,
        agenda: FreshnessAgenda,
        snapshot: Snapshot,
        key: SeriesKey,
        active: Collection[str],
        now: datetime,
    ) -> Iterator[Payload]:
        policy, rule = agenda.policies[key.asset_id], agenda.rules[key.asset_id]
        if not rule.has(key.series) or any(
            snapshot.get(DYNAMIC_KEYS, *each) is None for each in rule.dynamic(key.series)
        ):
            agenda.postpone(key, None)  # there is no such partition any more
            return
        row = snapshot.get(FRESHNESS, *key)
        partition = verdict(rule, key.series, row, now).partition
        judgement = judge(
            policy,
            rule,
            key.series,
            row,
            snapshot.get(PARTITION_STATUS, key.asset_id, partition),
            agenda.requests.get(key),
            upstream=agenda.stale_upstream(policy),
            is_active=f"{RunTrigger.FRESHNESS}:{key.asset_id}/{key.series}" in active,
            now=now,
        )
        if isinstance(judgement, NextEvaluation):
            agenda.postpone(key, judgement.at)
        elif self._is_first_report(_subject(judgement)):
            yield judgement


def _subject(fact: FreshnessEvaluated | FreshnessRunDue) -> str:
    name = f"{RunTrigger.FRESHNESS}:{fact.asset_id}/{fact.series}"
    if isinstance(fact, FreshnessRunDue):
        return f"{name}@{fact.asked}"
    return f"{name}={fact.status}:{fact.number}:{fact.materialization_id}"


def _active(runs: Iterable[RunRow], requests: Iterable[RunRequestRow]) -> frozenset[str]:
    """The series with a pending request or an active run."""
    keys = [run.run_key for run in runs if run.trigger == RunTrigger.FRESHNESS]
    keys += [request.request_key for request in requests if request.kind == RunTrigger.FRESHNESS]
    return frozenset([key.rpartition("@")[0] for key in keys])
