"""Reading deployments and runs at one generation."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping

from arco.errors import Corrupt, NotFound
from arco.execution.tables import PARTITIONS
from arco.orchestration.fold import PROJECT
from arco.orchestration.plan import Current, Plan, decode_plan
from arco.orchestration.states import RUN_ACTIVE
from arco.orchestration.tables import (
    DEPLOYED_ASSETS,
    DEPLOYMENTS,
    DYNAMIC_KEYS,
    PROJECTS,
    RUN_KEYS,
    RUNS,
    TASKS,
    DeployedAssetRow,
    DeploymentRow,
    RunRow,
    TaskRow,
)
from arco.state.snapshot import AsOfRow, Snapshot
from arco.storage import paths
from arco.storage.port import Store
from servo.contract.manifest import Manifest, decode_manifest


class OrchestrationReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def current_deployment(self) -> DeploymentRow | None:
        project = self.snapshot.get(PROJECTS, PROJECT)
        if project is None:
            return None
        return self.snapshot.get(DEPLOYMENTS, PROJECT, project.deployment_id)

    def deployment(self, id: str) -> DeploymentRow:
        """A deployment by its id, the beginning of it, or its number."""
        rows = self.deployments()
        found = [r for r in rows if r.deployment_id.startswith(id.upper()) or str(r.number) == id]
        if len(found) == 1:
            return found[0]
        problem = "names several deployments" if found else "names no deployment"
        raise NotFound(f"{id!r} {problem}", hint="see `servo deployments`")

    def deployments(self) -> list[DeploymentRow]:
        """All of them, the newest first."""
        rows = self.snapshot.rows(DEPLOYMENTS, PROJECT)
        return sorted(rows, key=lambda row: -row.number)

    def deployed_assets(self) -> dict[str, DeployedAssetRow]:
        return {row.asset_key: row for row in self.snapshot.rows(DEPLOYED_ASSETS, PROJECT)}

    def runs(self) -> list[RunRow]:
        """All runs, the newest first."""
        rows = self.snapshot.all(RUNS)
        return sorted(rows, key=lambda row: (row.created_at, row.run_id), reverse=True)

    def run(self, run_id: str) -> RunRow:
        row = self.snapshot.get(RUNS, run_id)
        if row is None:
            raise NotFound(f"there is no run {run_id}", hint="see `servo runs list`")
        return row

    def find_run(self, text: str) -> RunRow:
        """A run by its id, or by the beginning or end of it where that is enough."""
        return self.snapshot.get(RUNS, text) or self._one_named(text)

    def find_active_run(self, text: str) -> RunRow:
        """The same, where an active run goes before those that have ended.

        Active runs are not in history: what this costs does not grow with it.
        """
        row = self.snapshot.get(RUNS, text)
        if row is not None:
            return row
        active = [row for row in self.snapshot.hot(RUNS) if row.state in RUN_ACTIVE]
        rows = _named(text, active)
        return rows[0] if len(rows) == 1 and len(text) >= 4 else self._one_named(text)

    def _one_named(self, text: str) -> RunRow:
        rows = _named(text, self.runs())
        if len(rows) == 1 and len(text) >= 4:
            return rows[0]
        problem = f"names {len(rows)} runs" if len(rows) > 1 else "names no run"
        raise NotFound(f"{text!r} {problem}", hint="see `servo runs list`")

    def tasks(self, run_id: str) -> list[TaskRow]:
        """The tasks of a run in the plan's order."""
        return sorted(self.snapshot.rows(TASKS, run_id), key=lambda row: row.index)

    def run_of_key(self, run_key: str) -> str | None:
        row = self.snapshot.get(RUN_KEYS, run_key)
        return None if row is None else row.run_id


def _named(text: str, runs: Iterable[RunRow]) -> list[RunRow]:
    """The runs whose id begins or ends with a text."""
    part = text.upper()
    return [run for run in runs if run.run_id.startswith(part) or run.run_id.endswith(part)]


def as_of_run(run_id: str) -> AsOfRow[RunRow]:
    """The first generation at which a run is terminal."""
    return AsOfRow(RUNS, (run_id,), lambda row: row.finished_at is not None, f"run {run_id} ends")


class SnapshotKnown:
    """What the planner may ask, answered by one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._assets = OrchestrationReader(snapshot).deployed_assets()
        self._current: dict[str, dict[str, Current]] = {}

    def asset_id(self, key: str) -> str:
        row = self._assets.get(key)
        if row is None:
            raise NotFound(f"{key} is not deployed", hint="run `servo deploy`")
        return row.asset_id

    def current(self, asset_id: str) -> Mapping[str, Current]:
        if asset_id not in self._current:
            self._current[asset_id] = {
                row.partition_key: Current(
                    materialization_id=row.materialization_id,
                    path=row.path,
                    fingerprint=row.fingerprint,
                    rows=row.rows,
                    bytes=row.bytes,
                )
                for row in self._snapshot.rows(PARTITIONS, asset_id)
            }
        return self._current[asset_id]

    def dynamic_keys(self, name: str) -> list[str]:
        return [row.key for row in self._snapshot.rows(DYNAMIC_KEYS, name)]


class Library:
    """Manifests and plans from the store. They never change, so they are kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.manifest = functools.lru_cache(maxsize=16)(self._manifest)
        self.plan = functools.lru_cache(maxsize=8)(self._plan)

    def _manifest(self, digest: str) -> Manifest:
        raw = self._store.get(paths.manifest(digest)).data
        if hashlib.sha256(raw).hexdigest() != digest:
            raise Corrupt(f"{paths.manifest(digest)} does not have the digest in its name")
        return decode_manifest(raw)

    def _plan(self, plan_id: str) -> Plan:
        return decode_plan(self._store.get(paths.plan(plan_id)).data)
