"""The fold of one run: its tasks and timers.

A fact is folded over a `_Run`, which has the rows of the run with the changes of this fact so far,
and returns all changes at the end. One report may cause a cascade (a failure skips everything
downstream), which is completed within the fact: no intermediate state is visible.

Readiness is per edge. A task ends once, and then resolves the edges to its downstream tasks; a task
is ready when all of its edges have succeeded. Tasks without an edge to a failed upstream task
continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, TypeVar, assert_never

import msgspec

from arco.epoch import EPOCH
from arco.execution.events import OutputAccepted, OutputHeld, OutputMissed, OutputRejected
from arco.execution.states import HoldStatus
from arco.log.envelope import Payload
from arco.orchestration import derived, states, task_rows
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
from arco.orchestration.limit_events import TaskAdmitted
from arco.orchestration.plan_events import tasks_of
from arco.orchestration.results import whole
from arco.orchestration.states import (
    HELD_GATES,
    RunCause,
    RunState,
    TaskCause,
    TaskState,
    TimerKind,
    TimerState,
)
from arco.orchestration.tables import (
    RUN_NAMESPACES,
    RUNS,
    TASKS,
    TIMERS,
    RunRow,
    TaskRow,
    TimerRow,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from servo.contract.identity import attempt_id, timer_key
from servo.contract.task import ErrorInfo, Materialization, TaskResult

replace = msgspec.structs.replace
P = TypeVar("P", bound=Payload)

DISPATCH_S = 86_400
"""How long after its dispatch a task with a timeout may start: as long as its envelope is valid. An
attempt whose workers die before they report its start ends then."""
TIMEOUT_GRACE_S = 30
"""A worker ends its own task at the timeout; otherwise a timer ends it this much later."""

_DOWNSTREAM: Final = {
    TaskState.SUCCEEDED: TaskCause.UPSTREAMS_GOOD,
    TaskState.REUSED: TaskCause.UPSTREAMS_GOOD,
    TaskState.FAILED: TaskCause.UPSTREAM_FAILED,
    TaskState.SKIPPED: TaskCause.UPSTREAM_FAILED,
    TaskState.CANCELLED: TaskCause.UPSTREAM_CANCELLED,
}
"""What the end of a task causes for downstream tasks; `UPSTREAMS_GOOD` when all have it."""
_COUNTER: Final = {
    TaskState.SUCCEEDED: "tasks_succeeded",
    TaskState.REUSED: "tasks_reused",
    TaskState.FAILED: "tasks_failed",
    TaskState.SKIPPED: "tasks_skipped",
    TaskState.CANCELLED: "tasks_cancelled",
}


class RunAdmitted(RunTriggered, frozen=True, kw_only=True):
    """Derived: its run key was free."""

    TYPE = "orchestration.run_admitted"
    COMMAND = False


def _admit(rows: Rows, fact: Fact, e: RunAdmitted) -> Iterator[Change]:
    if rows.get(RUNS, e.run_id) is not None:
        return
    now = fact.received_at
    row = row_from(
        RunRow,
        e,
        state=RunState.PLANNING,
        triggered_by=e.triggered_by or fact.actor,
        tasks_planned=0,
        tasks_succeeded=0,
        tasks_reused=0,
        tasks_failed=0,
        tasks_skipped=0,
        tasks_cancelled=0,
        retries=0,
        timed_out=False,
        created_at=now,
        started_at=None,
        cancel_requested_at=None,
        cancel_reason="",
        finished_at=None,
        pool=e.engine_id,
        reference=e.reference or "",
        timeout_limit=e.timeout_limit or "",
    )
    run = _Run(rows, fact, row)
    run.changed = True
    if e.timeout_s:
        run.schedule(TimerKind.RUN_TIMEOUT, "run", 1, now + timedelta(seconds=e.timeout_s))
    run.complete()  # if it has no tasks
    yield from run.changes()


def _cancel(rows: Rows, fact: Fact, e: RunCancelRequested) -> Iterator[Change]:
    row = rows.get(RUNS, e.run_id)
    if row is None:
        yield refused(fact, "run_not_found", f"there is no run {e.run_id}")
    elif row.state not in states.RUN_ACTIVE:
        yield refused(fact, "run_finished", f"run {e.run_id} is {row.state} already")
    else:
        run = _Run(rows, fact, row)
        if e.in_steps:
            run.begin_cancel(e.reason, by=fact.actor, force=e.force)
        else:
            run.cancel(e.reason, force=e.force)
        yield from run.changes()
        yield applied(fact)


class _Run:
    """The rows of a run while one fact is folded."""

    def __init__(self, rows: Rows, fact: Fact, row: RunRow) -> None:
        self._rows = rows
        self._now = fact.received_at
        self.row = row
        self.changed = False
        self._tasks: dict[str, TaskRow] = {}
        self._timers: dict[str, TimerRow] = {}
        self._emitted: list[Payload] = []

    def changes(self) -> Iterator[Change]:
        if self.changed:
            yield Put(RUNS, self.row)
        for task in self._tasks.values():
            yield Put(TASKS, task)
        for timer in self._timers.values():
            yield Put(TIMERS, timer)
        for payload in self._emitted:
            yield Emit(payload)

    # -- planning ------------------------------------------------------------------------

    def planned(self, e: TasksPlanned) -> None:
        if self.row.state != RunState.PLANNING:
            return
        tasks = tasks_of(e)
        if not tasks or self._task(tasks[0].task_id) is not None:
            return  # a duplicate
        for index, plan in enumerate(tasks, e.first):
            self._set(task_rows.planned(self.row, index, plan, e.assets[plan.asset]))
        self._update(tasks_planned=self.row.tasks_planned + len(tasks))
        if self.row.tasks_planned >= self.row.tasks_total:
            self._activate()

    def _activate(self) -> None:
        """All tasks are planned: create edges, and make tasks without upstream tasks ready."""
        earlier = self._rows.scan(TASKS, self.row.run_id)
        tasks = sorted([*earlier, *self._tasks.values()], key=lambda task: task.index)
        downstream: list[list[str]] = [[] for _ in tasks]
        for task in tasks:
            for upstream in task.upstream:
                downstream[upstream].append(task.task_id)
        namespaces = sorted({task.asset_key.partition(".")[0] for task in tasks})
        self._move_run(
            RunCause.PLAN_COMPLETE,
            started_at=self._now,
            namespaces=namespaces if len(namespaces) <= RUN_NAMESPACES else None,
        )
        for task, below in zip(tasks, downstream, strict=True):
            cause = TaskCause.HAS_UPSTREAMS if task.upstream else TaskCause.HAS_NO_UPSTREAMS
            self._set(replace(task, downstream=below, upstream=[]))
            if not task.materialization_id:
                self._move(task.task_id, cause)
        for task in tasks:
            if task.materialization_id:
                self._end(self._task_row(task.task_id), TaskCause.UP_TO_DATE)

    # -- what happens to attempts --------------------------------------------------------

    def admitted(self, e: TaskAdmitted) -> None:
        """The task is admitted, and enqueued next; if that fails, anti-entropy enqueues it."""
        task = self._active(e.task_id, e.attempt_id)
        if task is not None and task.state == TaskState.READY:
            self._dispatched(task, 0)

    def enqueued(self, e: DispatchEnqueued) -> None:
        task = self._active(e.task_id, e.attempt_id)
        if task is not None:
            self._dispatched(task, e.redelivery)

    def _dispatched(self, task: TaskRow, redelivery: int) -> None:
        state = states.after(task.state, TaskCause.ENQUEUED)
        assert state is not None
        again = redelivery > task.redelivery
        at = self._now if again or task.dispatched_at is None else task.dispatched_at
        redelivery = max(task.redelivery, redelivery)
        sent = replace(task, state=state, dispatched_at=at, redelivery=redelivery)
        self._set(sent)
        if task.timeout_s and state == TaskState.DISPATCHED:
            self._unwatch(task)
            self.schedule(TimerKind.TASK_TIMEOUT, task.task_id, task.attempt, _unstarted(sent, at))

    def started(self, e: TaskStarted) -> None:
        task = self._active(e.task_id, e.attempt_id)
        if task is None:
            return
        if task.state == TaskState.RUNNING and task.worker_id == e.worker_id:
            return
        # Delivered again: the last worker is watched, from now on.
        self._unwatch(task)
        now, state = self._now, states.after(task.state, TaskCause.STARTED)
        assert state is not None
        self._set(replace(task, state=state, started_at=now, worker_id=e.worker_id))
        if task.timeout_s:
            due = _overdue(task, now)
            self.schedule(TimerKind.TASK_TIMEOUT, task.task_id, task.attempt, due)

    def finished(self, e: TaskFinished) -> None:
        result = whole(e)
        row = self._task(result.task_id)
        if row is None:
            return
        self._emitted.extend(derived.cost(row, result))
        task = self._active(result.task_id, result.attempt_id)
        if task is None:
            self._too_late(result)
            return
        self._emitted.extend(derived.checks(task, result))
        task = task_rows.with_usage(task, result)
        cancelling = self.row.state == RunState.CANCELLING
        if result.outcome != "cancelled" and not cancelling:
            self._emitted.extend(derived.contract(task, result))
        if result.outcome == "succeeded" and result.materialization is not None and not cancelling:
            self._record_output(task_rows.with_output(task, result), result, result.materialization)
        elif result.outcome != "cancelled" and not cancelling:
            self._output_failed(task, result)
        else:
            if result.materialization is not None:
                self._reject(result.materialization, "its run was cancelled before it finished")
            self._end(task_rows.with_error(task, result.error), TaskCause.ATTEMPT_CANCELLED)

    def _record_output(self, task: TaskRow, result: TaskResult, output: Materialization) -> None:
        """An output, and what the checks say about it."""
        match result.gate:
            case "continue" | "warn" | "fail_task" | "fail_run":
                self._accept(task, result, output)
            case "quarantine" | "block":
                self._output_held(task, result, output)
            case _:
                assert_never(result.gate)

    def _accept(self, task: TaskRow, result: TaskResult, output: Materialization) -> None:
        warnings = sum(check.action == "warn" for check in result.checks)
        self._end(task, TaskCause.SUCCEEDED)
        self._emitted.append(OutputAccepted(materialization=output, warnings=warnings))
        self._emitted.extend(derived.lineage(task, result, output))

    def _output_held(self, task: TaskRow, result: TaskResult, output: Materialization) -> None:
        instead = result.instead if result.gate == "quarantine" else None
        held = replace(
            task,
            gate=result.gate,
            materialization_id="" if instead is None else instead.materialization_id,
            path="" if instead is None else instead.path,
            rows=0 if instead is None else instead.rows,
            bytes=0 if instead is None else instead.bytes,
            error_code="checks.held",
            error_message=derived.why(result),
            error_hint="see `servo quarantine list`, and approve or reject it",
        )
        self._update(tasks_held=self.row.tasks_held + 1)
        self._hold(task, output, result)
        self._end(held, TaskCause.SUCCEEDED)

    def _output_failed(self, task: TaskRow, result: TaskResult) -> None:
        if result.materialization is not None:
            self._hold(task, result.materialization, result)
        self._failed(task, result.error or _UNEXPLAINED)
        if result.gate == "fail_run" and self._task_row(task.task_id).state == TaskState.FAILED:
            self._update(failed_by=task.task_id)
            if self.row.finished_at is None:  # it may have been the last one
                reason = f"{task.asset_key}: {derived.why(result)}"
                self.cancel(reason, cause=RunCause.STOPPED_BY_CHECKS)

    def _hold(self, task: TaskRow, output: Materialization, result: TaskResult) -> None:
        is_quarantined = result.gate == "quarantine"
        status = HoldStatus.QUARANTINED if is_quarantined else HoldStatus.BLOCKED
        self._emitted.append(
            OutputHeld(materialization=output, status=status, reason=derived.why(result))
        )
        self._emitted.extend(derived.lineage(task, result, output, held=True))

    def _too_late(self, result: TaskResult) -> None:
        task, output = self._task(result.task_id), result.materialization
        if task is None or output is None or output.materialization_id == task.materialization_id:
            return
        if task.state == TaskState.CANCELLED:
            self._reject(output, "its task was cancelled before it finished")
        else:
            self._reject(output, f"attempt {result.attempt} was not the active one any more")

    def _reject(self, output: Materialization, reason: str) -> None:
        self._emitted.append(OutputRejected(materialization=output, reason=reason))

    def lost(self, e: AttemptLost) -> None:
        task = self._active(e.task_id, e.attempt_id)
        if task is None:
            return
        error = ErrorInfo(
            category="infrastructure",
            code="infrastructure.worker_lost",
            message=e.reason,
            hint="see the worker's own log; it was killed, or could not reach the store",
            retriable=True,
        )
        self._give_up(task, error)

    def _failed(self, task: TaskRow, error: ErrorInfo) -> None:
        task = task_rows.with_error(task, error)
        if not task_rows.will_retry(task, error):
            self._emitted.append(
                OutputMissed(
                    asset_id=task.asset_id,
                    partition=task.partition_key,
                    run_id=self.row.run_id,
                    error=replace(error, traceback=""),
                )
            )
            self._end(task, TaskCause.FAILED_FOR_GOOD)
            return
        state = states.after(task.state, TaskCause.TO_BE_RETRIED)
        assert state is not None
        due = self._now + timedelta(seconds=task_rows.retry_delay_s(task))
        self._close(task)
        self._set(replace(task, state=state, retry_not_before=due))
        self._update(retries=self.row.retries + 1)
        self.schedule(TimerKind.RETRY, task.task_id, task.attempt, due)

    # -- timers, and cancelling ----------------------------------------------------------

    def fired(self, e: TimerFired) -> None:
        timer_id = e.timer_id
        timer = self._rows.get(TIMERS, self.row.run_id, timer_id)
        if timer is None or timer.state != TimerState.SCHEDULED:
            return
        self._timers[timer_id] = replace(timer, state=TimerState.FIRED, ended_at=self._now)
        task = self._task(timer.task_id) if timer.task_id else None
        if task is not None and task.attempt != timer.attempt:
            task = None
        match timer.kind:
            case TimerKind.RUN_TIMEOUT:
                self._time_out_run()
            case TimerKind.RETRY:
                if task is not None and task.state == TaskState.RETRY_WAIT:
                    self._retry(task)
            case TimerKind.TASK_TIMEOUT:
                if task is not None and task.state in states.ACTIVE_ATTEMPT:
                    self._time_out(task)
            case _:
                assert_never(timer.kind)

    def _time_out_run(self) -> None:
        if self.row.state in (RunState.PLANNING, RunState.RUNNING):
            self._update(timed_out=True)
            reason = f"the run took more than {self.row.timeout_s} s"
            if self.row.timeout_limit:
                reason += f", the {self.row.timeout_limit} of the workspace"
            self.cancel(reason, cause=RunCause.TIMED_OUT)

    def _retry(self, task: TaskRow) -> None:
        if self.row.state == RunState.CANCELLING:
            self._end(task, TaskCause.RUN_CANCELLED)
        else:
            self._move(task.task_id, TaskCause.RETRY_DUE)

    def _time_out(self, task: TaskRow) -> None:
        error = _TOO_LATE if task.state == TaskState.RUNNING else _NOT_STARTED
        error = replace(error, message=error.message.format(task.timeout_s))
        self._give_up(task, error)

    def _give_up(self, task: TaskRow, error: ErrorInfo) -> None:
        if self.row.state == RunState.CANCELLING:
            self._end(task_rows.with_error(task, error), TaskCause.ATTEMPT_CANCELLED)
        else:
            self._failed(task, error)

    def cancel(
        self, reason: str, *, cause: RunCause = RunCause.CANCELLED, force: bool = False
    ) -> None:
        """End all tasks that no worker has, within this fact."""
        self.begin_cancel(reason, cause=cause)
        ids = [task.task_id for task in self._rows.scan(TASKS, self.row.run_id)]
        self.end_tasks(ids, force=force)

    def begin_cancel(
        self,
        reason: str,
        *,
        cause: RunCause = RunCause.CANCELLED,
        by: str = "",
        force: bool = False,
    ) -> None:
        """From here on no task starts, and no result counts. Changes only the run's row."""
        if self.row.state == RunState.PLANNING:
            # Tasks that are still to come are ignored: their run is not planning any more.
            missing = self.row.tasks_total - self.row.tasks_planned
            self._update(tasks_cancelled=missing)
        if self.row.cancel_requested_at is None:
            self._update(cancel_requested_at=self._now, cancel_reason=reason, cancelled_by=by)
        self._move_run(cause, cancel_forced=self.row.cancel_forced or force)
        self.complete()

    def cancelled(self, e: TasksCancelled) -> None:
        self.end_tasks(e.task_ids, force=e.force)

    def end_tasks(self, task_ids: Iterable[str], *, force: bool) -> None:
        """End tasks of a run that is being cancelled; those in flight only by force."""
        if self.row.state != RunState.CANCELLING:
            return
        for task_id in task_ids:
            task = self._task(task_id)
            if task is None or task.state in states.TERMINAL:
                continue
            if task.state not in states.IN_FLIGHT:
                self._end(task, TaskCause.RUN_CANCELLED)
            elif force:
                self._end(task, TaskCause.ATTEMPT_CANCELLED)

    # -- moving tasks --------------------------------------------------------------------

    def _move(self, task_id: str, cause: TaskCause) -> None:
        """Take a task to a state that is not terminal, if the table has that transition."""
        task = self._task_row(task_id)
        state = states.after(task.state, cause)
        if state is None:
            return
        if state != TaskState.READY:
            self._set(replace(task, state=state))
            return
        number = task.attempt + 1
        task = replace(
            task,
            state=state,
            attempt=number,
            attempt_id=attempt_id(self.row.run_id, task_id, number),
            ready_at=self._now,
            dispatched_at=None,
            started_at=None,
            retry_not_before=None,
            redelivery=0,
            worker_id="",
        )
        self._set(task)

    def _end(self, task: TaskRow, cause: TaskCause) -> None:
        """Move a task to a terminal state, with the consequences for downstream tasks."""
        self._set(task)
        ending = [(task.task_id, cause)]
        skipped: dict[str, None] = {}
        while ending:
            id, cause = ending.pop()
            row = self._task(id)  # as it is by now: two upstreams may end it
            state = None if row is None else states.after(row.state, cause)
            if row is None or state is None:
                continue  # it has ended; in a long run its row may be in history
            task = row
            self._close(task)
            self._set(replace(task, state=state, finished_at=self._now))
            counter = _COUNTER[state]
            self._update(**{counter: getattr(self.row, counter) + 1})
            if state == TaskState.SKIPPED:
                skipped[task.asset_id] = None
            held = task.gate in HELD_GATES and not task.materialization_id
            below = TaskCause.UPSTREAM_HELD if held else _DOWNSTREAM[state]
            ending.extend(self._resolve(task, below))
        self._emitted += [
            derived.AssetSkipped(asset_id=id, run_id=self.row.run_id) for id in skipped
        ]
        self.complete()

    def _resolve(self, task: TaskRow, cause: TaskCause) -> Iterable[tuple[str, TaskCause]]:
        """Resolve the edges of an ended task. Returns the downstream tasks that end with it."""
        for id in task.downstream:
            if cause != TaskCause.UPSTREAMS_GOOD:
                yield id, cause
                continue
            downstream = self._task(id)
            if downstream is None:
                continue  # it was skipped long ago, and its row is in history
            downstream = replace(downstream, deps_satisfied=downstream.deps_satisfied + 1)
            self._set(downstream)
            if downstream.deps_satisfied == downstream.deps_total:
                self._move(id, cause)

    def complete(self) -> None:
        """End the run if all of its tasks have ended."""
        row = self.row
        if row.tasks_done < row.tasks_total or row.finished_at is not None:
            return
        self._move_run(self._ending(), finished_at=self._now)
        self._emitted.append(derived.run_ended(self.row))
        if row.timeout_s:
            due = row.created_at + timedelta(seconds=row.timeout_s)
            self._unschedule(TimerKind.RUN_TIMEOUT, "run", 1, due)

    def _ending(self) -> RunCause:
        row = self.row
        if row.timed_out:
            return RunCause.ENDED_AFTER_TIMEOUT
        if row.failed_by:
            return RunCause.ENDED_AFTER_CHECKS
        if row.cancel_requested_at is not None:
            return RunCause.ENDED_AFTER_CANCEL
        if row.tasks_failed:
            return RunCause.TASK_FAILED
        return RunCause.TASK_CANCELLED if row.tasks_cancelled else RunCause.ALL_GOOD

    def _move_run(self, cause: RunCause, **fields: object) -> None:
        state = states.run_after(self.row.state, cause)
        assert state is not None, f"run {self.row.run_id} is {self.row.state}: {cause}"
        self._update(state=state, **fields)

    # -- timers beside the tasks ----------------------------------------------------------

    def schedule(self, kind: TimerKind, task_id: str, attempt: int, due: datetime) -> None:
        id = timer_key(kind, self.row.run_id, task_id, attempt, _epoch_s(due))
        self._timers[id] = TimerRow(
            run_id=self.row.run_id,
            timer_id=id,
            kind=kind,
            task_id="" if kind == TimerKind.RUN_TIMEOUT else task_id,
            attempt=attempt,
            fire_at=due,
            state=TimerState.SCHEDULED,
            ended_at=None,
        )

    def _unschedule(self, kind: TimerKind, task_id: str, attempt: int, due: datetime) -> None:
        id = timer_key(kind, self.row.run_id, task_id, attempt, _epoch_s(due))
        timer = self._timers.get(id) or self._rows.get(TIMERS, self.row.run_id, id)
        if timer is not None and timer.state == TimerState.SCHEDULED:
            self._timers[id] = replace(timer, state=TimerState.CANCELLED, ended_at=self._now)

    def _close(self, task: TaskRow) -> None:
        """An attempt is over: remove its timers."""
        if task.attempt == 0:
            return
        if task.state == TaskState.RETRY_WAIT and task.retry_not_before is not None:
            self._unschedule(TimerKind.RETRY, task.task_id, task.attempt, task.retry_not_before)
            return
        self._unwatch(task)

    def _unwatch(self, task: TaskRow) -> None:
        if not task.timeout_s:
            return
        if task.started_at is not None:
            due = _overdue(task, task.started_at)
        elif task.dispatched_at is not None:
            due = _unstarted(task, task.dispatched_at)
        else:
            return
        self._unschedule(TimerKind.TASK_TIMEOUT, task.task_id, task.attempt, due)

    # -- rows ----------------------------------------------------------------------------

    def _task(self, task_id: str) -> TaskRow | None:
        task = self._tasks.get(task_id)
        return task or self._rows.get(TASKS, self.row.run_id, task_id)

    def _task_row(self, task_id: str) -> TaskRow:
        task = self._task(task_id)
        assert task is not None, f"run {self.row.run_id} has no task {task_id}"
        return task

    def _active(self, task_id: str, attempt: str) -> TaskRow | None:
        """The task, if this is its active attempt."""
        task = self._task(task_id)
        if task is None or task.attempt_id != attempt or task.state not in states.ACTIVE_ATTEMPT:
            return None
        return task

    def _set(self, task: TaskRow) -> None:
        self._tasks[task.task_id] = task

    def _update(self, **fields: object) -> None:
        self.row = replace(self.row, **fields)
        self.changed = True


_UNEXPLAINED = ErrorInfo(
    category="infrastructure",
    code="infrastructure.unexplained",
    message="failed without an error message",
)


_TOO_LATE = ErrorInfo(
    category="timeout",
    code="timeout.task",
    message=f"no result {TIMEOUT_GRACE_S} s after its time-out of {{}} s",
    hint="raise `timeout=`, or reduce the work of one task",
    retriable=True,
)
_NOT_STARTED = ErrorInfo(
    category="timeout",
    code="timeout.dispatch",
    message=f"no worker has started it within {DISPATCH_S // 3600} h of its dispatch",
    hint="start more workers, or look at the workers' own logs",
    retriable=True,
)


def _unstarted(task: TaskRow, dispatched: datetime) -> datetime:
    return _overdue(task, dispatched + timedelta(seconds=DISPATCH_S))


def _overdue(task: TaskRow, started: datetime) -> datetime:
    return started + timedelta(seconds=task.timeout_s + TIMEOUT_GRACE_S)


def _epoch_s(time: datetime) -> int:
    return int((time - EPOCH).total_seconds())


# -- the stage ----------------------------------------------------------------------------


def _on(
    payload: type[P], key: Callable[[Fact, P], str], change: Callable[[_Run, P], None]
) -> On[P]:
    """A handler of events about an existing run; those about others change nothing."""

    def fold(rows: Rows, fact: Fact, e: P) -> Iterator[Change]:
        row = rows.get(RUNS, key(fact, e))
        if row is not None:
            run = _Run(rows, fact, row)
            change(run, e)
            yield from run.changes()

    return On(payload, key, fold)


_by_run = by("run_id")
RUNS_STAGE = Stage(
    "runs",
    (RUNS, TASKS, TIMERS),
    (
        On(RunAdmitted, _by_run, _admit),
        On(RunCancelRequested, _by_run, _cancel),
        _on(TasksPlanned, _by_run, _Run.planned),
        _on(TaskAdmitted, _by_run, _Run.admitted),
        _on(DispatchEnqueued, _by_run, _Run.enqueued),
        _on(TaskStarted, _by_run, _Run.started),
        _on(TaskFinished, by("result.run_id"), _Run.finished),
        _on(AttemptLost, _by_run, _Run.lost),
        _on(TimerFired, _by_run, _Run.fired),
        _on(TasksCancelled, _by_run, _Run.cancelled),
    ),
)
