"""Enqueues attempts, and tracks those that were enqueued.

Enqueued attempts are tracked until the board shows them: until then they take places, and are not
enqueued twice. The number of places depends on the workers (`window.py`) and on the weights of
tasks. After an error of the queue it is not used in this round; tasks that could not be enqueued
are still ready at the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from arco.dispatch.journal import log_sent
from arco.dispatch.kept_lookups import KeptLookups
from arco.dispatch.requests import Requests, TaskOf, weight_of
from arco.dispatch.unsent import EnqueueFailures
from arco.dispatch.versions import CommittedVersions
from arco.errors import Error
from arco.orchestration.actions import Enqueue
from arco.orchestration.board import Board, Kind, TaskKey, kind_of
from arco.orchestration.controllers.limited_dispatch import without_room
from arco.orchestration.controllers.ready_dispatch import Deferred
from arco.orchestration.events import DispatchEnqueued, TaskFinished
from arco.orchestration.limits import Limits, Timing
from arco.orchestration.states import TaskState
from arco.orchestration.tables import RunRow, TaskRow
from arco.orchestration.window import ORDINARY, DispatchWindow
from arco.state.core import Core
from arco.transport.queues.port import Message, Queue, Weight
from arco.transport.task_envelope import EnvelopeSigner
from servo.contract.identity import dispatch_name
from servo.contract.manifest import Resources
from servo.contract.task import ErrorInfo, TaskRequest, TaskResult

log = logging.getLogger(__name__)


class SentAttempt(NamedTuple):
    run_id: str
    task_id: str
    at: float
    """By the monotonic clock."""


class Flight(NamedTuple):
    """The tasks in the queue or at a worker, and the weights that are not ordinary."""

    tasks: set[TaskKey]
    weights: Mapping[TaskKey, Resources]


class Sender:
    def __init__(
        self,
        core: Core,
        queue: Queue,
        signer: EnvelopeSigner,
        requests: Requests,
        *,
        timing: Timing | None = None,
        slots: int = 0,
    ) -> None:
        """`slots` are those of the queue's only worker; 0: workers come and go."""
        self._core = core
        self._clock = core.clock
        self._queue = queue
        self._signer = signer
        self._requests = requests
        self._timing = (timing or Timing()).check()
        self._lookups = KeptLookups()
        self.unsent = EnqueueFailures(core.clock)
        self._attempts: dict[str, SentAttempt] = {}
        self.weight_of: dict[Kind, Resources] = {}
        """By kind of tasks that were enqueued or are in flight."""
        self._heavy: dict[Kind, Resources] = {}
        """Those of them that are not ordinary: mostly none."""
        self.window = DispatchWindow(self._timing, slots)
        self.error: Error | None = None
        """The error of the queue in this round."""

    @property
    def unseen(self) -> int:
        """How many attempts were enqueued that the board does not show yet."""
        return len(self._attempts)

    @property
    def sent(self) -> dict[str, TaskKey]:
        """Attempts that were enqueued, and that the board does not show yet."""
        return {attempt: (sent.run_id, sent.task_id) for attempt, sent in self._attempts.items()}

    def begin_round(self) -> None:
        self.error = None

    # -- what is in flight ---------------------------------------------------------------

    def flight(self, board: Board) -> Flight:
        keys = {*board.in_flight, *self.sent.values()}
        return Flight(keys, self._weights(board, keys))

    def _weights(self, board: Board, keys: Iterable[TaskKey]) -> dict[TaskKey, Resources]:
        """Of those tasks that are not ordinary."""
        if not self._heavy:
            return {}
        tasks = [(key, board.task(*key)) for key in keys]
        kinds = [(key, kind_of(task)) for key, task in tasks if task is not None]
        return {key: self._heavy[kind] for key, kind in kinds if kind in self._heavy}

    def limits(self, board: Board) -> Limits:
        """The limits for this round."""
        weights = self.flight(board).weights if self._heavy else {}
        return self.window.limits(board, weights)

    def later(self, board: Board) -> Deferred:
        """Tasks not to enqueue now: after a failure, a full pool, or enough of their weight."""
        waiting = without_room(board)
        if not self._heavy:  # for others there is room
            return msgspec.structs.replace(self.unsent.later(), kinds=waiting)
        weights = self.flight(board).weights
        claims = {(weight, kind[0]) for kind, weight in self._heavy.items()}
        full = {c for c in claims if not self.window.has_room(*c, board, weights)}
        kinds = frozenset(k for k, weight in self._heavy.items() if (weight, k[0]) in full)
        return msgspec.structs.replace(self.unsent.later(), kinds=kinds | waiting)

    def saw_board(self, board: Board, before: Flight) -> None:
        """The board has changed; `before` is what was in flight by the old one."""

        def is_awaited(attempt_id: str, run_id: str, task_id: str) -> bool:
            return _is_awaited(board.task(run_id, task_id), attempt_id)

        self._attempts = {a: at for a, at in self._attempts.items() if is_awaited(a, *at[:2])}
        after = {*board.in_flight, *self.sent.values()}
        self.window.saw_flight(before.tasks, after, before.weights)
        kinds = self.weight_of.items()
        self.weight_of = {kind: weight for kind, weight in kinds if kind[1] in board.runs}
        self._heavy = {
            kind: weight for kind, weight in self._heavy.items() if kind[1] in board.runs
        }
        self._weigh_others(board)
        self.unsent.keep(board.runs.keys(), is_awaited)

    def _weigh_others(self, board: Board) -> None:
        """Look up the weights of tasks that other processes have enqueued."""
        for task in board.in_flight.values():
            if kind_of(task) not in self.weight_of:
                try:
                    weight = self._requests.weight(board.runs[task.run_id], task.asset_key)
                except (Error, LookupError):  # only the order of tasks depends on it
                    weight = ORDINARY
                self._weigh(kind_of(task), weight)

    def _weigh(self, kind: Kind, weight: Resources) -> None:
        self.weight_of[kind] = weight
        if weight != ORDINARY:
            self._heavy[kind] = weight
        else:
            self._heavy.pop(kind, None)

    def forget_unanswered(self) -> None:
        """Forget attempts that were enqueued long ago and that the board does not show: they may be
        enqueued again under the same name.

        They were enqueued ahead of a commit with another result.
        """
        old = self._clock.monotonic() - self._timing.redeliver_after_s
        self._attempts = {a: sent for a, sent in self._attempts.items() if sent.at > old}

    # -- the queue -----------------------------------------------------------------------

    def send(
        self, board: Board, task_of: TaskOf, sending: Sequence[Enqueue]
    ) -> tuple[list[TaskFinished], list[DispatchEnqueued]]:
        """Enqueue attempts. Returns the events: tasks that were enqueued, or never can be."""
        messages: list[Message] = []
        sent: list[DispatchEnqueued] = []
        failed: list[TaskFinished] = []
        now = self._clock.monotonic()
        ttl = timedelta(seconds=self._timing.envelope_s)
        versions = CommittedVersions(self._core.manifests, self._core.files, self._lookups)
        weights = dict(self.flight(board).weights) if self._heavy else {}
        for action in sending:
            run = board.runs.get(action.run_id)
            task = task_of(action.run_id, action.task_id)
            if run is None or task is None or task.attempt_id != action.attempt_id:
                continue
            if not self._has_room(board, task, weights):
                continue
            request = self._request(run, task, task_of, action.redelivery, versions)
            if isinstance(request, TaskFinished):
                failed.append(request)
                self._attempts[task.attempt_id] = SentAttempt(task.run_id, task.task_id, now)
            if not isinstance(request, TaskRequest):
                continue
            resources = weight_of(request)
            self._weigh(kind_of(task), resources)
            if not self._has_room(board, task, weights):  # the first of its kind shows its weight
                continue
            if resources != ORDINARY:
                weights[task.run_id, task.task_id] = resources
            name = message_name(task, action.redelivery)
            weight = Weight(resources.cpu, resources.memory_mib)
            sealed = self._signer.seal(request, ttl)
            messages.append(Message(name, sealed, task.priority, weight))
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
            return failed, []
        self._attempts |= {e.attempt_id: SentAttempt(e.run_id, e.task_id, now) for e in sent}
        log_sent(task_of(e.run_id, e.task_id) for e in sent)
        return failed, sent

    def _has_room(self, board: Board, task: TaskRow, weights: Mapping[TaskKey, Resources]) -> bool:
        """Whether a task fits by its weight. A redelivery always fits."""
        if (task.run_id, task.task_id) in board.in_flight:
            return True
        weight = self.weight_of.get(kind_of(task), ORDINARY)
        return self.window.has_room(weight, task.tenant, board, weights)

    def _put(self, messages: Sequence[Message]) -> bool:
        """Put messages; whether that succeeded."""
        if self.error is not None:
            return False
        try:
            self._queue.put(messages)
        except Error as error:
            self.error = error
            return False
        return True

    def _request(
        self,
        run: RunRow,
        task: TaskRow,
        task_of: TaskOf,
        redelivery: int,
        versions: CommittedVersions,
    ) -> TaskRequest | TaskFinished | None:
        """The request of a task; None if it cannot be built now. If it never can, it fails."""
        unsent = self.unsent
        if unsent.waits(task):
            return None
        may_pass = unsent.run_may_pass
        try:
            self._requests.load(run)
            unsent.run_passed(task)
            may_pass = unsent.task_may_pass
            request = self._requests.build(run, task, task_of, redelivery, versions)
        except (Error, LookupError) as error:
            return None if may_pass(task, error) else _unsendable(task, error)
        unsent.task_passed(task)
        return request

    def withdraw(self, tasks: Sequence[TaskRow]) -> None:
        """Remove messages, as best effort: a worker that gets one sees that its attempt is over."""
        try:
            self._queue.withdraw([message_name(task, task.redelivery) for task in tasks])
        except Error as error:
            log.warning("could not remove messages from the queue: %s", error)

    def missing(self, tasks: Sequence[TaskRow]) -> set[str]:
        """Attempts among these that the queue does not have."""
        if not tasks:
            return set()
        names = {message_name(task, task.redelivery): task.attempt_id for task in tasks}
        try:
            held = self._queue.held(names.keys())
        except Error as error:  # no attempt is missing because the queue fails
            self.error = error
            return set()
        return {attempt for name, attempt in names.items() if name not in held}


def message_name(task: TaskRow, redelivery: int) -> str:
    return dispatch_name(task.run_id, task.task_id, task.attempt, redelivery=redelivery)


def _is_awaited(task: TaskRow | None, attempt_id: str) -> bool:
    """Whether the board does not show an enqueued attempt yet."""
    if task is None:
        return False
    if task.state == TaskState.READY:
        return task.attempt_id == attempt_id
    if task.state == TaskState.RETRY_WAIT:
        return task.attempt_id != attempt_id
    return task.state in (TaskState.PLANNED, TaskState.BLOCKED)


def _unsendable(task: TaskRow, error: Exception) -> TaskFinished:
    """The failure of a task whose request cannot be built."""
    log.error("%s %s cannot be enqueued: %s", task.asset_key, task.partition_key, error)
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
                message=f"the task could not be enqueued: {error}",
                hint="its plan, its project manifest or an input is missing from the "
                "store; start a new run",
            ),
        )
    )
