"""The orchestrator's loop: it commits, decides and acts.

One *tick*:

    1. append what waits to be reported, as one batch; send what is ready by it
    2. now and then: look which workers are alive, and what they work on
    3. commit the inbox                        (anybody's; any number may do this)
    4. bring the board and the agenda to the newest generation
    5. ask the controllers
    6. perform their actions: enqueue, report, interrupt, plan what was asked for

Nothing is lost when it dies. A task that was enqueued and not acknowledged is still ready on the
next board, and is enqueued again under the same name, for the same attempt. Two orchestrators may
do the same twice; it has one effect.

What is decided in step 5 is in `orchestration/controllers`; step 6 is in `performer.py` and
`sender.py`, looking at workers in `lookout.py`.

While many tasks report, most rounds are a *hurry*: step 1 alone (`ahead.py`). The next commit folds
many reports together.

Controllers that act because time has passed are called only if the inbox was empty after the
commit: a missing report may be there. For the same reason workers are read before the commit: an
attempt that a worker does not name any more was reported before that.

Errors of the store, expired credentials included, end the loop only before its first complete tick.
After that it waits until they are over (`storage/outage.py`). If the queue fails, everything else
continues: results are committed, cancelled runs end, and tasks that could not be enqueued are still
ready at the next tick. While runs are active each complete tick may write a liveness record
(`liveness.py`).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from arco.dispatch.ahead import SpeculativeFold
from arco.dispatch.automation import Automation
from arco.dispatch.journal import Journal, rows_put, rows_since
from arco.dispatch.lookout import Lookout
from arco.dispatch.notifier import Notifier
from arco.dispatch.orchestrator_heartbeat import OrchestratorHeartbeat
from arco.dispatch.performer import Performer, call_back
from arco.dispatch.request_planner import RequestPlanner
from arco.dispatch.sender import Sender
from arco.dispatch.sensor_sender import SensorSender
from arco.dispatch.waiting import ServedRuns
from arco.errors import Error, Unreadable
from arco.log.commit import Committed
from arco.log.head import Head
from arco.notifications.delivery import Courier, NoCourier
from arco.orchestration.actions import Action, Interrupt
from arco.orchestration.board import Board
from arco.orchestration.controllers.adoption import adoption
from arco.orchestration.controllers.anti_entropy import anti_entropy, unstarted
from arco.orchestration.controllers.cancellation import cancellation, end_waiting
from arco.orchestration.controllers.limited_dispatch import is_limited, limited_dispatch
from arco.orchestration.controllers.lost_attempts import WorkerState, lost_attempts
from arco.orchestration.controllers.ready_dispatch import Turn, ready_dispatch
from arco.orchestration.controllers.send_ahead import (
    SPECULATE_BELOW,
    is_short_of_work,
    send_ahead,
)
from arco.orchestration.controllers.timers import next_due, timers
from arco.orchestration.limits import Timing
from arco.state.changes import Changes
from arco.state.core import Core
from arco.state.writer import LogWriter
from arco.storage.outage import Outage
from arco.transport.reports import Reports

log = logging.getLogger(__name__)

IDLE = 4
"""Without work, the time between two rounds grows to this many intervals."""


class Orchestrator:
    def __init__(
        self,
        core: Core,
        writer: LogWriter,
        reports: Reports,
        sender: Sender,
        *,
        timing: Timing | None = None,
        planner: RequestPlanner | None = None,
        sensors: SensorSender | None = None,
        courier: Courier | None = None,
        engine_id: str = "",
        name: str = "orchestrator",
        interrupt: Callable[[str], None] = lambda attempt_id: None,
        on_board: Callable[[Board], None] = lambda board: None,
    ) -> None:
        """`planner` plans requests for runs, and `sensors` sends evaluations, where this
        orchestrator serves schedules and sensors; `courier` sends notifications, where it has
        channels.

        `engine_id` is whose runs these are: by default those that are of no local engine.

        `name` is the name of its liveness record; each process needs its own. `interrupt` tells a
        worker of this process to stop an attempt; `on_board` is called after each change of the
        board.
        """
        self.name = name
        self._core = core
        self._clock = core.clock
        self._committer = writer.committer
        self._signal = writer.signal
        self._reports = reports
        self.sender = sender
        self._timing = (timing or Timing()).check()
        self._engine_id = engine_id
        self._on_board = on_board
        self.adopted: set[str] = set()
        """Runs of other orchestrators that this one serves."""
        self.board = Board(
            lambda run: run.engine_id == engine_id or run.run_id in self.adopted,
            # Runs that an orchestrator waits for are served, or adopted, by some orchestrator.
            ServedRuns(core).has if engine_id else lambda run: True,
        )
        self.ahead = SpeculativeFold(self.board, core.types, core.clock)
        self.lookout = Lookout(core, self._timing, sender.window, adopts=not engine_id)
        self._heartbeat = OrchestratorHeartbeat(core, name, self._timing.heartbeat_s)
        self.performer = Performer(
            core,
            reports,
            sender,
            interrupt=interrupt,
            adopt=self.adopt,
            repeat_s=2 * self._timing.interval_s,
            notes=not engine_id,
        )
        first = self.performer.is_first_report
        self._automation: Automation | None = None
        if planner is not None and sensors is not None:
            self._automation = Automation(core, reports, planner, sensors, first)
        self._notifier = Notifier(core, reports, courier or NoCourier(), name, first)
        self._journal = Journal()
        self._turn = Turn()
        self.commits: deque[tuple[Head, Changes]] = deque()
        self._committed_at = -1e9
        self._ticked_at = -1e9
        """When the last tick began."""
        self._idle_ticks = 0
        """How many ticks in a row had no run, and no commit of any process."""
        self.outage = Outage(core.clock, "orchestrator")
        """Whether the store fails, and since when."""
        self._setback: Error | None = None
        """The error of the last tick that did not stop it."""
        self._thread = 0
        self._unfollow = writer.commits.follow(self._on_commit)

    # -- the loop ------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set; then once more, for what was reported before."""
        self._thread = threading.get_ident()
        names: list[str] = []
        try:
            while not stop.is_set():
                stop.wait(self.run_round(names))
                names = self._signal.wait(self.pause_s())
            self._last_tick(names)
        finally:
            self.close()

    def _last_tick(self, names: Sequence[str]) -> None:
        try:
            self.tick(names)
        except Error as error:
            log.warning(
                "stopped with uncommitted events; the next orchestrator commits them: %s", error
            )

    def close(self) -> None:
        """Stop listening to commits of this process."""
        self._unfollow()
        self.commits.clear()
        self._notifier.close()

    def run_round(self, names: Sequence[str]) -> float:
        """A tick or a hurry; how long to wait after it because the store fails."""
        try:
            if not (names or self.commits or self._commit_in_s() <= 0):
                self.hurry()
                return 0.0 if self.sender.error is None else self.outage.failed(self.sender.error)
            self.tick(names)
        except Error as error:
            return self.outage.failed(error)
        failed = self._setback or self.sender.error
        if failed is not None:
            return self.outage.failed(failed)
        self.outage.passed()
        return 0.0

    def _on_commit(self, head: Head, changes: Changes) -> None:
        """A thread of this process has committed."""
        self.commits.append((head, changes))
        if threading.get_ident() != self._thread:
            self._signal.wake()

    def pause_s(self) -> float:
        """How long to wait for the next round, unless something wakes it."""
        if self.board.in_flight or self.sender.unseen:
            # Measured from tick to tick: after a slow one, the next is due.
            since_s = self._clock.monotonic() - self._ticked_at
            pause = max(self._timing.busy_interval_s - since_s, self._commit_in_s(), 0.0)
        else:
            pause = self._timing.interval_s * min(IDLE, 1.25**self._idle_ticks)
        due = self._reports.due_in_s
        if due is not None:
            pause = min(pause, due)
        if self.ahead:
            pause = min(pause, max(0.0, self._commit_in_s()))
        timer = next_due(self.board)
        if timer is not None:
            pause = min(pause, max(0.0, (timer - self._clock.now()).total_seconds()))
        if self._automation is not None and (ahead := self._automation.due_in_s()) is not None:
            pause = min(pause, ahead)
        if (ahead := self._notifier.due_in_s()) is not None:
            pause = min(pause, ahead)
        return max(pause, 0.0) if due == 0.0 else max(pause, 0.001)

    def _commit_in_s(self) -> float:
        spacing_s = self._timing.commit_spacing_s
        if len(self.board.in_flight) > SPECULATE_BELOW or self._has_many_ready():
            spacing_s *= 4  # no task waits for the next one
        return self._committed_at + spacing_s - self._clock.monotonic()

    def _has_many_ready(self) -> bool:
        """Whether the board has enough ready tasks for some time."""
        runs = [orders for runs in self.board.ready.values() for orders in runs.values()]
        return sum(map(len, runs)) - self.sender.unseen > SPECULATE_BELOW

    def hurry(self) -> list[str]:
        """Append waiting reports, and enqueue tasks that they make ready. Returns the batches."""
        self.sender.begin_round()
        batches = self._reports.flush() if self._reports.due_in_s == 0.0 else []
        for batch in batches:
            self.ahead.appended(batch.name, batch.events)
        self._send_ahead()
        return [batch.name for batch in batches]

    def tick(self, names: Sequence[str] = ()) -> int:
        """One round; returns the number of actions. Raises errors of the store."""
        self._setback = None
        self._ticked_at = self._clock.monotonic()
        before = self.board.generation
        batches = self.hurry()
        alive = self._read_workers()
        fresh, head = self._commit([*names, *batches])
        self._committed_at = self._clock.monotonic()
        self._refresh(head)
        self._take_adopted(head)
        automated = self._automate(head) + self._notifier.act() if fresh else 0
        actions = self._decide(fresh, alive)
        failed = self.performer.perform(self.board, self.ahead.task, actions)
        self._setback = self._setback or failed
        self._beat()
        idle = not (self.board.runs or self.board.others) and self.board.generation == before
        self._idle_ticks = min(self._idle_ticks + 1, 100) if idle else 0
        return len(actions) + automated

    def _commit(self, names: Sequence[str]) -> tuple[bool, Head]:
        try:
            outcome = self._committer.commit(names)
        except Unreadable:
            raise
        except Error as error:
            self._setback = error
            return False, self._core.manifests.head()
        return not (isinstance(outcome, Committed) and outcome.more), outcome.head

    def _refresh(self, head: Head) -> None:
        board, before = self.board, self.board.generation
        flight = self.sender.flight(board)
        active = {*board.runs, *board.others}
        while self.commits:
            committed, changes = self.commits.popleft()
            if committed.generation == board.generation + 1:
                board.apply(changes, committed)
                if self._automation is not None:
                    self._automation.agenda.apply(changes)
                self._notifier.outbox.apply(changes)
                if self._journal.is_on:
                    self._journal.take(functools.partial(rows_put, changes))
                self.ahead.committed(committed.manifest.consumed)
        if board.generation < head.generation:
            snapshot = self._core.snapshot_of(head)
            if before >= 0 and not self._core.manifests.rewritten(board.generation, head):
                if self._automation is not None:
                    self._automation.agenda.advance(snapshot, board.position)
                self._notifier.outbox.advance(snapshot, board.position)
                if self._journal.is_on:
                    self._journal.take(functools.partial(rows_since, snapshot, board.position))
                board.advance(snapshot)
            else:
                board.load(snapshot)
                self.performer.admissions.forget()
                if self._automation is not None:
                    self._automation.agenda.load(snapshot)
                self._notifier.outbox.load(snapshot)
                self._journal.load(board.runs)
            self.ahead.reset()
        if board.generation != before:
            self.sender.saw_board(board, flight)
            self.adopted -= active - {*board.runs, *board.others}
            call_back(self._on_board, board)

    def adopt(self, run_id: str) -> None:
        """Serve a run of another process from now on. Thread-safe."""
        self.adopted.add(run_id)
        self._signal.wake()

    def _take_adopted(self, head: Head) -> None:
        adopted = [id for id, run in self.board.others.items() if self.board.serves(run)]
        if adopted and self.board.generation == head.generation:
            snapshot = self._core.snapshot_of(head)
            for run_id in sorted(adopted):
                self.board.adopt(run_id, snapshot)
        if self.board.misses_others and self.board.generation == head.generation:
            self.board.load_others(self._core.snapshot_of(head))

    def _read_workers(self) -> Mapping[str, WorkerState] | None:
        try:
            return self.lookout.read_workers(self.board)
        except Error as error:  # no worker counts as dead because the store fails
            self._setback = error
            return None

    def _beat(self) -> None:
        """Write the liveness record while there are runs to serve."""
        if self._engine_id or self._setback is not None:
            return
        runs = self.board.runs.keys()
        try:
            self._heartbeat.beat(len(runs), self.adopted & runs, self.outage.last)
        except Error as error:
            self._setback = error

    # -- deciding: the controllers -----------------------------------------------------------

    def _send_ahead(self) -> None:
        """Enqueue tasks that are ready by appended reports, if workers may be short of work."""
        if not self.ahead or self.board.declared.is_paused:
            return
        board, sender, ended = self.board, self.sender, self.ahead.ended()
        if not is_short_of_work(board, sender.sent, ended):
            return
        sending, self._turn = send_ahead(
            board,
            sender.limits(board),
            self._turn,
            sender.sent,
            ended,
            self.ahead.ready,
            sender.later(board),
        )
        if board.declared.has_task_limits:  # tasks that limits count wait for the commit
            task_of = self.ahead.task
            sending = [e for e in sending if not is_limited(board, task_of(e.run_id, e.task_id))]
        self.performer.send(board, self.ahead.task, sending)

    def _automate(self, head: Head) -> int:
        try:
            return 0 if self._automation is None else self._automation.act(self.board, head)
        except Error as error:
            self._setback = error
            return 0

    def _decide(self, fresh: bool, alive: Mapping[str, WorkerState] | None) -> list[Action]:
        board, sender, now = self.board, self.sender, self._clock.now()
        looked = fresh and alive is not None
        self.lookout.saw_board(board, now, looked=looked)
        seen = self.lookout.first_seen
        actions: list[Action] = []
        if looked and alive is not None and not self._engine_id:
            since = self.lookout.watching_since
            actions += adoption(board, alive, now, self._timing, seen, since)
        if not board.runs:
            return actions
        if fresh:
            sender.forget_unanswered()
        actions += [*self.performer.admissions.to_send(board), *self._dispatch()]
        actions += end_waiting(board)
        stopping = cancellation(board, now, self._timing, seen)
        actions += [action for action in stopping if fresh or isinstance(action, Interrupt)]
        if fresh:
            actions += timers(board, now)
        if looked and alive is not None:
            if self.lookout.has_watched(now):
                actions += lost_attempts(board, alive, now, self._timing, seen)
            missing = sender.missing(unstarted(board, now, self._timing))
            actions += anti_entropy(board, now, self._timing, missing)
        return actions

    def _dispatch(self) -> list[Action]:
        """The actions for ready tasks that may be enqueued."""
        board, sender = self.board, self.sender
        if board.declared.is_paused:
            return []
        sending, self._turn = ready_dispatch(
            board, sender.limits(board), self._turn, sender.sent, later=sender.later(board)
        )
        is_open = self.performer.admissions.is_open(board)
        return [*limited_dispatch(board, sending, is_open=is_open)]
