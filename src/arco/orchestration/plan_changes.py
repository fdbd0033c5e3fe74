"""What changed since a partition's current version was written: why its task runs again.

The planner compares fingerprints, which do not show what differs. The run that made the current
version has its plan and its manifest in the store, and lineage has the versions that were read;
these are compared with the new plan.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from arco.errors import Error
from arco.execution.tables import PARTITIONS
from arco.lineage.tables import EXECUTIONS, ExecutionRow
from arco.orchestration.catalog_names import CatalogNames
from arco.orchestration.configuration import task_config
from arco.orchestration.input_refs import fingerprint
from arco.orchestration.plan import Plan, PlannedTask, PlanSpec
from arco.orchestration.planner_tasks import CHANGED
from arco.orchestration.reader import Library
from arco.orchestration.tables import RUNS
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Asset, Manifest

MAX_EXPLAINED: Final = 500
"""Tasks to look into; those after them keep the general reason."""


class InputChange(Struct, frozen=True):
    kind: Literal["code", "configuration", "input"]
    name: str = ""
    """Of the configuration value, or of the asset that is read."""

    @property
    def text(self) -> str:
        match self.kind:
            case "code":
                return "code changed"
            case "configuration":
                return f"configuration {self.name} changed"
            case "input":
                return f"input {self.name} changed"


class ChangedTask(Struct, frozen=True):
    task_id: str
    asset: str
    partition: str
    changes: tuple[InputChange, ...]


class _PreviousTask(NamedTuple):
    """The task that wrote a version."""

    asset: Asset
    config: Mapping[str, object]


def changed_tasks(
    snapshot: Snapshot, library: Library, manifest: Manifest, spec: PlanSpec
) -> list[ChangedTask]:
    """The tasks of a plan that run because something changed, if it is known what."""
    assets = {asset.key: asset for asset in manifest.assets}
    history = _History(snapshot, library)
    chosen = [task for task in spec.tasks if task.reason.endswith(CHANGED)][:MAX_EXPLAINED]
    explained = []
    for task in chosen:
        changes = tuple(history.changes(spec, task, assets[task.asset]))
        if changes:
            explained.append(ChangedTask(task.task_id, task.asset, task.partition, changes))
    return explained


class _History:
    """The tasks that wrote the current versions of one snapshot."""

    def __init__(self, snapshot: Snapshot, library: Library) -> None:
        self._snapshot = snapshot
        self._library = library
        self._names = CatalogNames(snapshot)
        self._plan = functools.cache(self._find_plan)

    def changes(self, spec: PlanSpec, task: PlannedTask, asset: Asset) -> Iterator[InputChange]:
        current = self._snapshot.get(PARTITIONS, task.asset_id, task.partition)
        if current is None:
            return
        then = self._previous_task(current.run_id, task)
        if then is None:
            return
        yield from _own_changes(then, asset, task_config(asset, spec.request.config))
        reads = self._snapshot.rows(EXECUTIONS, task.asset_id, current.materialization_id)
        read = {self._names.key(row.source): row for row in reads}
        for each in spec.inputs_of(task):
            ids = [version.materialization_id for version in spec.versions_of(each)]
            if each.asset in read and not _same(read[each.asset], ids):
                yield InputChange("input", each.asset)

    def _previous_task(self, run_id: str, task: PlannedTask) -> _PreviousTask | None:
        plan, tasks = self._plan(run_id)
        old = tasks.get((task.asset_id, task.partition))
        if plan is None or old is None:
            return None
        asset = self._library.assets(plan.spec.manifest_of(old.asset)).get(old.asset)
        if asset is None:
            return None
        return _PreviousTask(asset, task_config(asset, plan.spec.request.config))

    def _find_plan(self, run_id: str) -> tuple[Plan | None, dict[tuple[str, str], PlannedTask]]:
        row = self._snapshot.get(RUNS, run_id)
        try:
            plan = None if row is None else self._library.plan(row.plan_id)
        except Error:  # the general reason remains
            plan = None
        tasks = () if plan is None else plan.spec.tasks
        return plan, {(task.asset_id, task.partition): task for task in tasks}


def _own_changes(
    previous: _PreviousTask, asset: Asset, config: Mapping[str, object]
) -> Iterator[InputChange]:
    names = sorted(config.keys() | previous.config.keys())
    different = [name for name in names if _value(config, name) != _value(previous.config, name)]
    # The fingerprint of the code covers the declared configuration.
    declared = previous.asset.config != asset.config and previous.asset.sql == asset.sql
    if previous.asset.transform != asset.transform and not (declared and different):
        yield InputChange("code")
    yield from (InputChange("configuration", name) for name in different)


def _value(config: Mapping[str, object], name: str) -> tuple[bool, str]:
    """Comparable: to Python, True is 1."""
    return name in config, repr(config.get(name))


def _same(row: ExecutionRow, ids: Sequence[str]) -> bool:
    if row.source_count:
        return len(ids) == row.source_count and fingerprint(ids) == row.source_fingerprint
    return sorted(ids) == sorted(row.source_materializations)
