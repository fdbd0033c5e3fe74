"""Never more than a limit in flight: several who orchestrate, who see the log late and report
twice, with workers that die, runs that are cancelled and limits that change."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.dispatch.admissions import Admissions
from arco.log.envelope import Payload
from arco.orchestration import states
from arco.orchestration.actions import AdmitTasks, Enqueue
from arco.orchestration.board import Board
from arco.orchestration.controllers.limited_dispatch import limited_dispatch, without_room
from arco.orchestration.controllers.ready_dispatch import Deferred, Turn, ready_dispatch
from arco.orchestration.events import RunCancelRequested, TasksCancelled, TimerFired
from arco.orchestration.limit_events import DispatchPaused, DispatchResumed, LimitSet
from arco.orchestration.limit_tables import LimitName, Permit
from arco.orchestration.limit_usage import run_limit_reached
from arco.orchestration.limits import Limits
from arco.orchestration.states import RunTrigger
from arco.orchestration.tables import RUNS, TASKS, TaskRow
from arco.state.changes import Changes
from tests.kit.depth import examples
from tests.kit.runs import Attempt, Folding, Node, plan, triggered

TASKS_AT_A_TIME = LimitName.CONCURRENT_TASKS
WIDE = Limits(max_in_flight=1_000)


class Site:
    """Somebody who orchestrates, and sees the log up to some generation."""

    def __init__(self, engine_id: str, ids: itertools.count[int]) -> None:
        self.board = Board(lambda run: run.engine_id == engine_id)
        self.board.generation = 0
        self.admissions = Admissions(lambda: f"p{next(ids)}")
        self.engine_id = engine_id
        self.turn = Turn()
        self.unseen: list[tuple[int, Changes]] = []

    def look(self, count: int) -> None:
        seen, self.unseen = self.unseen[:count], self.unseen[count:]
        for position, changes in seen:
            manifest = SimpleNamespace(position=position)
            head: Any = SimpleNamespace(generation=self.board.generation + 1, manifest=manifest)
            self.board.apply(changes, head)
            if self.board.misses_others:  # the first limit is older than all runs
                nothing: Any = SimpleNamespace(rows=lambda table, run_id: [])
                self.board.load_others(nothing)

    def decide(self) -> tuple[list[Payload], list[Enqueue]]:
        """What it proposes, and what it sends."""
        board = self.board
        sending = self.admissions.to_send(board)
        self.admissions.sent([action.attempt_id for action in sending])
        if board.declared.is_paused:
            return [], sending
        later = Deferred(kinds=without_room(board))
        picks, self.turn = ready_dispatch(board, WIDE, self.turn, later=later)
        proposed: list[Payload] = []
        for action in limited_dispatch(board, picks, is_open=self.admissions.is_open(board)):
            if isinstance(action, AdmitTasks):
                fact = self.admissions.propose(board, action.tasks)
                proposed += [] if fact is None else [fact]
            else:
                sending.append(action)
        return proposed, sending


class Story:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.f = Folding()
        ids = itertools.count()
        self.sites = [Site("", ids), Site("", ids), Site("local-1", ids)]
        self.outbox: list[Payload] = []
        self.queue: list[TaskRow] = []
        self.working: list[Attempt] = []
        self.limits: dict[str, int] = {}
        self.allowed: dict[str, int] = {}
        """By scope: what may be in flight. More than the limit while that was lowered."""
        for scope in ("pool:jdbc", "tenant:acme"):
            self.set_limit(scope)
        self.runs = 0

    def set_limit(self, scope: str) -> None:
        value = self.rng.randint(1, 4)
        self.limits[scope] = value
        self.fold(LimitSet(scope=scope, name=TASKS_AT_A_TIME, value=value))

    def trigger(self) -> None:
        self.runs += 1
        site = self.rng.choice(self.sites)
        run_id = f"run{self.runs}"
        tenants = ("", "acme")
        dag = tuple(Node(tenant=self.rng.choice(tenants)) for _ in range(self.rng.randint(1, 6)))
        pool = self.rng.choice(("", "jdbc", "jdbc"))
        event = triggered(len(dag), run_id, engine_id=site.engine_id)
        self.fold(event, *plan(dag, run_id, pool=pool, delay_s=1))

    def fold(self, *payloads: Payload) -> None:
        self.f.wait(1)
        changes = self.f.add(*payloads)
        for site in self.sites:
            site.unseen.append((self.f.position, changes))
        self.check()

    def check(self) -> None:
        in_flight = [t for t in self.f.all(TASKS) if t.state in states.IN_FLIGHT]
        use = {
            "pool:jdbc": sum(task.pool == "jdbc" for task in in_flight),
            "tenant:acme": sum(task.tenant == "acme" for task in in_flight),
        }
        for scope, limit in self.limits.items():
            allowed = max(limit, self.allowed.get(scope, 0))
            assert use[scope] <= allowed, (scope, use[scope], allowed)
            self.allowed[scope] = max(limit, use[scope])

    def step(self) -> None:
        site = self.rng.choice(self.sites)
        match self.rng.randint(0, 11):
            case 0 if self.runs < 6:
                self.trigger()
            case 1:
                self.set_limit(self.rng.choice(list(self.limits)))
            case 2 if self.rng.random() < 0.2:
                self.fold(DispatchPaused())
            case 3:
                self.fold(DispatchResumed())
            case 4 if self.rng.random() < 0.2 and self.runs:
                self.cancel(f"run{self.rng.randint(1, self.runs)}")
            case 5 | 6 | 7:
                site.look(self.rng.randint(1, 10))
                self.decide(site)
            case 8 | 9:
                self.deliver()
            case _:
                self.work()

    def decide(self, site: Site) -> None:
        proposed, sending = site.decide()
        self.outbox += proposed
        for action in sending:
            task = self.f.one(TASKS, action.run_id, action.task_id)
            attempts = (Attempt(task.task_id, n, task.run_id) for n in itertools.count(1))
            self.working.append(next(a for a in attempts if a.id == action.attempt_id))
            if not task.pool and not task.tenant:  # no limit counts it
                self.outbox.append(self.working[-1].enqueued())

    def deliver(self) -> None:
        self.rng.shuffle(self.outbox)
        count = self.rng.randint(0, len(self.outbox))
        batch, self.outbox = self.outbox[:count], self.outbox[count:]
        if batch:
            self.fold(*batch, *self.rng.choices(batch, k=self.rng.randint(0, 2)))
        due = [timer for timer in self.f.timers() if timer.fire_at <= self.f.now]
        if due:
            self.fold(*[TimerFired(run_id=t.run_id, timer_id=t.timer_id) for t in due])

    def work(self) -> None:
        if self.working:
            attempt = self.working.pop(self.rng.randrange(len(self.working)))
            end = self.rng.choice((attempt.succeeded, attempt.succeeded, attempt.lost))()
            self.outbox += [attempt.started(), end]

    def cancel(self, run_id: str) -> None:
        tasks = tuple(t.task_id for t in self.f.all(TASKS) if t.run_id == run_id)
        self.fold(
            RunCancelRequested(run_id=run_id, force=True, in_steps=True),
            TasksCancelled(run_id=run_id, task_ids=tasks, force=True),
        )

    def finish(self) -> None:
        """Everybody goes on until all has ended: no place is kept by what is over."""
        self.fold(DispatchResumed())
        for _ in range(1_000):
            if not any(run.state in states.RUN_ACTIVE for run in self.f.all(RUNS)):
                return
            for site in self.sites:
                site.look(1_000)
                self.decide(site)
            self.work()
            self.deliver()
            self.f.wait(5)
        raise AssertionError(f"stuck: {[(t.run_id, t.state) for t in self.f.all(TASKS)]}")


@given(st.integers(0, 100_000))
@settings(max_examples=examples(40))
def test_never_more_tasks_than_a_limit_are_in_flight_and_all_of_them_end(seed: int) -> None:
    story = Story(seed)
    for _ in range(150):
        story.step()
    story.finish()


@given(st.integers(0, 100_000))
@settings(max_examples=examples(40))
def test_never_more_runs_than_a_limit_are_active(seed: int) -> None:
    rng, f, ids = random.Random(seed), Folding(), itertools.count()
    sites = [Site("", ids), Site("", ids)]
    outbox: list[Payload] = []
    limit = rng.randint(1, 3)

    def fold(*payloads: Payload) -> None:
        changes = f.wait(1).add(*payloads)
        for site in sites:
            site.unseen.append((f.position, changes))
        active = [run for run in f.all(RUNS) if run.state in states.RUN_ACTIVE]
        assert len(active) <= limit

    fold(LimitSet(scope="workspace", name=LimitName.CONCURRENT_RUNS, value=limit))
    for number in range(200):
        site = rng.choice(sites)
        site.look(rng.randint(0, 5))
        board, use = site.board, site.board.run_use(f.now)
        permit = Permit(board.position, f"p{number}")
        for place in range(rng.randint(0, 3)):  # counted together
            if board.declared.values and not run_limit_reached(
                board.declared, use, RunTrigger.MANUAL
            ):
                outbox.append(triggered(1, f"run{number}-{place}", permit=permit))
                use = use.with_one(RunTrigger.MANUAL)
        if rng.random() < 0.3:
            active = [run.run_id for run in f.all(RUNS) if run.state in states.RUN_ACTIVE]
            outbox += [RunCancelRequested(run_id=run_id) for run_id in active[:1]]
        if outbox and rng.random() < 0.7:
            rng.shuffle(outbox)
            fold(*outbox, outbox[0])
            outbox.clear()
    assert len(f.all(RUNS)) > limit, "it goes on when runs end"
