"""What controllers decide, case by case, and the relations between their times."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from arco.errors import Invalid
from arco.log.envelope import Payload
from arco.log.inbox import CommitLimits as InboxLimits
from arco.orchestration.actions import Enqueue, FireTimer, Interrupt, LoseAttempt
from arco.orchestration.board import Board, TaskKey
from arco.orchestration.controllers.anti_entropy import MAX_REDELIVERIES, anti_entropy, unstarted
from arco.orchestration.controllers.cancellation import cancellation
from arco.orchestration.controllers.lost_attempts import WorkerState, lost_attempts
from arco.orchestration.controllers.ready_dispatch import Turn, ready_dispatch
from arco.orchestration.controllers.timers import next_due, timers
from arco.orchestration.events import RunCancelRequested
from arco.orchestration.limits import Limits, Timing
from arco.orchestration.tables import KEPT_HOT, TASKS
from servo.contract.identity import dispatch_name
from tests.kit.clocks import SimClock
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

TIMING = Timing()
FIRST = Attempt("t00")


def board_of(f: Folding) -> Board:
    board = Board()
    manifest = SimpleNamespace(position=f.position, log_time=f.now)
    head: Any = SimpleNamespace(generation=1, manifest=manifest)
    board.apply(f.rows, head)
    return board


# -- anti-entropy --------------------------------------------------------------------------


def test_task_that_the_queue_has_lost_goes_again_under_another_name() -> None:
    f = started_run(chain_of(1))
    f.add(FIRST.enqueued())
    f.wait(TIMING.redeliver_after_s)
    assert unstarted(board_of(f), f.now, TIMING) == []
    f.wait(1)
    assert anti_entropy(board_of(f), f.now, TIMING, {FIRST.id}) == [
        Enqueue(RUN, "t00", FIRST.id, 1)
    ]
    f.add(FIRST.enqueued(1))
    assert anti_entropy(board_of(f), f.now, TIMING, {FIRST.id}) == []
    f.wait(TIMING.redeliver_after_s + 1)
    assert anti_entropy(board_of(f), f.now, TIMING, {FIRST.id}) == [
        Enqueue(RUN, "t00", FIRST.id, 2)
    ]
    sent = {dispatch_name(RUN, "t00", 1, redelivery=n) for n in range(3)}
    assert len(sent) == 3


def test_task_that_the_queue_still_has_is_left_to_it() -> None:
    f = started_run(chain_of(1))
    f.add(FIRST.enqueued())
    f.wait(1000)
    assert anti_entropy(board_of(f), f.now, TIMING, set()) == []


def test_order_of_decisions_does_not_depend_on_how_the_board_came_about() -> None:
    found = []
    for order in ((0, 1, 2), (2, 1, 0)):
        f, board = Folding(), Board()
        take(board, f, triggered(3), *plan((Node(), Node(), Node())))
        for i in order:
            take(board, f, Attempt(f"t{i:02d}").enqueued())
        gone = {task.attempt_id for task in board.in_flight.values()}
        later = f.now + timedelta(hours=1)
        again = anti_entropy(board, later, TIMING, gone)
        assert len(again) == 3
        take(board, f, RunCancelRequested(run_id=RUN))
        found.append((again, cancellation(board, later, TIMING, seen(board))))
    assert found[0] == found[1]


def take(board: Board, f: Folding, *payloads: Payload) -> None:
    changes = f.add(*payloads)
    manifest = SimpleNamespace(position=f.position, log_time=f.now)
    head: Any = SimpleNamespace(generation=board.generation + 1, manifest=manifest)
    board.apply(changes, head)


def test_task_that_somebody_started_is_not_sent_again() -> None:
    f = started_run(chain_of(1))
    f.add(FIRST.enqueued(), FIRST.started())
    f.wait(1000)
    assert anti_entropy(board_of(f), f.now, TIMING, {FIRST.id}) == []


# -- lost attempts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempts", "silent_s", "running_s", "lost"),
    [
        ({FIRST.id}, 0, 1000, False),
        ({FIRST.id}, 30, 1000, False),
        ({FIRST.id}, 31, 1000, True),
        (set(), 0, 30, False),
        (set(), 0, 31, True),
        (None, 0, 30, False),
        (None, 0, 31, True),
    ],
)
def test_attempt_is_lost_when_its_worker_is_silent_or_does_not_know_it(
    attempts: set[str] | None, silent_s: int, running_s: int, lost: bool
) -> None:
    f = started_run(chain_of(1))
    f.add(FIRST.started("w1"))
    f.wait(running_s)
    alive = {}
    if attempts is not None:
        alive["w1"] = WorkerState(f.now - timedelta(seconds=silent_s), frozenset(attempts))
    found = lost_attempts(board_of(f), alive, f.now, TIMING, seen(board_of(f)))
    assert [(z.attempt_id, z.worker_id) for z in found] == ([(FIRST.id, "w1")] if lost else [])


def test_task_that_nobody_started_has_no_worker_to_lose() -> None:
    f = started_run((Node(), Node()))
    f.add(FIRST.enqueued())
    f.wait(1000)
    assert lost_attempts(board_of(f), {}, f.now, TIMING, seen(board_of(f))) == []


# -- cancelling ----------------------------------------------------------------------------


def test_work_of_a_cancelled_run_is_told_to_stop_and_given_up_after_the_grace() -> None:
    f = started_run((Node(), Node(), Node()))
    f.add(FIRST.started("w1"), Attempt("t01").started("w2"), RunCancelRequested(run_id=RUN))
    ids = sorted([FIRST.id, Attempt("t01").id])
    board = board_of(f)
    since = {RUN: f.now}
    f.wait(TIMING.cancel_grace_s)
    assert cancellation(board, f.now, TIMING, since) == [Interrupt(RUN, id) for id in ids]
    f.wait(1)
    found = cancellation(board, f.now, TIMING, since)
    assert [type(action) for action in found] == [Interrupt, LoseAttempt] * 2
    assert [action.attempt_id for action in found] == [ids[0], ids[0], ids[1], ids[1]]


def test_clock_of_the_store_takes_nobodys_grace_and_kills_nobody() -> None:
    f = started_run((Node(), Node()))
    f.add(FIRST.started("w1"))
    board = board_of(f)
    ahead = f.now + timedelta(days=1)
    assert lost_attempts(board, {}, ahead, TIMING, {}) == []
    f.add(RunCancelRequested(run_id=RUN))
    board = board_of(f)
    assert cancellation(board, ahead, TIMING, {RUN: ahead}) == [Interrupt(RUN, FIRST.id)]


def test_what_nobody_has_started_is_taken_back_when_its_run_is_cancelled() -> None:
    f = started_run((Node(), Node()))
    f.add(Attempt("t01").enqueued(), RunCancelRequested(run_id=RUN))
    found = cancellation(board_of(f), f.now, TIMING, {})
    assert [type(action) for action in found] == [Interrupt, LoseAttempt]


def test_task_that_was_sent_too_often_is_given_up_with_a_reason() -> None:
    f = started_run(chain_of(1))
    f.add(FIRST.enqueued(redelivery=MAX_REDELIVERIES))
    f.wait(TIMING.redeliver_after_s + 1)
    (found,) = anti_entropy(board_of(f), f.now, TIMING, {FIRST.id})
    assert isinstance(found, LoseAttempt)
    assert "ARCO_TASK_KEYS" in found.reason


def test_run_that_goes_on_is_not_told_to_stop() -> None:
    f = started_run(chain_of(1))
    f.add(FIRST.started())
    assert cancellation(board_of(f), f.now + timedelta(days=1), TIMING, {}) == []


# -- timers --------------------------------------------------------------------------------


def test_timers_fire_when_they_are_due_the_oldest_first() -> None:
    f = started_run((Node(), Node()), timeout_s=1000)
    f.add(Attempt("t01").failed())
    f.wait(10).add(FIRST.failed())
    due = {timer.task_id: timer.timer_id for timer in f.timers("retry")}
    board = board_of(f)
    assert next_due(board) == f.now + timedelta(seconds=50)
    assert timers(board, f.now + timedelta(seconds=49)) == []
    assert timers(board, f.now + timedelta(seconds=50)) == [FireTimer(RUN, due["t01"])]
    assert timers(board, f.now + timedelta(seconds=60)) == [
        FireTimer(RUN, due["t01"]),
        FireTimer(RUN, due["t00"]),
    ]
    assert next_due(Board()) is None


def test_nothing_is_done_because_of_time_while_a_commit_has_left_something() -> None:
    clock = SimClock()
    w = make_workspace(clock=clock, limits=InboxLimits(batches=2))
    reports = w.runtime.reports()
    orchestrator = w.runtime.orchestrator(w.runtime.memory_queue(), reports, w.runtime.signer())
    w.ledger.append([triggered(2), *plan((Node(), Node())), FIRST.failed()])
    w.ledger.append([Attempt("t01").enqueued(), Attempt("t01").started()])
    orchestrator.tick()
    for _ in range(3):
        clock.advance(timedelta(seconds=TIMING.zombie_after_s))
        for _ in range(3):
            w.ledger.append([Attempt("t00", 9).started()])
        orchestrator.tick()
        assert reports.due_in_s is None
    for _ in range(12):
        clock.advance(timedelta(seconds=TIMING.heartbeat_s))
        orchestrator.tick()
    rows = {row.task_id: row for row in w.read.snapshot().rows(TASKS, RUN)}
    assert rows["t00"].attempt == 2
    assert rows["t01"].error_code == "infrastructure.worker_lost"


# -- who goes next -------------------------------------------------------------------------


def test_what_was_sent_is_not_sent_again_and_takes_its_place() -> None:
    dag: Dag = tuple(Node(tenant="a") for _ in range(4))
    board = board_of(started_run(dag))
    sent = {FIRST.id: (RUN, FIRST.task_id)}
    found, _ = ready_dispatch(board, Limits(max_in_flight=3), Turn(), sent)
    assert [action.task_id for action in found] == ["t01", "t02"]
    found, _ = ready_dispatch(board, Limits(quotas={"a": 1}), Turn(), sent)
    assert found == []


def test_full_workspace_sends_nothing_and_keeps_the_turn() -> None:
    f = started_run((Node(), Node()))
    f.add(FIRST.enqueued())
    turn = Turn("x", 3)
    assert ready_dispatch(board_of(f), Limits(max_in_flight=1), turn) == ([], turn)


def test_weight_counts_when_slots_come_free_one_by_one() -> None:
    dag = tuple(Node(tenant=tenant) for tenant in "aaaaaabbbbbb")
    board, turn, sent = board_of(started_run(dag)), Turn(), dict[str, TaskKey]()
    order = ""
    for slot in range(9):
        limits = Limits(max_in_flight=slot + 1, weights={"a": 2})
        [action], turn = ready_dispatch(board, limits, turn, sent)
        task = board.task(action.run_id, action.task_id)
        assert task is not None
        sent[action.attempt_id] = (action.run_id, action.task_id)
        order += task.tenant
    assert order == "aabaabaab"


# -- the board -----------------------------------------------------------------------------


def test_board_that_slept_for_days_does_not_keep_what_has_left() -> None:
    clock = SimClock()
    w = make_workspace(clock=clock)
    w.ledger.append([triggered(1), *plan(chain_of(1)), FIRST.started()])
    w.committer.commit()
    board = Board()
    board.load(w.read.snapshot())
    assert set(board.runs) == {RUN}
    w.ledger.append([FIRST.succeeded()])
    w.committer.commit()
    clock.advance(KEPT_HOT + timedelta(hours=1))
    w.ledger.append([triggered(1, "run2"), *plan(chain_of(1), "run2")])
    w.committer.commit()
    w.upkeep.merger.merge(everything=True)
    board.advance(w.read.snapshot())
    assert (set(board.runs), board.in_flight) == ({"run2"}, {})


# -- times that would defeat each other ----------------------------------------------------


GOOD = Timing(
    interval_s=1.0,
    busy_interval_s=0.5,
    linger_s=0.05,
    heartbeat_s=5.0,
    zombie_after_s=30.0,
    claim_s=60.0,
    redeliver_after_s=60.0,
    cancel_grace_s=60.0,
    envelope_s=86_400.0,
)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"interval_s": 0.0, "busy_interval_s": 0.0, "linger_s": 0.0}, "intervals must be above"),
        ({"busy_interval_s": 0.0}, "intervals must be above"),
        ({"heartbeat_s": 0.0}, "intervals must be above"),
        ({"busy_interval_s": 1.1}, "busy_interval_s must not exceed"),
        ({"heartbeat_s": 10.1}, "at least three heartbeats"),
        ({"interval_s": 10.0, "zombie_after_s": 20.0}, "zombie_after_s must exceed two"),
        ({"claim_s": 30.0}, "claim_s must exceed"),
        ({"redeliver_after_s": 2.0}, "redeliver_after_s must exceed"),
        ({"linger_s": 1.1}, "linger_s must not exceed"),
        ({"envelope_s": 120.0}, "envelope_s must exceed"),
        ({"cancel_grace_s": 5.0}, "cancel_grace_s must exceed"),
        ({"interval_s": 15.0, "zombie_after_s": 50.0}, "interval_s must be below 15"),
    ],
)
def test_times_that_defeat_each_other_are_refused(broken: dict[str, float], reason: str) -> None:
    timing = msgspec.structs.replace(GOOD, **broken)
    with pytest.raises(Invalid, match=reason) as refusal:
        timing.check()
    assert "; " not in str(refusal.value), "another rule is broken too"


def test_times_that_fit_are_good() -> None:
    assert GOOD.check() == GOOD
    assert Timing().check() == Timing()


def test_task_that_is_not_where_its_order_says_takes_no_other_off_the_board() -> None:
    f = started_run(tuple(Node() for _ in range(4)))
    board = board_of(f)
    ready = board.ready[""][RUN]
    moved = msgspec.structs.replace(f.task("t01"), priority=7)
    board.unlist_ready(RUN, moved)
    assert [task_id for _, _, task_id in ready] == ["t00", "t02", "t03"]
    board.unlist_ready(RUN, moved)
    assert [task_id for _, _, task_id in ready] == ["t00", "t02", "t03"]
