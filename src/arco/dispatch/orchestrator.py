"""The loop that turns decisions into deeds.

One *tick*:

    1. append what waits to be reported, as one batch; send what is ready by it
    2. now and then: look which workers are alive, and what they work on
    3. commit the inbox                        (anybody's; any number may do this)
    4. bring the board to the newest generation
    5. ask the controllers
    6. perform their actions: enqueue, report, interrupt

Nothing is lost whenever it dies. What was enqueued and not yet acknowledged is
ready on the next board too, and is enqueued again under the same name, for the same
attempt. Two orchestrators do the same things twice, and each of them counts once.

While tasks report all the time, most rounds are a *hurry*: step 1 alone (`ahead.py`).
The commit follows soon, and takes many reports at once.

The controllers that act because time has passed are asked only when the inbox was
empty after the commit: what they would miss may lie there. For the same reason the look
comes before the commit: what a worker does not name any more it has reported before that.

A worker's silence counts only as long as somebody listened. After a pause (the store was
away, commits failed, the machine slept) everybody is given their time again.

Errors of the store, expired credentials included, end the loop only before its first
complete tick. After that it waits, and goes on when they are over (`storage/outage.py`).
A queue that fails keeps nothing else from being done: results are committed, cancelled
runs end, and what could not be sent is still ready at the next tick.
While runs are active each complete tick may leave a sign of life (`liveness.py`).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from arco.clock import Clock
from arco.dispatch.ahead import Ahead
from arco.dispatch.liveness import OrchestratorRecord, Watch, beat_orchestrator
from arco.dispatch.queues.port import Message, Queue
from arco.dispatch.reports import Reports
from arco.dispatch.requests import Requests
from arco.dispatch.unsent import Unsent
from arco.dispatch.versions import CommittedVersions
from arco.errors import Error, Unreadable
from arco.log.append import Signal
from arco.log.commit import Committed, Committer
from arco.log.envelope import EventTypes, Payload
from arco.log.head import Head, Manifests
from arco.orchestration import states
from arco.orchestration.actions import (
    Action,
    CancelTasks,
    Enqueue,
    FireTimer,
    Interrupt,
    LoseAttempt,
)
from arco.orchestration.board import Board, Changes, TaskKey
from arco.orchestration.controllers.anti_entropy import anti_entropy, unstarted
from arco.orchestration.controllers.cancellation import cancellation, end_waiting
from arco.orchestration.controllers.ready_dispatch import (
    Later,
    Turn,
    dispatch_ahead,
    ready_dispatch,
)
from arco.orchestration.controllers.timers import next_due, timers
from arco.orchestration.controllers.zombies import Alive, zombies
from arco.orchestration.events import (
    AttemptLost,
    DispatchEnqueued,
    TaskFinished,
    TasksCancelled,
    TimerFired,
)
from arco.orchestration.limits import Limits, Timing
from arco.orchestration.tables import RunRow, TaskRow
from arco.orchestration.window import Window
from arco.state.parquet import Files
from arco.state.project import StateProjector
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.outage import Outage
from arco.storage.port import Store
from arco.storage.store_clock import StoreClock
from arco.worker.envelope import EnvelopeSigner
from servo.contract.identity import dispatch_name
from servo.contract.task import ErrorInfo, TaskRequest, TaskResult

log = logging.getLogger(__name__)

HASTE = 128
"""With more tasks than this in flight nobody waits for the next one: the commit will do."""
IDLE = 4
"""With nothing to do, the time between two looks grows to so many intervals."""


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
        types: EventTypes,
        store_clock: StoreClock,
        *,
        limits: Limits | None = None,
        timing: Timing | None = None,
        pool: str = "",
        slots: int = 0,
        name: str = "orchestrator",
    ) -> None:
        """`pool` is whose runs these are: by default those that are nobody's in particular.

        `slots` are those of the queue's only worker; 0: workers come and go. `name` is
        under which it leaves signs of life; each process needs its own.
        """
        self._manifests = manifests
        self._files = files
        self._committer = committer
        self._reports = reports
        self._queue = queue
        self._signer = signer
        self._requests = requests
        self._clock = clock
        self._signal = signal
        self._timing = (timing or Timing()).check()
        self._window = Window(limits or Limits(), self._timing, slots)
        self._store = store
        self._store_clock = store_clock
        self._watch = self._new_watch()
        self._watching_since = datetime.min
        self._watched_at = datetime.min
        """The last look that had a fresh board beside it."""
        self._asked_at = -1e9
        self._turn = Turn()
        self._sent: dict[str, tuple[str, str, float]] = {}
        """Attempts that were enqueued, and that the board still shows as ready."""
        self._said: dict[str, float] = {}
        """What was reported, and when: not to be said at every tick until it is folded."""
        self._commits: deque[tuple[Head, Changes]] = deque()
        self._first_seen: dict[str, datetime] = {}
        """When attempts were first seen to run, and runs to be cancelled, by our own clock."""
        self._pool = pool
        self._adopted: set[str] = set()
        """Runs of others that are served here: theirs was given up, or this is to go on."""
        self.board = Board(lambda run: run.pool == pool or run.run_id in self._adopted)
        self._ahead = Ahead(self.board, types, clock)
        self._committed_at = -1e9
        self._idle_ticks = 0
        """How many ticks in a row have seen no run, and no commit of anybody."""
        self.name = name
        self._beats = 0
        self._beaten_at = -1e9
        self.outage = Outage(clock, "orchestrator")
        """Whether the store fails, and since when."""
        self._setback: Error | None = None
        """What failed in the last tick although the rest of it went on."""
        self._queue_error: Error | None = None
        """What the queue failed with in the last round, if it did."""
        self._unsent = Unsent(clock)
        self.interrupt: Callable[[str], None] = lambda attempt_id: None
        """Tells a worker of this process to stop an attempt."""
        self.on_board: Callable[[Board], None] = lambda board: None
        """Called after each change of the board."""
        self._thread = 0
        projector.listeners.append(self._heard)
        reports.wake = signal.wake
        reports.on_append = self._ahead.appended

    # -- the loop ------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set; then once more, for what was reported before."""
        self._thread = threading.get_ident()
        names: list[str] = []
        while not stop.is_set():
            stop.wait(self._round(names))
            names = self._signal.wait(self._pause_s())
        try:
            self.tick(names)
        except Error as error:
            log.warning("left what is not committed to the next one: %s", error)

    def _round(self, names: Sequence[str]) -> float:
        """A tick or a hurry; how long to wait after it because the store fails."""
        try:
            if not (names or self._commits or self._commit_in_s() <= 0):
                self.hurry()
                return 0.0 if self._queue_error is None else self.outage.failed(self._queue_error)
            self.tick(names)
        except Error as error:
            return self.outage.failed(error)
        failed = self._setback or self._queue_error
        if failed is not None:
            return self.outage.failed(failed)
        self.outage.passed()
        return 0.0

    def _heard(self, head: Head, changes: Changes) -> None:
        """Somebody in this process has committed."""
        self._commits.append((head, changes))
        if threading.get_ident() != self._thread:
            self._signal.wake()

    def _pause_s(self) -> float:
        busy = bool(self.board.in_flight or self._sent)
        pause = self._timing.busy_interval_s if busy else self._timing.interval_s
        pause *= min(IDLE, 1.25**self._idle_ticks)
        due = self._reports.due_in_s
        if due is not None:
            pause = min(pause, due)
        if self._ahead:
            pause = min(pause, max(0.0, self._commit_in_s()))
        timer = next_due(self.board)
        if timer is not None:
            pause = min(pause, max(0.0, (timer - self._clock.now()).total_seconds()))
        return max(pause, 0.0) if due == 0.0 else max(pause, 0.001)

    def _commit_in_s(self) -> float:
        spacing_s = self._timing.commit_spacing_s
        if len(self.board.in_flight) > HASTE:  # nobody waits for the next one
            spacing_s *= 4
        return self._committed_at + spacing_s - self._clock.monotonic()

    def hurry(self) -> list[str]:
        """Report what is due, and send what is ready by that. The batches, to be committed."""
        self._queue_error = None
        batches = self._reports.flush() if self._reports.due_in_s == 0.0 else []
        self._send_ahead()
        return batches

    def tick(self, names: Sequence[str] = ()) -> int:
        """One round; how many actions it performed. Raises what a store may raise."""
        self._setback = None
        before = self.board.generation
        batches = self.hurry()
        alive = self._look()
        fresh, head = self._commit([*names, *batches])
        self._committed_at = self._clock.monotonic()
        self._refresh(head)
        self._take_adopted(head)
        actions = self._decide(fresh, alive)
        self._perform(actions)
        self._beat()
        idle = not (self.board.runs or self.board.others) and self.board.generation == before
        self._idle_ticks = min(self._idle_ticks + 1, 100) if idle else 0
        return len(actions)

    def _commit(self, names: Sequence[str]) -> tuple[bool, Head]:
        try:
            outcome = self._committer.commit(names)
        except Unreadable:
            raise
        except Error as error:
            self._setback = error
            return False, self._manifests.head()
        return not (isinstance(outcome, Committed) and outcome.more), outcome.head

    def _refresh(self, head: Head) -> None:
        board, before = self.board, self.board.generation
        flight = self._flight()
        active = {*board.runs, *board.others}
        while self._commits:
            committed, changes = self._commits.popleft()
            if committed.generation == board.generation + 1:
                board.apply(changes, committed)
                self._ahead.committed(committed.manifest.consumed)
        if board.generation < head.generation:
            snapshot = Snapshot(self._manifests, self._files, head)
            if before >= 0 and not self._manifests.rewritten(board.generation, head):
                board.advance(snapshot)
            else:
                board.load(snapshot)
            self._ahead.reset()
        if board.generation != before:
            self._sent = {a: at for a, at in self._sent.items() if self._is_awaited(a, *at[:2])}
            self._window.saw_flight(flight, self._flight())
            self._unsent.keep(board.runs.keys(), self._is_awaited)
            self._adopted -= active - {*board.runs, *board.others}
            _calling_back(lambda: self.on_board(board))

    def _flight(self) -> set[TaskKey]:
        """The tasks that are with the queue or a worker."""
        return {*self.board.in_flight, *self._sent_keys().values()}

    def _sent_keys(self) -> dict[str, TaskKey]:
        return {attempt: (run_id, task_id) for attempt, (run_id, task_id, _) in self._sent.items()}

    def _is_awaited(self, attempt_id: str, run_id: str, task_id: str) -> bool:
        """Whether the board has yet to show that an attempt was sent."""
        task = self.board.task(run_id, task_id)
        if task is None:
            return False
        if task.state == states.READY:
            return task.attempt_id == attempt_id
        if task.state == states.RETRY_WAIT:
            return task.attempt_id != attempt_id
        return task.state in (states.PLANNED, states.BLOCKED)

    def _forget_unanswered(self) -> None:
        """What was sent long ago, and still is not seen to be, may go again, by the same name.

        It was sent ahead of a commit that went another way, and nobody heard its reports.
        """
        old = self._clock.monotonic() - self._timing.redeliver_after_s
        self._sent = {a: at for a, at in self._sent.items() if at[2] > old}

    # -- ahead of the commit -------------------------------------------------------------

    def _send_ahead(self) -> None:
        """Send what may go by what was just appended, where workers may be short of work."""
        if not self._ahead:
            return
        ended = self._ahead.ended()
        if len(self._flight() - ended) > HASTE:
            return
        board, turn, later = self.board, self._turn, self._unsent.later()
        limits, sent = self._window.limits(board), self._sent_keys()
        if self._others_wait(later):
            sending, self._turn = ready_dispatch(board, limits, turn, sent, ended, later)
        else:
            ready = self._ahead.ready()
            sending = dispatch_ahead(board, limits, turn, sent, ended, ready, later)
        if sending:
            self._send(sending)

    def _others_wait(self, later: Later) -> bool:
        """Whether the board has tasks that are ready, were not sent, and may go now."""
        if not self.board.ready:
            return False
        sent = Counter(at[0] for a, at in self._sent.items() if self._is_ready(a, *at[:2]))
        sent.update(run_id for run_id, task_id in later.tasks if self._is_listed(run_id, task_id))
        ready: Counter[str] = Counter()
        for runs in self.board.ready.values():
            ready.update({run_id: len(orders) for run_id, orders in runs.items()})
        return any(
            count > sent[run_id]
            for run_id, count in ready.items()
            if run_id not in later.runs and self.board.runs[run_id].state != states.RUN_CANCELLING
        )

    def _is_ready(self, attempt_id: str, run_id: str, task_id: str) -> bool:
        task = self.board.task(run_id, task_id)
        return task is not None and task.state == states.READY and task.attempt_id == attempt_id

    def _is_listed(self, run_id: str, task_id: str) -> bool:
        task = self.board.task(run_id, task_id)
        return task is not None and task.state == states.READY

    # -- deciding ------------------------------------------------------------------------

    def _decide(self, fresh: bool, alive: Mapping[str, Alive] | None) -> list[Action]:
        board, now = self.board, self._clock.now()
        if fresh and alive is not None:
            self._watched_at = now
            self._adopt_orphans(alive, now)
        if not board.runs:
            return []
        if fresh:
            self._forget_unanswered()
        self._note_first_seen(now)
        limits = self._window.limits(board)
        sent, later = self._sent_keys(), self._unsent.later()
        sending, self._turn = ready_dispatch(board, limits, self._turn, sent, later=later)
        actions: list[Action] = [*sending, *end_waiting(board)]
        stopping = cancellation(board, now, self._timing, self._first_seen)
        actions += [action for action in stopping if fresh or isinstance(action, Interrupt)]
        if fresh:
            actions += timers(board, now)
        if fresh and alive is not None:
            if (now - self._watching_since).total_seconds() > self._timing.zombie_after_s:
                actions += zombies(board, alive, now, self._timing, self._first_seen)
            gone = self._gone(unstarted(board, now, self._timing))
            actions += anti_entropy(board, now, self._timing, gone)
        return actions

    def _look(self) -> Mapping[str, Alive] | None:
        """The workers, if it is time to look at what changes slowly."""
        ticks, now = self._clock.monotonic(), self._clock.now()
        paused = now - self._watched_at > timedelta(seconds=self._timing.zombie_after_s / 2)
        watched = self.board.in_flight or (self.board.others and not self._pool)
        if paused and not watched:
            self._window.forget()
        if not watched or ticks - self._asked_at < self._timing.heartbeat_s / 2:
            return None
        self._asked_at = ticks
        if paused:
            self._watch = self._new_watch()
            self._window.forget()
            self._watching_since = now
        try:
            alive = self._watch.look()
            self._window.saw_workers(alive, now)
            return alive
        except Error as error:  # nobody is dead because we cannot look
            self._setback = error
            return None

    def _new_watch(self) -> Watch:
        silent_s = self._timing.zombie_after_s
        return Watch(self._store, self._clock, self._store_clock, silent_s)

    def _beat(self) -> None:
        """Leave a sign of life while there are runs to serve, and remove it after the last."""
        now = self._clock.monotonic()
        if self._pool or self._setback is not None:
            return
        try:
            if self.board.runs and now - self._beaten_at >= self._timing.heartbeat_s:
                beat_orchestrator(self._store, self._record())
                self._beats, self._beaten_at = self._beats + 1, now
            elif not self.board.runs and self._beats:
                self._store.delete(paths.orchestrator(self.name))
                self._beats, self._beaten_at = 0, -1e9
        except Error as error:
            self._setback = error

    def _record(self) -> OrchestratorRecord:
        return OrchestratorRecord(
            name=self.name,
            beat=self._beats + 1,
            heartbeat_s=self._timing.heartbeat_s,
            runs=len(self.board.runs),
            adopted=tuple(sorted(self._adopted & self.board.runs.keys())),
            outage=self.outage.last,
        )

    def _note_first_seen(self, now: datetime) -> None:
        """Silence and grace are measured from here: clocks of others may be wrong."""
        running = [t.attempt_id for t in self.board.in_flight.values() if t.state == states.RUNNING]
        cancelling = [
            run.run_id for run in self.board.runs.values() if run.state == states.RUN_CANCELLING
        ]
        pooled = list(self.board.others)
        seen = self._first_seen
        self._first_seen = {key: seen.get(key, now) for key in (*running, *cancelling, *pooled)}

    def _adopt_orphans(self, alive: Mapping[str, Alive], now: datetime) -> None:
        """Serve runs whose own engine has been silent for as long as a dead worker."""
        if self._pool or not self.board.others:
            return
        self._note_first_seen(now)
        limit = timedelta(seconds=self._timing.zombie_after_s)
        for run in list(self.board.others.values()):
            engine = alive.get(run.pool)
            heard = self._first_seen[run.run_id] if engine is None else engine.changed_at
            if now - max(heard, self._watching_since) > limit:
                log.warning("run %s is taken over: its engine is gone", run.run_id)
                self.adopt(run.run_id)

    def adopt(self, run_id: str) -> None:
        """Serve a run from now on, whoever it belongs to. Any thread may say so."""
        self._adopted.add(run_id)
        self._signal.wake()

    def _take_adopted(self, head: Head) -> None:
        taken = [id for id, run in self.board.others.items() if self.board.serves(run)]
        if taken and self.board.generation == head.generation:
            snapshot = Snapshot(self._manifests, self._files, head)
            for run_id in sorted(taken):
                self.board.adopt(run_id, snapshot)

    def _gone(self, tasks: Sequence[TaskRow]) -> set[str]:
        """Attempts among these that the queue does not have."""
        if not tasks:
            return set()
        names = {_name(task, task.redelivery): task.attempt_id for task in tasks}
        try:
            held = self._queue.held(names.keys())
        except Error as error:  # nothing is gone because we cannot look
            self._queue_error = error
            return set()
        return {attempt for name, attempt in names.items() if name not in held}

    # -- performing ----------------------------------------------------------------------

    def _perform(self, actions: Iterable[Action]) -> None:
        sending: list[Enqueue] = []
        urgent: list[Payload] = []
        losing: list[LoseAttempt] = []
        for action in actions:
            match action:
                case Enqueue():
                    sending.append(action)
                case FireTimer(run_id, timer_id):
                    if self._first_time(timer_id):
                        urgent.append(TimerFired(run_id=run_id, timer_id=timer_id))
                case LoseAttempt():
                    if self._first_time(action.attempt_id):
                        losing.append(action)
                case CancelTasks(run_id, task_ids):
                    if self._first_time(f"{run_id} {task_ids[0]}"):
                        urgent.append(TasksCancelled(run_id=run_id, task_ids=task_ids))
                case Interrupt(attempt_id):
                    _calling_back(functools.partial(self.interrupt, attempt_id))
        if losing:
            urgent += self._lose(losing)
        if urgent:
            self._reports.submit(urgent)
        if sending:
            self._send(sending)

    def _first_time(self, what: str) -> bool:
        """Whether this was not said within the last interval or two."""
        now = self._clock.monotonic()
        if now - self._said.get(what, -1e9) < 2 * self._timing.interval_s:
            return False
        if len(self._said) > 1_000:
            recent = now - 2 * self._timing.interval_s
            self._said = {text: at for text, at in self._said.items() if at > recent}
        self._said[what] = now
        return True

    def _lose(self, losing: Sequence[LoseAttempt]) -> list[AttemptLost]:
        tasks = [self.board.task(action.run_id, action.task_id) for action in losing]
        try:
            self._queue.withdraw([_name(t, t.redelivery) for t in tasks if t is not None])
        except Error as error:  # who gets them will find that they came too late
            log.warning("could not take messages back: %s", error)
        return [
            AttemptLost(
                run_id=action.run_id,
                task_id=action.task_id,
                attempt_id=action.attempt_id,
                reason=action.reason,
                worker_id=action.worker_id,
            )
            for action in losing
        ]

    def _send(self, sending: Sequence[Enqueue]) -> None:
        messages: list[Message] = []
        sent: list[DispatchEnqueued] = []
        now = self._clock.monotonic()
        ttl = timedelta(seconds=self._timing.envelope_s)
        versions = CommittedVersions(self._manifests, self._files)
        for action in sending:
            run = self.board.runs.get(action.run_id)
            task = self._ahead.task(action.run_id, action.task_id)
            if run is None or task is None or task.attempt_id != action.attempt_id:
                continue
            request = self._request(run, task, action.redelivery, versions)
            if request is None:
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
        if not messages or not self._put(messages):
            return
        self._sent |= {e.attempt_id: (e.run_id, e.task_id, now) for e in sent}
        self._reports.submit(sent, urgent=False)

    def _put(self, messages: Sequence[Message]) -> bool:
        """Whether the queue has them. One that fails is left alone for the rest of the round."""
        if self._queue_error is not None:
            return False
        try:
            self._queue.put(messages)
        except Error as error:
            self._queue_error = error
            return False
        return True

    def _request(
        self, run: RunRow, task: TaskRow, redelivery: int, versions: CommittedVersions
    ) -> TaskRequest | None:
        """What a worker gets; None if it cannot be built now. If it never can, the task fails."""
        unsent = self._unsent
        if unsent.waits(task):
            return None
        may_pass = unsent.run_may_pass
        try:
            self._requests.load(run)
            unsent.run_passed(task)
            may_pass = unsent.task_may_pass
            request = self._requests.build(run, task, self._ahead.task, redelivery, versions)
        except (Error, LookupError) as error:
            if not may_pass(task, error):
                self._reports.submit([_unsendable(task, error)])
                now = self._clock.monotonic()
                self._sent[task.attempt_id] = (task.run_id, task.task_id, now)
            return None
        unsent.task_passed(task)
        return request


def _calling_back(call: Callable[[], None]) -> None:
    """What goes wrong with those who listen does not stop the loop."""
    try:
        call()
    except Exception:
        log.exception("a listener failed")


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
