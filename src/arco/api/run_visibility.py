"""Which runs are visible to a caller: those with a task of a visible asset.

A run's row names the namespaces of its tasks. Where it does not, they are read of its tasks, once:
these do not change when it is planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from arco.api.views import View
from arco.errors import NotFound
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RunState
from arco.orchestration.tables import RUN_ORDER, TASKS, RunOrderRow, RunRow
from arco.security.visibility import Visible
from arco.state.days import newest_first

ASKED_OF_RUN: Final[Mapping[str, Any]] = {
    "selection": [],
    "partitions": [],
    "run_key": "",
    "reference": "",
    "failed_by": "",
    "cancel_reason": "",
    "retry_of": "",
    "namespaces": None,
}
"""What is left out of a run with tasks that its reader does not see."""


def run_namespaces(view: View, row: RunRow) -> frozenset[str]:
    if row.namespaces is not None:
        return frozenset(row.namespaces)
    if row.state == RunState.PLANNING:  # not all of its tasks are rows yet
        tasks = view.library.plan(row.plan_id).spec.tasks
        return frozenset(task.asset.partition(".")[0] for task in tasks)
    return view.once(("run", row.run_id), lambda: _read(view, row.run_id))


def _read(view: View, run_id: str) -> frozenset[str]:
    keys: set[str] = set()
    for rows, _ in newest_first(view.snapshot, TASKS, run_id):
        keys.update(rows.column("asset_key").unique().to_pylist())
    return frozenset(key.partition(".")[0] for key in keys)


def seen_places(view: View, visible: Visible, rows: pa.Table) -> list[int]:
    """Which of these rows of runs the caller may see. Namespaces of many runs are read together:
    each file that may hold tasks of these runs is opened once."""
    runs = [*RUN_ORDER.rows_of(rows)]
    planned = [
        row.run_id for row in runs if row.namespaces is None and row.state != RunState.PLANNING
    ]
    namespaces = view.once_many("run", planned, lambda ids: _read_many(view, ids))

    def may_see(row: RunOrderRow) -> bool:
        if row.namespaces is not None:
            return any(map(visible.sees, row.namespaces))
        return row.state == RunState.PLANNING or any(map(visible.sees, namespaces[row.run_id]))

    return [place for place, row in enumerate(runs) if may_see(row)]


def _read_many(view: View, run_ids: list[str]) -> dict[str, frozenset[str]]:
    namespaces: dict[str, set[str]] = {run_id: set() for run_id in run_ids}
    ids = pa.array(run_ids, pa.string())
    between = min(run_ids), max(run_ids)
    for rows, _ in newest_first(view.snapshot, TASKS, between=between):
        chosen = rows.select(["run_id", "asset_key"])
        chosen = chosen.filter(pc.is_in(chosen.column("run_id"), ids))
        pairs = zip(*(column.to_pylist() for column in chosen.columns), strict=True)
        for run_id, key in pairs:
            namespaces[run_id].add(key.partition(".")[0])
    return {run_id: frozenset(names) for run_id, names in namespaces.items()}


def sees_run(view: View, visible: Visible, row: RunRow) -> bool:
    return visible.all or any(map(visible.sees, run_namespaces(view, row)))


def sees_listed_run(view: View, visible: Visible, row: RunRow) -> bool:
    """A run that names its namespaces is in the list because one of them is visible."""
    return row.namespaces is not None or sees_run(view, visible, row)


def sees_whole_run(view: View, visible: Visible, row: RunRow) -> bool:
    if visible.namespaces is None:
        return True
    namespaces = run_namespaces(view, row)
    return bool(namespaces) and namespaces <= visible.namespaces


def require_run(view: View, visible: Visible, run_id: str) -> RunRow:
    """The run, if it is there and the caller sees it. Raises NotFound, the same for both."""
    row = OrchestrationReader(view.snapshot).run(run_id)
    if not sees_run(view, visible, row):
        raise NotFound(f"there is no run {run_id}")
    return row
