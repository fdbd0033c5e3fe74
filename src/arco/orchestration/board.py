"""The board: the rows of active runs in memory, for controllers.

It is advanced from one generation to the next by the rows that changed: those that this process has
committed are passed in memory, all others are read from new files. Finished runs are removed, so
its cost depends on active runs only.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Any, Final, TypeVar

from arco.log.head import Head
from arco.orchestration import states
from arco.orchestration.limit_tables import (
    DISPATCH_CONTROL,
    LIMITS,
    DeclaredLimits,
    DispatchControlRow,
    LimitRow,
)
from arco.orchestration.limit_usage import RunUse, TaskUse
from arco.orchestration.states import TaskState, TimerState
from arco.orchestration.tables import RUNS, TASKS, TIMERS, RunRow, TaskRow, TimerRow
from arco.state.changes import Changes
from arco.state.snapshot import Snapshot
from arco.state.table import Key, Table

TaskKey = tuple[str, str]
Kind = tuple[str, str, str]
"""Tasks of one kind: of a tenant, of a run, and for one asset."""
K = TypeVar("K")
TaskOrder = tuple[int, int, str]
"""The order within a run: priority, then the plan's order; and the task's id."""

TABLES: Final[tuple[Table[Any], ...]] = (RUNS, TASKS, TIMERS, LIMITS, DISPATCH_CONTROL)
"""Those that it follows."""


class Board:
    def __init__(
        self,
        serves: Callable[[RunRow], bool] = lambda run: True,
        is_alive: Callable[[RunRow], bool] = lambda run: True,
    ) -> None:
        """`serves` decides which runs are on the board. `is_alive` tells whether a run of others is
        served: tasks do not wait for a run that is not."""
        self.serves = serves
        self.is_alive = is_alive
        self._clear()

    def _clear(self) -> None:
        self.generation = -1
        self.position = 0
        self.runs: dict[str, RunRow] = {}
        """Active runs that are served here."""
        self.others: dict[str, RunRow] = {}
        """Active runs that others serve, or that were not adopted yet."""
        self.tasks: dict[str, dict[str, TaskRow]] = {}
        """Their tasks."""
        self.ready: dict[str, dict[str, list[TaskOrder]]] = {}
        """By tenant and run, in the order in which they should be enqueued."""
        self.ready_of: dict[Kind, int] = {}
        """How many tasks of a kind are ready."""
        self.in_flight: dict[TaskKey, TaskRow] = {}
        self.in_flight_of: dict[str, int] = {}
        """How many tasks of a tenant are in flight."""
        self.in_flight_in: dict[str, int] = {}
        """How many tasks of a run are in flight."""
        self.timers: dict[Key, TimerRow] = {}
        """Those that are scheduled."""
        self.making: dict[str, dict[str, dict[str, str]]] = {}
        """By asset id and partition: the active runs, whoever serves them, with their tasks for
        it that have not ended."""
        self._makes: dict[str, set[tuple[str, str]]] = {}
        """By run: where it is in `making`."""
        self._flying: dict[tuple[str, str], set[str]] = {}
        """By asset id and partition: the runs whose task for it is in flight."""
        self.declared = DeclaredLimits()
        """The limits that are set, and whether dispatch is paused."""
        self._limit_rows: dict[Key, LimitRow] = {}
        self.pool_of: dict[Kind, str] = {}
        """Of the kinds of tasks that take slots of a pool."""
        self.elsewhere: dict[TaskKey, TaskRow] | None = None
        """Tasks in flight of runs that others serve; None while they are not counted."""
        self._started: dict[date, set[str]] = {}
        """Runs by the day on which they were started, of the last two days."""

    def task(self, run_id: str, task_id: str) -> TaskRow | None:
        return self.tasks.get(run_id, {}).get(task_id)

    # -- moving to another generation ----------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """Load everything from a snapshot."""
        self._clear()
        for run in snapshot.hot(RUNS):
            self._note_start(run)
            if run.state in states.RUN_ACTIVE:
                self._put_run(run)
        for run_id in list(self.runs):
            self._load_run(snapshot, run_id)
        for run_id in self.others:
            for task in snapshot.rows(TASKS, run_id):
                self._mark(task)
        for table in (LIMITS, DISPATCH_CONTROL):
            self._take(table, snapshot.hot(table))
        self._arrived(snapshot.head)

    @property
    def misses_others(self) -> bool:
        """Whether limits count tasks of runs that are not on the board: see `load_others`."""
        return self.declared.has_task_limits and self.elsewhere is None

    def load_others(self, snapshot: Snapshot) -> None:
        """Count the tasks of runs that others serve too, as the board's generation has them."""
        self.elsewhere = {}
        for run_id in self.others:
            for task in snapshot.rows(TASKS, run_id):
                self._put_elsewhere(task)

    def adopt(self, run_id: str, snapshot: Snapshot) -> None:
        """Serve a run that others served until now, as of the board's generation."""
        run = self.others.pop(run_id, None)
        if run is not None:
            self.runs[run_id] = run
            self.tasks[run_id] = {}
            self._drop_elsewhere(run_id)
            self._load_run(snapshot, run_id)

    def _load_run(self, snapshot: Snapshot, run_id: str) -> None:
        for task in snapshot.rows(TASKS, run_id):
            self._put_task(task)
        for timer in snapshot.rows(TIMERS, run_id):
            self._put_timer(timer)

    def advance(self, snapshot: Snapshot) -> None:
        """Advance to a newer snapshot by the rows that changed."""
        if self.generation < 0:
            self.load(snapshot)
            return
        if snapshot.generation != self.generation:
            for table in TABLES:
                self._take(table, (row for _, row in snapshot.since(table, self.position)))
            self._arrived(snapshot.head)

    def apply(self, changes: Changes, head: Head) -> None:
        """Advance by one commit of this process on top of the board's generation."""
        for table in TABLES:
            rows = changes.get(table, {})
            self._take(table, (row for _, row in rows.values() if row is not None))
        self._arrived(head)

    def _arrived(self, head: Head) -> None:
        self.generation = head.generation
        self.position = head.manifest.position

    def _take(self, table: Table[Any], rows: Iterable[Any]) -> None:
        if table is RUNS:
            for row in rows:
                self._note_start(row)
                self._put_run(row)
        elif table is TASKS:
            for row in rows:
                if row.run_id in self.runs:
                    self._put_task(row)
                elif row.run_id in self.others:
                    self._mark(row)
                    if self.elsewhere is not None:
                        self._put_elsewhere(row)
        elif table is TIMERS:
            for row in rows:
                if row.run_id in self.runs:
                    self._put_timer(row)
        else:
            self._put_limits(list(rows))

    # -- rows ----------------------------------------------------------------------------

    def _put_run(self, row: RunRow) -> None:
        """The tasks of a run of others are not on the board until `adopt`."""
        foreign = row.run_id in self.others or not self.serves(row)
        if row.state in states.RUN_ACTIVE and foreign:
            self.others[row.run_id] = row
            return
        if self.others.pop(row.run_id, None) is not None:
            self._drop_elsewhere(row.run_id)
            if row.state not in states.RUN_ACTIVE:
                self._unmark(row.run_id)
        if row.state in states.RUN_ACTIVE:
            self.runs[row.run_id] = row
            self.tasks.setdefault(row.run_id, {})
        elif row.run_id in self.runs:
            self._drop_run(row.run_id)

    def _drop_run(self, run_id: str) -> None:
        for task in self.tasks.pop(run_id).values():
            self._unlist(run_id, task)
        del self.runs[run_id]
        self._unmark(run_id)
        for key in [key for key in self.timers if key[0] == run_id]:
            del self.timers[key]
        for kind in [kind for kind in self.pool_of if kind[1] == run_id]:
            del self.pool_of[kind]

    def _put_task(self, row: TaskRow) -> None:
        tasks = self.tasks[row.run_id]
        old = tasks.get(row.task_id)
        if old is not None:
            self._unlist(row.run_id, old)
        tasks[row.task_id] = row
        self._mark(row)
        if row.pool:
            self.pool_of[kind_of(row)] = row.pool
        if row.state == TaskState.READY:
            queue = self.ready.setdefault(row.tenant, {}).setdefault(row.run_id, [])
            insort(queue, _order(row))
            _count(self.ready_of, kind_of(row), 1)
        elif row.state in states.IN_FLIGHT:
            self.in_flight[row.run_id, row.task_id] = row
            _count(self.in_flight_of, row.tenant, 1)
            _count(self.in_flight_in, row.run_id, 1)

    def _mark(self, row: TaskRow) -> None:
        place = row.asset_id, row.partition_key
        if row.state in states.IN_FLIGHT:
            self._flying.setdefault(place, set()).add(row.run_id)
        elif row.run_id in self._flying.get(place, ()):
            self._land(row.run_id, place)
        if row.state in states.TERMINAL:
            if place in self._makes.get(row.run_id, ()):
                self._makes[row.run_id].discard(place)
                self._end_making(row.run_id, place)
            return
        self._makes.setdefault(row.run_id, set()).add(place)
        runs = self.making.setdefault(place[0], {}).setdefault(place[1], {})
        runs[row.run_id] = row.task_id

    def _unmark(self, run_id: str) -> None:
        for place in self._makes.pop(run_id, ()):
            self._end_making(run_id, place)
            if run_id in self._flying.get(place, ()):
                self._land(run_id, place)

    def _land(self, run_id: str, place: tuple[str, str]) -> None:
        self._flying[place].discard(run_id)
        if not self._flying[place]:
            del self._flying[place]

    def _end_making(self, run_id: str, place: tuple[str, str]) -> None:
        partitions = self.making[place[0]]
        del partitions[place[1]][run_id]
        if not partitions[place[1]]:
            del partitions[place[1]]
        if not partitions:
            del self.making[place[0]]

    def goes_after(self, task: TaskRow) -> str:
        """Another run that writes the same partition first; empty if there is none.

        One run at a time writes a partition. The older run goes first: the order of the log is the
        same for all processes, so all choose the same. A task of a younger run that is in flight
        already goes first too: the older run may not have been served for some time.
        """
        place = task.asset_id, task.partition_key
        runs = self.making.get(place[0], {}).get(place[1], {})
        if len(runs) < 2:
            return ""
        own = self._age(task.run_id)
        flying = self._flying.get(place, ())
        for age in sorted(self._age(run_id) for run_id in runs if run_id != task.run_id):
            if (age < own or age[1] in flying) and self._counts(age[1]):
                return age[1]
        return ""

    def _counts(self, run_id: str) -> bool:
        return run_id in self.runs or self.is_alive(self.others[run_id])

    def _age(self, run_id: str) -> tuple[datetime, str]:
        run = self.runs.get(run_id) or self.others[run_id]
        return run.created_at, run_id

    def _unlist(self, run_id: str, task: TaskRow) -> None:
        if task.state == TaskState.READY:
            self.unlist_ready(run_id, task)
            _count(self.ready_of, kind_of(task), -1)
        elif task.state in states.IN_FLIGHT:
            del self.in_flight[run_id, task.task_id]
            _count(self.in_flight_of, task.tenant, -1)
            _count(self.in_flight_in, run_id, -1)

    def unlist_ready(self, run_id: str, task: TaskRow) -> None:
        runs = self.ready[task.tenant]
        queue, order = runs[run_id], _order(task)
        at = bisect_left(queue, order)
        if queue[at : at + 1] == [order]:
            del queue[at]
        else:  # another task has this place
            queue[:] = [other for other in queue if other[2] != task.task_id]
        if not queue:
            del runs[run_id]
        if not runs:
            del self.ready[task.tenant]

    def _put_timer(self, row: TimerRow) -> None:
        if row.state == TimerState.SCHEDULED:
            self.timers[row.run_id, row.timer_id] = row
        else:
            self.timers.pop((row.run_id, row.timer_id), None)

    def _put_limits(self, rows: Sequence[LimitRow | DispatchControlRow]) -> None:
        control = self.declared.control
        for row in rows:
            if isinstance(row, LimitRow):
                self._limit_rows[row.scope, row.name] = row
            else:
                control = row
        if rows:
            self.declared = DeclaredLimits.of(self._limit_rows.values(), control)

    def _put_elsewhere(self, row: TaskRow) -> None:
        assert self.elsewhere is not None
        if row.run_id in self.others and row.state in states.IN_FLIGHT:
            self.elsewhere[row.run_id, row.task_id] = row
        else:
            self.elsewhere.pop((row.run_id, row.task_id), None)

    def _drop_elsewhere(self, run_id: str) -> None:
        if self.elsewhere is not None:
            for key in [key for key in self.elsewhere if key[0] == run_id]:
                del self.elsewhere[key]

    # -- what limits count ---------------------------------------------------------------

    def task_use(self) -> TaskUse:
        """What is in flight in the whole workspace, by the limits that count it."""
        elsewhere = () if self.elsewhere is None else self.elsewhere.values()
        return TaskUse(self.declared, (*self.in_flight.values(), *elsewhere))

    def run_use(self, now: datetime) -> RunUse:
        active = (*self.runs.values(), *self.others.values())
        backfills = sum(run.trigger == states.RunTrigger.BACKFILL for run in active)
        return RunUse(len(active), backfills, len(self._started.get(now.date(), ())))

    def _note_start(self, run: RunRow) -> None:
        """Count a run for the day on which it was started."""
        day = run.created_at.date()
        if day not in self._started:
            if len(self._started) == 2 and day < min(self._started):
                return
            self._started[day] = set()
            if len(self._started) > 2:
                del self._started[min(self._started)]
        self._started[day].add(run.run_id)


def kind_of(task: TaskRow) -> Kind:
    return task.tenant, task.run_id, task.asset_key


def _order(task: TaskRow) -> TaskOrder:
    return (-task.priority, task.index, task.task_id)


def _count(counts: dict[K, int], name: K, change: int) -> None:
    """Change a count; one that is zero is not kept."""
    counts[name] = counts.get(name, 0) + change
    if not counts[name]:
        del counts[name]
