"""Folds what this process has appended, ahead of the commit.

A report is durable once it is appended; the commit that folds it takes some more writes. If tasks
waited for it, a chain of small tasks would spend its time on commits. So the reports that this
process appended are folded at once, over the board, in memory; tasks that become ready by this are
enqueued.

Only the order of events is a guess. If other events come in between (a cancellation, a dead
worker), the commit decides, and an attempt that was enqueued too early has no effect: it is not the
active one, and of two outputs of a task one is committed. Tasks that have ended free places for
ready tasks of the board. All other decisions wait for the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from arco.clock import Clock
from arco.log.envelope import Event, EventTypes
from arco.orchestration.board import Board, TaskKey
from arco.orchestration.events import TaskFinished, TasksCancelled
from arco.orchestration.runs import RUNS_STAGE
from arco.orchestration.states import TaskState
from arco.orchestration.tables import RUNS, TASKS, TIMERS, TaskRow
from arco.state.fold import Fact, FoldFailure, Rows, fold_stage
from arco.state.table import Key, Table, Versioned

_FOLDED = {
    payload
    for payload in RUNS_STAGE.on
    if not payload.COMMAND and payload is not TasksCancelled  # by which nothing gets ready
}


class SpeculativeFold:
    """Batches are folded lazily, by `ready` and `ended`."""

    def __init__(self, board: Board, types: EventTypes, clock: Clock) -> None:
        self._board = board
        self._types = types
        self._clock = clock
        self._pending: dict[str, Sequence[Event]] = {}
        """By batch: what was appended and the board does not show yet."""
        self._unfolded: list[str] = []
        self._ended: dict[str, set[TaskKey]] = {}
        """By batch: the tasks whose ends it reports, once computed."""
        self._count = 0
        self._rebase()

    def __len__(self) -> int:
        """The number of batches that were appended and not committed yet."""
        return len(self._pending)

    def appended(self, batch: str, events: Sequence[Event]) -> None:
        self._pending[batch] = events
        self._unfolded.append(batch)

    def ready(self) -> list[TaskRow]:
        """The tasks that became ready by what was appended since the last call."""
        facts = [fact for batch in self._unfolded for fact in self._facts(self._pending[batch])]
        self._unfolded.clear()
        return self._fold(facts)

    def ended(self) -> set[TaskKey]:
        """The tasks that ended, or failed, by what was appended and is not committed yet."""
        for batch in self._pending.keys() - self._ended.keys():
            self._ended[batch] = self._ended_by(self._pending[batch])
        return set[TaskKey]().union(*self._ended.values())

    def _ended_by(self, events: Iterable[Event]) -> set[TaskKey]:
        reports = (
            self._types.decode(event.type, event.version, event.data)
            for event in events
            if event.type == TaskFinished.TYPE
        )
        results = (report.result for report in reports if isinstance(report, TaskFinished))
        return {(result.run_id, result.task_id) for result in results}

    def committed(self, batches: Iterable[str]) -> None:
        """Remove batches that the board includes now."""
        for batch in batches:
            self._pending.pop(batch, None)
            self._ended.pop(batch, None)
        self._rebase()

    def reset(self) -> None:
        """Another process committed, so it is unknown what is pending: drop everything."""
        self._pending.clear()
        self._ended.clear()
        self._rebase()

    def task(self, run_id: str, task_id: str) -> TaskRow | None:
        """A task as it is by what was folded so far."""
        return self._rows.get(TASKS, run_id, task_id)

    def _rebase(self) -> None:
        self._rows = Rows(_BoardRows(self._board))
        self._rows.now = self._clock.now()
        self._unfolded = list(self._pending)

    def _facts(self, events: Iterable[Event]) -> Iterator[Fact]:
        now = self._clock.now()
        for event in events:
            payload = self._types.decode(event.type, event.version, event.data)
            if payload is not None and type(payload) in _FOLDED:
                self._count += 1
                yield Fact(self._count, now, event.id, event.key, event.actor, payload)

    def _fold(self, facts: Sequence[Fact]) -> list[TaskRow]:
        if not facts:
            return []
        failures: list[FoldFailure] = []
        fold_stage(RUNS_STAGE, self._rows, facts, failures)
        first = facts[0].position
        changed = self._rows.changes.get(TASKS, {})
        return [
            row
            for version, row in changed.values()
            if version >= first and row is not None and row.state == TaskState.READY
        ]


class _BoardRows:
    """The board, as the rows that the fold of runs looks at.

    Edges and dispatches are not on it, and are assumed to be open: an edge is resolved when its
    upstream task ends, which happens once.
    """

    def __init__(self, board: Board) -> None:
        self._board = board

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        row: Any = None
        if table is RUNS:
            row = self._board.runs.get(key[0])
        elif table is TASKS:
            row = self._board.task(key[0], key[1])
        elif table is TIMERS:
            row = self._board.timers.get(key)
        return None if row is None else (0, row)

    def scan(self, table: Table[Any], shard: Key) -> Iterable[tuple[Key, Versioned[Any]]]:
        if table is not TASKS:
            return ()
        tasks = self._board.tasks.get(shard[0], {})
        return [((shard[0], id), (0, row)) for id, row in tasks.items()]
