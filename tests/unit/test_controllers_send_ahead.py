"""What is sent ahead of the commit."""

from __future__ import annotations

from arco.orchestration.board import Board, TaskKey
from arco.orchestration.controllers.ready_dispatch import Deferred, Turn, ready_dispatch
from arco.orchestration.controllers.send_ahead import (
    SPECULATE_BELOW,
    is_short_of_work,
    others_wait,
    send_ahead,
)
from arco.orchestration.limits import Limits
from arco.orchestration.tables import TaskRow
from tests.kit.runs import RUN, Attempt, Node, started_run
from tests.unit.test_orchestration_controllers import board_of


def rows(board: Board, *ids: str) -> list[TaskRow]:
    return [board.tasks[RUN][id] for id in ids]


def sent_attempts(*ids: str) -> dict[str, TaskKey]:
    return {Attempt(id).id: (RUN, id) for id in ids}


def never() -> list[TaskRow]:
    raise AssertionError("what was appended is folded although the board has tasks to send")


def test_ready_tasks_of_the_board_go_before_those_of_reports() -> None:
    board = board_of(started_run((Node(),) * 3))
    limits, sent = Limits(max_in_flight=2), sent_attempts("t00")
    sending, turn = send_ahead(board, limits, Turn(), sent, (), never)
    assert (sending, turn) == ready_dispatch(board, limits, Turn(), sent)
    assert [action.task_id for action in sending] == ["t01"]


def test_tasks_of_reports_go_when_the_board_has_nothing_left_to_send() -> None:
    board = board_of(started_run((Node(),) * 3))
    sent = sent_attempts("t00", "t01")
    later = Deferred(tasks=frozenset({(RUN, "t02")}))
    assert not others_wait(board, sent, later)
    ready = rows(board, "t00", "t02")
    sending, turn = send_ahead(board, Limits(), Turn(), sent, (), lambda: ready, later)
    assert (sending, turn) == ([], Turn())
    sending, _ = send_ahead(board, Limits(), Turn(), sent, (), lambda: ready)
    assert [action.task_id for action in sending] == ["t02"]


def test_quota_of_a_tenant_counts_its_own_tasks_in_both_cases() -> None:
    board = board_of(started_run(tuple(Node(tenant=tenant) for tenant in "aab")))
    limits = Limits(quotas={"a": 1, "b": 1})
    sent = sent_attempts("t00")
    by_board, _ = send_ahead(board, limits, Turn(), sent, (), never)
    assert [action.task_id for action in by_board] == ["t02"]
    everything = Deferred(tasks=frozenset((RUN, id) for id in board.tasks[RUN]))
    assert not others_wait(board, sent, everything)
    room, _ = send_ahead(board, limits, Turn(), sent, [(RUN, "t00")], never)
    assert [action.task_id for action in room] == ["t01", "t02"]


def test_nothing_goes_ahead_while_enough_is_in_flight() -> None:
    board = board_of(started_run((Node(),) * (SPECULATE_BELOW + 2)))
    ids = sorted(board.tasks[RUN])[: SPECULATE_BELOW + 1]
    sent = sent_attempts(*ids)
    assert not is_short_of_work(board, sent, ())
    assert send_ahead(board, Limits(), Turn(), sent, (), never) == ([], Turn())
    assert is_short_of_work(board, sent, [(RUN, ids[0])])
    sending, _ = send_ahead(board, Limits(), Turn(), sent, [(RUN, ids[0])], never)
    assert len(sending) == 1


def test_run_that_is_sent_later_does_not_keep_others_waiting() -> None:
    board = board_of(started_run((Node(),) * 2))
    assert others_wait(board, {}, Deferred())
    assert not others_wait(board, {}, Deferred(runs=frozenset({RUN})))
    kinds = frozenset({("", RUN, "ns.t00"), ("", RUN, "ns.t01")})
    assert not others_wait(board, {}, Deferred(kinds=kinds))
