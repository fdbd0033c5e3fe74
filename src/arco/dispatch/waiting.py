"""What an open run waits for, worked out when somebody asks.

While the store fails nobody can write down that it does. What remains is silence: records
of liveness that are not rewritten, messages that nobody claims. `waiting` turns these into
sentences; `look` reads what it needs.

Ages compare the store's clock, which dates records, with the reader's: clocks that differ
by seconds make these sentences come early or late, and nothing depends on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from arco.dispatch.liveness import (
    LivenessRecord,
    OrchestratorRecord,
    Sign,
    orchestrator_signs,
    worker_signs,
)
from arco.dispatch.queues.objectstore import Contents, contents
from arco.orchestration import states
from arco.orchestration.controllers.cancellation import waits
from arco.orchestration.tables import RunRow, TaskRow
from arco.storage.outage import PastOutage
from arco.storage.port import Store
from servo.contract.identity import dispatch_name

GRACE = timedelta(seconds=5)
"""What is younger is on its way."""
HEARTBEATS = 3
"""A process that has missed so many heartbeats is silent."""
DEFAULT_HEARTBEAT_S = 5.0


class Waiting(msgspec.Struct, frozen=True):
    what: str
    """orchestrator, process, worker, queue, limits, retry or cancellation"""
    text: str
    since: datetime | None = None
    tasks: int = 0


class Signs(NamedTuple):
    """What processes and the queue show of themselves."""

    orchestrators: Sequence[Sign[OrchestratorRecord]]
    workers: Sequence[Sign[LivenessRecord]]
    queue: Contents


def look(store: Store, run: RunRow, tasks: Sequence[TaskRow]) -> Signs:
    """Read the signs. The queue is listed only if a task of the run should be in it."""
    sent = not run.pool and any(task.state == states.DISPATCHED for task in tasks)
    queue = contents(store) if sent else Contents(frozenset(), frozenset())
    return Signs(orchestrator_signs(store), worker_signs(store), queue)


def waiting(run: RunRow, tasks: Sequence[TaskRow], signs: Signs, now: datetime) -> list[Waiting]:
    """What keeps an open run from going on; empty if it goes on, or has ended."""
    if run.state not in states.RUN_ACTIVE:
        return []
    unserved = _server(run, signs, now)
    silent = _silent_workers(tasks, signs, now)
    if run.state == states.RUN_CANCELLING:  # nothing of it is sent any more
        return [*unserved, *silent, *_cancelling(run, tasks, now)]
    return [
        *unserved,
        *silent,
        *([] if unserved else _unsent(tasks, now)),
        *([] if run.pool else _unclaimed(tasks, signs, now)),
        *_retries(tasks),
    ]


def has_server(store: Store, run: RunRow, since: datetime | None) -> bool:
    """Whether a process that serves the run has given a sign of life since then.

    Both times are the store's own.
    """
    signs = [sign.at for sign in orchestrator_signs(store) if _serves(sign.record, run)]
    if run.pool:
        signs += [sign.at for sign in worker_signs(store) if sign.record.worker_id == run.pool]
    return any(since is None or at > since for at in signs)


def _serves(orchestrator: OrchestratorRecord, run: RunRow) -> bool:
    return not run.pool or run.run_id in orchestrator.adopted


def outages(run: RunRow, signs: Signs) -> list[tuple[str, PastOutage]]:
    """By process: the last outage of its store, if that was during the run."""
    records = [(s.record.name, s.record.outage) for s in signs.orchestrators]
    records += [(s.record.worker_id, s.record.outage) for s in signs.workers]
    return [
        (name, outage)
        for name, outage in records
        if outage is not None and outage.ended >= run.created_at
    ]


def _is_silent(sign: Sign[LivenessRecord] | Sign[OrchestratorRecord], now: datetime) -> bool:
    heartbeat_s = sign.record.heartbeat_s or DEFAULT_HEARTBEAT_S
    return now - sign.at > HEARTBEATS * timedelta(seconds=heartbeat_s) + GRACE


def _server(run: RunRow, signs: Signs, now: datetime) -> list[Waiting]:
    """Whether nobody decides what the run does next."""
    adopted = any(
        run.run_id in sign.record.adopted and not _is_silent(sign, now)
        for sign in signs.orchestrators
    )
    if now - run.created_at <= GRACE or adopted:
        return []
    if not run.pool:
        return _orchestrator(signs.orchestrators, now)
    own = next((sign for sign in signs.workers if sign.record.worker_id == run.pool), None)
    if own is not None and not _is_silent(own, now):
        return []
    silence = f"has been silent since {_time(own.at)}" if own else "gives no sign of life"
    text = f"its process {run.pool} {silence}; `servo runs resume` or an orchestrator takes over"
    return [Waiting("process", text, own.at if own else None)]


def _orchestrator(signs: Sequence[Sign[OrchestratorRecord]], now: datetime) -> list[Waiting]:
    if any(not _is_silent(sign, now) for sign in signs):
        return []
    if not signs:
        return [Waiting("orchestrator", "no orchestrator is alive; start `servo orchestrator`")]
    last = max(sign.at for sign in signs)
    return [Waiting("orchestrator", f"no orchestrator has been alive since {_time(last)}", last)]


def _silent_workers(tasks: Sequence[TaskRow], signs: Signs, now: datetime) -> list[Waiting]:
    by_id = {sign.record.worker_id: sign for sign in signs.workers}
    running = Counter(
        task.worker_id
        for task in tasks
        if task.state == states.RUNNING and _is_older(task.started_at, now)
    )
    reasons = []
    for worker, count in sorted(running.items()):
        sign = by_id.get(worker)
        if sign is not None and not _is_silent(sign, now):
            continue
        silence = (
            f"has been silent for {(now - sign.at).total_seconds():.0f} s"
            if sign
            else "gives no sign of life"
        )
        text = f"worker {worker} {silence}; {_count(count)} running on it"
        reasons.append(Waiting("worker", text, sign.at if sign else None, count))
    return reasons


def _unclaimed(tasks: Sequence[TaskRow], signs: Signs, now: datetime) -> list[Waiting]:
    """Tasks in the queue that no worker has taken."""
    sent = [
        dispatch_name(t.run_id, t.task_id, t.attempt, redelivery=t.redelivery)
        for t in tasks
        if t.state == states.DISPATCHED and _is_older(t.dispatched_at, now)
    ]
    unclaimed = [n for n in sent if n in signs.queue.messages and n not in signs.queue.claimed]
    lost = [name for name in sent if name not in signs.queue.messages]
    reasons = []
    if unclaimed:
        counts = f"{_count(len(sent))} dispatched, {len(sent) - len(unclaimed)} claimed"
        reasons.append(Waiting("queue", f"{counts}: {_slots(signs, now)}", tasks=len(unclaimed)))
    if lost:
        text = f"{_count(len(lost))} dispatched and not in the queue: an orchestrator sends again"
        reasons.append(Waiting("queue", text, tasks=len(lost)))
    return reasons


def _slots(signs: Signs, now: datetime) -> str:
    alive = [sign.record for sign in signs.workers if not _is_silent(sign, now)]
    alive = [record for record in alive if record.slots]  # others have queues of their own
    if not alive:
        return "no worker gives a sign of life; start `servo worker`"
    slots = sum(record.slots for record in alive)
    busy = sum(len(record.attempts) for record in alive)
    if busy >= slots:
        return f"no worker with free slots ({busy} of {slots} busy)"
    return f"{slots - busy} of {slots} slots of workers are free"


def _unsent(tasks: Sequence[TaskRow], now: datetime) -> list[Waiting]:
    ready = [t for t in tasks if t.state == states.READY and _is_older(t.ready_at, now)]
    if not ready:
        return []
    text = f"{_count(len(ready))} ready and not dispatched: other tasks go first, within the limits"
    return [Waiting("limits", text, min(t.ready_at for t in ready if t.ready_at), len(ready))]


def _retries(tasks: Sequence[TaskRow]) -> list[Waiting]:
    times = [t.retry_not_before for t in tasks if t.state == states.RETRY_WAIT]
    due = [time for time in times if time is not None]
    if not due:
        return []
    text = f"{_count(len(due))} to be tried again, the first at {_time(min(due))}"
    return [Waiting("retry", text, tasks=len(due))]


def _cancelling(run: RunRow, tasks: Sequence[TaskRow], now: datetime) -> list[Waiting]:
    stopping = sum(task.state in states.IN_FLIGHT for task in tasks)
    left = sum(map(waits, tasks))
    if not (left or stopping) or not _is_older(run.cancel_requested_at, now):
        return []
    parts = [f"{_count(left)} still to be cancelled"] if left else []
    parts += [f"{_count(stopping)} told to stop"] if stopping else []
    return [
        Waiting("cancellation", ", ".join(parts), run.cancel_requested_at, left + stopping),
    ]


def _is_older(at: datetime | None, now: datetime) -> bool:
    return at is not None and now - at > GRACE


def _count(tasks: int) -> str:
    return f"{tasks:,} task{'' if tasks == 1 else 's'}"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
