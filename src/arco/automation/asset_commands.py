"""Commands about the automation of assets, and why a partition runs or waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from arco.automation.asset_events import AutomationPaused, AutomationResumed, ResumeCatchup
from arco.automation.asset_graph import AutomatedPartition
from arco.automation.asset_reads import AutomationReads, RequestedPlaces
from arco.automation.asset_tables import AutomationRow
from arco.automation.conditions import ActiveWork, Conditions, PartitionOutcome
from arco.automation.reader import AutomationReader
from arco.automation.tables import BACKFILLS
from arco.automation.ticks import next_tick
from arco.errors import Invalid
from arco.execution.states import PartitionStatus
from arco.execution.tables import PARTITION_STATUS
from arco.orchestration.board import Board
from arco.orchestration.partition_space import count
from arco.orchestration.planner import requested
from arco.orchestration.planning import RunPlanner
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.states import RequestState, TaskState
from arco.orchestration.tables import RUN_REQUESTS, TaskRow
from arco.orchestration.world import World
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1

MOST = 1_000
"""Maximum of partitions that are explained together."""


class ExplainedPartition(Struct, frozen=True):
    partition: str
    outcome: PartitionOutcome
    """`runs`, `waits` or `idle`."""
    reasons: tuple[str, ...]
    cause: str


class ExplainedAsset(Struct, frozen=True):
    automation: AutomationRow
    next_tick: datetime | None
    """Of `on_cron`: when partitions would run."""
    partitions: list[ExplainedPartition]


class AssetAutomationCommands:
    def __init__(self, core: Core, tier1: Tier1, library: Library, actor: str = "") -> None:
        self._core = core
        self._tier1 = tier1
        self._library = library
        self._planner = RunPlanner(core, library, actor)
        self._actor = actor

    def pause(self, asset: str, *, reason: str = "") -> Acknowledged:
        """Pause it until it is resumed. Deployments do not resume it."""
        key = self._row(asset).asset_key
        return self._tier1.execute(AutomationPaused(asset=key, reason=reason), actor=self._actor)

    def resume(self, asset: str, *, catchup: ResumeCatchup = "none") -> Acknowledged:
        """Resume it; `catchup`: whether versions that were replaced during the pause count."""
        event = AutomationResumed(asset=self._row(asset).asset_key, catchup=catchup)
        return self._tier1.execute(event, actor=self._actor)

    def _row(self, text: str) -> AutomationRow:
        return AutomationReader(self._core.snapshot()).automation(text)

    def explain(self, asset: str, partitions: Sequence[str] = ()) -> ExplainedAsset:
        """Why partitions of an asset would run now, or what they wait for.

        Partitions are named as a run's are; by default the newest period, and all other keys.
        """
        snapshot, now = self._core.snapshot(), self._core.clock.now()
        world = self._planner.world(snapshot)
        return explained_asset(snapshot, self._library, world, now, asset, partitions)


def explained_asset(
    snapshot: Snapshot,
    library: Library,
    world: World,
    now: datetime,
    asset: str,
    partitions: Sequence[str] = (),
) -> ExplainedAsset:
    """Why partitions of an asset would run at a time, or what they wait for."""
    reader = AutomationReader(snapshot)
    row = reader.automation(asset)
    reads = AutomationReads(snapshot, library)
    graph = reads.graph(world)
    periods = reads.periods(graph, now)
    space = periods.space(row.asset_key)
    ranges = requested({row.asset_key: space}, partitions)[row.asset_key]
    if count(ranges) > MOST:
        raise Invalid(
            f"these are {count(ranges):,} partitions, more than {MOST:,}",
            hint="name fewer with -p",
        )
    board = Board()
    board.load(snapshot)
    pending = [r for r in snapshot.hot(RUN_REQUESTS) if r.state == RequestState.PENDING]
    backfills = snapshot.hot(BACKFILLS)
    planned = RequestedPlaces().at(reads, graph, pending, backfills, now)
    active = ActiveWork(board.making, planned)
    rows = {each.asset_key: each for each in reader.automations()}
    conditions = Conditions(snapshot, periods, rows, active, reads.seen_by)
    points = list(space.points(ranges))
    failures = _failures(snapshot, row.asset_key, [space.text(point) for point in points])
    asset_id = graph.ids[row.asset_key]
    explained = []
    for point in points:
        text = space.text(point)
        verdict = conditions.verdict(AutomatedPartition(row.asset_key, point))
        retried = _retried(board, asset_id, text)
        reasons = (*verdict.reasons, *(retried or failures.get(text, ())))
        explained.append(ExplainedPartition(text, verdict.outcome, reasons, verdict.cause))
    return ExplainedAsset(row, upcoming(row, now), explained)


def _failures(
    snapshot: Snapshot, asset_key: str, partitions: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """By partition: that its last attempt failed, where it did."""
    asset_id = OrchestrationReader(snapshot).asset_id(asset_key)
    rows = snapshot.get_many(PARTITION_STATUS, [(asset_id, text) for text in partitions])
    return {
        row.partition_key: (
            f"its last attempt failed in run {row.last_run_id}"
            + (f": {row.error_code}" if row.error_code else ""),
        )
        for row in rows.values()
        if row.status == PartitionStatus.FAILED
    }


def _retried(board: Board, asset_id: str, partition: str) -> tuple[str, ...]:
    """A note that attempts of an active run failed and are retried."""
    runs = board.making.get(asset_id, {}).get(partition, {})
    tasks = [board.tasks.get(run_id, {}).get(task_id) for run_id, task_id in sorted(runs.items())]
    return tuple([text for task in tasks if task is not None and (text := _attempts(task))])


def _attempts(task: TaskRow) -> str:
    waits = task.state == TaskState.RETRY_WAIT
    failed = task.attempt if waits else task.attempt - 1
    if failed < 1:
        return ""
    code = f": {task.error_code}" if task.error_code else ""
    at = task.retry_not_before if waits else None
    then = "" if at is None else f"; the next begins at {at:%Y-%m-%d %H:%M:%S} UTC"
    return f"attempt {failed} of {task.max_attempts} failed in run {task.run_id}{code}{then}"


def upcoming(row: AutomationRow, now: datetime) -> datetime | None:
    """The next tick of `on_cron`, in UTC."""
    if not row.cron or not row.is_active:
        return None
    tick = next_tick(row.cron, row.timezone, max(now, row.ticked_at))
    return None if tick is None else tick.at
