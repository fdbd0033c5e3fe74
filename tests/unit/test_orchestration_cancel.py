"""Cancelling: what the command costs, and how the tasks of a large run end after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from arco.app import Workspace
from arco.cli.runs import row_after_cancel
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.orchestration.board import Board
from arco.orchestration.commands import CANCELLED_AT_ONCE
from arco.orchestration.controllers.cancellation import CHUNK_ROWS, cancellation, end_waiting
from arco.orchestration.controllers.ready_dispatch import Turn, ready_dispatch
from arco.orchestration.events import RunCancelRequested, TasksCancelled, TimerFired
from arco.orchestration.limits import Limits, Timing
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import RUNS, TASKS
from arco.state.changes import Changes
from arco.state.lookup import look_up
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.flows import OrchestratorProcess
from tests.kit.runs import (
    RUN,
    Attempt,
    Dag,
    Folding,
    Node,
    chain_of,
    plan,
    seen,
    started_run,
    triggered,
)
from tests.kit.workspace import make_workspace
from tests.unit.test_orchestration_controllers import board_of

CANCEL = RunCancelRequested(run_id=RUN, reason="enough", in_steps=True)
FORCED = RunCancelRequested(run_id=RUN, force=True, in_steps=True)
TIMING = Timing()


class BusyClock(SimClock):
    """While one process sleeps, another does something."""

    meanwhile: Callable[[], object] | None = None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.meanwhile is not None:
            self.meanwhile()


class Site:
    """A store with one run of many tasks, and processes that come to it cold."""

    def __init__(self, tasks: int, dag: Dag | None = None) -> None:
        self.clock = BusyClock()
        self.store = MemoryStore(self.clock)
        first = self.process(1)
        first.ledger.append([triggered(tasks), *plan(dag or (Node(),) * tasks, chunks=10)])
        first.committer.commit()
        self.clock.sleep(1)

    def process(self, seed: int, **settings: Any) -> Workspace:
        return make_workspace(self.store, seed, clock=self.clock, **settings)

    def run_state(self) -> str:
        row = self.process(99).read.snapshot().get(RUNS, RUN)
        assert row is not None
        return row.state


# -- what the command costs ----------------------------------------------------------------


class Cost:
    """Look-ups and changed rows of a command that a cold process gives."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.look_ups = 0
        self.changed: Counter[str] = Counter()
        for module in ("snapshot", "warm"):
            monkeypatch.setattr(f"arco.state.{module}.look_up", self._look_up)
        workspace = site.process(2, actor="ana")
        workspace.writer.commits.follow(self._committed)
        workspace.commands.orchestration.cancel(RUN)

    def _look_up(self, *given: Any) -> Any:
        self.look_ups += 1
        return look_up(*given)

    def _committed(self, head: object, changes: Changes) -> None:
        self.changed.update({str(table): len(rows) for table, rows in changes.items()})


def test_cancelling_5000_tasks_looks_up_and_changes_no_more_than_50(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = Cost(Site(50), monkeypatch)
    site = Site(5_000)
    large = Cost(site, monkeypatch)
    assert large.look_ups <= small.look_ups
    assert large.changed.total() < small.changed.total()
    assert large.changed["orchestration.runs"] == 1
    assert "orchestration.tasks" not in large.changed
    row = site.process(3).read.snapshot().get(RUNS, RUN)
    assert row is not None
    assert (row.state, row.cancelled_by) == (RunState.CANCELLING, "ana")


def test_command_beside_reports_of_a_large_run_does_not_load_the_run() -> None:
    site = Site(40_000)
    reporter = site.process(4)
    reporter.upkeep.merger.merge(everything=True)
    ids = [f"t{index:02d}" for index in range(0, 40_000, 4_000)]
    reporter.ledger.append([Attempt(id).started() for id in ids])
    workspace = site.process(2)
    workspace.commands.orchestration.cancel(RUN)
    warm = workspace.projector.warm
    assert TASKS not in {table for table, _ in warm.buckets}
    rows = {row.task_id: row.state for row in workspace.read.snapshot().rows(TASKS, RUN)}
    assert [rows[id] for id in ids] == [TaskState.RUNNING] * len(ids)


# -- nothing starts, and nothing counts ----------------------------------------------------


def test_nothing_is_sent_of_a_run_that_is_being_cancelled() -> None:
    f = started_run((Node(),) * 4)
    f.add(triggered(2, "run2"), *plan((Node(),) * 2, "run2"))
    f.add(CANCEL)
    sending, _ = ready_dispatch(board_of(f), Limits(), Turn())
    assert {action.run_id for action in sending} == {"run2"}
    assert set(f.states().values()) == {TaskState.READY}


@pytest.mark.parametrize("report", ["succeeded", "failed", "cancelled", "lost"])
def test_report_of_a_task_that_was_not_ended_yet_ends_it_and_counts_for_nothing(
    report: str,
) -> None:
    f = started_run(chain_of(2))
    f.add(CANCEL, getattr(Attempt("t00"), report)())
    assert f.states() == {"t00": TaskState.CANCELLED, "t01": TaskState.CANCELLED}
    assert (f.run().state, f.run().retries) == (RunState.CANCELLED, 0)
    assert {m.status for m in f.all(MATERIALIZATIONS)} <= {"LATE"}
    assert f.all(PARTITIONS) == []


def test_retry_that_is_due_while_its_run_is_being_cancelled_does_not_start() -> None:
    f = started_run((Node(), Node()))
    f.add(Attempt("t00").failed(), CANCEL)
    [timer] = f.timers("retry")
    f.add(TimerFired(run_id=RUN, timer_id=timer.timer_id))
    assert (f.task("t00").state, f.task("t00").attempt) == (TaskState.CANCELLED, 1)
    assert f.states()["t01"] == TaskState.READY


def test_tasks_of_a_run_that_is_not_being_cancelled_do_not_end() -> None:
    f = started_run(chain_of(2))
    f.add(TasksCancelled(run_id=RUN, task_ids=("t00", "t01"), force=True))
    assert f.states() == {"t00": TaskState.READY, "t01": TaskState.BLOCKED}


def test_plan_that_comes_after_the_cancellation_is_ignored() -> None:
    f = Folding()
    first, second = plan(chain_of(4), chunks=2)
    f.add(triggered(4), first, CANCEL)
    assert (f.run().state, f.run().tasks_cancelled) == (RunState.CANCELLING, 2)
    f.add(second, TasksCancelled(run_id=RUN, task_ids=("t01", "t00")))
    assert (f.run().state, f.run().tasks_cancelled) == (RunState.CANCELLED, 4)
    assert set(f.states()) == {"t00", "t01"}


# -- how tasks end -------------------------------------------------------------------------


def wide(middle: int) -> Dag:
    """One root, many that wait for it, and one that waits for all of them."""
    return (Node(), *[Node((0,))] * middle, Node(tuple(range(1, middle + 1))))


def steps(f: Folding) -> list[int]:
    """End what waits until nothing does; how many rows each step has changed."""
    sizes = []
    while actions := end_waiting(board_of(f)):
        [action] = actions
        changes = f.add(TasksCancelled(run_id=action.run_id, task_ids=action.task_ids))
        sizes.append(len(changes[TASKS]))
    return sizes


def test_tasks_of_a_large_run_end_in_steps_of_a_bounded_size() -> None:
    f = started_run(wide(3_000))
    f.add(CANCEL)
    sizes = steps(f)
    assert max(sizes) <= CHUNK_ROWS
    assert sum(sizes) == 3_002
    assert (f.run().state, f.run().tasks_cancelled) == (RunState.CANCELLED, 3_002)
    assert f.timers() == []


def test_what_is_with_a_worker_is_waited_for_and_given_up_at_once_by_force() -> None:
    f = started_run((Node(), Node(), Node((0,))))
    f.add(Attempt("t00").started(), CANCEL)
    steps(f)
    assert f.states() == {
        "t00": TaskState.RUNNING,
        "t01": TaskState.CANCELLED,
        "t02": TaskState.CANCELLED,
    }
    board = board_of(f)
    assert [type(a).__name__ for a in cancellation(board, f.now, TIMING, seen(board))] == [
        "Interrupt"
    ]
    f.add(FORCED)
    board = board_of(f)
    assert [type(a).__name__ for a in cancellation(board, f.now, TIMING, seen(board))] == [
        "Interrupt",
        "LoseAttempt",
    ]


def test_oldest_cancellation_ends_first() -> None:
    f = Folding()
    for run_id in ("run2", "run1"):
        f.wait(1).add(triggered(2, run_id), *plan((Node(),) * 2, run_id))
    for run_id in ("run2", "run1"):
        f.wait(1).add(RunCancelRequested(run_id=run_id, in_steps=True))
    assert [action.run_id for action in end_waiting(board_of(f))] == ["run2"]


# -- who ends them -------------------------------------------------------------------------


@pytest.mark.parametrize("force", [False, True])
def test_small_run_ends_with_the_command_although_nobody_orchestrates(force: bool) -> None:
    site = Site(4, wide(2))
    if force:
        worker = site.process(5)
        worker.ledger.append([Attempt("t00").started()])
        worker.committer.commit()
    site.process(2).commands.orchestration.cancel(RUN, force=force)
    assert site.run_state() == RunState.CANCELLED


def every_to_every(count: int) -> Dag:
    """Two rows of tasks; each of the second waits for all of the first."""
    return ((Node(),) * count) + (Node(tuple(range(count))),) * count


def test_small_run_with_many_edges_ends_with_the_command() -> None:
    dag = every_to_every(30)
    site = Site(len(dag), dag)
    site.process(2).commands.orchestration.cancel(RUN)
    assert site.run_state() == RunState.CANCELLED


def test_largest_cancellation_of_a_small_run_is_one_batch() -> None:
    dag = every_to_every(CANCELLED_AT_ONCE // 2)
    site = Site(len(dag), dag)
    site.process(2).commands.orchestration.cancel(RUN)
    assert site.run_state() == RunState.CANCELLED


def test_cancelled_run_with_tasks_at_workers_alone_is_not_waited_for() -> None:
    site = Site(2)
    worker = site.process(5)
    worker.ledger.append([Attempt("t00").started()])
    worker.commands.orchestration.cancel(RUN)
    before = site.clock.now()
    row = row_after_cancel(site.process(2), RUN)
    assert (row.state, row.tasks_cancelled) == (RunState.CANCELLING, 1)
    assert site.clock.now() == before


def test_large_run_ends_when_an_orchestrator_comes() -> None:
    site = Site(CANCELLED_AT_ONCE + 1)
    site.process(2).commands.orchestration.cancel(RUN)
    assert site.run_state() == RunState.CANCELLING
    orchestrator = OrchestratorProcess(site.store, site.clock, 7)
    for _ in range(4):
        orchestrator.step()
        site.clock.sleep(1)
    assert site.run_state() == RunState.CANCELLED
    assert vars(orchestrator.board)["runs"] == {}
    assert site.process(8).upkeep.rebuild(publish=False).same


def test_large_run_is_ended_by_whoever_asks_where_nobody_orchestrates() -> None:
    site = Site(2 * CHUNK_ROWS + 1)
    workspace = site.process(2)
    workspace.commands.orchestration.cancel(RUN)
    workspace.commands.orchestration.finish_cancel(RUN)
    assert site.run_state() == RunState.CANCELLED
    workspace.commands.orchestration.finish_cancel(RUN)  # which changes nothing
    board = Board()
    board.load(site.process(3).read.snapshot())
    assert board.runs == {}


def test_report_of_a_worker_is_not_taken_for_an_orchestrator() -> None:
    site = Site(2 * CHUNK_ROWS)
    worker = site.process(5)
    worker.ledger.append([Attempt("t00").started()])
    OrchestratorProcess(site.store, site.clock, 7).step()  # and dies before the cancellation
    site.clock.sleep(1)
    workspace = site.process(2)
    workspace.commands.orchestration.cancel(RUN)

    def report_late() -> None:
        site.clock.meanwhile = None
        worker.ledger.append([Attempt("t00").cancelled()])
        worker.committer.commit()

    site.clock.meanwhile = report_late
    assert row_after_cancel(workspace, RUN).state == RunState.CANCELLED


def test_large_run_is_left_to_an_orchestrator_that_lives() -> None:
    site = Site(3 * CHUNK_ROWS)
    orchestrator = OrchestratorProcess(site.store, site.clock, 7)
    orchestrator.step()
    site.clock.sleep(6)
    workspace = site.process(2)
    workspace.commands.orchestration.cancel(RUN)
    site.clock.meanwhile = orchestrator.step
    assert row_after_cancel(workspace, RUN).state == RunState.CANCELLING
    site.clock.meanwhile = None
    for _ in range(5):
        site.clock.sleep(1)
        orchestrator.step()
    assert site.run_state() == RunState.CANCELLED
