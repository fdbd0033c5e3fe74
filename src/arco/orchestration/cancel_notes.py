"""Notes of runs that are being cancelled: `liveness/cancelled/{run}.json`.

Workers read them instead of the run's row, which costs more. A note is written after the commit of
the cancellation by the process that requested it, and again by the orchestrators that serve the
run. A note only tells a worker to read the run's row: after a rollback the run may be active again.

Notes outlive their runs: with a forced cancellation a run ends before its tasks have
stopped. GC removes them with the records of liveness.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from arco.orchestration.states import RunState
from arco.orchestration.tables import RUNS
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.port import Mode, Store

_RUNNING = (RunState.PLANNING, RunState.RUNNING)


def note_cancelled(store: Store, run_id: str) -> None:
    store.put(paths.cancelled_run(run_id), b"{}", Mode.OVERWRITE)


def noted(store: Store) -> dict[str, datetime]:
    """By run: when its note was last written."""
    return {
        meta.path.removeprefix(paths.CANCELLED).removesuffix(".json"): meta.last_modified
        for meta in store.list(paths.CANCELLED)
    }


class Cancellations:
    """Which runs a worker must stop working on.

    Each call lists the notes once; a run's row is read once for each note."""

    def __init__(self, store: Store, newest: Callable[[], Snapshot]) -> None:
        self._store = store
        self._newest = newest
        self._looked_up: dict[str, tuple[datetime, bool]] = {}
        """By run: the time of its note, and whether the run is cancelled by its row."""

    def among(self, runs: Collection[str]) -> set[str]:
        """Those of the runs that are cancelled, or being cancelled."""
        notes = noted(self._store)
        named = {run: notes[run] for run in runs if run in notes}
        old = {run: self._looked_up[run] for run in named if run in self._looked_up}
        self._looked_up = {run: seen for run, seen in old.items() if seen[0] == named[run]}
        unread = named.keys() - self._looked_up.keys()
        if unread:
            snapshot = self._newest()
            for run in unread:
                row = snapshot.get(RUNS, run)
                stopped = row is None or row.state not in _RUNNING
                self._looked_up[run] = (named[run], stopped)
        return {run for run, (_, stopped) in self._looked_up.items() if stopped}
