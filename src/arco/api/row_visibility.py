"""Which objects of one generation a caller may see, by name and id. Results are cached, because the
rows of a table refer to few objects many times."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from arco.api.reads.catalog import asset_names
from arco.api.run_visibility import sees_run, sees_whole_run
from arco.api.views import View
from arco.automation.tables import BACKFILLS
from arco.lineage.tables import EDGES
from arco.orchestration.run_requests import decode_request
from arco.orchestration.tables import (
    DEPLOYED_ASSETS,
    DEPLOYMENTS,
    KEY_SET_ASSETS,
    PROJECT_NAMESPACES,
    PROJECTS,
    RUNS,
)
from arco.security.visibility import Visible


class RowVisibility:
    def __init__(self, view: View, visible: Visible) -> None:
        self.view = view
        self.visible = visible
        self._runs: dict[str, tuple[bool, bool]] = {}

    @property
    def everything(self) -> bool:
        return self.visible.all

    # -- namespaces and assets -----------------------------------------------------------

    def namespace(self, namespace: str) -> bool:
        return namespace != "" and self.visible.sees(namespace)

    def namespaces(self, namespaces: Sequence[str]) -> bool:
        """Whether all namespaces of an API key are visible."""
        return bool(namespaces) and all(map(self.visible.sees, namespaces))

    def asset(self, key: str) -> bool:
        return self.visible.sees_asset(key)

    def named_asset(self, key: str) -> bool:
        """Like `asset`; a row without an asset belongs to the whole workspace and is hidden."""
        return key != "" and self.visible.sees_asset(key)

    def asset_id(self, asset_id: str) -> bool:
        return asset_id in self.ids

    @functools.cached_property
    def ids(self) -> frozenset[str]:
        """The ids of all visible assets, including those removed from the catalog."""
        names = asset_names(self.view)
        ids = {names.ids[place] for place in names.after(self.visible, "", None)}
        return frozenset(ids | {i for key, i in _deployed_ids(self.view) if self.asset(key)})

    def edge(self, edge_id: str) -> bool:
        return edge_id in self._edges

    @functools.cached_property
    def _edges(self) -> frozenset[str]:
        rows = self.view.snapshot.scan(EDGES).select(["edge_id", "source", "target"])
        columns = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        return frozenset(id for id, *ends in columns if all(map(self.asset_id, ends)))

    def key_set(self, keys: str) -> bool:
        """A key set is visible with the assets that are partitioned by it."""
        return keys in self._key_sets

    @functools.cached_property
    def _key_sets(self) -> frozenset[str]:
        rows = self.view.snapshot.all(KEY_SET_ASSETS)
        return frozenset(row.keys for row in rows if self.asset_id(row.asset_id))

    # -- projects ------------------------------------------------------------------------

    def project(self, project: str) -> bool:
        """All of its namespaces."""
        namespaces = project_namespaces(self.view).get(project, [])
        return bool(namespaces) and all(map(self.visible.sees, namespaces))

    def part_of_project(self, project: str) -> bool:
        """One of its namespaces."""
        return any(map(self.visible.sees, project_namespaces(self.view).get(project, [])))

    def owned(self, id: str) -> bool:
        """What is called `project/name`."""
        return self.project(id.rpartition("/")[0])

    def deployment(self, deployment_id: str) -> bool:
        """All deployments of projects that are seen as a whole; the current one of others."""
        return deployment_id in self._deployments

    @functools.cached_property
    def _deployments(self) -> frozenset[str]:
        current = {row.deployment_id for row in self.view.snapshot.all(PROJECTS)}
        return frozenset(
            row.deployment_id
            for row in self.view.snapshot.all(DEPLOYMENTS)
            if row.deployment_id in current or self.project(row.project)
        )

    # -- runs ----------------------------------------------------------------------------

    def run(self, run_id: str) -> bool:
        """One of its tasks."""
        return self._run(run_id)[0]

    def whole_run(self, run_id: str) -> bool:
        return self._run(run_id)[1]

    def _run(self, run_id: str) -> tuple[bool, bool]:
        if run_id not in self._runs:
            row = self.view.snapshot.get(RUNS, run_id)
            self._runs[run_id] = (
                row is not None and sees_run(self.view, self.visible, row),
                row is not None and sees_whole_run(self.view, self.visible, row),
            )
        return self._runs[run_id]

    def selection(self, terms: Sequence[str]) -> bool:
        """Whether all assets that are named are seen. A term that selects by tag, by group or
        everything may stand for any asset."""
        names = [term.strip("+0123456789") for term in terms]
        return self.visible.all or all(":" not in n and self.visible.sees_asset(n) for n in names)

    def request(self, request: str) -> bool:
        """A request for a run, as JSON."""
        plan_request = decode_request(request)
        return self.selection((*plan_request.selection, *plan_request.exclude))

    def backfill(self, backfill_id: str) -> bool:
        row = self.view.snapshot.get(BACKFILLS, backfill_id)
        return row is not None and self.selection(row.selection)


def project_namespaces(view: View) -> dict[str, list[str]]:
    """By project, the namespaces that belong to it."""

    def read() -> dict[str, list[str]]:
        owned: dict[str, list[str]] = {}
        for row in view.snapshot.all(PROJECT_NAMESPACES):
            owned.setdefault(row.project, []).append(row.namespace)
        return owned

    return view.derived("projects", read)


def _deployed_ids(view: View) -> list[tuple[str, str]]:
    """Keys and ids of all assets that are, or were, deployed."""

    def read() -> list[tuple[str, str]]:
        rows = view.snapshot.scan(DEPLOYED_ASSETS).select(["asset_key", "asset_id"])
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    return view.derived("deployed ids", read)
