"""What is exported of a run: outputs that were adopted, and those that are held back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arco.app import Workspace
from arco.lineage.tables import EXECUTIONS
from arco.log.commit import Committed
from arco.log.envelope import Batch, encode_batch
from arco.log.head import Head
from arco.openlineage import export
from arco.openlineage.spec import TaskRun
from arco.orchestration.events import RunAsset, TaskFinished, TimerFired
from arco.orchestration.tables import RUNS
from arco.quality.tables import CHECK_RESULTS
from arco.state.snapshot import Snapshot
from arco.state.table import Table
from arco.storage import paths
from servo.contract.task import CheckResult, InputRef, Lineage, MaterializationRef
from tests.kit.runs import RUN, Attempt, Folding, Node, plan, started_run, triggered
from tests.kit.workspace import make_workspace

LINEAGE = Lineage(
    read=(
        InputRef(
            asset="n.above",
            parameter="above",
            materializations=(
                MaterializationRef(partition="", materialization_id="v7", path="p", rows=5),
            ),
        ),
    ),
)
CHECKS = (
    CheckResult(name="fresh", passed=True, input="n.above", phase="before"),
    CheckResult(name="some rows", passed=False, status="failed", severity="warning"),
)


class Asked(Snapshot):
    """A snapshot that tells which tables were asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[str] = []

    def manifest(self, table: Table[Any]) -> Any:
        self.asked.append(str(table))
        return super().manifest(table)


def snapshot_of(folding: Folding) -> Asked:
    """A folded log, committed."""
    w = make_workspace()
    events = [recorded.event for recorded in folding.log]
    w.store.put(paths.inbox("b"), encode_batch(Batch(batch="b", events=events)))
    return Asked(w.manifests, w.core.files, committed(w))


def committed(w: Workspace) -> Head:
    done = w.committer.commit()
    assert isinstance(done, Committed)
    return done.head


def task_runs(folding: Folding, sql: dict[str, str] | None = None) -> list[TaskRun]:
    snapshot = snapshot_of(folding)
    run = snapshot.get(RUNS, RUN)
    assert run is not None
    return export.task_runs(snapshot, run, sql or {})


def exported(finished: TaskFinished) -> TaskRun:
    """Of a run of one task."""
    f = started_run((Node(),))
    f.add(Attempt("t00").started(), finished)
    (run,) = task_runs(f, {"ns.t00": "select 1"})
    return run


def reported(finished: TaskFinished) -> TaskFinished:
    checks = (*CHECKS, *finished.result.checks)
    result = msgspec.structs.replace(finished.result, lineage=LINEAGE, checks=checks)
    return msgspec.structs.replace(finished, result=result)


def test_an_output_has_its_checks_inputs_and_query() -> None:
    run = exported(reported(Attempt("t00").succeeded()))
    assert (run.held, bool(run.materialization_id), run.sql) == (False, True, "select 1")
    assert [(check.name, check.passed) for check in run.checks] == [("some rows", False)]
    (read,) = run.inputs
    assert (read.asset, read.versions, read.rows) == ("n.above", ("v7",), 5)
    assert [check.name for check in read.checks] == ["fresh"]


def test_an_adopted_output_has_the_checks_of_the_attempt_that_made_it() -> None:
    f = started_run((Node(),))
    f.add(Attempt("t00").started(), Attempt("t00").lost())
    timer = f.timers("retry")[0]
    f.now = timer.fire_at
    f.add(TimerFired(run_id=RUN, timer_id=timer.timer_id))
    second = Attempt("t00", 2)
    f.add(second.started(), reported(second.succeeded(adopted_from=1)))
    (run,) = task_runs(f)
    assert [check.name for check in run.checks] == ["some rows"]
    assert [read.asset for read in run.inputs] == ["n.above"]


@pytest.mark.parametrize("instead", [False, True])
def test_an_output_that_is_held_back_is_not_taken_for_the_one_used_instead(instead: bool) -> None:
    run = exported(reported(Attempt("t00").held("quarantine", instead=instead)))
    assert (run.held, run.rows, run.bytes) == (True, 0, 0)
    assert run.materialization_id not in ("", "old")
    assert [read.versions for read in run.inputs] == [("v7",)]
    assert [check.name for check in run.inputs[0].checks] == ["fresh"]
    assert run.error


def test_an_asset_is_looked_up_once_however_many_partitions_it_has() -> None:
    (planned,) = plan((Node(), Node(), Node()))
    one = tuple(msgspec.structs.replace(task, asset=0) for task in planned.tasks)
    asset = RunAsset(key="ns.t00", asset_id="a0")
    f = Folding()
    f.add(triggered(3), msgspec.structs.replace(planned, assets=(asset,), tasks=one))
    for attempt in (Attempt(task.task_id) for task in one):
        f.add(attempt.started(), reported(attempt.succeeded()))
    snapshot = snapshot_of(f)
    row = snapshot.get(RUNS, RUN)
    assert row is not None
    runs = export.task_runs(snapshot, row, {})
    assert len({run.materialization_id for run in runs}) == 3
    assert [len(run.inputs) for run in runs] == [1, 1, 1]
    for table in (EXECUTIONS, CHECK_RESULTS):
        assert snapshot.asked.count(str(table)) == 1
