"""A partition is made by one run at a time: which of several goes first."""

from __future__ import annotations

from arco.orchestration.board import Board
from arco.orchestration.controllers.ready_dispatch import Turn, ready_dispatch
from arco.orchestration.limits import Limits
from arco.orchestration.tables import RunRow
from tests.kit.automation import Mill, project, source

RAW = project(source("raw"))


def loaded(mill: Mill, board: Board) -> list[str]:
    """The runs of which a board would send a task now."""
    board.load(mill.fresh().read.snapshot())
    sending, _ = ready_dispatch(board, Limits(), Turn())
    return [each.run_id for each in sending]


def two_runs(**settings: str) -> tuple[Mill, str, str]:
    mill = Mill(RAW, orchestrators=0)
    first = mill.run("m.raw", settle=False)
    mill.clock.sleep(1)
    return mill, first, mill.run("m.raw", settle=False, **settings)


def test_the_older_run_goes_first_for_everybody() -> None:
    mill, first, second = two_runs()
    assert loaded(mill, Board()) == [first]
    assert loaded(mill, Board(lambda run: run.run_id == second)) == []
    assert loaded(mill, Board(lambda run: run.run_id == first)) == [first]


def test_nothing_waits_for_a_run_that_nobody_serves() -> None:
    mill, _, second = two_runs()

    def is_own(run: RunRow) -> bool:
        return run.run_id == second

    assert loaded(mill, Board(is_own, is_alive=lambda run: False)) == [second]


def test_a_run_that_was_overtaken_waits_for_what_is_in_flight() -> None:
    mill, first, second = two_runs()
    engine = mill.crowd.orchestrator()
    board = engine.orchestrator.board
    board.serves = lambda run: run.run_id == second
    board.is_alive = lambda run: False  # its orchestrator was away
    engine.step()
    engine.step()
    assert {run for run, _ in engine.board.in_flight} == {second}
    assert loaded(mill, Board(lambda run: run.run_id == first)) == []
    assert loaded(mill, Board()) == []


def test_the_second_run_follows_when_the_first_was_cancelled() -> None:
    mill, first, second = two_runs()
    mill.fresh().commands.orchestration.cancel(first)
    mill.crowd.orchestrator()
    mill.settle()
    runs = {run.run_id: run.state for run in mill.fresh().read.orchestration().runs(limit=9).rows}
    assert runs == {first: "CANCELLED", second: "SUCCEEDED"}
