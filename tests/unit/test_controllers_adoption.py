"""Which runs of other engines are adopted."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from arco.orchestration.actions import AdoptRun
from arco.orchestration.board import Board
from arco.orchestration.controllers.adoption import adoption
from arco.orchestration.controllers.lost_attempts import WorkerState
from arco.orchestration.limits import Timing
from tests.kit.runs import RUN, Folding, chain_of, plan, triggered

TIMING = Timing()
SILENT = timedelta(seconds=TIMING.zombie_after_s)
SECOND = timedelta(seconds=1)


def foreign_board() -> tuple[Board, datetime]:
    """A board whose only run belongs to the engine `local-x`."""
    f = Folding()
    f.add(triggered(1, engine_id="local-x"), *plan(chain_of(1)))
    board = Board(lambda run: run.engine_id == "")
    head: Any = SimpleNamespace(
        generation=1, manifest=SimpleNamespace(position=f.position, log_time=f.now)
    )
    board.apply(f.rows, head)
    assert list(board.others) == [RUN]
    return board, f.now


def test_run_is_adopted_when_its_engine_was_silent_for_as_long_as_a_dead_worker() -> None:
    board, now = foreign_board()
    for silence, adopted in [(SILENT, []), (SILENT + SECOND, [AdoptRun(RUN)])]:
        alive = {"local-x": WorkerState(now - silence, frozenset())}
        assert adoption(board, alive, now, TIMING, {RUN: now}, datetime.min) == adopted


def test_run_whose_engine_has_no_record_waits_from_when_it_was_first_seen() -> None:
    board, now = foreign_board()
    for first_seen, adopted in [(now - SILENT, []), (now - SILENT - SECOND, [AdoptRun(RUN)])]:
        assert adoption(board, {}, now, TIMING, {RUN: first_seen}, datetime.min) == adopted
    assert adoption(board, {}, now, TIMING, {}, datetime.min) == []


def test_silence_counts_only_while_somebody_has_watched() -> None:
    board, now = foreign_board()
    long_ago = now - timedelta(days=1)
    alive = {"local-x": WorkerState(long_ago, frozenset())}
    assert adoption(board, alive, now, TIMING, {RUN: long_ago}, now - SILENT) == []
    watched = adoption(board, alive, now, TIMING, {RUN: long_ago}, now - SILENT - SECOND)
    assert watched == [AdoptRun(RUN)]


def test_own_runs_are_not_adopted() -> None:
    f = Folding()
    f.add(triggered(1), *plan(chain_of(1)))
    board = Board()
    head: Any = SimpleNamespace(
        generation=1, manifest=SimpleNamespace(position=f.position, log_time=f.now)
    )
    board.apply(f.rows, head)
    assert adoption(board, {}, f.now + timedelta(days=1), TIMING, {}, datetime.min) == []
