"""What is queued follows the slots that are alive, and a small run waits for few tasks."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from arco.orchestration.board import Board, TaskKey
from arco.orchestration.controllers.lost_attempts import WorkerState
from arco.orchestration.controllers.ready_dispatch import (
    Deferred,
    Turn,
    ready_dispatch,
)
from arco.orchestration.controllers.send_ahead import dispatch_ahead
from arco.orchestration.limit_tables import DeclaredLimits, LimitName, LimitRow
from arco.orchestration.limits import Limits, Timing
from arco.orchestration.states import RunTrigger
from arco.orchestration.window import (
    ASSUMED_SLOTS,
    UNPLACED,
    DispatchWindow,
    Weights,
    live_workers,
    window_size,
)
from arco.transport.queues.memory import MemoryQueue
from arco.transport.queues.port import PASSES, Message
from servo.contract.manifest import Resources
from tests.kit.clocks import SimClock
from tests.kit.runs import RUN, Attempt, Folding, Node, plan, started_run, triggered
from tests.unit.test_orchestration_controllers import board_of

NOW = datetime(2026, 1, 1)
TIMING = Timing()


# -- how much is sent ----------------------------------------------------------------------


def test_window_is_one_waiting_task_for_each_slot() -> None:
    assert window_size(slots=8, running=8, ended=2) == 16


def test_window_covers_what_short_tasks_use_up_from_one_look_to_the_next() -> None:
    assert window_size(slots=4, running=0, ended=100) == 204


def test_window_grows_while_idle_slots_take_what_is_sent() -> None:
    sizes = [window_size(0, 0, 0)]
    while sizes[-1] < 512:
        sizes.append(window_size(0, sizes[-1], 0))
    assert sizes == [2 * ASSUMED_SLOTS, 32, 64, 128, 256, 512]


def test_dead_workers_have_no_slots() -> None:
    silent = timedelta(seconds=30)
    workers = [WorkerState(NOW, frozenset(), 4), WorkerState(NOW - 2 * silent, frozenset(), 64)]
    assert live_workers(workers, NOW, silent) == workers[:1]


def flying(count: int, tenant: str = "") -> Board:
    """A board with so many tasks in the queue."""
    folding = started_run(tuple(Node(tenant=tenant) for _ in range(count)))
    folding.add(*(Attempt(f"t{n:02d}").enqueued() for n in range(count)))
    return board_of(folding)


def admitted(
    window: DispatchWindow, weight: Resources, weights: Weights, board: Board, tenant: str = ""
) -> int:
    """How many more tasks of a weight may be sent, beside those with these weights."""
    sent = dict(weights)
    while window.has_room(weight, tenant, board, sent) and len(sent) < 10_000:
        sent["more", f"{len(sent)}"] = weight
    return len(sent) - len(weights)


LARGE = Resources(cpu=16)


def test_tasks_of_several_slots_are_sent_as_slots_have_room() -> None:
    window = DispatchWindow(TIMING)
    window.saw_workers(
        {"w": WorkerState(NOW, frozenset(), 16), "v": WorkerState(NOW, frozenset(), 3)}, NOW
    )
    assert admitted(window, Resources(cpu=4), {}, Board()) == 8
    weights = {(RUN, f"t{n:02d}"): Resources(cpu=4) for n in range(4)}
    assert admitted(window, Resources(cpu=4), weights, flying(4)) == 4


def test_tasks_of_much_memory_are_sent_as_memory_has_room() -> None:
    window = DispatchWindow(TIMING)
    window.saw_workers({"w": WorkerState(NOW, frozenset(), 64, 9_000)}, NOW)
    assert admitted(window, Resources(memory_mib=3_000), {}, Board()) == 6


def test_few_tasks_of_a_weight_are_sent_that_no_worker_is_large_enough_for() -> None:
    window = DispatchWindow(TIMING)
    for workers in ({}, {"w": WorkerState(NOW, frozenset(), 4)}):
        window.saw_workers(workers, NOW)
        assert admitted(window, LARGE, {}, Board()) == UNPLACED
    others = {(RUN, f"{n}"): LARGE for n in range(UNPLACED)}
    assert admitted(window, Resources(cpu=17), others, Board()) == UNPLACED


def test_more_of_a_weight_are_sent_while_unlisted_workers_take_them() -> None:
    window = DispatchWindow(TIMING)
    folding = started_run((Node(),) * 20)
    folding.add(*(Attempt(f"t{n:02d}").started() for n in range(20)))
    weights = {(RUN, f"t{n:02d}"): LARGE for n in range(20)}
    assert admitted(window, LARGE, weights, board_of(folding)) == 20


def test_many_weights_share_what_may_wait() -> None:
    window = DispatchWindow(TIMING)
    window.saw_workers({"w": WorkerState(NOW, frozenset(), 4, 9_000)}, NOW)
    weights: dict[TaskKey, Resources] = {}
    for n in range(30):
        weight = Resources(memory_mib=100 + n)
        for m in range(admitted(window, weight, weights, Board())):
            weights[f"{n}", f"{m}"] = weight
    assert len(weights) == 8 + 29, "two for each slot, and one of each weight"


def test_larger_tasks_that_wait_take_nobodys_place() -> None:
    window = DispatchWindow(TIMING)
    board = flying(20)
    weights = {(RUN, f"t{n:02d}"): LARGE for n in range(20)}
    assert window.limits(board, weights).max_in_flight == 2 * ASSUMED_SLOTS + 20
    for slots in (2, 16):
        window.saw_workers({"w": WorkerState(NOW, frozenset(), slots)}, NOW)
        assert window.limits(board, weights).max_in_flight == 2 * slots + 20


def limited(board: Board, *limits: tuple[str, int]) -> Board:
    """A board with limits of tasks at a time, by scope."""
    tasks = LimitName.CONCURRENT_TASKS
    rows = [LimitRow(scope, tasks, value, "", NOW, "ana") for scope, value in limits]
    board.declared = DeclaredLimits.of(rows)
    return board


@pytest.mark.parametrize("scope", ["workspace", "tenant:a"])
def test_larger_tasks_that_wait_leave_half_of_what_is_allowed(scope: str) -> None:
    window = DispatchWindow(TIMING)
    board = limited(flying(3, tenant="a"), (scope, 6))
    weights = {(RUN, f"t{n:02d}"): LARGE for n in range(3)}
    assert admitted(window, LARGE, weights, board, tenant="a") == 0
    assert window.limits(board, weights).max_in_flight >= 6


def test_one_larger_task_is_sent_where_one_task_is_allowed() -> None:
    board = limited(Board(), ("workspace", 1))
    assert admitted(DispatchWindow(TIMING), LARGE, {}, board) == 1


def test_only_worker_of_a_queue_has_room_for_any_task() -> None:
    window = DispatchWindow(TIMING, slots=2)
    assert admitted(window, LARGE, {}, Board()) == 1
    assert window.has_room(Resources(cpu=3), "", Board(), {(RUN, "t00"): LARGE})


def test_limits_that_are_set_are_the_upper_bound() -> None:
    window = DispatchWindow(TIMING)
    window.saw_workers({"w": WorkerState(NOW, frozenset(), 64)}, NOW)
    board = limited(Board(), ("workspace", 5), ("tenant:a", 2), ("tenant:*", 3))
    limits = window.limits(board)
    quotas = [limits.quota(tenant) for tenant in ("a", "b", "")]
    assert (limits.max_in_flight, quotas) == (5, [2, 3, 5])


def test_slots_of_other_queues_do_not_count_where_a_queue_has_one_worker() -> None:
    window = DispatchWindow(TIMING, slots=2)
    window.saw_workers({"w": WorkerState(NOW, frozenset(), 64)}, NOW)
    assert window.limits(Board()).max_in_flight == 4


def test_window_that_forgets_is_as_it_began() -> None:
    for own, size in [(0, 2 * ASSUMED_SLOTS), (2, 4)]:
        window = DispatchWindow(TIMING, slots=own)
        window.saw_workers({"w": WorkerState(NOW, frozenset(), 64)}, NOW)
        window.saw_flight([(RUN, f"t{i}") for i in range(20)], [])
        window.forget()
        assert window.limits(Board()).max_in_flight == size


def test_what_ended_fades_from_look_to_look() -> None:
    window = DispatchWindow(TIMING, slots=2)
    window.saw_flight([(RUN, f"t{i}") for i in range(20)], [])
    sizes = []
    for _ in range(30):
        sizes.append(window.limits(Board()).max_in_flight)
        window.saw_flight([], [])
    assert sizes[0] == 42
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 4


# -- quotas, ahead of the commit -----------------------------------------------------------


def test_what_others_have_sent_does_not_count_against_a_quota_ahead_of_the_commit() -> None:
    f = started_run(tuple(Node(tenant=tenant) for tenant in "aaabb"))
    board = board_of(f)
    sent: dict[str, TaskKey] = {Attempt(id).id: (RUN, id) for id in ("t00", "t01")}
    ready = [row for row in board.tasks[RUN].values() if row.tenant == "b"]
    limits = Limits(quotas={"a": 2, "b": 1})
    sending = dispatch_ahead(board, limits, Turn(), sent, (), ready)
    assert [action.task_id for action in sending] == ["t03"]
    third = [row for row in board.tasks[RUN].values() if row.task_id == "t02"]
    assert dispatch_ahead(board, limits, Turn(), sent, (), third) == []


def test_end_that_was_appended_makes_room_before_it_is_committed() -> None:
    f = started_run((Node(),) * 4)
    f.add(Attempt("t00").started())
    board = board_of(f)
    sent: dict[str, TaskKey] = {Attempt("t01").id: (RUN, "t01")}
    for ended, going in [((), []), ([(RUN, "t00")], ["t02"]), ([(RUN, "t01")], ["t02"])]:
        sending, _ = ready_dispatch(board, Limits(max_in_flight=2), Turn(), sent, ended)
        assert [action.task_id for action in sending] == going


def test_what_cannot_be_sent_now_takes_no_place() -> None:
    f = started_run((Node(),) * 4)
    board = board_of(f)
    limits, tasks = Limits(max_in_flight=2), list(board.tasks[RUN].values())
    for later, going in [
        (Deferred(), ["t00", "t01"]),
        (Deferred(tasks=frozenset({(RUN, "t00"), (RUN, "t02")})), ["t01", "t03"]),
        (Deferred(kinds=frozenset({("", RUN, "ns.t00"), ("", RUN, "ns.t02")})), ["t01", "t03"]),
        (Deferred(kinds=frozenset({("", RUN, f"ns.t{n:02d}") for n in range(4)})), []),
        (Deferred(runs=frozenset({RUN})), []),
    ]:
        sending, _ = ready_dispatch(board, limits, Turn(), later=later)
        assert [action.task_id for action in sending] == going
        sending = dispatch_ahead(board, limits, Turn(), {}, (), tasks, later)
        assert [action.task_id for action in sending] == going


# -- who starts when -----------------------------------------------------------------------


class Hall:
    """Slots that take from a real queue, under the real fold, window and dispatch."""

    def __init__(self, slots: int) -> None:
        self.f = Folding()
        self._slots = slots
        self._rng = random.Random(1)
        self._window = DispatchWindow(TIMING)
        self._turn = Turn()
        self._queue = MemoryQueue(SimClock())
        self._sent: dict[str, Attempt] = {}
        self._working: list[Attempt] = []
        self._flight: set[TaskKey] = set()
        self.starts: list[str] = []
        """The runs of tasks, in the order in which they were started."""

    def trigger(self, run_id: str, tasks: int, tenant: str = "", **settings: Any) -> None:
        dag = (Node(tenant=tenant),) * tasks
        event = msgspec.structs.replace(triggered(tasks, run_id), **settings)
        self.f.wait(1).add(event, *plan(dag, run_id))

    def task_length(self) -> None:
        """As long as a task takes: what runs ends, and each slot takes the next."""
        if self._working:
            self.f.wait(1).add(*[attempt.succeeded() for attempt in self._working])
        self._working.clear()
        self._send()
        taken = self._queue.take(self._slots, 0.0)
        self._working = [self._sent[delivery.message.name] for delivery in taken]
        self._queue.done(taken)
        self.starts += [attempt.run_id for attempt in self._working]
        self.f.add(*[attempt.started() for attempt in self._working])

    def _send(self) -> None:
        board = board_of(self.f)
        self._window.saw_workers({"w": WorkerState(NOW, frozenset(), self._slots)}, NOW)
        self._window.saw_flight(self._flight, board.in_flight.keys())
        sending, self._turn = ready_dispatch(board, self._window.limits(board), self._turn)
        self._rng.shuffle(sending)
        for action in sending:
            attempt = Attempt(action.task_id, run_id=action.run_id)
            name = f"{action.run_id}-{action.task_id}"
            self._sent[name] = attempt
            priority = board.tasks[action.run_id][action.task_id].priority
            self._queue.put([Message(name, b"", priority)])
            self.f.add(attempt.enqueued())
        self._flight = {*board.in_flight, *((a.run_id, a.task_id) for a in sending)}


@pytest.mark.parametrize("tenants", [("large", "small"), ("", "")], ids=["tenants", "runs"])
def test_small_run_starts_within_a_few_task_lengths_behind_a_large_one(
    tenants: tuple[str, str],
) -> None:
    hall = Hall(slots=8)
    hall.trigger("large", 600, tenants[0])
    for _ in range(5):
        hall.task_length()
    hall.trigger("small", 5, tenants[1])
    before = len(hall.starts)
    while hall.starts.count("small") < 5:
        hall.task_length()
    places = [i for i, run_id in enumerate(hall.starts[before:]) if run_id == "small"]
    assert places[2] < 3 * 8, "the median waits for two task lengths at most"
    assert places[-1] < 5 * 8
    assert len(hall.starts) % 8 == 0, "no slot was without work"


def test_large_run_goes_on_beside_many_small_ones() -> None:
    hall = Hall(slots=4)
    hall.trigger("large", 100)
    for number in range(10):
        hall.trigger(f"small{number}", 3)
    for _ in range(30):
        hall.task_length()
    rounds = [hall.starts[i : i + 11] for i in range(0, 33, 11)]
    assert all("large" in started for started in rounds)


BACKFILL: dict[str, Any] = {"trigger": RunTrigger.BACKFILL, "priority": -1_000}


@pytest.mark.parametrize("slots", [1, 2, 8, 64])
def test_backfill_delays_others_by_no_more_than_its_running_tasks(slots: int) -> None:
    hall = Hall(slots)
    hall.trigger("backfill", 20 * slots, **BACKFILL)
    for _ in range(5):
        hall.task_length()
    assert len(hall.starts) == 5 * slots, "no slot was without work"
    hall.trigger("scheduled", 5 * slots)
    before = len(hall.starts)
    for _ in range(7):
        hall.task_length()
    starts = hall.starts[before:]
    passed = min(slots, PASSES)
    assert starts[:passed] == ["scheduled"] * passed, "what waits in the queue is overtaken"
    last = len(starts) - starts[::-1].index("scheduled")
    assert starts.count("scheduled") == 5 * slots
    assert starts[:last].count("backfill") <= last // PASSES + 1, "but for its share"


def test_backfill_is_not_starved_by_work_that_never_ends() -> None:
    hall = Hall(slots=8)
    hall.trigger("scheduled", 900)
    hall.trigger("backfill", 30, **BACKFILL)
    for _ in range(60):
        hall.task_length()
    assert hall.starts.count("backfill") == 30
    assert len(hall.starts) == 60 * 8
    assert "backfill" in hall.starts[: 4 * 8]


def test_backfills_share_what_is_theirs_between_tenants() -> None:
    hall = Hall(slots=8)
    for tenant in ("a", "b"):
        hall.trigger(f"scheduled-{tenant}", 400, tenant)
        hall.trigger(f"backfill-{tenant}", 15, tenant, **BACKFILL)
    for _ in range(60):
        hall.task_length()
    assert all(hall.starts.count(f"backfill-{tenant}") == 15 for tenant in ("a", "b"))
