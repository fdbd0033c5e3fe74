"""What the fold takes of what orchestrators say about freshness, and what it does not."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from arco.automation.freshness_events import (
    FreshnessChanged,
    FreshnessEvaluated,
    FreshnessObserved,
    FreshnessRunDue,
    SeriesData,
)
from arco.automation.freshness_fold import REQUESTS, STAGE
from arco.automation.freshness_tables import (
    FRESHNESS,
    FRESHNESS_POLICIES,
    FreshnessPolicyRow,
    FreshnessRow,
    FreshnessStatus,
)
from arco.execution.events import PartitionMaterialized
from arco.log.envelope import Payload
from arco.orchestration.declarations import DeployedFreshness, FreshnessDeclared, FreshnessRemoved
from arco.orchestration.run_requests import RunAsked
from arco.state.fold import Fact, FoldFailure, NoRows, Rows, Stage, fold_stage
from servo.contract.manifest import Dimension, StaticDimension, TimeDimension

START = datetime(2026, 1, 5, 8)
HOUR = timedelta(hours=1)
DAYS = TimeDimension(name="date", every="day", start="2026-01-01")
FRESH, STALE = FreshnessStatus.FRESH, FreshnessStatus.STALE


class Log:
    def __init__(self, *dimensions: Dimension, stage: Stage = STAGE) -> None:
        self.rows = Rows(NoRows())
        self.now = START
        self.position = 0
        self.stage = stage
        self.derived: list[Payload] = []
        if stage is STAGE:
            self.declare(*dimensions)
            self.add(FreshnessObserved(asset_id="A", shape=1))

    def add(self, payload: Payload) -> None:
        self.now += HOUR
        self.position += 1
        failures: list[FoldFailure] = []
        fact = Fact(self.position, self.now, f"e{self.position}", "", "", payload)
        self.derived += [f.payload for f in fold_stage(self.stage, self.rows, [fact], failures)]
        assert failures == []

    def declare(self, *dimensions: Dimension, max_age_s: int = 3600) -> None:
        policy = DeployedFreshness(name="a.a", max_age_s=max_age_s, partitions=dimensions)
        self.add(
            FreshnessDeclared(project="p", deployment_id="D", asset_id="A", declaration=policy)
        )

    def materialize(self, id: str, partition: str = "") -> None:
        self.add(
            PartitionMaterialized(
                asset_id="A", asset="a.a", partition=partition, materialization_id=id, made_at=START
            )
        )

    def evaluate(
        self,
        status: FreshnessStatus,
        id: str = "",
        number: int = 1,
        due_at: datetime | None = START,
    ) -> list[FreshnessStatus]:
        """What is derived from it."""
        before = len(self.derived)
        self.add(
            FreshnessEvaluated(
                asset_id="A", number=number, status=status, materialization_id=id, due_at=due_at
            )
        )
        return [p.status for p in self.derived[before:] if isinstance(p, FreshnessChanged)]

    def row(self) -> FreshnessRow:
        row = self.rows.get(FRESHNESS, "A", "")
        assert row is not None
        return row

    def policy(self) -> FreshnessPolicyRow:
        policy = self.rows.get(FRESHNESS_POLICIES, "A")
        assert policy is not None
        return policy


def test_a_transition_counts_once() -> None:
    log = Log()
    log.materialize("m1")
    assert log.evaluate(STALE, "m1") == [STALE]
    assert log.evaluate(STALE, "m1") == []
    log.materialize("m2")
    assert log.evaluate(FRESH, "m2") == [FRESH]
    assert log.evaluate(FRESH, "m2") == []


def test_what_was_judged_by_older_data_does_not_count() -> None:
    log = Log()
    log.materialize("m1")
    log.materialize("m2")
    assert log.evaluate(STALE, "m1") == []
    assert log.evaluate(STALE, "") == []
    assert log.row().status == FRESH


def test_machines_with_other_zone_data_do_not_contradict_each_other_for_ever() -> None:
    log = Log()
    log.materialize("m1")
    assert log.evaluate(STALE, "m1") == [STALE]
    assert log.evaluate(FRESH, "m1") == []
    log.declare(max_age_s=7200)
    assert log.evaluate(FRESH, "m1", number=2) == [FRESH], "by another policy it may"


def test_what_was_judged_by_another_policy_does_not_count() -> None:
    log = Log()
    log.materialize("m1")
    log.declare(max_age_s=60)
    assert log.evaluate(STALE, "m1", number=1) == []
    assert log.evaluate(STALE, "m1", number=2) == [STALE]


def test_a_clock_that_is_far_ahead_makes_nothing_stale() -> None:
    log = Log()
    log.materialize("m1")
    assert log.evaluate(STALE, "m1", due_at=log.now + 5 * HOUR) == []


def test_nothing_is_judged_before_earlier_data_was_observed() -> None:
    log = Log()
    log.declare(DAYS)
    assert not log.policy().observed
    assert log.evaluate(STALE, "", number=2) == []
    log.add(FreshnessObserved(asset_id="A", shape=1))
    assert not log.policy().observed, "of another shape"
    log.add(FreshnessObserved(asset_id="A", shape=2))
    assert log.evaluate(STALE, "", number=2) == [STALE]


def test_the_newest_period_counts_in_whatever_order_they_come() -> None:
    log = Log(DAYS)
    for id, day in (("m1", 3), ("m2", 2), ("m3", 4), ("m4", 4)):
        log.materialize(id, f"date=d:2026-01-0{day}")
    assert (log.row().partition_key, log.row().materialization_id) == ("date=d:2026-01-04", "m4")


def test_observed_data_does_not_replace_newer_data() -> None:
    log = Log(DAYS)
    log.declare()
    log.declare(DAYS)
    log.materialize("m9", "date=d:2026-01-09")
    old = SeriesData(partition="date=d:2026-01-08", materialization_id="m8", made_at=START)
    log.add(FreshnessObserved(asset_id="A", shape=3, data=(old,)))
    assert log.row().materialization_id == "m9"


def test_partitions_of_another_shape_are_no_data() -> None:
    log = Log(DAYS)
    log.materialize("m1", "region=s:eu")
    log.materialize("m2")
    assert log.rows.get(FRESHNESS, "A", "") is None


def evaluated(series: str) -> FreshnessEvaluated:
    return FreshnessEvaluated(asset_id="A", series=series, number=1, status=STALE, due_at=START)


@pytest.mark.parametrize(
    "series", ["garbage", "date=d:2026-01-05", "region=s:eu,x=s:y", "zone=s:eu"]
)
def test_a_series_that_the_asset_cannot_have_leaves_no_row(series: str) -> None:
    log = Log(DAYS, StaticDimension(name="region", values=("eu",)))
    log.add(evaluated(series))
    assert (log.rows.get(FRESHNESS, "A", series), log.derived) == (None, [])
    log.add(evaluated("region=s:eu"))
    assert log.rows.get(FRESHNESS, "A", "region=s:eu") is not None


def test_observed_data_of_a_series_that_the_asset_cannot_have_leaves_no_row() -> None:
    log = Log()
    log.declare(StaticDimension(name="region", values=("eu",)))
    data = [
        SeriesData(series=name, partition=name, materialization_id="m", made_at=START)
        for name in ("garbage", "region=s:eu")
    ]
    log.add(FreshnessObserved(asset_id="A", shape=2, data=tuple(data)))
    assert log.rows.get(FRESHNESS, "A", "garbage") is None
    assert log.rows.get(FRESHNESS, "A", "region=s:eu") is not None
    assert log.policy().observed


def test_a_removed_policy_hears_nothing() -> None:
    log = Log()
    log.add(FreshnessRemoved(project="p", deployment_id="D2", name="a.old", asset_id="A"))
    assert log.policy().active, "the name belongs to another"
    log.add(FreshnessRemoved(project="p", deployment_id="D2", name="a.a", asset_id="A"))
    log.materialize("m1")
    assert log.rows.get(FRESHNESS, "A", "") is None
    log.declare()
    assert (log.policy().shape, log.policy().observed) == (2, False)


# -- runs -------------------------------------------------------------------------------------


@pytest.fixture
def requests() -> Log:
    return Log(stage=REQUESTS)


def due(asked: int, hours: int) -> FreshnessRunDue:
    return FreshnessRunDue(asset_id="A", asset="a.a", due_at=START + hours * HOUR, asked=asked)


def test_a_run_is_asked_for_once(requests: Log) -> None:
    for _ in range(3):
        requests.add(due(0, 0))
    (asked,) = requests.derived
    assert isinstance(asked, RunAsked)
    assert (asked.kind, asked.request_key) == ("freshness", "freshness:A/@2026-01-05T08:00:00")


def test_a_second_run_is_asked_for_only_by_who_knows_of_the_first(requests: Log) -> None:
    requests.add(due(0, 0))
    requests.add(due(0, 1))
    assert len(requests.derived) == 1
    requests.add(due(1, 0))
    assert len(requests.derived) == 1, "it was due then already"
    requests.add(due(1, 1))
    requests.add(due(2, 100))
    assert len(requests.derived) == 2
