"""Which runs a caller sees: those with a task of an asset that he sees.

A run's tasks do not change once it is planned, so the namespaces of a run are read once.
"""

from __future__ import annotations

from arco.api.views import View
from arco.errors import NotFound
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RunState
from arco.orchestration.tables import TASKS, RunRow
from arco.security.visibility import Visible
from arco.state.days import newest_first


def run_namespaces(view: View, row: RunRow) -> frozenset[str]:
    if row.state == RunState.PLANNING:  # not all of its tasks are rows yet
        tasks = view.library.plan(row.plan_id).spec.tasks
        return frozenset(task.asset.partition(".")[0] for task in tasks)
    return view.once(("run", row.run_id), lambda: _read(view, row.run_id))


def _read(view: View, run_id: str) -> frozenset[str]:
    keys: set[str] = set()
    for rows, _ in newest_first(view.snapshot, TASKS, run_id):
        keys.update(rows.column("asset_key").unique().to_pylist())
    return frozenset(key.partition(".")[0] for key in keys)


def sees_run(view: View, visible: Visible, row: RunRow) -> bool:
    return visible.all or any(map(visible.sees, run_namespaces(view, row)))


def sees_whole_run(view: View, visible: Visible, row: RunRow) -> bool:
    if visible.all:
        return True
    namespaces = run_namespaces(view, row)
    return bool(namespaces) and all(map(visible.sees, namespaces))


def require_run(view: View, visible: Visible, run_id: str) -> RunRow:
    """The run, if it is there and the caller sees it. Raises NotFound, the same for both."""
    row = OrchestrationReader(view.snapshot).run(run_id)
    if not sees_run(view, visible, row):
        raise NotFound(f"there is no run {run_id}")
    return row
