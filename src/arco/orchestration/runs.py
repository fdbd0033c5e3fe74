"""The fold of one run: its tasks, edges, timers and dispatches.

A fact is folded over a `_Run`, which shows the rows of the run with the changes that
this very fact has made so far, and hands them all over at the end. One report may
set off a cascade (a failure skips everything below it), and the cascade is finished
within the fact: no state between is ever seen.

Readiness is per edge. An edge is resolved once, whoever says it again; a task is
ready when as many of its edges succeeded as it has. What has no edge to an upstream
that failed goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from arco.execution.events import (
    Held,
    OutputAccepted,
    OutputHeld,
    OutputMissed,
    OutputRejected,
)
from arco.log.envelope import Payload
from arco.orchestration import derived, retry, states, task_rows
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
from arco.orchestration.results import whole
from arco.orchestration.tables import (
    DEP_SATISFACTION,
    DISPATCH_OUTBOX,
    RUNS,
    TASKS,
    TIMERS,
    DepSatisfactionRow,
    DispatchRow,
    RunRow,
    TaskRow,
    TimerRow,
)
from arco.state.fold import Change, Emit, Fact, Put, Rows
from arco.state.system import applied, refused
from arco.state.table import EPOCH
from servo.contract.identity import attempt_id, dispatch_key, dispatch_name, timer_key, timer_name
from servo.contract.task import ErrorInfo, Materialization, TaskResult

replace = msgspec.structs.replace

TIMEOUT_GRACE_S = 30
"""A worker ends its own task at the time-out; a timer does it this much later, if not."""

_RESOLUTION = {
    states.SUCCEEDED: "SUCCESS",
    states.REUSED: "SUCCESS",
    states.FAILED: "FAILED",
    states.SKIPPED: "SKIPPED",
    states.CANCELLED: "CANCELLED",
}
_CAUSE = {
    "FAILED": "an upstream failed",
    "SKIPPED": "an upstream failed",
    "CANCELLED": "an upstream was cancelled",
    "HELD": "an upstream's output is held back",
}
_COUNTER = {
    states.SUCCEEDED: "tasks_succeeded",
    states.REUSED: "tasks_reused",
    states.FAILED: "tasks_failed",
    states.SKIPPED: "tasks_skipped",
    states.CANCELLED: "tasks_cancelled",
}
_HELD = ("quarantine", "block")
_DISPATCH_ORDER = ("PENDING", "CREATED", "ACKED", "ENDED")


class RunAdmitted(RunTriggered, frozen=True, kw_only=True):
    """Derived: its run key was free."""

    TYPE = "orchestration.run_admitted"
    COMMAND = False


def fold_run(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case RunAdmitted() as e:
            yield from _admit(rows, fact, e)
        case RunCancelRequested() as e:
            yield from _cancel(rows, fact, e)
        case TasksPlanned(run_id=id) | DispatchEnqueued(run_id=id) | TaskStarted(run_id=id):
            yield from _fold_active(rows, fact, id)
        case TimerFired(run_id=id) | AttemptLost(run_id=id) | TasksCancelled(run_id=id):
            yield from _fold_active(rows, fact, id)
        case TaskFinished(result=result):
            yield from _fold_active(rows, fact, result.run_id)


def _fold_active(rows: Rows, fact: Fact, run_id: str) -> Iterator[Change]:
    row = rows.get(RUNS, run_id)
    if row is None:
        return
    run = _Run(rows, fact, row)
    match fact.payload:
        case TasksPlanned() as e:
            run.plan(e)
        case DispatchEnqueued() as e:
            run.enqueued(e)
        case TaskStarted() as e:
            run.started(e)
        case TaskFinished() as e:
            run.finished(whole(e))
        case AttemptLost() as e:
            run.lost(e)
        case TimerFired() as e:
            run.fire(e.timer_id)
        case TasksCancelled() as e:
            run.end_tasks(e.task_ids, force=e.force)
    yield from run.changes()


def _admit(rows: Rows, fact: Fact, e: RunAdmitted) -> Iterator[Change]:
    if rows.get(RUNS, e.run_id) is not None:
        return
    now = fact.received_at
    row = RunRow(
        run_id=e.run_id,
        plan_id=e.plan_id,
        plan_fingerprint=e.plan_fingerprint,
        deployment_id=e.deployment_id,
        run_key=e.run_key,
        state=states.RUN_PLANNING,
        trigger=e.trigger,
        triggered_by=e.triggered_by or fact.actor,
        selection=list(e.selection),
        partitions=list(e.partitions),
        priority=e.priority,
        tasks_total=e.tasks_total,
        tasks_planned=0,
        tasks_succeeded=0,
        tasks_reused=0,
        tasks_failed=0,
        tasks_skipped=0,
        tasks_cancelled=0,
        retries=0,
        timeout_s=e.timeout_s,
        timed_out=False,
        retry_of=e.retry_of,
        created_at=now,
        started_at=None,
        cancel_requested_at=None,
        cancel_reason="",
        finished_at=None,
        pool=e.pool,
    )
    run = _Run(rows, fact, row)
    run.changed = True
    if e.timeout_s:
        run.schedule("run_timeout", "run", 1, now + timedelta(seconds=e.timeout_s))
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
        self._edges: dict[tuple[str, str], DepSatisfactionRow] = {}
        self._timers: dict[str, TimerRow] = {}
        self._dispatches: dict[str, DispatchRow] = {}
        self._emitted: list[Payload] = []

    def changes(self) -> Iterator[Change]:
        if self.changed:
            yield Put(RUNS, self.row)
        for task in self._tasks.values():
            yield Put(TASKS, task)
        for edge in self._edges.values():
            yield Put(DEP_SATISFACTION, edge)
        for timer in self._timers.values():
            yield Put(TIMERS, timer)
        for dispatch in self._dispatches.values():
            yield Put(DISPATCH_OUTBOX, dispatch)
        for payload in self._emitted:
            yield Emit(payload)

    # -- planning ------------------------------------------------------------------------

    def plan(self, e: TasksPlanned) -> None:
        if self.row.state != states.RUN_PLANNING or not e.tasks:
            return
        if self._task(e.tasks[0].task_id) is not None:
            return  # these are there already
        for index, plan in enumerate(e.tasks, e.first):
            self._set(task_rows.planned(self.row, index, plan, e.assets[plan.asset]))
        self._update(tasks_planned=self.row.tasks_planned + len(e.tasks))
        if self.row.tasks_planned >= self.row.tasks_total:
            self._activate()

    def _activate(self) -> None:
        """All tasks are there: give each its edges, and let those go that wait for nothing."""
        earlier = self._rows.scan(TASKS, self.row.run_id)
        tasks = sorted([*earlier, *self._tasks.values()], key=lambda task: task.index)
        downstream: list[list[str]] = [[] for _ in tasks]
        for task in tasks:
            for upstream in task.upstream:
                downstream[upstream].append(task.task_id)
        self._update(state=states.RUN_RUNNING, started_at=self._now)
        for task, below in zip(tasks, downstream, strict=True):
            cause = "depends on others" if task.upstream else "depends on nothing"
            self._set(replace(task, downstream=below, upstream=[]))
            if not task.materialization_id:
                self._move(task.task_id, cause)
        for task in tasks:
            if task.materialization_id:
                self._end(self._known(task.task_id), "is up to date")

    # -- what happens to attempts --------------------------------------------------------

    def enqueued(self, e: DispatchEnqueued) -> None:
        task = self._active(e.task_id, e.attempt_id)
        if task is None:
            return
        state = states.after(task.state, "enqueued") or task.state  # it may have started before
        again = e.redelivery > task.redelivery
        at = self._now if again or task.dispatched_at is None else task.dispatched_at
        redelivery = max(task.redelivery, e.redelivery)
        self._set(replace(task, state=state, dispatched_at=at, redelivery=redelivery))
        self._dispatch(task, "CREATED", redelivery)

    def started(self, e: TaskStarted) -> None:
        task = self._active(e.task_id, e.attempt_id)
        if task is None:
            return
        if task.state == states.RUNNING:
            if task.worker_id == e.worker_id:
                return
            # Delivered again: whoever took it last is the one to watch, and begins anew.
            self._unwatch(task)
        now = self._now
        self._set(
            replace(task, state=states.RUNNING, started_at=now, worker_id=e.worker_id),
        )
        self._dispatch(task, "ACKED", task.redelivery)
        if task.timeout_s:
            self.schedule("task_timeout", task.task_id, task.attempt, _overdue(task, now))

    def finished(self, result: TaskResult) -> None:
        known = self._task(result.task_id)
        if known is None:
            return
        self._emitted.extend(derived.cost(known, result))
        task = self._active(result.task_id, result.attempt_id)
        if task is None:
            self._too_late(result)
            return
        self._emitted.extend(derived.checks(task, result))
        task = task_rows.with_usage(task, result)
        cancelling = self.row.state == states.RUN_CANCELLING
        if result.outcome == "succeeded" and result.materialization is not None and not cancelling:
            self._made(task_rows.with_output(task, result), result, result.materialization)
        elif result.outcome != "cancelled" and not cancelling:
            self._not_made(task, result)
        else:
            if result.materialization is not None:
                self._reject(result.materialization, "its run was cancelled before it finished")
            self._end(task_rows.with_error(task, result.error), "attempt cancelled")

    def _made(self, task: TaskRow, result: TaskResult, made: Materialization) -> None:
        """An output, and what the checks say about it."""
        if result.gate not in ("quarantine", "block"):
            warnings = sum(check.action == "warn" for check in result.checks)
            self._end(task, "succeeded")
            self._emitted.append(OutputAccepted(materialization=made, warnings=warnings))
            self._emitted.extend(derived.lineage(task, result, made))
            return
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
        self._hold(task, made, result)
        self._end(held, "succeeded")

    def _not_made(self, task: TaskRow, result: TaskResult) -> None:
        if result.materialization is not None:
            self._hold(task, result.materialization, result)
        self._failed(task, result.error or _UNEXPLAINED)
        if result.gate == "fail_run" and self._known(task.task_id).state == states.FAILED:
            self._update(failed_by=task.task_id)
            if self.row.finished_at is None:  # it may have been the last one
                self.cancel(f"{task.asset_key}: {derived.why(result)}")

    def _hold(self, task: TaskRow, made: Materialization, result: TaskResult) -> None:
        status: Held = "QUARANTINED" if result.gate == "quarantine" else "BLOCKED"
        self._emitted.append(
            OutputHeld(materialization=made, status=status, reason=derived.why(result))
        )
        self._emitted.extend(derived.lineage(task, result, made, held=True))

    def _too_late(self, result: TaskResult) -> None:
        task, made = self._task(result.task_id), result.materialization
        if task is None or made is None or made.materialization_id == task.materialization_id:
            return
        if task.state == states.CANCELLED:
            self._reject(made, "its task was cancelled before it finished")
        else:
            self._reject(made, f"attempt {result.attempt} was not the active one any more")

    def _reject(self, made: Materialization, reason: str) -> None:
        self._emitted.append(OutputRejected(materialization=made, reason=reason))

    def lost(self, e: AttemptLost) -> None:
        task = self._active(e.task_id, e.attempt_id)
        if task is None:
            return
        error = ErrorInfo(
            category="infrastructure",
            code="infrastructure.worker_lost",
            message=e.reason,
            hint="look at the worker's own log: it was killed, or lost its store",
            retriable=True,
        )
        if self.row.state == states.RUN_CANCELLING:
            self._end(task_rows.with_error(task, error), "attempt cancelled")
        else:
            self._failed(task, error)

    def _failed(self, task: TaskRow, error: ErrorInfo) -> None:
        task = task_rows.with_error(task, error)
        if not retry.will_retry(task, error):
            self._emitted.append(
                OutputMissed(
                    asset_id=task.asset_id,
                    partition=task.partition_key,
                    run_id=self.row.run_id,
                    error=replace(error, traceback=""),
                )
            )
            self._end(task, "failed for good")
            return
        state = states.after(task.state, "failed, to be retried")
        assert state is not None
        due = self._now + timedelta(seconds=retry.retry_delay_s(task))
        self._close(task)
        self._set(replace(task, state=state, retry_not_before=due))
        self._update(retries=self.row.retries + 1)
        self.schedule("retry", task.task_id, task.attempt, due)

    # -- timers, and cancelling ----------------------------------------------------------

    def fire(self, timer_id: str) -> None:
        timer = self._rows.get(TIMERS, self.row.run_id, timer_id)
        if timer is None or timer.state != "SCHEDULED":
            return
        self._timers[timer_id] = replace(timer, state="FIRED", ended_at=self._now)
        if timer.kind == "run_timeout":
            if self.row.state in (states.RUN_PLANNING, states.RUN_RUNNING):
                self._update(timed_out=True)
                self.cancel(f"the run took more than {self.row.timeout_s} s")
            return
        task = self._task(timer.task_id)
        if task is None or task.attempt != timer.attempt:
            return
        if timer.kind == "retry" and task.state == states.RETRY_WAIT:
            if self.row.state == states.RUN_CANCELLING:
                self._end(task, "run cancelled")
            else:
                self._move(task.task_id, "retry is due")
        elif timer.kind == "task_timeout" and task.state in states.ACTIVE_ATTEMPT:
            self._time_out(task)

    def _time_out(self, task: TaskRow) -> None:
        error = ErrorInfo(
            category="timeout",
            code="timeout.task",
            message=f"no result {TIMEOUT_GRACE_S} s after its time-out of {task.timeout_s} s",
            hint="raise `timeout=`, or make the asset do less at once",
            retriable=True,
        )
        if self.row.state == states.RUN_CANCELLING:
            self._end(task_rows.with_error(task, error), "attempt cancelled")
        else:
            self._failed(task, error)

    def cancel(self, reason: str, *, force: bool = False) -> None:
        """End all tasks that nobody works on, within this fact."""
        self.begin_cancel(reason)
        ids = [task.task_id for task in self._rows.scan(TASKS, self.row.run_id)]
        self.end_tasks(ids, force=force)

    def begin_cancel(self, reason: str, *, by: str = "", force: bool = False) -> None:
        """From here on no task starts, and no result counts. Changes the run's row alone."""
        if self.row.state == states.RUN_PLANNING:
            # Tasks that are still to come are ignored: their run is not planning any more.
            missing = self.row.tasks_total - self.row.tasks_planned
            self._update(tasks_cancelled=missing)
        if self.row.cancel_requested_at is None:
            self._update(cancel_requested_at=self._now, cancel_reason=reason, cancelled_by=by)
        self._update(state=states.RUN_CANCELLING, cancel_forced=self.row.cancel_forced or force)
        self.complete()

    def end_tasks(self, task_ids: Iterable[str], *, force: bool) -> None:
        """End tasks of a run that is being cancelled; those in flight only by force."""
        if self.row.state != states.RUN_CANCELLING:
            return
        for task_id in task_ids:
            task = self._task(task_id)
            if task is None or task.state in states.TERMINAL:
                continue
            if task.state not in states.IN_FLIGHT:
                self._end(task, "run cancelled")
            elif force:
                self._end(task, "attempt cancelled")

    # -- moving tasks --------------------------------------------------------------------

    def _move(self, task_id: str, cause: str) -> None:
        """Take a task to a state that is not terminal, if the table has that road."""
        task = self._known(task_id)
        state = states.after(task.state, cause)
        if state is None:
            return
        if state != states.READY:
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
        self._dispatch(task, "PENDING", 0)

    def _end(self, task: TaskRow, cause: str) -> None:
        """Take a task to a terminal state, and everything below it where that leads."""
        self._set(task)
        ending = [(task.task_id, cause)]
        while ending:
            id, cause = ending.pop()
            found = self._task(id)  # as it is by now: two upstreams may end it
            state = None if found is None else states.after(found.state, cause)
            if found is None or state is None:
                continue  # it has ended; in a long run its row may even have left
            task = found
            self._close(task)
            self._set(replace(task, state=state, finished_at=self._now))
            counter = _COUNTER[state]
            self._update(**{counter: getattr(self.row, counter) + 1})
            held = task.gate in _HELD and not task.materialization_id
            ending.extend(self._resolve(task, "HELD" if held else _RESOLUTION[state]))
        self.complete()

    def _resolve(self, task: TaskRow, resolution: str) -> Iterable[tuple[str, str]]:
        """Settle the edges of a task that has ended; the tasks below that end with it."""
        for id in task.downstream:
            if not self._settle(task, id, resolution):
                continue
            if resolution != "SUCCESS":
                yield id, _CAUSE[resolution]
                continue
            below = self._task(id)
            if below is None:
                continue  # it was skipped so long ago that its row has left
            below = replace(below, deps_satisfied=below.deps_satisfied + 1)
            self._set(below)
            if below.deps_satisfied == below.deps_total:
                self._move(id, "all upstreams are good")

    def _settle(self, task: TaskRow, downstream: str, resolution: str) -> bool:
        """Whether an edge was open until now."""
        edge = (task.task_id, downstream)
        if edge in self._edges:
            return False
        if self._rows.get(DEP_SATISFACTION, self.row.run_id, *edge) is not None:
            return False
        self._edges[edge] = DepSatisfactionRow(
            self.row.run_id, *edge, resolution, resolution == "SUCCESS", task.attempt, self._now
        )
        return True

    def complete(self) -> None:
        row = self.row
        if row.tasks_done < row.tasks_total or row.finished_at is not None:
            return
        if row.timed_out:
            state = states.RUN_TIMED_OUT
        elif row.failed_by:
            state = states.RUN_FAILED
        elif row.cancel_requested_at is not None:
            state = states.RUN_CANCELLED
        elif row.tasks_failed:
            state = states.RUN_FAILED
        elif row.tasks_cancelled:
            state = states.RUN_CANCELLED
        else:
            state = states.RUN_SUCCEEDED
        self._update(state=state, finished_at=self._now)
        if row.timeout_s:
            due = row.created_at + timedelta(seconds=row.timeout_s)
            self._unschedule("run_timeout", "run", 1, due)

    # -- timers and dispatches beside the tasks ------------------------------------------

    def schedule(self, kind: str, task_id: str, attempt: int, due: datetime) -> None:
        parts = (kind, self.row.run_id, task_id, attempt, _epoch_s(due))
        id = timer_key(*parts)
        self._timers[id] = TimerRow(
            run_id=self.row.run_id,
            timer_id=id,
            queue_name=timer_name(*parts),
            kind=kind,
            task_id="" if kind == "run_timeout" else task_id,
            attempt=attempt,
            fire_at=due,
            state="SCHEDULED",
            ended_at=None,
        )

    def _unschedule(self, kind: str, task_id: str, attempt: int, due: datetime) -> None:
        id = timer_key(kind, self.row.run_id, task_id, attempt, _epoch_s(due))
        timer = self._timers.get(id) or self._rows.get(TIMERS, self.row.run_id, id)
        if timer is not None and timer.state == "SCHEDULED":
            self._timers[id] = replace(timer, state="CANCELLED", ended_at=self._now)

    def _dispatch(self, task: TaskRow, status: str, redelivery: int) -> None:
        id = dispatch_key(self.row.run_id, task.task_id, task.attempt)
        known = self._dispatches.get(id)
        if known is None and status != "PENDING":
            known = self._rows.get(DISPATCH_OUTBOX, self.row.run_id, id)
        if known is not None:
            if known.status == "ENDED":
                return
            status = max(known.status, status, key=_DISPATCH_ORDER.index)
            ended = self._now if status == "ENDED" else None
            name = known.queue_name
            if redelivery != known.redelivery:
                name = _queue_name(self.row.run_id, task, redelivery)
            self._dispatches[id] = replace(
                known, status=status, redelivery=redelivery, queue_name=name, ended_at=ended
            )
            return
        self._dispatches[id] = DispatchRow(
            run_id=self.row.run_id,
            dispatch_id=id,
            queue_name=_queue_name(self.row.run_id, task, redelivery),
            task_id=task.task_id,
            attempt=task.attempt,
            attempt_id=task.attempt_id,
            redelivery=redelivery,
            status=status,
            created_at=self._now,
            ended_at=self._now if status == "ENDED" else None,
        )

    def _close(self, task: TaskRow) -> None:
        """An attempt is over: nothing is to be sent or watched for it any more."""
        if task.attempt == 0:
            return
        if task.state == states.RETRY_WAIT and task.retry_not_before is not None:
            self._unschedule("retry", task.task_id, task.attempt, task.retry_not_before)
            return
        self._dispatch(task, "ENDED", task.redelivery)
        self._unwatch(task)

    def _unwatch(self, task: TaskRow) -> None:
        if task.timeout_s and task.started_at is not None:
            due = _overdue(task, task.started_at)
            self._unschedule("task_timeout", task.task_id, task.attempt, due)

    # -- rows ----------------------------------------------------------------------------

    def _task(self, task_id: str) -> TaskRow | None:
        found = self._tasks.get(task_id)
        return found or self._rows.get(TASKS, self.row.run_id, task_id)

    def _known(self, task_id: str) -> TaskRow:
        task = self._task(task_id)
        assert task is not None, f"run {self.row.run_id} has no task {task_id}"
        return task

    def _active(self, task_id: str, attempt: str) -> TaskRow | None:
        """The task, if this attempt of it is the one that may report."""
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
    category="infrastructure", code="infrastructure.unexplained", message="failed without a reason"
)


def _overdue(task: TaskRow, started: datetime) -> datetime:
    return started + timedelta(seconds=task.timeout_s + TIMEOUT_GRACE_S)


def _queue_name(run_id: str, task: TaskRow, redelivery: int) -> str:
    return dispatch_name(run_id, task.task_id, task.attempt, redelivery=redelivery)


def _epoch_s(time: datetime) -> int:
    return int((time - EPOCH).total_seconds())
