"""Tasks that limits count, from the proposal to admit them until they are enqueued.

One proposal is open at a time. It is decided by the commit in which the control row moves past the
position that it was counted at: by this proposal, or by another one that was first. The process
that proposed tasks enqueues them after their admission; if it dies before, anti-entropy does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from arco.orchestration.actions import Enqueue
from arco.orchestration.board import Board
from arco.orchestration.limit_events import AdmittedTask, TasksAdmitted
from arco.orchestration.limit_tables import Permit
from arco.orchestration.states import TaskState


class Admissions:
    def __init__(self, ids: Callable[[], str]) -> None:
        self._ids = ids
        self._open_since: int | None = None
        """The position that the open proposal was counted at."""
        self._unsent: dict[str, Enqueue] = {}
        """By attempt: what was proposed, and is not with the queue yet."""

    def is_open(self, board: Board) -> bool:
        """Whether a proposal is not decided yet."""
        since = self._open_since
        return since is not None and board.declared.control.tasks_position <= since

    def propose(self, board: Board, tasks: Sequence[Enqueue]) -> TasksAdmitted | None:
        """The event that admits tasks, if its count is still valid when it is folded."""
        if not tasks or self.is_open(board):
            return None
        self._open_since = board.position
        self._unsent |= {action.attempt_id: action for action in tasks}
        return TasksAdmitted(
            permit=Permit(board.position, self._ids()),
            tasks=tuple([AdmittedTask(a.run_id, a.task_id, a.attempt_id) for a in tasks]),
        )

    def to_send(self, board: Board) -> list[Enqueue]:
        """The admitted tasks to enqueue. Those refused or enqueued otherwise are dropped."""
        if self.is_open(board):
            return []
        self._unsent = {
            attempt_id: action
            for attempt_id, action in self._unsent.items()
            if (task := board.in_flight.get((action.run_id, action.task_id))) is not None
            and task.attempt_id == attempt_id
            and task.state == TaskState.DISPATCHED
            and not task.redelivery
        }
        return list(self._unsent.values())

    def sent(self, attempts: Collection[str]) -> None:
        for attempt_id in self._unsent.keys() & attempts:
            del self._unsent[attempt_id]

    def forget(self) -> None:
        """After a rollback the state of the proposal is unknown: forget it."""
        self._open_since = None
        self._unsent.clear()
