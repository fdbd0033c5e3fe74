"""What is exported of a run: outputs that were adopted, and those that are held back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arco.cli.lineage import _task_runs
from arco.lineage.openlineage import TaskRun
from arco.lineage.tables import EXECUTIONS
from arco.orchestration.events import RunAsset, TaskFinished, TimerFired
from arco.quality.tables import CHECK_RESULTS
from arco.state.table import Row, Table
from servo.contract.task import CheckResult, InputRef, Lineage, MaterializationRef
from tests.kit.runs import RUN, Attempt, Folding, Node, plan, started_run, triggered

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


class Snapshot:
    """A folded log, asked as a snapshot is asked."""

    generation = 1

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self.asked: list[str] = []

    def rows(self, table: Table[Any], *shard: Any) -> list[Any]:
        self.asked.append(str(table))
        rows = self._folding.all(table)
        return [row for row in rows if table.key_of(row)[: len(shard)] == shard]

    def all(self, table: Table[Any]) -> list[Any]:
        return self._folding.all(table)

    def get(self, table: Table[Any], *key: Any) -> Row | None:
        found = self._folding.get(table, key)
        return None if found is None else found[1]


def exported(finished: TaskFinished) -> TaskRun:
    """Of a run of one task."""
    f = started_run((Node(),))
    f.add(Attempt("t00").started(), finished)
    (run,) = _task_runs(Snapshot(f), RUN, {"ns.t00": "select 1"})  # type: ignore[arg-type]
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
    (run,) = _task_runs(Snapshot(f), RUN, {})  # type: ignore[arg-type]
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
    snapshot = Snapshot(f)
    runs = _task_runs(snapshot, RUN, {})  # type: ignore[arg-type]
    assert len({run.materialization_id for run in runs}) == 3
    assert [len(run.inputs) for run in runs] == [1, 1, 1]
    for table in (EXECUTIONS, CHECK_RESULTS):
        assert snapshot.asked.count(str(table)) == 1
