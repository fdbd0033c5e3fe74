"""Performing what controllers decided: enqueue, report, interrupt, adopt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, assert_never

from arco.dispatch.admissions import Admissions
from arco.dispatch.requests import TaskOf
from arco.dispatch.sender import Sender
from arco.errors import Error
from arco.log.envelope import Payload
from arco.orchestration.actions import (
    Action,
    AdmitTasks,
    AdoptRun,
    CancelTasks,
    Enqueue,
    FireTimer,
    Interrupt,
    LoseAttempt,
)
from arco.orchestration.board import Board
from arco.orchestration.cancel_notes import note_cancelled
from arco.orchestration.events import AttemptLost, TasksCancelled, TimerFired
from arco.state.core import Core
from arco.transport.reports import Reports

log = logging.getLogger(__name__)
A = TypeVar("A")


class Performer:
    def __init__(
        self,
        core: Core,
        reports: Reports,
        sender: Sender,
        *,
        interrupt: Callable[[str], None],
        adopt: Callable[[str], None],
        repeat_s: float,
        notes: bool,
    ) -> None:
        """An event that was reported is not repeated for `repeat_s`.

        `notes`: whether notes of cancelled runs are written for workers of other processes."""
        self._core = core
        self._reports = reports
        self._sender = sender
        self.admissions = Admissions(core.ids)
        self._interrupt = interrupt
        self._adopt = adopt
        self._repeat_s = repeat_s
        self._notes = notes
        self.reported_at: dict[str, float] = {}
        """When each event was reported, so that it is not repeated until it is folded."""
        self._pruned_at = -1e9
        self._noted: set[str] = set()
        """Cancelled runs whose note was written."""

    def perform(self, board: Board, task_of: TaskOf, actions: Iterable[Action]) -> Error | None:
        """Perform all actions; returns an error that can wait for the next tick."""
        sending: list[Enqueue] = []
        urgent: list[Payload] = []
        losing: list[LoseAttempt] = []
        stopping: set[str] = set()
        for action in actions:
            match action:
                case Enqueue():
                    sending.append(action)
                case AdmitTasks(tasks):
                    fact = self.admissions.propose(board, tasks)
                    urgent += [] if fact is None else [fact]
                case FireTimer(run_id, timer_id):
                    if self.is_first_report(timer_id):
                        urgent.append(TimerFired(run_id=run_id, timer_id=timer_id))
                case LoseAttempt():
                    if self.is_first_report(action.attempt_id):
                        losing.append(action)
                case CancelTasks(run_id, task_ids):
                    if self.is_first_report(f"{run_id} {task_ids[0]}"):
                        urgent.append(TasksCancelled(run_id=run_id, task_ids=task_ids))
                case Interrupt(run_id, attempt_id):
                    call_back(self._interrupt, attempt_id)
                    stopping.add(run_id)
                case AdoptRun(run_id):
                    log.warning("adopting run %s: its local engine has died", run_id)
                    self._adopt(run_id)
                case _:
                    assert_never(action)
        failed = self._note_cancelled(board, stopping)
        if losing:
            urgent += self._lose(board, losing)
        if urgent:
            self._reports.submit(urgent)
        self.send(board, task_of, sending)
        return failed

    def send(self, board: Board, task_of: TaskOf, sending: Sequence[Enqueue]) -> None:
        if not sending:
            return
        failed, sent = self._sender.send(board, task_of, sending)
        self.admissions.sent(self._sender.sent.keys())
        if failed:
            self._reports.submit(failed)
        unknown = [e for e in sent if e.redelivery or (e.run_id, e.task_id) not in board.in_flight]
        if unknown:  # for admitted tasks the log has it already
            self._reports.submit(unknown, urgent=False)

    def _lose(self, board: Board, losing: Sequence[LoseAttempt]) -> list[AttemptLost]:
        tasks = [board.task(action.run_id, action.task_id) for action in losing]
        self._sender.withdraw([task for task in tasks if task is not None])
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

    def _note_cancelled(self, board: Board, stopping: set[str]) -> Error | None:
        """Write notes for workers of the store's queue, once for each run."""
        self._noted &= board.runs.keys()
        if not self._notes:
            return None
        failed: Error | None = None
        for run_id in stopping - self._noted:
            try:
                note_cancelled(self._core.store, run_id)
                self._noted.add(run_id)
            except Error as error:
                failed = error
        return failed

    def is_first_report(self, subject: str) -> bool:
        now = self._core.clock.monotonic()
        if now - self.reported_at.get(subject, -1e9) < self._repeat_s:
            return False
        recent = now - self._repeat_s
        if len(self.reported_at) > 1_000 and self._pruned_at < recent:
            self.reported_at = {key: at for key, at in self.reported_at.items() if at > recent}
            self._pruned_at = now
        self.reported_at[subject] = now
        return True


def call_back(call: Callable[[A], None], argument: A) -> None:
    """An error of an observer does not stop the loop."""
    try:
        call(argument)
    except Exception:
        log.exception("a listener failed")
