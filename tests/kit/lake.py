"""A workspace with data in it: runs that are planned for real, and outputs that are files.

Tasks are not executed. A test says what comes of each, and `Lake` writes the files, the
commit marker and the log of it, and reports it, as a worker would.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from arco.app import Workspace
from arco.errors import NotFound
from arco.execution.expiry import KeepFor
from arco.execution.states import HELD_VERSIONS
from arco.execution.tables import EXPIRATIONS, MATERIALIZATIONS, PARTITIONS, MaterializationRow
from arco.log.commit import Committed
from arco.orchestration import states
from arco.orchestration.events import DispatchEnqueued, TaskFinished
from arco.orchestration.tables import RUNS, TASKS, TaskRow
from arco.state.snapshot import Generation, Snapshot
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from servo.contract.keys import AssetKey
from servo.contract.manifest import GateAction
from servo.contract.task import ErrorInfo, Materialization, TaskOutcome, TaskResult
from tests.kit.clocks import SimClock
from tests.kit.flows import deploy, trigger
from tests.kit.keeping import keeping
from tests.kit.workspace import make_workspace

PROJECT = """
from servo import AssetIn, Retention, asset


@asset(namespace="city", retention=Retention(versions=2))
def source() -> None: ...


@asset(namespace="city")
def derived(source: AssetIn["city.source"]) -> None: ...


@asset(namespace="city", retention=Retention(days=20))
def recent() -> None: ...
"""
DAY = timedelta(days=1)
KEPT = KeepFor(generations=keeping(generations=2 * DAY, at_least=1))


class Lake:
    def __init__(self, store: Store | None = None, seed: int = 1) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.w = make_workspace(store or self.memory, seed, clock=self.clock)
        deploy(self.w, PROJECT)

    def wait(self, days: float) -> None:
        self.clock.advance(timedelta(days=days))

    def settle(self) -> None:
        """Let so much time and so many commits pass that the floor can rise to now."""
        for _ in range(2):
            self.wait(3)
            self.w.commands.catalog.create_namespace(f"n{self.w.read.snapshot().generation}")

    def commit(self) -> None:
        while isinstance(self.w.committer.commit(), Committed):
            pass

    # -- runs ------------------------------------------------------------------------------

    def begin(self, *selection: str) -> str:
        run_id = trigger(self.w, *selection)
        self.commit()
        return run_id

    def task(self, run_id: str, asset: str) -> TaskRow:
        rows = self.w.read.snapshot().rows(TASKS, run_id)
        return next(row for row in rows if row.asset_key == asset)

    def dispatch(self, run_id: str, asset: str) -> None:
        task = self.task(run_id, asset)
        sent = DispatchEnqueued(
            run_id=run_id, task_id=task.task_id, attempt_id=task.attempt_id, redelivery=0
        )
        self.w.ledger.append([sent])
        self.commit()

    def finish(
        self,
        run_id: str,
        asset: str,
        *,
        gate: GateAction = "continue",
        outcome: TaskOutcome = "succeeded",
        attempt_id: str = "",
    ) -> str:
        """Have a task put something out; the version's id."""
        made = self.write(run_id, asset)
        self.report(run_id, asset, made, gate=gate, outcome=outcome, attempt_id=attempt_id)
        return made.materialization_id

    def write(self, run_id: str, asset: str, *, commit: bool = True) -> Materialization:
        """What a worker does before it reports."""
        task, key, id = self.task(run_id, asset), AssetKey.parse(asset), self.w.ids()
        folder = paths.partition_folder(key.namespace, key.name, "_")
        self.w.store.put(f"{folder}/{id}/part-00000.parquet", b"rows")
        self.w.store.put(f"{folder}/{id}/part-00001.parquet", b"more")
        log = paths.log_part(paths.attempt_log(run_id, task.task_id, task.attempt, "n"), 0)
        made = Materialization(
            materialization_id=id,
            asset=asset,
            asset_id=task.asset_id,
            partition=task.partition_key,
            run_id=run_id,
            task_id=task.task_id,
            attempt_id=task.attempt_id,
            path=f"{folder}/{id}",
            files=("part-00000.parquet", "part-00001.parquet"),
            bytes=8,
        )
        if commit:
            marker = paths.output_commit(run_id, task.task_id)
            for path in (log, marker):
                self.w.store.put(path, b"{}", Mode.OVERWRITE)
        return made

    def report(self, run_id: str, asset: str, made: Materialization | None, **fields: Any) -> None:
        task = self.task(run_id, asset)
        if fields.get("outcome", "succeeded") != "succeeded":
            fields["error"] = ErrorInfo(category="user_code", code="x", message="x")
        result = TaskResult(
            run_id=run_id,
            task_id=task.task_id,
            attempt=task.attempt,
            attempt_id=fields.pop("attempt_id", "") or task.attempt_id,
            worker_id="w1",
            materialization=made,
            **{"outcome": "succeeded", **fields},
        )
        self.w.ledger.append([TaskFinished(result=result)])
        self.commit()

    def make(self, asset: str, **fields: Any) -> str:
        """A run of one asset, to its end."""
        return self.finish(self.begin(asset), asset, **fields)

    def leftover(self, asset: str) -> str:
        """Files of an attempt that was killed."""
        key, id = AssetKey.parse(asset), self.w.ids()
        folder = paths.partition_folder(key.namespace, key.name, "_")
        self.w.store.put(f"{folder}/{id}/part-00000.parquet", b"half")
        return id

    # -- looking ---------------------------------------------------------------------------

    def rows(self) -> dict[str, MaterializationRow]:
        return {row.materialization_id: row for row in self.w.read.snapshot().all(MATERIALIZATIONS)}

    def statuses(self) -> dict[str, str]:
        expired = {row.materialization_id for row in self.w.read.snapshot().all(EXPIRATIONS)}
        return {id: "EXPIRED" if id in expired else row.status for id, row in self.rows().items()}

    def present(self) -> set[str]:
        """Versions that have files."""
        return versions_with_files(self.w.store)


def versions_with_files(store: Store) -> set[str]:
    listed = (meta.path.split("/") for meta in store.list("data/"))
    return {parts[4] for parts in listed}


# -- what must hold ------------------------------------------------------------------------


def kept_generations(w: Workspace) -> Iterator[Snapshot]:
    floor, head = w.manifests.floor().generation, w.manifests.head().generation
    pinned = {pin.generation for pin in w.upkeep.pins.active()}
    for number in sorted({*range(floor, head + 1), *pinned}):
        try:
            yield w.read.snapshot(Generation(number))
        except NotFound:
            assert number < floor


def check_readable(w: Workspace) -> None:
    """Whatever a reader of any kept generation could ask for is there."""
    present = versions_with_files(w.store)
    for snapshot in kept_generations(w):
        where = f"generation {snapshot.generation}"
        versions = {row.materialization_id: row for row in snapshot.all(MATERIALIZATIONS)}
        for row in snapshot.all(PARTITIONS):
            assert row.materialization_id in present, f"{where}: current"
            assert versions[row.materialization_id].status == "GOOD"
        for id, version in versions.items():
            assert version.status not in HELD_VERSIONS or id in present, f"{where}: undecided"
        for run in snapshot.hot(RUNS):
            if run.state in states.RUN_ACTIVE:
                _check_run(w, snapshot, run.run_id, run.plan_id, present, where)


def _check_run(
    w: Workspace, snapshot: Snapshot, run_id: str, plan_id: str, present: set[str], where: str
) -> None:
    plan = w.library.plan(plan_id)
    for planned in plan.spec.inputs:
        for version in plan.spec.versions_of(planned):
            assert version.materialization_id in present, f"{where}: read by {run_id}"
    for row in snapshot.rows(TASKS, run_id):
        if row.materialization_id:
            assert row.materialization_id in present, f"{where}: made by {run_id}"
