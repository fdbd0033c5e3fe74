"""Watches workers: which are alive, and since when they were watched without a pause.

A worker's silence counts only while it was watched. After a pause (the store or commits failed, the
machine slept) all times start again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from arco.orchestration.board import Board
from arco.orchestration.controllers.lost_attempts import WorkerState
from arco.orchestration.limits import Timing
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.window import DispatchWindow
from arco.state.core import Core
from arco.transport.liveness import Watch


class Lookout:
    def __init__(self, core: Core, timing: Timing, window: DispatchWindow, *, adopts: bool) -> None:
        """`adopts`: whether engines with their own runs are watched too."""
        self._core = core
        self._timing = timing
        self._window = window
        self._adopts = adopts
        self._watch = self._new_watch()
        self._read_at = -1e9
        self._watched_at = datetime.min
        """The last time that workers were read together with a fresh board."""
        self.watching_since = datetime.min
        """Since when there was no pause."""
        self.first_seen: dict[str, datetime] = {}
        """When attempts, cancelled runs and runs of others were first seen, by our clock."""

    def read_workers(self, board: Board) -> Mapping[str, WorkerState] | None:
        """The workers, if it is time to read them. Raises errors of the store."""
        ticks, now = self._core.clock.monotonic(), self._core.clock.now()
        paused = now - self._watched_at > timedelta(seconds=self._timing.zombie_after_s / 2)
        watched = board.in_flight or (board.others and self._adopts)
        if paused and not watched:
            self._window.forget()
        if not watched or ticks - self._read_at < self._timing.heartbeat_s / 2:
            return None
        self._read_at = ticks
        if paused:
            self._watch = self._new_watch()
            self._window.forget()
            self.watching_since = now
        alive = self._watch.read_workers()
        self._window.saw_workers(alive, now)
        return alive

    def saw_board(self, board: Board, now: datetime, *, looked: bool) -> None:
        """The board is up to date; `looked`: the workers have just been read as well."""
        if looked:
            self._watched_at = now
        running = [t.attempt_id for t in board.in_flight.values() if t.state == TaskState.RUNNING]
        cancelling = [r.run_id for r in board.runs.values() if r.state == RunState.CANCELLING]
        seen = self.first_seen
        self.first_seen = {
            key: seen.get(key, now) for key in (*running, *cancelling, *board.others)
        }

    def has_watched(self, now: datetime) -> bool:
        """Whether workers were watched long enough to call one dead."""
        return (now - self.watching_since).total_seconds() > self._timing.zombie_after_s

    def _new_watch(self) -> Watch:
        core = self._core
        return Watch(core.store, core.clock, core.store_clock, self._timing.zombie_after_s)
