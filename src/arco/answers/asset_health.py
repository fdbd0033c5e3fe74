"""The health of assets, at one generation and one time.

What follows from facts was folded (`asset_states.py`, and the counts of failing partitions and
stale series); the time decides only whether a freshness deadline has passed. The first rule
that holds decides:

    outside its freshness policy, or its SLA             UNHEALTHY
    an output is held, and no newer one is current   UNHEALTHY
    the last attempt failed, or partitions are failing   WARNING
    less than 95 % of recent checks passed               WARNING
    something was made               HEALTHY
    otherwise                        UNKNOWN
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from arco.answers.asset_states import (
    ASSET_OUTCOMES,
    ASSET_STATES,
    AssetOutcome,
    AssetOutcomeRow,
    AttemptOutcome,
)
from arco.answers.sla import SlaBreach, SlaReader
from arco.automation.freshness_reader import FreshnessReader, SeriesFreshness
from arco.automation.freshness_tables import FreshnessPolicyRow, FreshnessStatus
from arco.catalog.governance import sla_text
from arco.execution.reader import ExecutionReader
from arco.execution.states import HELD
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, QUARANTINE, QuarantineRow
from arco.notifications.tables import ASSET_FAILURES
from arco.orchestration.tables import RUNS
from arco.state.snapshot import Snapshot
from arco.tasks.input_failures import partition_text
from servo.contract.manifest import SlaSpec

GOOD_PASS_RATE: Final = 0.95
LISTED_HOLDS: Final = 3


class HealthStatus(StrEnum):
    UNHEALTHY = "UNHEALTHY"
    WARNING = "WARNING"
    UNKNOWN = "UNKNOWN"
    """There is not enough data."""
    HEALTHY = "HEALTHY"


class FreshnessHealth(Struct, frozen=True, kw_only=True):
    last_materialized_at: datetime | None = None
    sla: str | None = None
    """The SLA, in words; without one the freshness policy."""
    within_sla: bool | None = None
    """Whether it is within both; null if it has neither, or no version yet."""
    staleness: timedelta | None = None
    """How long newer data has been due; without either, the age of the newest version."""


class QualityHealth(Struct, frozen=True, kw_only=True):
    pass_rate: float | None = None
    """Of the recent results."""
    check_count: int = 0
    """Checks of the last evaluation."""
    has_quarantined: bool = False
    recent_results: int = 0


class LastRunHealth(Struct, frozen=True, kw_only=True):
    run_id: str
    outcome: AttemptOutcome
    """Of the asset's task: succeeded, failed or held."""
    completed_at: datetime | None = None
    """Of the run; so is the rest. Null while it is active."""
    duration: timedelta | None = None
    tasks_total: int | None = None
    tasks_succeeded: int | None = None
    tasks_failed: int | None = None


class AssetHealth(Struct, frozen=True, kw_only=True):
    asset: str
    status: HealthStatus
    reasons: tuple[str, ...]
    """Why it is not healthy; the first decided."""
    freshness: FreshnessHealth
    quality: QualityHealth
    last_run: LastRunHealth | None
    failing_partitions: int
    consecutive_failures: int
    computed_at: datetime


class HealthReader:
    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.snapshot = snapshot
        self._now = now
        self._freshness = FreshnessReader(snapshot)
        self._slas = SlaReader(snapshot, self._freshness)

    def state(self, asset_id: str) -> AssetOutcomeRow | None:
        return self.snapshot.get(ASSET_OUTCOMES, asset_id)

    def of(self, asset: str, asset_id: str) -> AssetHealth:
        """The health of one asset. The cost does not depend on the number of assets."""
        failures = self.snapshot.get(ASSET_FAILURES, asset_id)
        holds = ExecutionReader(self.snapshot).holds(asset_id)
        policy = self._freshness.policy(asset_id)
        return self.with_run(
            self._judge(
                asset,
                self.state(asset_id),
                policy,
                [] if policy is None else self._freshness.series_of(policy, self._now),
                sla=self._slas.of(asset_id),
                failing=0 if failures is None else failures.failing,
                holds=[row for row in holds if row.status in HELD],
            )
        )

    def all(self, assets: Mapping[str, str]) -> Iterator[AssetHealth]:
        """The health of many assets (ids by key), by scans of a few tables; without runs."""
        slas = self._slas.all()
        states = {row.asset_id: row for row in self.snapshot.all(ASSET_STATES)}
        failures = {row.asset_id: row.failing for row in self.snapshot.all(ASSET_FAILURES)}
        policies = {row.asset_id: row for row in self._freshness.policies()}
        holds: defaultdict[str, list[QuarantineRow]] = defaultdict(list)
        for row in self.snapshot.hot(QUARANTINE):
            if row.status in HELD:
                holds[row.asset_id].append(row)
        for asset, asset_id in assets.items():
            policy = policies.get(asset_id)
            series = [] if policy is None else self._freshness.series_of(policy, self._now)
            yield self._judge(
                asset,
                states.get(asset_id),
                policy,
                series,
                sla=slas.get(asset_id),
                failing=failures.get(asset_id, 0),
                holds=holds.get(asset_id, ()),
            )

    def with_run(self, health: AssetHealth) -> AssetHealth:
        """The same, with the outcome of the last run."""
        last = health.last_run
        row = None if last is None else self.snapshot.get(RUNS, last.run_id)
        if last is None or row is None:
            return health
        ended = row.finished_at
        return replace(
            health,
            last_run=replace(
                last,
                completed_at=ended,
                duration=None if ended is None else ended - row.created_at,
                tasks_total=row.tasks_total,
                tasks_succeeded=row.tasks_succeeded,
                tasks_failed=row.tasks_failed,
            ),
        )

    def _judge(
        self,
        asset: str,
        state: AssetOutcome | None,
        policy: FreshnessPolicyRow | None,
        series: list[SeriesFreshness],
        *,
        sla: SlaSpec | None,
        failing: int,
        holds: Sequence[QuarantineRow],
    ) -> AssetHealth:
        stale = [each for each in series if each.status == FreshnessStatus.STALE]
        made_at = None if state is None else state.last_materialization_at
        breach = None if sla is None else self._slas.breach(sla, policy, made_at, self._now)
        freshness = self._fresh(made_at, policy, sla, stale, breach)
        quality = _quality(state, len(holds))
        broken = [] if breach is None else [breach.reason]
        broken += [each.reason or "newer data is due" for each in stale[:1]]
        broken += _hold_texts([hold for hold in holds if not self._is_superseded(hold)])
        warnings = []
        if state is not None and state.last_outcome in ("failed", "held"):
            code = f" ({state.last_failure_code})" if state.last_failure_code else ""
            warnings.append(f"its last attempt {_ended(state)}{code}")
        if failing:
            warnings.append(
                f"{_count(failing, 'partition')} without a good output of the last attempt"
            )
        if quality.pass_rate is not None and quality.pass_rate < GOOD_PASS_RATE:
            warnings.append(f"{quality.pass_rate:.1%} of recent checks passed")
        has_version = state is not None and bool(state.last_materialization_id)
        rest = HealthStatus.HEALTHY if has_version else HealthStatus.UNKNOWN
        status = HealthStatus.UNHEALTHY if broken else HealthStatus.WARNING if warnings else rest
        without_version = [] if has_version or broken or warnings else ["it has no version yet"]
        return AssetHealth(
            asset=asset,
            status=status,
            reasons=(*broken, *warnings, *without_version),
            freshness=freshness,
            quality=quality,
            last_run=_last_run(state),
            failing_partitions=failing,
            consecutive_failures=0 if state is None else state.consecutive_failures,
            computed_at=self._now,
        )

    def _is_superseded(self, hold: QuarantineRow) -> bool:
        """Whether a newer version than the one that is held is current."""
        current = self.snapshot.get(PARTITIONS, hold.asset_id, hold.partition_key)
        version = self.snapshot.get(MATERIALIZATIONS, hold.asset_id, hold.materialization_id)
        return current is not None and version is not None and version.position < current.position

    def _fresh(
        self,
        made_at: datetime | None,
        policy: FreshnessPolicyRow | None,
        sla: SlaSpec | None,
        stale: list[SeriesFreshness],
        breach: SlaBreach | None,
    ) -> FreshnessHealth:
        promised = None if sla is None else sla_text(sla)
        if policy is None and (made_at is None or sla is None or not sla.max_age_s):
            age = None if made_at is None else max(timedelta(0), self._now - made_at)
            return FreshnessHealth(last_materialized_at=made_at, sla=promised, staleness=age)
        due = [each.due_at for each in stale if each.due_at is not None]
        due += [] if breach is None else [breach.due_at]
        return FreshnessHealth(
            last_materialized_at=made_at,
            sla=promised or (None if policy is None else policy_text(policy)),
            within_sla=not stale and breach is None,
            staleness=self._now - min(due) if due else timedelta(0),
        )


def _hold_texts(holds: Iterable[QuarantineRow]) -> Iterator[str]:
    """Holds of people one by one, if they are few; the number of those of checks."""
    by_hand, by_checks = [], 0
    for hold in sorted(holds, key=lambda hold: hold.held_at, reverse=True):
        if hold.held_by:
            by_hand.append(
                f"{partition_text(hold.partition_key)} held by {hold_text(hold)}".strip()
            )
        else:
            by_checks += 1
    yield from by_hand[:LISTED_HOLDS]
    if len(by_hand) > LISTED_HOLDS:
        yield f"{_count(len(by_hand) - LISTED_HOLDS, 'other version')} held by people"
    if by_checks:
        yield f"{_count(by_checks, 'output')} held by checks"


def hold_text(hold: QuarantineRow) -> str:
    """By whom a version is held, and why."""
    return ": ".join(part for part in (hold.held_by or "checks", hold.reason) if part)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def policy_text(policy: FreshnessPolicyRow) -> str:
    age = f"at most {timedelta(seconds=policy.max_age_s)} old" if policy.max_age_s else ""
    cron = f"by {policy.cron} ({policy.timezone})" if policy.cron else ""
    return ", ".join(part for part in (age, cron) if part)


def _ended(state: AssetOutcome) -> str:
    return "failed" if state.last_outcome == "failed" else "produced an output that is held"


def _quality(state: AssetOutcome | None, held: int) -> QualityHealth:
    if state is None:
        return QualityHealth(has_quarantined=bool(held))
    total = sum(state.recent_checks)
    return QualityHealth(
        pass_rate=sum(state.recent_passed) / total if total else None,
        check_count=state.recent_checks[-1] if state.recent_checks else 0,
        has_quarantined=bool(held),
        recent_results=total,
    )


def _last_run(state: AssetOutcome | None) -> LastRunHealth | None:
    if state is None or not state.last_run_id:
        return None
    return LastRunHealth(run_id=state.last_run_id, outcome=state.last_outcome)
