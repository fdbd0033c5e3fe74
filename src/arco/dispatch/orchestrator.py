"""The loop that turns decisions into deeds.

One *tick*:

    1. append what waits to be reported, as one batch
    2. commit the inbox                        (anybody's; any number may do this)
    3. bring the board to the newest generation
    4. ask the controllers
    5. perform their actions: enqueue, report, interrupt

Nothing is lost whenever it dies. What was enqueued and not yet acknowledged is
ready on the next board too, and is enqueued again under the same name, for the same
attempt. Two orchestrators do the same things twice, and each of them counts once.

The controllers that act because time has passed are asked only when the inbox was
empty after the commit: what they would miss may lie there.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from arco.clock import Clock
from arco.dispatch.liveness import Watch
from arco.dispatch.queues.port import Message, Queue
from arco.dispatch.reports import Reports
from arco.dispatch.requests import Requests
from arco.errors import Conflict, Error, Fenced, NotFound, Unavailable
from arco.execution.tables import MATERIALIZATIONS
from arco.log.append import Signal
from arco.log.commit import Committed, Committer
from arco.log.envelope import Payload
from arco.log.head import Head, Manifests
from arco.orchestration import states
from arco.orchestration.actions import Action, Enqueue, FireTimer, Interrupt, LoseAttempt
from arco.orchestration.board import Board, Changes
from arco.orchestration.controllers.anti_entropy import anti_entropy, unstarted
from arco.orchestration.controllers.cancellation import cancellation
from arco.orchestration.controllers.ready_dispatch import Turn, ready_dispatch
from arco.orchestration.controllers.timers import next_due, timers
from arco.orchestration.controllers.zombies import zombies
from arco.orchestration.events import AttemptLost, DispatchEnqueued, TaskFinished, TimerFired
from arco.orchestration.limits import Limits, Timing
from arco.orchestration.tables import TaskRow
from arco.state.parquet import Files
from arco.state.project import StateProjector
from arco.state.snapshot import Snapshot
from arco.storage.port import Store
from arco.worker.envelope import EnvelopeSigner
from servo.contract.identity import dispatch_name
from servo.contract.task import ErrorInfo, TaskResult

log = logging.getLogger(__name__)

FLOOD = 5_000
"""A commit of so many events may have left some in the inbox."""


class Orchestrator:
    def __init__(
        self,
        store: Store,
        manifests: Manifests,
        files: Files,
        committer: Committer,
        projector: StateProjector,
        reports: Reports,
        queue: Queue,
        signer: EnvelopeSigner,
        requests: Requests,
        clock: Clock,
        signal: Signal,
        *,
        limits: Limits | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._manifests = manifests
        self._files = files
        self._committer = committer
        self._reports = reports
        self._queue = queue
        self._signer = signer
        self._requests = requests
        self._clock = clock
        self._signal = signal
        self._limits = limits or Limits()
        self._timing = (timing or Timing()).check()
        self._watch = Watch(store, clock)
        self._watched_at = -1e9
        self._turn = Turn()
        self._sent: dict[str, tuple[str, str]] = {}
        """Attempts that were enqueued, and that the board still shows as ready."""
        self._said: dict[str, float] = {}
        """What was reported, and when: not to be said at every tick until it is folded."""
        self._commits: deque[tuple[Head, Changes]] = deque()
        self.board = Board()
        self.interrupt: Callable[[str], None] = lambda attempt_id: None
        """Tells a worker of this process to stop an attempt."""
        self.on_board: Callable[[Board], None] = lambda board: None
        """Called after each change of the board."""
        projector.listeners.append(lambda head, changes: self._commits.append((head, changes)))
        reports.wake = signal.wake

    # -- the loop ------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set; then once more, for what was reported before."""
        names: list[str] = []
        while not stop.is_set():
            try:
                self.tick(names)
            except (Unavailable, Conflict, Fenced) as error:
                log.warning("will try again: %s", error)
                self._clock.sleep(min(0.5, self._timing.interval_s))
            names = self._signal.wait(self._pause_s())
        try:
            self.tick(names)
        except (Unavailable, Conflict, Fenced) as error:
            log.warning("left what is not committed to the next one: %s", error)

    def _pause_s(self) -> float:
        busy = bool(self.board.in_flight or self._sent)
        pause = self._timing.busy_interval_s if busy else self._timing.interval_s
        due = self._reports.due_in_s
        if due is not None:
            pause = min(pause, due)
        timer = next_due(self.board)
        if timer is not None:
            pause = min(pause, max(0.0, (timer - self._clock.now()).total_seconds()))
        return max(pause, 0.0) if due == 0.0 else max(pause, 0.001)

    def tick(self, names: Sequence[str] = ()) -> int:
        """One round; how many actions it performed. Raises what a store may raise."""
        batches = self._reports.flush() if self._reports.due_in_s == 0.0 else []
        fresh, head = self._commit([*names, *batches])
        self._refresh(head)
        actions = self._decide(fresh)
        self._perform(actions)
        return len(actions)

    def _commit(self, names: Sequence[str]) -> tuple[bool, Head]:
        try:
            outcome = self._committer.commit(names)
        except (Unavailable, Conflict, Fenced) as error:
            log.warning("will try to commit again: %s", error)
            return False, self._manifests.head()
        fresh = not isinstance(outcome, Committed) or outcome.events < FLOOD
        return fresh, outcome.head

    def _refresh(self, head: Head) -> None:
        board, before = self.board, self.board.generation
        while self._commits:
            committed, changes = self._commits.popleft()
            if committed.generation == board.generation + 1:
                board.apply(changes, committed)
        if board.generation < head.generation:
            snapshot = Snapshot(self._manifests, self._files, head)
            if before >= 0 and not self._manifests.rewritten(board.generation, head):
                board.advance(snapshot)
            else:
                board.load(snapshot)
        if board.generation != before:
            self._sent = {a: at for a, at in self._sent.items() if self._is_ready(a, *at)}
            self.on_board(board)

    def _is_ready(self, attempt_id: str, run_id: str, task_id: str) -> bool:
        task = self.board.task(run_id, task_id)
        return task is not None and task.state == states.READY and task.attempt_id == attempt_id

    # -- deciding ------------------------------------------------------------------------

    def _decide(self, fresh: bool) -> list[Action]:
        board, now = self.board, self._clock.now()
        if not board.runs:
            return []
        sending, self._turn = ready_dispatch(board, self._limits, self._turn, self._sent)
        actions: list[Action] = [*sending]
        actions += cancellation(board, now, self._timing)
        if fresh:
            actions += timers(board, now)
            if board.in_flight and self._looks_again():
                actions += zombies(board, self._watch.look(), now, self._timing)
                gone = self._gone(unstarted(board, now, self._timing))
                actions += anti_entropy(board, now, self._timing, gone)
        return actions

    def _looks_again(self) -> bool:
        """Whether it is time to look at what changes slowly."""
        now = self._clock.monotonic()
        if now - self._watched_at < self._timing.heartbeat_s / 2:
            return False
        self._watched_at = now
        return True

    def _gone(self, tasks: Sequence[TaskRow]) -> set[str]:
        """Attempts among these that the queue does not have."""
        if not tasks:
            return set()
        names = {_name(task, task.redelivery): task.attempt_id for task in tasks}
        held = self._queue.held(names.keys())
        return {attempt for name, attempt in names.items() if name not in held}

    # -- performing ----------------------------------------------------------------------

    def _perform(self, actions: Iterable[Action]) -> None:
        sending: list[Enqueue] = []
        urgent: list[Payload] = []
        for action in actions:
            match action:
                case Enqueue():
                    sending.append(action)
                case FireTimer(run_id, timer_id):
                    if self._first_time(timer_id):
                        urgent.append(TimerFired(run_id=run_id, timer_id=timer_id))
                case LoseAttempt():
                    if self._first_time(action.attempt_id):
                        urgent.append(self._lose(action))
                case Interrupt(attempt_id):
                    self.interrupt(attempt_id)
        if sending:
            self._send(sending)
        if urgent:
            self._reports.submit(urgent)

    def _first_time(self, what: str) -> bool:
        """Whether this was not said within the last interval or two."""
        now = self._clock.monotonic()
        if now - self._said.get(what, -1e9) < 2 * self._timing.interval_s:
            return False
        if len(self._said) > 10_000:
            self._said.clear()
        self._said[what] = now
        return True

    def _lose(self, action: LoseAttempt) -> AttemptLost:
        task = self.board.task(action.run_id, action.task_id)
        if task is not None:
            self._queue.withdraw([_name(task, task.redelivery)])
        return AttemptLost(
            run_id=action.run_id,
            task_id=action.task_id,
            attempt_id=action.attempt_id,
            reason=action.reason,
            worker_id=action.worker_id,
        )

    def _send(self, sending: Sequence[Enqueue]) -> None:
        messages: list[Message] = []
        sent: list[Payload] = []
        ttl = timedelta(seconds=self._timing.envelope_s)
        for action in sending:
            task = self.board.task(action.run_id, action.task_id)
            if task is None:
                continue
            try:
                request = self._requests.build(
                    self.board.runs[action.run_id],
                    task,
                    self.board.tasks[action.run_id],
                    action.redelivery,
                    self._path_of,
                )
            except Unavailable:
                raise
            except (Error, LookupError) as error:
                self._reports.submit([_unsendable(task, error)])
                continue
            name = _name(task, action.redelivery)
            messages.append(Message(name, self._signer.seal(request, ttl), task.priority))
            sent.append(
                DispatchEnqueued(
                    run_id=action.run_id,
                    task_id=action.task_id,
                    attempt_id=action.attempt_id,
                    redelivery=action.redelivery,
                    queue_name=name,
                )
            )
        self._queue.put(messages)
        for action in sending:
            self._sent[action.attempt_id] = (action.run_id, action.task_id)
        if sent:
            self._reports.submit(sent, urgent=False)

    def _path_of(self, asset_id: str, materialization_id: str) -> str:
        snapshot = Snapshot(self._manifests, self._files, self._manifests.head())
        row = snapshot.get(MATERIALIZATIONS, asset_id, materialization_id)
        if row is None:
            raise NotFound(f"materialization {materialization_id} of {asset_id} is gone")
        return row.path


def _name(task: TaskRow, redelivery: int) -> str:
    return dispatch_name(task.run_id, task.task_id, task.attempt, redelivery=redelivery)


def _unsendable(task: TaskRow, error: Exception) -> TaskFinished:
    """A task that cannot even be described to a worker has failed."""
    log.error("%s %s cannot be sent: %s", task.asset_key, task.partition_key, error)
    return TaskFinished(
        result=TaskResult(
            run_id=task.run_id,
            task_id=task.task_id,
            attempt=task.attempt,
            attempt_id=task.attempt_id,
            outcome="failed",
            worker_id="",
            error=ErrorInfo(
                category="configuration",
                code="configuration.unsendable",
                message=f"the task could not be sent: {error}",
                hint="its plan, its manifest or an input is gone from the store; plan a new run",
            ),
        )
    )
