"""The rows of a run are what its reports mean, in whatever order and however often they come.

INV-1 (order), INV-2 (duplicates), INV-6 (dependencies), INV-8 (stale attempts) and INV-10
(failures) over generated DAGs, with workers and a network that do whatever they may.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.log.envelope import Batch, Payload, encode_batch
from arco.orchestration.events import (
    AttemptLost,
    DispatchEnqueued,
    RunCancelRequested,
    RunTriggered,
    TaskFinished,
    TasksCancelled,
    TasksPlanned,
    TaskStarted,
    TimerFired,
)
from arco.orchestration.tables import RUNS, TASKS, TIMERS
from arco.state.table import Row, Table
from arco.storage import paths
from tests.kit.clocks import SimClock
from tests.kit.depth import examples
from tests.kit.runs import (
    ANYTHING,
    CANCELLING,
    FAILING,
    RUN_TABLES,
    Dag,
    Folding,
    Node,
    Pace,
    World,
    dags,
    replayed,
)
from tests.kit.workspace import make_workspace

seeds = st.integers(0, 10_000)
PACES: list[Pace] = ["brisk", "slow"]
ENDED = {"SUCCEEDED", "REUSED", "FAILED", "SKIPPED", "CANCELLED"}
OPEN = {"READY", "DISPATCHED", "RUNNING"}


class Task:
    def __init__(self, upstreams: list[str], max_attempts: int) -> None:
        self.upstreams = upstreams
        self.max_attempts = max_attempts
        self.state = "BLOCKED"
        self.held = False
        """Whether checks hold its output back, and there is no older one to read instead."""
        self.attempt = 0
        self.attempts: list[str] = []
        """Ids, in order; the last is the active one."""


HELD = {"quarantine": "QUARANTINED", "block": "BLOCKED", "fail_run": "BLOCKED"}


class Model:
    """A run as the design words it. After each event all that follows is worked out anew."""

    def __init__(self) -> None:
        self.state = "PLANNING"
        self.total = 0
        self.planned: dict[int, tuple[str, TasksPlanned, int]] = {}
        self.tasks: dict[str, Task] = {}
        self.outputs: dict[str, str] = {}
        self.current: dict[tuple[str, str], str] = {}
        self.stopping = self.timed_out = self.condemned = False

    def tell(self, e: Payload, timer: Any, ids: dict[str, str]) -> None:
        """`timer` is what a fired timer was set for; `ids` the attempt that each task has."""
        match e:
            case RunTriggered(tasks_total=total):
                self.total = total
            case TasksPlanned() as part:
                self._plan(part)
            case RunCancelRequested(force=force, in_steps=in_steps):
                if self.state in ("PLANNING", "RUNNING"):
                    self.stopping = True
                if self.stopping:
                    self._stop(force and not in_steps, None if not in_steps else ())
            case TasksCancelled(task_ids=ids_, force=force):
                if self.stopping:
                    self._stop(force, ids_)
            case TimerFired() if timer is not None:
                self._fire(*timer)
            case DispatchEnqueued(task_id=id, attempt_id=attempt):
                if self._is_open(id, attempt) and self.tasks[id].state == "READY":
                    self.tasks[id].state = "DISPATCHED"
            case TaskStarted(task_id=id, attempt_id=attempt):
                if self._is_open(id, attempt):
                    self.tasks[id].state = "RUNNING"
            case AttemptLost(task_id=id, attempt_id=attempt):
                if self._is_open(id, attempt):
                    self._fail(id, again=True)
            case TaskFinished():
                self._finish(e)
        self._settle()
        for id, task in self.tasks.items():
            if task.attempt > len(task.attempts):
                task.attempts.append(ids[id])

    def _plan(self, part: TasksPlanned) -> None:
        if self.state != "PLANNING":
            return
        for i, task in enumerate(part.tasks):
            self.planned[part.first + i] = (task.task_id, part, i)
        if len(self.planned) == self.total:
            self.state = "RUNNING"
            for _, (id, part, i) in sorted(self.planned.items()):
                task = part.tasks[i]
                upstreams = [self.planned[dep][0] for dep in task.deps]
                self.tasks[id] = Task(upstreams, part.assets[task.asset].max_attempts)
                if task.reused:
                    self.tasks[id].state = "REUSED"

    def _is_open(self, id: str, attempt: str) -> bool:
        task = self.tasks.get(id)
        return task is not None and task.state in OPEN and task.attempts[-1:] == [attempt]

    def _finish(self, e: TaskFinished) -> None:
        result, made = e.result, e.result.materialization
        is_open = self._is_open(result.task_id, result.attempt_id)
        counts = is_open and not self.stopping
        if made is not None and counts and result.gate in HELD:
            self.outputs[made.materialization_id] = HELD[result.gate]
            self.tasks[result.task_id].held = result.outcome != "failed" and not result.instead
        if made is not None and counts and result.outcome == "succeeded":
            self.tasks[result.task_id].state = "SUCCEEDED"
            if result.gate not in HELD:
                self.outputs[made.materialization_id] = "GOOD"
                self.current[made.asset_id, made.partition] = made.materialization_id
        elif made is not None:
            self.outputs.setdefault(made.materialization_id, "LATE")
        if is_open and result.outcome == "failed":
            assert result.error is not None
            self._fail(result.task_id, again=result.error.category == "transient")
            if result.gate == "fail_run" and not self.stopping:
                self._settle()  # what is below it is skipped, and the rest cancelled
                self.stopping = self.condemned = True
                self._stop(False)
        elif is_open and (result.outcome == "cancelled" or self.stopping):
            self.tasks[result.task_id].state = "CANCELLED"

    def _fail(self, id: str, *, again: bool) -> None:
        task = self.tasks[id]
        if self.stopping:
            task.state = "CANCELLED"
        elif again and task.attempt < task.max_attempts:
            task.state = "RETRY_WAIT"
        else:
            task.state = "FAILED"

    def _fire(self, kind: str, id: str, attempt: int) -> None:
        if kind == "run_timeout":
            if not self.stopping and self.state in ("PLANNING", "RUNNING"):
                self.stopping = self.timed_out = True
                self._stop(False)
            return
        task = self.tasks[id]
        if task.attempt == attempt and kind == "retry" and task.state == "RETRY_WAIT":
            task.state, task.attempt = "READY", attempt + 1
            if self.stopping:
                task.state, task.attempt = "CANCELLED", attempt
        elif task.attempt == attempt and kind == "task_timeout" and task.state in OPEN:
            self._fail(id, again=True)

    def _stop(self, force: bool, which: Collection[str] | None = None) -> None:
        """End these tasks, or all; those in flight only by force."""
        if self.state == "PLANNING":
            self.state = "CANCELLED"  # what is not there yet will never be
            return
        for id, task in self.tasks.items():
            if which is not None and id not in which:
                continue
            if task.state not in ENDED and (force or task.state not in ("DISPATCHED", "RUNNING")):
                task.state = "CANCELLED"

    def _settle(self) -> None:
        for task in self.tasks.values():  # upstreams come before those that wait for them
            above = {self.tasks[id].state for id in task.upstreams}
            if task.state != "BLOCKED":
                continue
            held = any(self.tasks[id].held for id in task.upstreams)
            if above & {"FAILED", "SKIPPED"} or held:
                task.state = "SKIPPED"
            elif "CANCELLED" in above:
                task.state = "CANCELLED"
            elif above <= {"SUCCEEDED", "REUSED"}:
                task.state, task.attempt = "READY", 1
        if self.tasks:
            self.state = self._run_state()

    def _run_state(self) -> str:
        found = {task.state for task in self.tasks.values()}
        if not found <= ENDED:
            return "CANCELLING" if self.stopping else "RUNNING"
        if self.timed_out:
            return "TIMED_OUT"
        if self.condemned:
            return "FAILED"
        if self.stopping:
            return "CANCELLED"
        return next((state for state in ("FAILED", "CANCELLED") if state in found), "SUCCEEDED")

    # -- to compare ----------------------------------------------------------------------

    def satisfied(self) -> dict[str, int]:
        """Of each task that has not ended, how many of its upstreams are good."""
        good = {
            id for id, t in self.tasks.items() if t.state in ("SUCCEEDED", "REUSED") and not t.held
        }
        return {
            id: len(good & set(task.upstreams))
            for id, task in self.tasks.items()
            if task.state not in ENDED
        }


def check(model: Model, f: Folding) -> None:
    run = f.run()
    if not model.tasks:
        assert run.state in ("PLANNING", "CANCELLING", "CANCELLED", "TIMED_OUT")
        assert (run.state == "PLANNING") == (model.state == "PLANNING")
        return
    assert f.states() == {id: task.state for id, task in model.tasks.items()}
    assert {t.task_id: t.attempt for t in f.all(TASKS)} == {
        id: task.attempt for id, task in model.tasks.items()
    }
    assert run.state == model.state
    counts = Counter(f.states().values())
    assert {state: getattr(run, f"tasks_{state.lower()}") for state in sorted(ENDED)} == {
        state: counts[state] for state in sorted(ENDED)
    }
    assert {
        t.task_id: t.deps_satisfied for t in f.all(TASKS) if t.state not in ENDED
    } == model.satisfied()
    assert {m.materialization_id: m.status for m in f.all(MATERIALIZATIONS)} == model.outputs
    assert {
        (p.asset_id, p.partition_key): p.materialization_id for p in f.all(PARTITIONS)
    } == model.current
    check_beside(f)


def check_beside(f: Folding) -> None:
    """Timers fit the tasks that they belong to."""
    run, tasks = f.run(), {task.task_id: task for task in f.all(TASKS)}
    waiting = {(t.task_id, t.attempt) for t in tasks.values() if t.state == "RETRY_WAIT"}
    assert {(t.task_id, t.attempt) for t in f.timers("retry")} == waiting
    at_work = {
        (t.task_id, t.attempt)
        for t in tasks.values()
        if t.state in ("DISPATCHED", "RUNNING") and t.timeout_s
    }
    assert {(t.task_id, t.attempt) for t in f.timers("task_timeout")} == at_work
    if run.finished_at is not None:
        assert f.timers() == []


@given(dags(), seeds, st.sampled_from(PACES))
@settings(max_examples=examples(70))
def test_every_step_of_any_run_is_what_the_model_says(dag: Dag, seed: int, pace: Pace) -> None:
    world, model = World(dag, seed, fates=ANYTHING, chaos=True, pace=pace), Model()
    scheduled: dict[str, Any] = {}
    for payload in world.play():
        f = world.folding
        timer = None
        if isinstance(payload, TimerFired):
            timer = scheduled.pop(payload.timer_id, None)
        model.tell(payload, timer, {t.task_id: t.attempt_id for t in f.all(TASKS)})
        if pace == "slow":  # what comes when its task has left is not even recorded
            late = {m.materialization_id for m in f.all(MATERIALIZATIONS) if m.status == "LATE"}
            left = {id for id, status in model.outputs.items() if status == "LATE"} - late
            model.outputs = {id: s for id, s in model.outputs.items() if id not in left}
        check(model, f)
        scheduled = {t.timer_id: (t.kind, t.task_id, t.attempt) for t in f.timers()}


@given(dags(), seeds, st.sampled_from([FAILING, CANCELLING]))
@settings(max_examples=examples(50))
def test_order_of_arrival_does_not_matter_for_what_becomes_of_a_run(
    dag: Dag, seed: int, fates: tuple[str, ...]
) -> None:
    one, other = (World(dag, seed, fates=fates, chance=c).played() for c in (1, 2))
    assert timeless(one) == timeless(other)
    assert one.run().finished_at is not None


def timeless(f: Folding) -> dict[str, Any]:
    """Rows without times, without who did it, and without texts that tell what came first."""
    tables: list[Table[Any]] = [RUNS, TASKS]
    found: dict[str, Any] = {}
    for table in (*tables, MATERIALIZATIONS, PARTITIONS):
        rows: list[Row] = f.all(table)
        found[str(table)] = [_timeless(row) for row in rows]
    found["timers"] = sorted((t.kind, t.task_id, t.attempt, t.state) for t in f.all(TIMERS))
    return found


def _timeless(row: Row) -> dict[str, Any]:
    left_out = (
        "worker_id",
        "position",
        "reason",
        "dispatched_at",
        "started_at",
        "retry_not_before",
    )
    return {
        field: value is not None if field.endswith("_at") else value
        for field, value in msgspec.structs.asdict(row).items()
        if field not in left_out
    }


@given(dags(), seeds)
@settings(max_examples=examples(50))
def test_what_was_said_already_changes_no_row_however_late(dag: Dag, seed: int) -> None:
    world = World(dag, seed, fates=ANYTHING, chaos=True)
    f = world.folding
    for number, _ in enumerate(world.play()):
        again = world.history[(seed * 7919 + number * 31) % len(world.history)]
        changes = f.wait(number % 3).add(again)
        touched = {t for t in changes if t in (*RUN_TABLES, MATERIALIZATIONS, PARTITIONS)}
        assert touched == set(), again


def cut(data: st.DataObject, items: list[Any]) -> list[list[Any]]:
    borders = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    edges = [0, *sorted(set(borders)), len(items)]
    return [items[a:b] for a, b in itertools.pairwise(edges) if a < b]


@given(dags(), seeds, st.sampled_from(PACES), st.data())
@settings(max_examples=examples(60))
def test_any_split_into_batches_gives_the_same_rows(
    dag: Dag, seed: int, pace: Pace, data: st.DataObject
) -> None:
    live = World(dag, seed, fates=ANYTHING, chaos=True, pace=pace).played()
    assert replayed([live.log]).rows == live.rows
    assert replayed(cut(data, live.log)).rows == live.rows


@given(dags(8), seeds, st.data())
@settings(max_examples=examples(12))
def test_commits_in_parts_and_a_rebuild_give_the_rows_of_one_commit(
    dag: Dag, seed: int, data: st.DataObject
) -> None:
    live = World(dag, seed, fates=ANYTHING, chaos=True, pace="still").played()
    clock = SimClock()
    w, whole = make_workspace(clock=clock), make_workspace(clock=clock)
    events = [recorded.event for recorded in live.log]
    for number, part in enumerate(cut(data, events)):
        name = f"b{number}"
        w.store.put(paths.inbox(name), encode_batch(Batch(batch=name, events=part)))
        w.committer.commit()
        if data.draw(st.booleans()):
            w.upkeep.merger.merge(everything=True)
    whole.store.put(paths.inbox("all"), encode_batch(Batch(batch="all", events=events)))
    whole.committer.commit()
    for table in (*RUN_TABLES, MATERIALIZATIONS, PARTITIONS):
        one, other = w.read.snapshot().scan(table), whole.read.snapshot().scan(table)
        assert sorted(map(str, one.to_pylist())) == sorted(map(str, other.to_pylist())), str(table)
    rebuilt = w.upkeep.rebuild(publish=False)
    assert rebuilt.same, [d for d in rebuilt.differences if not d.same]
    assert not rebuilt.failures


def random_dag(seed: int) -> Dag:
    rng = random.Random(seed)
    nodes = []
    for i in range(rng.randint(1, 8)):
        deps = sorted(rng.sample(range(i), min(i, rng.randrange(3))))
        nodes.append(Node(tuple(deps), rng.random() < 0.1))
    return tuple(nodes)


def test_worlds_are_worth_something() -> None:
    """They reach every end of a run and every state of a task; else they prove little."""
    runs: set[str] = set()
    tasks: set[str] = set()
    outputs: set[tuple[str, bool]] = set()
    for seed in range(80):
        world = World(random_dag(seed), seed, fates=ANYTHING, chaos=seed % 2 == 0)
        for _ in world.play():
            tasks |= set(world.folding.states().values())
        runs.add(world.folding.run().state)
        outputs |= {(m.status, m.version > 0) for m in world.folding.all(MATERIALIZATIONS)}
    assert runs == {"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"}
    assert tasks >= ENDED | OPEN | {"PLANNED", "BLOCKED", "RETRY_WAIT"}
    assert outputs == {
        ("GOOD", True),
        ("LATE", False),
        ("QUARANTINED", False),
        ("BLOCKED", False),
    }
