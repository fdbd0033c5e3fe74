"""What an open run waits for, computed on request.

While the store fails, that cannot be recorded. It shows in liveness records that are not rewritten,
and in messages that are not claimed. `waiting` turns these into sentences; `read_liveness`
reads what it needs.

Ages compare the store's clock, which dates records, with the reader's: clocks that differ
by seconds make these sentences come early or late, and nothing depends on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from arco.errors import Error
from arco.orchestration import states
from arco.orchestration.board import Board
from arco.orchestration.controllers.cancellation import waits
from arco.orchestration.limit_tables import (
    DeclaredLimits,
    LimitName,
    pause_text,
    scope_text,
)
from arco.orchestration.limit_usage import TaskLimit, TaskUse
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import RunRow, TaskRow
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.storage.outage import PastOutage
from arco.storage.port import Store
from arco.transport.liveness import (
    DatedRecord,
    LivenessRecord,
    OrchestratorRecord,
    orchestrator_signs,
    worker_signs,
)
from arco.transport.queues.objectstore import QueueListing, contents
from arco.transport.queues.port import Weight
from servo.contract.identity import dispatch_name

GRACE = timedelta(seconds=5)
"""Younger messages and tasks are not reported."""
HEARTBEATS = 3
"""A process that has missed this many heartbeats is silent."""
DEFAULT_HEARTBEAT_S = 5.0
LOOK_AGAIN_S = 2.0
SILENT = HEARTBEATS * timedelta(seconds=DEFAULT_HEARTBEAT_S) + GRACE
"""A process without a heartbeat for this long serves nothing."""


class Waiting(msgspec.Struct, frozen=True):
    what: str
    """orchestrator, process, worker, queue, resources, pause, run, limits, retry or cancellation"""
    text: str
    since: datetime | None = None
    tasks: int = 0


class Liveness(NamedTuple):
    """The liveness records, and the content of the queue."""

    orchestrators: Sequence[DatedRecord[OrchestratorRecord]]
    workers: Sequence[DatedRecord[LivenessRecord]]
    queue: QueueListing


class Occupied(NamedTuple):
    """The limits of the workspace, and how much of them is in use."""

    declared: DeclaredLimits = DeclaredLimits()
    use: TaskUse = TaskUse(DeclaredLimits())

    @classmethod
    def read(cls, snapshot: Snapshot) -> Occupied:
        reader = OrchestrationReader(snapshot)
        declared = reader.limits()
        tasks = reader.tasks_in_flight() if declared.has_task_limits else ()
        return cls(declared, TaskUse(declared, tasks))


def read_liveness(store: Store, run: RunRow, tasks: Sequence[TaskRow]) -> Liveness:
    """Read liveness records. The queue is listed only if a task of the run should be in it."""
    sent = not run.engine_id and any(task.state == TaskState.DISPATCHED for task in tasks)
    queue = contents(store) if sent else QueueListing({}, frozenset())
    return Liveness(orchestrator_signs(store), worker_signs(store), queue)


def older_runs(snapshot: Snapshot, run: RunRow, tasks: Sequence[TaskRow]) -> dict[str, str]:
    """By ready task: an older run for the same partition, which goes first."""
    if not any(task.state == TaskState.READY for task in tasks):
        return {}
    board = Board()
    board.load(snapshot)
    ready = [task for task in tasks if task.state == TaskState.READY]
    behind = {task.task_id: board.goes_after(task) for task in ready}
    return {task_id: older for task_id, older in behind.items() if older}


def waiting(
    run: RunRow,
    tasks: Sequence[TaskRow],
    signs: Liveness,
    now: datetime,
    occupied: Occupied = Occupied(),
    older: Mapping[str, str] | None = None,
) -> list[Waiting]:
    """Why an open run waits; empty if it does not wait, or has ended.

    `older` has the older runs that tasks wait for.
    """
    if run.state not in states.RUN_ACTIVE:
        return []
    unserved = _server(run, signs, now)
    silent = _silent_workers(tasks, signs, now)
    if run.state == RunState.CANCELLING:  # nothing of it is sent any more
        return [*unserved, *silent, *_cancelling(run, tasks, now)]
    return [
        *unserved,
        *silent,
        *held_back(tasks, occupied),
        *([] if unserved else _unsent(tasks, occupied, now, older or {})),
        *([] if run.engine_id else _unclaimed(tasks, signs, now)),
        *_retries(tasks),
    ]


def has_server(store: Store, run: RunRow, since: datetime | None) -> bool:
    """Whether a process that serves the run has had a heartbeat since then.

    Both times are the store's own.
    """
    signs = [sign.at for sign in orchestrator_signs(store) if _serves(sign.record, run)]
    if run.engine_id:
        signs += [sign.at for sign in worker_signs(store) if sign.record.worker_id == run.engine_id]
    return any(since is None or at > since for at in signs)


class ServedRuns:
    """Whether a process serves a run; cached for some seconds."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._answers: dict[str, tuple[float, bool]] = {}

    def has(self, run: RunRow) -> bool:
        now = self._core.clock.monotonic()
        read_at, answer = self._answers.get(run.run_id, (float("-inf"), False))
        if now - read_at < LOOK_AGAIN_S:
            return answer
        try:
            since = self._core.store_clock.estimate() - SILENT
            answer = has_server(self._core.store, run, since)
        except Error:  # no process counts as dead because the store fails
            return True
        self._answers[run.run_id] = now, answer
        return answer


def _serves(orchestrator: OrchestratorRecord, run: RunRow) -> bool:
    return not run.engine_id or run.run_id in orchestrator.adopted


def outages(run: RunRow, signs: Liveness) -> list[tuple[str, PastOutage]]:
    """By process: the last outage of its store, if that was during the run."""
    records = [(s.record.name, s.record.outage) for s in signs.orchestrators]
    records += [(s.record.worker_id, s.record.outage) for s in signs.workers]
    return [
        (name, outage)
        for name, outage in records
        if outage is not None and outage.ended >= run.created_at
    ]


def _is_silent(
    sign: DatedRecord[LivenessRecord] | DatedRecord[OrchestratorRecord], now: datetime
) -> bool:
    heartbeat_s = sign.record.heartbeat_s or DEFAULT_HEARTBEAT_S
    return now - sign.at > HEARTBEATS * timedelta(seconds=heartbeat_s) + GRACE


def _server(run: RunRow, signs: Liveness, now: datetime) -> list[Waiting]:
    """Why no process serves the run; empty if one does."""
    adopted = any(
        run.run_id in sign.record.adopted and not _is_silent(sign, now)
        for sign in signs.orchestrators
    )
    if now - run.created_at <= GRACE or adopted:
        return []
    if not run.engine_id:
        return _orchestrator(signs.orchestrators, now)
    own = next((sign for sign in signs.workers if sign.record.worker_id == run.engine_id), None)
    if own is not None and not _is_silent(own, now):
        return []
    silence = f"has had no heartbeat since {_time(own.at)}" if own else "has no liveness record"
    text = (
        f"its process {run.engine_id} {silence}; `servo runs resume` or an orchestrator takes over"
    )
    return [Waiting("process", text, own.at if own else None)]


def _orchestrator(signs: Sequence[DatedRecord[OrchestratorRecord]], now: datetime) -> list[Waiting]:
    if any(not _is_silent(sign, now) for sign in signs):
        return []
    if not signs:
        return [Waiting("orchestrator", "no orchestrator is running; start `servo orchestrator`")]
    last = max(sign.at for sign in signs)
    return [Waiting("orchestrator", f"no orchestrator has been running since {_time(last)}", last)]


def _silent_workers(tasks: Sequence[TaskRow], signs: Liveness, now: datetime) -> list[Waiting]:
    by_id = {sign.record.worker_id: sign for sign in signs.workers}
    running = Counter(
        task.worker_id
        for task in tasks
        if task.state == TaskState.RUNNING and _is_older(task.started_at, now)
    )
    reasons = []
    for worker, count in sorted(running.items()):
        sign = by_id.get(worker)
        if sign is not None and not _is_silent(sign, now):
            continue
        silence = (
            f"has been silent for {(now - sign.at).total_seconds():.0f} s"
            if sign
            else "has no liveness record"
        )
        text = f"worker {worker} {silence}; {_count(count)} running on it"
        reasons.append(Waiting("worker", text, sign.at if sign else None, count))
    return reasons


def _unclaimed(tasks: Sequence[TaskRow], signs: Liveness, now: datetime) -> list[Waiting]:
    """Tasks in the queue that no worker has taken."""
    sent = [
        dispatch_name(t.run_id, t.task_id, t.attempt, redelivery=t.redelivery)
        for t in tasks
        if t.state == TaskState.DISPATCHED and _is_older(t.dispatched_at, now)
    ]
    unclaimed = [n for n in sent if n in signs.queue.messages and n not in signs.queue.claimed]
    lost = [name for name in sent if name not in signs.queue.messages]
    workers = _live_workers(signs, now)
    large = [n for n in unclaimed if not _has_room_for(workers, signs.queue.messages[n])]
    reasons = []
    if large:
        weights = [signs.queue.messages[name] for name in large]
        reasons.append(Waiting("resources", _too_large(weights, workers), tasks=len(large)))
    unclaimed = [name for name in unclaimed if name not in large]
    if unclaimed:
        counts = f"{_count(len(sent))} dispatched, {len(sent) - len(unclaimed)} claimed"
        reasons.append(
            Waiting("queue", f"{counts}: {slots_text(signs, now)}", tasks=len(unclaimed))
        )
    if lost:
        text = (
            f"{_count(len(lost))} dispatched and not in the queue: an orchestrator enqueues again"
        )
        reasons.append(Waiting("queue", text, tasks=len(lost)))
    return reasons


def _live_workers(signs: Liveness, now: datetime) -> list[LivenessRecord]:
    """Workers of the queue in the store; others have queues of their own."""
    alive = [sign.record for sign in signs.workers if not _is_silent(sign, now)]
    return [record for record in alive if record.slots]


def _has_room_for(workers: Sequence[LivenessRecord], weight: Weight) -> bool:
    """Whether a worker is large enough. Nothing is known of workers without work, so an ordinary
    task is never called too large."""
    return weight == Weight() or any(
        weight.slots <= worker.slots
        and (not worker.memory_mib or weight.memory_mib <= worker.memory_mib)
        for worker in workers
    )


def _too_large(weights: Sequence[Weight], workers: Sequence[LivenessRecord]) -> str:
    slots = max(weight.slots for weight in weights)
    memory_mib = max(weight.memory_mib for weight in weights)
    needs = f"{slots} slot{'' if slots == 1 else 's'}"
    options = f"--slots {slots}"
    if memory_mib:
        needs += f" and {memory_mib:,} MiB"
        options += f" --memory-mib {memory_mib}"
    verb = "needs" if len(weights) == 1 else "need up to"
    largest_text = "no listed worker is large enough (idle workers are not listed)"
    if workers:
        largest = max(workers, key=lambda worker: (worker.slots, worker.memory_mib))
        memory = f" and {largest.memory_mib:,} MiB" if largest.memory_mib else ""
        largest_text = f"the largest busy worker has {largest.slots} slots{memory}"
    return f"{_count(len(weights))} {verb} {needs}: {largest_text}; start `servo worker {options}`"


def slots_text(signs: Liveness, now: datetime) -> str:
    """Why no worker takes the messages of the queue, by the workers' records."""
    alive = _live_workers(signs, now)
    if not alive:
        return "no worker has a liveness record; start `servo worker`"
    slots = sum(record.slots for record in alive)
    busy = sum(record.busy or len(record.attempts) for record in alive)
    if busy >= slots:
        return f"no worker with free slots ({busy} of {slots} busy)"
    return f"{slots - busy} of {slots} slots of workers are free"


def held_back(tasks: Sequence[TaskRow], occupied: Occupied) -> list[Waiting]:
    """Tasks that are ready and wait because of a pause, or for a limit."""
    ready = [task for task in tasks if task.state == TaskState.READY]
    declared, use = occupied
    if declared.is_paused and ready:
        text = f"{_count(len(ready))} ready: {pause_text(declared.control)}; see `servo resume`"
        return [Waiting("pause", text, declared.control.paused_at, len(ready))]
    reached = Counter(limit for task in ready if (limit := use.full(task)) is not None)
    return [
        Waiting("limits", f"{_count(count)} ready: {limit_text(limit, use)}", tasks=count)
        for limit, count in sorted(reached.items())
    ]


def limit_text(limit: TaskLimit, use: TaskUse) -> str:
    """A limit that is reached, with its value and its use."""
    used = use.of(limit.scope, limit.name)
    if limit.scope.startswith("pool:"):
        pool = limit.scope.removeprefix("pool:")
        if not limit.value:
            return f"the pool {pool} is closed: its size is 0"
        return f"{used:,} of {limit.value:,} slots of pool {pool} are in use"
    what = "queued" if limit.name == LimitName.QUEUED_TASKS else "queued or running"
    where = scope_text(limit.scope)
    return f"{_count(used)} of {where} {what}, and its {limit.name} is {limit.value:,}"


def _unsent(
    tasks: Sequence[TaskRow], occupied: Occupied, now: datetime, older: Mapping[str, str]
) -> Iterator[Waiting]:
    if occupied.declared.is_paused:
        return
    ready = [
        task
        for task in tasks
        if task.state == TaskState.READY
        and _is_older(task.ready_at, now)
        and occupied.use.full(task) is None
    ]
    behind = [t for t in ready if t.task_id in older]
    if behind:
        runs = ", ".join(sorted({older[t.task_id] for t in behind})[:3])
        text = f"{_count(len(behind))} ready: run {runs} writes the same partitions and goes first"
        yield Waiting("run", text, min(t.ready_at for t in behind if t.ready_at), len(behind))
    ready = [t for t in ready if t.task_id not in older]
    if not ready:
        return
    cause = "other tasks go first, or limits and the workers' capacity are reached"
    text = f"{_count(len(ready))} ready and not dispatched: {cause}"
    yield Waiting("limits", text, min(t.ready_at for t in ready if t.ready_at), len(ready))


def _retries(tasks: Sequence[TaskRow]) -> list[Waiting]:
    times = [t.retry_not_before for t in tasks if t.state == TaskState.RETRY_WAIT]
    due = [time for time in times if time is not None]
    if not due:
        return []
    text = f"{_count(len(due))} waiting for a retry, the first at {_time(min(due))}"
    return [Waiting("retry", text, tasks=len(due))]


def _cancelling(run: RunRow, tasks: Sequence[TaskRow], now: datetime) -> list[Waiting]:
    stopping = sum(task.state in states.IN_FLIGHT for task in tasks)
    left = sum(map(waits, tasks))
    if not (left or stopping) or not _is_older(run.cancel_requested_at, now):
        return []
    parts = [f"{_count(left)} still to be cancelled"] if left else []
    parts += [f"{_count(stopping)} being stopped"] if stopping else []
    return [
        Waiting("cancellation", ", ".join(parts), run.cancel_requested_at, left + stopping),
    ]


def _is_older(at: datetime | None, now: datetime) -> bool:
    return at is not None and now - at > GRACE


def _count(tasks: int) -> str:
    return f"{tasks:,} task{'' if tasks == 1 else 's'}"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
