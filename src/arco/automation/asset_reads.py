"""What the automation of assets reads besides rows of partitions."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import datetime

from arco.automation.asset_fold import MATERIALIZATION
from arco.automation.asset_graph import AssetGraph, Periods
from arco.automation.conditions import Place
from arco.errors import Error
from arco.execution.tables import PARTITION_STATUS, PARTITIONS
from arco.orchestration.planner import requested
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.reader import Library, SnapshotLookups
from arco.orchestration.run_requests import decode_request
from arco.orchestration.tables import RUNS, RunRequestRow
from arco.orchestration.world import World
from arco.state.snapshot import Snapshot
from servo.errors import Invalid


class AutomationReads:
    def __init__(self, snapshot: Snapshot, library: Library) -> None:
        self._snapshot = snapshot
        self._library = library
        self.dynamic_keys = functools.cache(SnapshotLookups(snapshot).dynamic_keys)

    def graph(self, world: World) -> AssetGraph:
        rows = DeploymentReader(self._snapshot).deployed_assets()
        ids = {key: row.asset_id for key, row in rows.items() if row.active}
        assets = {key: asset for key, asset in world.graph.assets.items() if key in ids}
        return AssetGraph(assets, ids)

    def periods(self, graph: AssetGraph, until: datetime) -> Periods:
        """The graph with the partitions that exist at a time."""

        @functools.cache
        def existing(key: str) -> list[str]:
            rows = self._snapshot.rows(PARTITIONS, graph.ids[key])
            return [row.partition_key for row in rows]

        @functools.cache
        def tried(key: str) -> list[str]:
            rows = self._snapshot.rows(PARTITION_STATUS, graph.ids[key])
            return [row.partition_key for row in rows]

        return Periods(graph, until, self.dynamic_keys, existing, tried)

    def seen_by(self, run_id: str) -> int | None:
        """The position of the snapshot that a run was planned from; None if unknown."""
        row = self._snapshot.get(RUNS, run_id)
        try:
            return None if row is None else self._library.plan(row.plan_id).position or None
        except Error:
            return None

    def places_of(self, graph: AssetGraph, row: RunRequestRow, now: datetime) -> list[Place]:
        """The partitions of a request, of assets with automation."""
        request = decode_request(row.request)
        periods = Periods(graph, row.until or now, self.dynamic_keys)
        keys = [key for key in request.selection if key in graph.automated]
        try:
            spaces = {key: periods.space(key) for key in keys}
            ranges = requested(spaces, request.partitions, missing_ok=True)
        except Invalid:  # the planner refuses it
            return []
        return [
            (graph.ids[key], spaces[key].text(point))
            for key in keys
            for point in spaces[key].points(ranges[key])
        ]


class RequestedPlaces:
    """The partitions of pending requests of automation, for one graph."""

    def __init__(self) -> None:
        self._by_request: dict[str, list[Place]] = {}
        """Cached: a request is decoded once."""
        self._places: dict[Place, str] = {}

    def at(
        self,
        reads: AutomationReads,
        graph: AssetGraph,
        requests: Iterable[RunRequestRow],
        now: datetime,
    ) -> Mapping[Place, str]:
        """By place, its request; `requests` are all that are pending."""
        pending = {row.request_key: row for row in requests if row.kind == MATERIALIZATION}
        if pending.keys() != self._by_request.keys():
            old = self._by_request
            self._by_request = {
                key: old[key] if key in old else reads.places_of(graph, row, now)
                for key, row in pending.items()
            }
            self._places = {
                place: key for key, places in self._by_request.items() for place in places
            }
        return self._places
