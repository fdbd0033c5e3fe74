"""Runs for tests: plans and reports as events, and a fold of them without files.

`Folding` is the log and the rows in memory: what it appends gets the next position
and the time that its clock shows, and is folded by the real chain.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeVar

from hypothesis import strategies as st

from arco.app import chain
from arco.log.envelope import Payload, Recorded, make_event
from arco.orchestration.board import Board
from arco.orchestration.events import (
    AttemptLost,
    DispatchEnqueued,
    RunAsset,
    RunCancelRequested,
    RunTriggered,
    TaskFinished,
    TaskPlan,
    TasksCancelled,
    TasksPlanned,
    TaskStarted,
    TimerFired,
)
from arco.orchestration.states import IN_FLIGHT, TERMINAL
from arco.orchestration.tables import (
    RUNS,
    TASKS,
    TIMERS,
    RunRow,
    TaskRow,
    TimerRow,
)
from arco.state.fold import Folded, fold
from arco.state.table import Key, Row, Table, Versioned
from servo.contract.identity import attempt_id
from servo.contract.manifest import GateAction
from servo.contract.task import (
    CheckResult,
    ErrorInfo,
    Materialization,
    MaterializationRef,
    TaskOutcome,
    TaskResult,
)

R = TypeVar("R", bound=Row)
RUN = "run1"
RUN_TABLES: tuple[Table[Any], ...] = (RUNS, TASKS, TIMERS)
Changes = Mapping[Table[Any], Mapping[Key, Versioned[Any]]]
CHAIN = chain()


class Folding:
    """A log in memory and what it means, one fact, or one batch of them, at a time."""

    def __init__(self, start: datetime = datetime(2026, 1, 1)) -> None:
        self.now = start
        self.position = 0
        self.log: list[Recorded] = []
        self.rows: dict[Table[Any], dict[Key, Versioned[Any]]] = {}

    # -- as the source of rows for the fold ----------------------------------------------

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        return self.rows.get(table, {}).get(key)

    def scan(self, table: Table[Any], shard: Key) -> Iterable[tuple[Key, Versioned[Any]]]:
        rows = self.rows.get(table, {})
        return [(key, row) for key, row in rows.items() if key[: table.shard] == shard]

    # -- appending -----------------------------------------------------------------------

    def wait(self, seconds: float) -> Folding:
        self.now += timedelta(seconds=seconds)
        return self

    def record(self, payload: Payload, *, key: str = "", actor: str = "") -> Recorded:
        self.position += 1
        event = make_event(
            payload,
            id=f"e{self.position:06d}",
            time=self.now,
            source="tests",
            tenant="acme",
            workspace="prod",
            idempotency_key=key,
            actor=actor,
        )
        recorded = Recorded(self.position, self.now, event, payload)
        self.log.append(recorded)
        return recorded

    def add(self, *payloads: Payload) -> Changes:
        """Append and fold; the rows that this changed."""
        return self.fold([self.record(payload) for payload in payloads])

    def fold(self, events: Sequence[Recorded]) -> Changes:
        folded: Folded = fold(CHAIN, self, events)
        assert not folded.failures, folded.failures
        for table, rows in folded.changes.items():
            self.rows.setdefault(table, {}).update(rows)
        return folded.changes

    # -- looking -------------------------------------------------------------------------

    def all(self, table: Table[R]) -> list[R]:
        found = self.rows.get(table, {})
        return [row for _, row in (found[key] for key in sorted(found)) if row is not None]

    def one(self, table: Table[R], *key: Any) -> R:
        row = self.rows[table][key][1]
        assert row is not None
        return row  # type: ignore[no-any-return]

    def run(self, run_id: str = RUN) -> RunRow:
        return self.one(RUNS, run_id)

    def task(self, task_id: str, run_id: str = RUN) -> TaskRow:
        return self.one(TASKS, run_id, task_id)

    def states(self, run_id: str = RUN) -> dict[str, str]:
        return {row.task_id: row.state for row in self.all(TASKS) if row.run_id == run_id}

    def timers(self, kind: str = "") -> list[TimerRow]:
        """Those that are scheduled."""
        found = self.all(TIMERS)
        return [t for t in found if t.state == "SCHEDULED" and (not kind or t.kind == kind)]


def replayed(parts: Iterable[Sequence[Recorded]]) -> Folding:
    """The rows that a log means, folded in these batches."""
    fresh = Folding()
    for part in parts:
        fresh.fold(part)
    return fresh


# -- plans ------------------------------------------------------------------------------


class Node(NamedTuple):
    """A task of a plan: whom it waits for, and what makes it special."""

    deps: tuple[int, ...] = ()
    reused: bool = False
    tenant: str = ""


Dag = tuple[Node, ...]


def chain_of(count: int) -> Dag:
    return tuple(Node((i - 1,) if i else ()) for i in range(count))


def name(index: int) -> str:
    return f"t{index:02d}"


def plan(dag: Dag, run_id: str = RUN, *, chunks: int = 1, **asset: Any) -> tuple[TasksPlanned, ...]:
    """The plan of a DAG, in so many chunks; task i makes partition `i` of asset `a{i}`, or one of
    its own in another run: a partition is made by one run at a time."""
    size = -(-len(dag) // chunks)
    return tuple(
        TasksPlanned(
            run_id=run_id,
            first=first,
            assets=tuple(
                RunAsset(key=f"ns.{name(i)}", asset_id=f"a{i}", **asset)
                for i in range(first, min(first + size, len(dag)))
            ),
            tasks=tuple(
                TaskPlan(
                    task_id=name(i),
                    asset=i - first,
                    partition=str(i) if run_id == RUN else f"{run_id}-{i}",
                    deps=dag[i].deps,
                    reused=f"old{i}" if dag[i].reused else "",
                    tenant=dag[i].tenant,
                )
                for i in range(first, min(first + size, len(dag)))
            ),
        )
        for first in range(0, len(dag), size)
    )


def triggered(tasks: int, run_id: str = RUN, **fields: Any) -> RunTriggered:
    return RunTriggered(
        run_id=run_id,
        plan_id=f"plan-{run_id}",
        plan_fingerprint="f",
        deployment_id="d",
        tasks_total=tasks,
        **fields,
    )


def started_run(
    dag: Dag, *, run_id: str = RUN, timeout_s: int = 0, priority: int = 0, **asset: Any
) -> Folding:
    folding = Folding()
    run = triggered(len(dag), run_id, timeout_s=timeout_s, priority=priority)
    folding.add(run, *plan(dag, run_id, **asset))
    return folding


@st.composite
def dags(draw: st.DrawFn, max_tasks: int = 12, *, tenants: Sequence[str] = ("",)) -> Dag:
    nodes = []
    for i in range(draw(st.integers(1, max_tasks))):
        deps = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        reused = draw(st.integers(0, 7)) == 7
        nodes.append(Node(tuple(sorted(deps)), reused, draw(st.sampled_from(tenants))))
    return tuple(nodes)


# -- reports ----------------------------------------------------------------------------


class Attempt(NamedTuple):
    """One attempt of a task, as those who work on it know it."""

    task_id: str
    number: int = 1
    run_id: str = RUN

    @property
    def id(self) -> str:
        return attempt_id(self.run_id, self.task_id, self.number)

    def enqueued(self, redelivery: int = 0) -> DispatchEnqueued:
        return DispatchEnqueued(
            run_id=self.run_id, task_id=self.task_id, attempt_id=self.id, redelivery=redelivery
        )

    def started(self, worker: str = "w1") -> TaskStarted:
        return TaskStarted(
            run_id=self.run_id, task_id=self.task_id, attempt_id=self.id, worker_id=worker
        )

    def lost(self) -> AttemptLost:
        return AttemptLost(
            run_id=self.run_id, task_id=self.task_id, attempt_id=self.id, reason="silent"
        )

    def succeeded(self, *, adopted_from: int = 0) -> TaskFinished:
        """With an output of its own, or that of an earlier attempt."""
        return self._finished("succeeded", made=output(self, adopted_from or self.number))

    def held(self, gate: GateAction, *, instead: bool = False) -> TaskFinished:
        """With an output that checks hold back, and perhaps an older one to read instead."""
        made = output(self, self.number)
        older = MaterializationRef(partition=made.partition, materialization_id="old", path="old")
        check = CheckResult(name="c", passed=False, action=gate)
        return self._finished(
            "succeeded", made=made, gate=gate, checks=(check,), instead=older if instead else None
        )

    def condemned(self, gate: GateAction = "fail_run") -> TaskFinished:
        """Failed by its checks."""
        error = ErrorInfo(category="user_code", code="checks.failed", message="c")
        return self._finished("failed", made=output(self, self.number), gate=gate, error=error)

    def cancelled(self) -> TaskFinished:
        return self._finished("cancelled")

    def failed(self, category: Any = "transient", **error: Any) -> TaskFinished:
        error.setdefault("code", f"{category}.x")
        info = ErrorInfo(category=category, message="it broke", **error)
        return self._finished("failed", error=info)

    def _finished(
        self,
        outcome: TaskOutcome,
        *,
        made: Materialization | None = None,
        error: ErrorInfo | None = None,
        **fields: Any,
    ) -> TaskFinished:
        return TaskFinished(
            result=TaskResult(
                run_id=self.run_id,
                task_id=self.task_id,
                attempt=self.number,
                attempt_id=self.id,
                outcome=outcome,
                worker_id="w1",
                materialization=made,
                adopted=made is not None and made.attempt_id != self.id,
                error=error,
                **fields,
            )
        )


def output(attempt: Attempt, writer: int) -> Materialization:
    """The output that attempt number `writer` of a task wrote."""
    index = int(attempt.task_id.removeprefix("t"))
    id = f"{attempt.run_id}-{attempt.task_id}-{writer}"
    return Materialization(
        materialization_id=id,
        asset=f"ns.{attempt.task_id}",
        asset_id=f"a{index}",
        partition=str(index),
        run_id=attempt.run_id,
        task_id=attempt.task_id,
        attempt_id=attempt_id(attempt.run_id, attempt.task_id, writer),
        path=f"data/{id}",
    )


# -- a world around a run ------------------------------------------------------------------

FAILING = ("succeed", "succeed", "flaky", "break", "lose", "late")
"""With failures for good, and without cancelled attempts."""
CANCELLING = ("succeed", "succeed", "flaky", "cancel", "lose", "late")
"""The other way round. With both, what is below both is skipped or cancelled, whichever
comes first: no order of arrival is the right one."""
ANYTHING = (*FAILING, "cancel", "block", "quarantine", "go on with the old", "end the run")


Pace = Literal["still", "brisk", "slow"]


class World:
    """Workers and a network that play a run, by chance: all that could really happen.

    An attempt is sent once the fold has made it ready. What it reports is decided by
    its fate, which depends on the task and the attempt alone; when that arrives, after
    what, and how often, is chance. `chaos` adds what races with the reports: attempts
    that are given up though they go on, time-outs, cancellations. A world is brisk, or
    still: all happens in one moment, or slow: rows leave for history on the way.
    """

    def __init__(
        self,
        dag: Dag,
        seed: int,
        *,
        fates: Sequence[str],
        chaos: bool = False,
        chance: int = 0,
        pace: Pace = "brisk",
    ) -> None:
        self.dag = dag
        self.chaos = chaos
        self._pace = pace
        self.folding = Folding()
        self.history: list[Payload] = []
        self._seed = seed
        self._fates = fates
        self._rng = random.Random(f"{seed} {chance}")
        self._network: list[Payload] = []
        self._sent: set[Attempt] = set()
        self._lost: set[Attempt] = set()
        self._again = 2 * len(dag)

    def play(self) -> Iterator[Payload]:
        """Each event after it was folded, until nothing can happen any more."""
        timeout_s = 300 if self.chaos else 0
        run = triggered(len(self.dag), timeout_s=900 if self.chaos else 0)
        chunks = self._rng.randint(1, min(3, len(self.dag)))
        planned = list(plan(self.dag, chunks=chunks, delay_s=10, timeout_s=timeout_s))
        self._rng.shuffle(planned)
        yield self._tell(run)
        for part in planned:
            if self._now_and_then(0.05):
                yield self._tell(self._cancel())
            for timer in self.folding.timers():
                if self._now_and_then(0.05):
                    yield self._tell(self._fire(timer))
            yield self._tell(part)
        while moves := list(self._moves()):
            yield self._tell(self._rng.choice(moves)())

    def played(self) -> Folding:
        for _ in self.play():
            pass
        return self.folding

    def fate(self, attempt: Attempt) -> str:
        rng = random.Random(f"{self._seed} {attempt.task_id} {attempt.number}")
        fates = self._fates
        if fates is CANCELLING and attempt.number == 3:
            fates = ("succeed", "cancel")  # a third failure would be for good
        return rng.choice(fates)

    def _tell(self, payload: Payload) -> Payload:
        longest_s = {"still": 1, "brisk": 20, "slow": 60 * 3600}[self._pace]
        self.folding.wait(self._rng.randrange(longest_s))
        self.folding.add(payload)
        self.history.append(payload)
        return payload

    def _now_and_then(self, share: float) -> bool:
        return self.chaos and self._rng.random() < share

    def _moves(self) -> Iterator[Callable[[], Payload]]:
        for task in self.folding.all(TASKS):
            attempt = Attempt(task.task_id, task.attempt)
            if task.state == "READY" and attempt not in self._sent:
                self._sent.add(attempt)
                self._network += self._reports(attempt)
            elif self._now_and_then(0.1) and task.state in ("DISPATCHED", "RUNNING"):
                yield attempt.lost
        for i in range(len(self._network)):
            yield lambda i=i: self._deliver(i)  # type: ignore[misc]
        for timer in self.folding.timers("" if self.chaos else "retry"):
            if timer.kind == "retry" or self._now_and_then(0.2):
                yield lambda timer=timer: self._fire(timer)  # type: ignore[misc]
        if self._network and self._again > 0:
            yield self._repeat
        if self._network and self._now_and_then(0.05):
            yield self._cancel
        if self.folding.run().state == "CANCELLING":
            yield from self._ends_of_waiting()

    def _cancel(self) -> Payload:
        force, in_steps = self._rng.random() < 0.5, self._rng.random() < 0.7
        return RunCancelRequested(run_id=RUN, force=force, in_steps=in_steps)

    def _ends_of_waiting(self) -> Iterator[Callable[[], Payload]]:
        """What ends some of the tasks that wait, if any do; by force only after a forced cancel."""
        tasks = self.folding.all(TASKS)
        left = [task for task in tasks if task.state not in TERMINAL]
        if any(task.state not in IN_FLIGHT for task in left):
            some = self._rng.sample(left, self._rng.randint(1, len(left)))
            ids = tuple(task.task_id for task in some)
            force = self.folding.run().cancel_forced and self._rng.random() < 0.5
            yield lambda: TasksCancelled(run_id=RUN, task_ids=ids, force=force)

    def _reports(self, attempt: Attempt) -> list[Payload]:
        begun: list[Payload] = [attempt.enqueued(), attempt.started()]
        match self.fate(attempt):
            case "succeed":
                earlier = (Attempt(attempt.task_id, n) for n in range(1, attempt.number))
                adopted = next((a.number for a in earlier if self.fate(a) == "late"), 0)
                return [*begun, attempt.succeeded(adopted_from=adopted)]
            case "flaky":
                return [*begun, attempt.failed("transient")]
            case "break":
                return [*begun, attempt.failed("user_code")]
            case "cancel":
                return [*begun, attempt.cancelled()]
            case "block" | "quarantine" as gate:
                return [*begun, attempt.held(gate)]
            case "go on with the old":
                return [*begun, attempt.held("quarantine", instead=True)]
            case "end the run":
                return [*begun, attempt.condemned()]
        return [*begun, attempt.lost()]

    def _deliver(self, i: int) -> Payload:
        payload = self._network.pop(i)
        if isinstance(payload, AttemptLost):
            number = self.folding.task(payload.task_id).attempt
            attempts = (Attempt(payload.task_id, n) for n in range(1, number + 1))
            attempt = next(a for a in attempts if a.id == payload.attempt_id)
            if self.fate(attempt) == "late" and attempt not in self._lost:
                self._lost.add(attempt)
                self._network.append(attempt.succeeded())
        return payload

    def _repeat(self) -> Payload:
        self._again -= 1
        return self._rng.choice(self.history[1:] or self.history)

    def _fire(self, timer: TimerRow) -> Payload:
        if self._pace != "still":
            self.folding.now = max(self.folding.now, timer.fire_at)
        return TimerFired(run_id=RUN, timer_id=timer.timer_id)


def seen(board: Board) -> dict[str, datetime]:
    """What an observer with the store's clock has seen: attempts run, and runs be cancelled."""
    tasks = [task for tasks in board.tasks.values() for task in tasks.values()]
    started = {task.attempt_id: task.started_at for task in tasks if task.started_at is not None}
    cancelled = {
        run.run_id: run.cancel_requested_at
        for run in board.runs.values()
        if run.cancel_requested_at is not None
    }
    return {**started, **cancelled}
