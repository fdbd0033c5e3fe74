"""The inputs of an asset, and those among them that are not good.

Everything is looked up by key. Upstream assets are traversed breadth first, up to `MAX_ANCESTORS`
assets.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from arco.answers.asset_states import ASSET_OUTCOMES, AssetOutcome
from arco.automation.freshness_reader import FreshnessReader, SeriesFreshness
from arco.automation.freshness_tables import FreshnessStatus
from arco.execution.states import PartitionStatus
from arco.execution.tables import PARTITION_STATUS, PartitionStatusRow
from arco.lineage.tables import TOPOLOGIES
from arco.notifications.tables import ASSET_FAILURES
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.deployments import namespace_of
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.reader import Library
from arco.orchestration.states import TERMINAL, TaskState
from arco.orchestration.tables import (
    DEPLOYED_ASSETS,
    PROJECT_NAMESPACES,
    RUNS,
    TASKS,
    DeployedAssetRow,
    TaskRow,
)
from arco.state.snapshot import Snapshot
from servo.contract.identity import task_id
from servo.contract.keys import AssetId
from servo.contract.manifest import keys_read
from servo.contract.partition import PartitionKey

MAX_ANCESTORS: Final = 500
BAD: Final = frozenset(
    {
        PartitionStatus.FAILED,
        PartitionStatus.QUARANTINED,
        PartitionStatus.BLOCKED,
        PartitionStatus.REJECTED,
    }
)


class ExplainedPlace(NamedTuple):
    asset: str
    partition: str


class BadAncestor(NamedTuple):
    asset: str
    direct: str
    """The direct input on the path to it."""
    status: PartitionStatusRow


class BadUpstream(NamedTuple):
    place: ExplainedPlace
    skipped: TaskRow | None
    """This asset's task in the run in which the input failed."""


class InputReader:
    def __init__(self, snapshot: Snapshot, library: Library, now: datetime) -> None:
        self.snapshot = snapshot
        self._library = library
        self._now = now
        self._deployments = DeploymentReader(snapshot)
        self.lineage = lineage_reader(snapshot)
        self._freshness = FreshnessReader(snapshot)
        self._tasks = functools.lru_cache(maxsize=8)(self._run_tasks)
        self._owner = functools.cache(functools.partial(snapshot.get, PROJECT_NAMESPACES))
        self._rows: dict[str, DeployedAssetRow | None] = {}
        self._sources = functools.cache(self._read_sources)

    def deployed(self, asset: str) -> DeployedAssetRow | None:
        """Always by key: a reader of deployments reads a whole project after some lookups."""
        if asset not in self._rows:
            owner, get = self._owner(namespace_of(asset)), self.snapshot.get
            row = None if owner is None else get(DEPLOYED_ASSETS, owner.project, asset)
            self._rows[asset] = row
        return self._rows[asset]

    def asset_id(self, asset: str) -> str:
        row = self.deployed(asset)
        return self._deployments.asset_id(asset) if row is None else row.asset_id

    def deployed_id(self, asset: str) -> str | None:
        """Of an asset that may not be deployed."""
        row = self.deployed(asset)
        return None if row is None else row.asset_id

    def upstream(self, asset: str) -> list[str]:
        """The names of the assets that it reads."""
        key = self.lineage.names.key
        return sorted({key(id) for id in self._sources(self.lineage.names.id(asset))})

    def _read_sources(self, id: str) -> tuple[str, ...]:
        """The ids of the assets that one reads: by lineage, or, in a log from before lineage had
        the inputs of code, of one that never ran by its declaration."""
        sources = self.lineage.input_ids(id)
        if sources or self.snapshot.get(TOPOLOGIES, id) is not None:
            return tuple([source for source in sources if source != id])
        asset = self.lineage.names.key(id)
        row = self.deployed(asset)
        if row is None or not row.active:
            return ()
        deployment = self._deployments.current_deployment(row.project)
        declared = None if deployment is None else self._library.assets(deployment.manifest)
        if declared is None or asset not in declared:
            return ()
        read = {self.lineage.names.id(key) for key in keys_read(declared[asset]) if key != asset}
        return tuple(sorted(read))

    # -- other assets -------------------------------------------------------------------------

    def bad_upstream(self, asset: str, partition: str) -> BadUpstream | None:
        """The input that is the reason; first one that this task was skipped for."""
        asset_id = self.asset_id(asset)
        for hop in self.bad_ancestors(asset) if self._was_skipped(asset_id) else ():
            run_id = hop.status.last_run_id
            tasks = self.skipped(asset_id, run_id)
            skipped = next((task for task in tasks if task.partition_key == partition), None)
            if skipped is not None:
                return BadUpstream(self._direct_partition(hop, partition), skipped)
        for source in self.upstream(asset):
            at = self.problem_at(source, partition)
            if at is not None:
                return BadUpstream(at, self._skipped_for(asset_id, partition, at))
        return None

    def _skipped_for(self, asset_id: str, partition: str, at: ExplainedPlace) -> TaskRow | None:
        """The task of a partition in the run in which a partition of an input went bad."""
        status = self.snapshot.get(PARTITION_STATUS, self.deployed_id(at.asset), at.partition)
        if status is None or status.status not in BAD:
            return None
        tasks = self.skipped(asset_id, status.last_run_id)
        return next((task for task in tasks if task.partition_key == partition), None)

    def _direct_partition(self, hop: BadAncestor, partition: str) -> ExplainedPlace:
        """The partition of the direct input: the bad one, or the one that was skipped too."""
        if hop.asset == hop.direct:
            return ExplainedPlace(hop.asset, hop.status.partition_key)
        direct_id = self.deployed_id(hop.direct) or ""
        keys = [task.partition_key for task in self.skipped(direct_id, hop.status.last_run_id)]
        return ExplainedPlace(hop.direct, partition if partition in keys or not keys else keys[0])

    def bad_ancestors(self, asset: str) -> Iterator[BadAncestor]:
        """Upstream assets whose last attempt had no good output, the nearest first.

        Only needed if a run has skipped the asset. Traversed by ids: most names are not needed.
        """
        id, key = self.lineage.names.id(asset), self.lineage.names.key
        seen, edge = {id}, [(source, source) for source in self._sources(id)]
        while edge and len(seen) <= MAX_ANCESTORS:
            beyond = []
            for source, direct in edge:
                if source in seen:
                    continue
                seen.add(source)
                status = self._newest_failure(source)
                if status is not None:
                    yield BadAncestor(key(source), key(direct), status)
                beyond += [(above, direct) for above in self._sources(source)]
            edge = beyond

    def last_skipped(self, asset: str) -> Iterator[TaskRow]:
        """Skipped tasks of it without a later success: of the last run that skipped any, then of
        runs in which upstream assets failed."""
        asset_id = self.asset_id(asset)
        state = self.snapshot.get(ASSET_OUTCOMES, asset_id)
        if state is not None and state.last_skipped_run_id:
            yield from self.skipped(asset_id, state.last_skipped_run_id)
            for hop in self.bad_ancestors(asset):
                yield from self.skipped(asset_id, hop.status.last_run_id)

    def _was_skipped(self, asset_id: str) -> bool:
        state = self.snapshot.get(ASSET_OUTCOMES, asset_id)
        return state is not None and bool(state.last_skipped_run_id)

    def problem_at(self, asset: str, partition: str) -> ExplainedPlace | None:
        """The partition of an input that is bad, missing or stale, and that matters for this one.

        For inputs with the same dimensions that is the same partition (without using the mapping);
        for others any.
        """
        row = self.deployed(asset)
        if row is None:
            return ExplainedPlace(asset, "")
        status = self.snapshot.get(PARTITION_STATUS, row.asset_id, partition)
        if status is not None and status.status in BAD:
            return ExplainedPlace(asset, partition)
        state = self.snapshot.get(ASSET_OUTCOMES, row.asset_id)
        if state is None:
            return ExplainedPlace(asset, partition)
        alike = _dimensions(partition) == _dimensions(
            state.last_partition_key or state.last_failure_partition
        )
        if alike and status is None:
            return ExplainedPlace(asset, partition)
        bad = None if alike else self.bad(row.asset_id, state)
        if bad is not None:
            return ExplainedPlace(asset, bad.partition_key)
        stale = self.stale(row.asset_id)
        return None if stale is None else ExplainedPlace(asset, stale.partition)

    def _newest_failure(self, asset_id: str) -> PartitionStatusRow | None:
        """Failed assets have a row in a small table, which most do not."""
        if self.snapshot.get(ASSET_FAILURES, asset_id) is None:
            return None
        state = self.snapshot.get(ASSET_OUTCOMES, asset_id)
        return None if state is None else self.bad(asset_id, state)

    def bad(self, asset_id: str, state: AssetOutcome) -> PartitionStatusRow | None:
        if state.last_failure_at is None:
            return None
        status = self.snapshot.get(PARTITION_STATUS, asset_id, state.last_failure_partition)
        return status if status is not None and status.status in BAD else None

    def stale(self, asset_id: str) -> SeriesFreshness | None:
        policy = self._freshness.policy(asset_id)
        if policy is None:
            return None
        series = self._freshness.series_of(policy, self._now)
        return next((each for each in series if each.status == FreshnessStatus.STALE), None)

    # -- tasks --------------------------------------------------------------------------------

    def task(self, asset: str, asset_id: str, partition: str, run_id: str) -> TaskRow | None:
        """The task of a partition in a run: by its id, if the code is still the same."""
        row = self.deployed(asset)
        if row is not None:
            key = PartitionKey.parse(partition)
            id = task_id(AssetId(asset_id), key, row.transform)
            task = self.snapshot.get(TASKS, run_id, id)
            if task is not None:
                return task
        return next(
            (
                task
                for task in self._tasks(run_id)
                if task.asset_id == asset_id and task.partition_key == partition
            ),
            None,
        )

    def skipped(self, asset_id: str, run_id: str) -> list[TaskRow]:
        """Tasks of an asset that a run skipped, without a later success."""
        tasks = [
            task
            for task in self._tasks(run_id)
            if task.asset_id == asset_id and task.state == TaskState.SKIPPED
        ]
        return [task for task in tasks if not self._written_since(task)]

    def _written_since(self, task: TaskRow) -> bool:
        status = self.snapshot.get(PARTITION_STATUS, task.asset_id, task.partition_key)
        ended = task.finished_at
        return status is not None and ended is not None and status.last_at > ended

    def _run_tasks(self, run_id: str) -> list[TaskRow]:
        return self.snapshot.rows(TASKS, run_id)

    def active(self, asset: str, partition: str) -> TaskRow | None:
        """A task of an active run for it."""
        asset_id = self.asset_id(asset)
        for run in self.snapshot.hot(RUNS):
            if run.finished_at is not None:
                continue
            tasks = self.snapshot.columns(
                TASKS, run.run_id, ["asset_id", "partition_key", "state", "task_id"]
            )
            chosen = pc.and_(
                pc.and_(
                    pc.equal(tasks["asset_id"], asset_id),
                    pc.equal(tasks["partition_key"], partition),
                ),
                pc.invert(pc.is_in(tasks["state"], pa.array(sorted(TERMINAL)))),
            )
            for id in tasks.filter(chosen)["task_id"].to_pylist():
                return self.snapshot.get(TASKS, run.run_id, id)
        return None


def _dimensions(partition: str) -> list[str]:
    return [part.partition("=")[0] for part in partition.split(",") if part]
