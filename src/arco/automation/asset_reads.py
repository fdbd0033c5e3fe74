"""What the automation of assets reads besides rows of partitions."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from arco.automation.asset_graph import AssetGraph, Periods
from arco.automation.backfill_states import ASKING
from arco.automation.changed_rows import AssetPartition
from arco.automation.tables import BackfillRow
from arco.errors import Error
from arco.execution.tables import PARTITION_STATUS, PARTITIONS
from arco.orchestration.chunks import chunk_number
from arco.orchestration.plan import PlanRequest, numbers
from arco.orchestration.planner import PlanScope
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.reader import Library, SnapshotLookups
from arco.orchestration.run_requests import decode_request
from arco.orchestration.states import RunTrigger
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
        return AssetGraph(assets, ids, world.graph)

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

    def scope(self, graph: AssetGraph, request: PlanRequest, until: datetime) -> PlanScope | None:
        """What a request means; None for one that the planner refuses."""
        try:
            return PlanScope.of(graph.deployed, request, SnapshotLookups(self._snapshot), until)
        except Invalid:
            return None

    def places_of(
        self, graph: AssetGraph, row: RunRequestRow, now: datetime
    ) -> list[AssetPartition]:
        """The partitions of a request, of assets with automation and of those that they read."""
        request = decode_request(row.request)
        scope = self.scope(graph, request, row.until or now)
        if scope is None:
            return []
        keys = [key for key in scope.chosen if graph.matters(key) and key in graph.ids]
        try:
            ranges = scope.ranges(request, missing_ok=True) if keys else {}
        except Invalid:  # the planner refuses it
            return []
        return [
            (graph.ids[key], scope.spaces[key].text(point))
            for key in keys
            for point in scope.spaces[key].points(ranges[key])
        ]


class RequestedPlaces:
    """The partitions of pending requests, and those that open backfills will request, for one
    graph."""

    def __init__(self) -> None:
        self._by_request: dict[str, list[AssetPartition]] = {}
        """Cached: a request is decoded once."""
        self._requests: dict[AssetPartition, RunRequestRow] = {}
        self._backfills: dict[str, UnaskedChunks] = {}

    def at(
        self,
        reads: AutomationReads,
        graph: AssetGraph,
        requests: Iterable[RunRequestRow],
        backfills: Iterable[BackfillRow],
        now: datetime,
    ) -> PlannedWork:
        """`requests` are all that are pending, `backfills` all that are not over."""
        pending = {row.request_key: row for row in requests}
        if pending.keys() != self._by_request.keys():
            old = self._by_request
            self._by_request = {
                key: old[key] if key in old else reads.places_of(graph, row, now)
                for key, row in pending.items()
            }
            self._requests = {
                place: pending[key] for key, places in self._by_request.items() for place in places
            }
        before, self._backfills = self._backfills, {}
        for row in backfills:
            if row.state in ASKING and (row.next_chunk < row.chunks or row.again):
                last = before.get(row.backfill_id)
                scope = last.scope if last else reads.scope(graph, _request(row), row.until)
                if scope is not None:
                    self._backfills[row.backfill_id] = UnaskedChunks(graph, row, scope)
        return PlannedWork(self._requests, list(self._backfills.values()))


def _request(row: BackfillRow) -> PlanRequest:
    request: PlanRequest = decode_request(row.request)
    return request


class UnaskedChunks:
    """The partitions that a backfill has not requested yet."""

    def __init__(self, graph: AssetGraph, row: BackfillRow, scope: PlanScope) -> None:
        request = _request(row)
        assert request.chunk is not None
        self.scope = scope
        self.backfill_id = row.backfill_id
        self._chunk, self._next, self._again = request.chunk, row.next_chunk, tuple(row.again)
        keys = [key for key in scope.chosen if graph.matters(key) and key in graph.ids]
        try:
            whole = scope.ranges(msgspec.structs.replace(request, chunk=None), missing_ok=True)
        except Invalid:
            keys = []
        self.ranges = {graph.ids[key]: (scope.spaces[key], whole[key]) for key in keys}
        """By asset id: what it covers."""

    def holds(self, place: AssetPartition) -> bool:
        space, ranges = self.ranges.get(place[0], (None, ()))
        point = space.point(place[1]) if space is not None else None
        if space is None or point is None:
            return False
        dimensions = list(zip(space.dimensions, point, strict=True))
        for (keys, value), chosen in zip(dimensions, ranges, strict=True):
            if not any(keys.number(value) in part for part in chosen):
                return False
        key_of = {keys.name: (keys, value) for keys, value in dimensions}
        number = chunk_number(self._chunk, key_of)
        return number >= self._next or number in numbers(self._again)


class PlannedWork(NamedTuple):
    """What will run without further requests."""

    requests: Mapping[AssetPartition, RunRequestRow] = {}
    backfills: Sequence[UnaskedChunks] = ()

    def text(self, place: AssetPartition) -> str:
        """The request or the backfill for a partition; empty if there is none."""
        request = self.requests.get(place)
        if request is not None:
            return f"the request {request.request_key} asks for it"
        waiting = [each.backfill_id for each in self.backfills if each.holds(place)]
        return f"the backfill {waiting[0]} will run it" if waiting else ""

    def is_automated(self, place: AssetPartition) -> bool:
        """Whether automation has requested a partition."""
        request = self.requests.get(place)
        return request is not None and request.kind == RunTrigger.MATERIALIZATION

    def asset_ids(self) -> set[str]:
        return {asset_id for asset_id, _ in self.requests}.union(
            *(each.ranges for each in self.backfills)
        )
