"""Controllers decide the same whenever they see the same, fairly, and until all has ended.

INV-3 (determinism), INV-5 (no lost work) and INV-6 (dependencies), with the real fold,
the real board and the real controllers; only the queue and the workers are played.
"""

from __future__ import annotations

import itertools
import random
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.log.envelope import Batch, Payload, encode_batch
from arco.orchestration.actions import (
    Action,
    CancelTasks,
    Enqueue,
    FireTimer,
    Interrupt,
    LoseAttempt,
)
from arco.orchestration.board import Board, TaskKey
from arco.orchestration.controllers.anti_entropy import anti_entropy, unstarted
from arco.orchestration.controllers.cancellation import cancellation, end_waiting
from arco.orchestration.controllers.lost_attempts import WorkerState, lost_attempts
from arco.orchestration.controllers.ready_dispatch import Turn, ready_dispatch
from arco.orchestration.controllers.timers import timers
from arco.orchestration.events import AttemptLost, RunCancelRequested, TasksCancelled, TimerFired
from arco.orchestration.limits import Limits, Timing
from arco.orchestration.tables import TASKS
from arco.state.changes import Changes
from arco.storage import paths
from tests.kit.clocks import SimClock
from tests.kit.depth import examples
from tests.kit.runs import (
    ANYTHING,
    RUN,
    Attempt,
    Dag,
    Folding,
    Node,
    World,
    dags,
    plan,
    seen,
    triggered,
)
from tests.kit.workspace import make_workspace

seeds = st.integers(0, 10_000)
TENANTS = ("", "acme", "zoo")
TIMING = Timing()


def take(board: Board, f: Folding, changes: Changes) -> None:
    """Give a board what one fold has changed, as the commit would."""
    manifest = SimpleNamespace(position=f.position, log_time=f.now)
    head: Any = SimpleNamespace(generation=board.generation + 1, manifest=manifest)
    board.apply(changes, head)


# -- INV-3 ---------------------------------------------------------------------------------


def decisions(board: Board, now: datetime, limits: Limits) -> list[Any]:
    alive = {"w1": WorkerState(now - timedelta(seconds=40), frozenset(["none"]))}
    gone = {task.attempt_id for task in board.in_flight.values()}
    return [
        ready_dispatch(board, limits, Turn("acme", 1)),
        cancellation(board, now, TIMING, seen(board)),
        end_waiting(board),
        timers(board, now),
        lost_attempts(board, alive, now, TIMING, seen(board)),
        anti_entropy(board, now, TIMING, gone),
    ]


@given(dags(8, tenants=TENANTS), seeds, st.integers(1, 5))
@settings(max_examples=examples(12))
def test_board_is_the_same_however_it_came_to_a_generation(dag: Dag, seed: int, step: int) -> None:
    live = World(dag, seed, fates=ANYTHING, chaos=True, pace="still").played()
    w = make_workspace(clock=SimClock())
    applied, advanced = Board(), Board()
    w.writer.commits.follow(lambda head, changes: applied.apply(changes, head))
    events = [recorded.event for recorded in live.log]
    limits = Limits(max_in_flight=5, quotas={"zoo": 1}, weights={"acme": 2})
    for number, at in enumerate(range(0, len(events), step)):
        batch = Batch(batch=f"b{number:03d}", events=events[at : at + step])
        w.store.put(paths.inbox(batch.batch), encode_batch(batch))
        w.committer.commit()
        if number % 3 == seed % 3:
            advanced.advance(w.read.snapshot())
            loaded = Board()
            loaded.load(w.read.snapshot())
            assert vars(advanced) == vars(loaded) == vars(applied)
            now = w.clock.now() + timedelta(seconds=seed % 500)
            told = decisions(loaded, now, limits)
            assert decisions(applied, now, limits) == told == decisions(advanced, now, limits)
            assert decisions(loaded, now, limits) == told


# -- INV-5 and INV-6 -----------------------------------------------------------------------


class Crew:
    """A queue that loses messages and workers that die, under the real controllers."""

    def __init__(self, dag: Dag, seed: int) -> None:
        self.dag = dag
        self.rng = random.Random(seed)
        self.f = Folding()
        self.board = Board()
        self.board.generation = 0
        self.limits = Limits(max_in_flight=self.rng.randint(1, 6), tenant_max_in_flight=3)
        self.turn = Turn()
        self.sent: dict[str, TaskKey] = {}
        self.queue: dict[str, Attempt] = {}
        self.working: dict[str, Attempt] = {}
        self.reports: list[Payload] = []
        self.markers: dict[str, int] = {}
        self.ran: set[str] = set()
        self.cancels = self.rng.random() < 0.2

    def fold(self, *payloads: Payload) -> None:
        take(self.board, self.f, self.f.add(*payloads))
        self.sent = {
            id: key for id, key in self.sent.items() if self.f.task(key[1]).state == "READY"
        }

    def drive(self) -> None:
        timeout_s = self.rng.choice([0, 0, 3600])
        self.fold(
            triggered(len(self.dag), timeout_s=timeout_s),
            *plan(self.dag, delay_s=5, timeout_s=self.rng.choice([0, 200])),
        )
        for _ in range(3_000):
            self.f.wait(self.rng.randint(1, 40))
            for action in self.decide():
                self.perform(action)
            self.work()
            self.deliver()
            if not (self.board.runs or self.reports or self.queue or self.working):
                assert self.decide() == []
                return
        raise AssertionError("it never ends")

    def decide(self) -> list[Action]:
        now, board = self.f.now, self.board
        sending, self.turn = ready_dispatch(board, self.limits, self.turn, self.sent)
        for action in sending:
            assert action.attempt_id not in self.sent
        busy = len(board.in_flight) + len(self.sent) + len(sending)
        assert busy <= self.limits.max_in_flight or not sending
        late = unstarted(board, now, TIMING)
        gone = {t.attempt_id for t in late} - set(self.queue) - set(self.working)
        alive = {f"w-{id}": WorkerState(now, frozenset([id])) for id in self.working}
        return [
            *sending,
            *cancellation(board, now, TIMING, seen(board)),
            *end_waiting(board),
            *timers(board, now),
            *lost_attempts(board, alive, now, TIMING, seen(board)),
            *anti_entropy(board, now, TIMING, gone),
        ]

    def perform(self, action: Action) -> None:
        match action:
            case Enqueue(_, task_id, id, redelivery):
                attempt = Attempt(task_id, self.f.task(task_id).attempt)
                self.sent[id] = (RUN, task_id)
                if self.rng.random() < 0.85:
                    self.queue[id] = attempt
                self.reports.append(attempt.enqueued(redelivery))
            case FireTimer(run_id, timer_id):
                self.reports.append(TimerFired(run_id=run_id, timer_id=timer_id))
            case LoseAttempt(run_id, task_id, id, reason):
                self.queue.pop(id, None)
                lost = AttemptLost(run_id=run_id, task_id=task_id, attempt_id=id, reason=reason)
                self.reports.append(lost)
            case CancelTasks(run_id, task_ids):
                self.reports.append(TasksCancelled(run_id=run_id, task_ids=task_ids))
            case Interrupt(_, id):
                if id in self.working and self.rng.random() < 0.7:
                    self.reports.append(self.working.pop(id).cancelled())

    def work(self) -> None:
        for id in list(self.queue):
            if self.rng.random() < 0.5:
                attempt = self.queue.pop(id)
                self.begin(attempt)
        for id in list(self.working):
            chance = self.rng.random()
            if chance < 0.4:
                self.reports.append(self.finished(self.working.pop(id)))
            elif chance < 0.5:
                del self.working[id]  # it died, and tells nobody

    def begin(self, attempt: Attempt) -> None:
        for i in self.dag[int(attempt.task_id[1:])].deps:
            assert self.f.task(f"t{i:02d}").state in ("SUCCEEDED", "REUSED")
        self.ran.add(attempt.task_id)
        self.working[attempt.id] = attempt
        self.reports.append(attempt.started(f"w-{attempt.id}"))

    def finished(self, attempt: Attempt) -> Payload:
        match self.rng.choice(["succeed", "succeed", "succeed", "flaky", "break"]):
            case "succeed":
                winner = self.markers.setdefault(attempt.task_id, attempt.number)
                return attempt.succeeded(adopted_from=winner)
            case "flaky":
                return attempt.failed("transient")
        return attempt.failed("user_code")

    def deliver(self) -> None:
        if self.cancels and self.rng.random() < 0.05:
            self.cancels = False
            force = self.rng.random() < 0.3
            self.reports.append(RunCancelRequested(run_id=RUN, force=force, in_steps=True))
        self.rng.shuffle(self.reports)
        count = self.rng.randint(0, len(self.reports))
        batch, self.reports = self.reports[:count], self.reports[count:]
        if batch:
            self.fold(*batch, *self.rng.choices(batch, k=self.rng.randint(0, 2)))


@given(dags(tenants=TENANTS), seeds)
@settings(max_examples=examples(40))
def test_run_always_ends_whatever_queue_and_workers_lose(dag: Dag, seed: int) -> None:
    crew = Crew(dag, seed)
    crew.drive()
    f = crew.f
    assert f.run().state in ("SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT")
    begun = {"generation": 0, "position": 0, "_started": {}}
    assert vars(crew.board) | begun == vars(Board()) | begun
    check_outputs(f)
    assert {t.task_id for t in f.all(TASKS) if t.state == "SUCCEEDED"} <= crew.ran


def check_outputs(f: Folding) -> None:
    good = [m for m in f.all(MATERIALIZATIONS) if m.status == "GOOD"]
    current = {p.asset_id: p.materialization_id for p in f.all(PARTITIONS)}
    succeeded = {t.asset_id: t.materialization_id for t in f.all(TASKS) if t.state == "SUCCEEDED"}
    assert sorted(m.asset_id for m in good) == sorted(succeeded)
    assert current == succeeded == {m.asset_id: m.materialization_id for m in good}


# -- who goes next -------------------------------------------------------------------------

backlogs = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 12), min_size=1, max_size=4)


def waiting_board(backlog: dict[str, int]) -> Board:
    """So many ready tasks of each tenant."""
    tenants = [tenant for tenant, count in sorted(backlog.items()) for _ in range(count)]
    f, board = Folding(), Board()
    changes = f.add(
        triggered(len(tenants)), *plan(tuple(Node(tenant=tenant) for tenant in tenants))
    )
    take(board, f, changes)
    return board


def serve(
    board: Board, limits: Limits, slots: list[int], turn: Turn | None = None
) -> list[tuple[str, str]]:
    """Give so many free slots, one call after the other; (tenant, attempt) in their order."""
    turn = turn or Turn()
    sent: dict[str, TaskKey] = {}
    served: list[tuple[str, str]] = []
    for free in slots:
        open_ = Limits(
            max_in_flight=len(sent) + free,
            quotas=limits.quotas,
            weights=limits.weights,
        )
        sending, turn = ready_dispatch(board, open_, turn, sent)
        assert len(sending) <= free
        for action in sending:
            task = board.task(action.run_id, action.task_id)
            assert task is not None
            assert action.attempt_id not in sent
            served.append((task.tenant, action.attempt_id))
            sent[action.attempt_id] = (action.run_id, action.task_id)
    return served


@given(backlogs, st.lists(st.integers(1, 6), min_size=1, max_size=40), st.data())
@settings(max_examples=examples(100))
def test_tenants_with_work_are_served_by_their_weights_at_every_moment(
    backlog: dict[str, int], slots: list[int], data: st.DataObject
) -> None:
    weights = {t: data.draw(st.integers(1, 4)) for t in sorted(backlog)}
    if data.draw(st.booleans(), label="equal"):
        weights = {}
    served = serve(waiting_board(backlog), Limits(weights=weights), slots)
    assert len(served) == min(sum(slots), sum(backlog.values()))
    count = dict.fromkeys(backlog, 0)
    for tenant, _ in served:
        count[tenant] += 1
        busy = [t for t in backlog if count[t] < backlog[t]]
        for one, other in itertools.combinations(busy, 2):
            shares = [count[t] / weights.get(t, 1) for t in (one, other)]
            assert abs(shares[0] - shares[1]) <= 1, (count, weights)


@given(backlogs, st.data())
@settings(max_examples=examples(50))
def test_nobody_gets_more_than_its_quota_and_what_it_cannot_use_goes_to_others(
    backlog: dict[str, int], data: st.DataObject
) -> None:
    quotas = {t: data.draw(st.integers(1, 6)) for t in sorted(backlog)}
    served = serve(waiting_board(backlog), Limits(quotas=quotas), [100])
    count = {t: sum(tenant == t for tenant, _ in served) for t in backlog}
    assert count == {t: min(backlog[t], quotas[t]) for t in backlog}


@given(backlogs, st.lists(st.integers(1, 4), max_size=10))
@settings(max_examples=examples(60))
def test_slots_that_come_one_by_one_are_shared_as_those_that_come_at_once(
    backlog: dict[str, int], slots: list[int]
) -> None:
    limits, board = Limits(weights={"a": 3, "c": 2}), waiting_board(backlog)
    if all(sum(slots) <= count for count in backlog.values()):
        assert serve(board, limits, slots) == serve(board, limits, [sum(slots)])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
@settings(max_examples=examples(60))
def test_greater_priority_goes_first_then_the_runs_by_turns_then_the_plan(
    runs: list[tuple[int, int]],
) -> None:
    f, board = Folding(), Board()
    for number, (priority, asset_priority) in enumerate(runs):
        run_id = f"run{number}"
        run = triggered(2, run_id, priority=priority)
        f.wait(1)
        take(board, f, f.add(run, *plan((Node(), Node()), run_id, priority=asset_priority)))
    sending, _ = ready_dispatch(board, Limits(), Turn())
    expected = sorted((-p - a, i, number) for number, (p, a) in enumerate(runs) for i in (0, 1))
    order = [(a.run_id, a.task_id) for a in sending]
    assert order == [(f"run{number}", f"t{i:02d}") for _, i, number in expected]


@given(
    st.lists(st.integers(1, 8), min_size=2, max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=30),
)
@settings(max_examples=examples(60))
def test_runs_of_a_tenant_with_work_are_served_alike_at_every_moment(
    sizes: list[int], slots: list[int]
) -> None:
    f, board = Folding(), Board()
    for number, size in enumerate(sizes):
        run_id = f"run{number}"
        take(board, f, f.wait(1).add(triggered(size, run_id), *plan((Node(),) * size, run_id)))
    turn, sent = Turn(), dict[str, TaskKey]()
    count = dict.fromkeys(range(len(sizes)), 0)
    for free in slots:
        limits = Limits(max_in_flight=len(sent) + free)
        sending, turn = ready_dispatch(board, limits, turn, sent)
        for action in sending:
            sent[action.attempt_id] = (action.run_id, action.task_id)
            count[int(action.run_id[3:])] += 1
            busy = [count[number] for number, size in enumerate(sizes) if count[number] < size]
            assert not busy or max(busy) - min(busy) <= 1, (count, sizes)
    assert sum(count.values()) == min(sum(slots), sum(sizes))
