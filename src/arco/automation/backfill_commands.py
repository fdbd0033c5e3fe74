"""Commands about backfills, and what one would do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import msgspec
import pyarrow.compute as pc

from arco.automation.backfill_runs import backfill_of
from arco.automation.backfill_states import CHUNK_BAD
from arco.automation.controllers.backfill_chunks import failures_allowed
from arco.automation.events import (
    BackfillCancelled,
    BackfillCommand,
    BackfillCreated,
    BackfillPaused,
    BackfillResumed,
    BackfillRetried,
)
from arco.automation.reader import AutomationReader, Backfill
from arco.errors import Invalid, NotFound
from arco.execution.tables import TASK_COSTS
from arco.orchestration.chunks import chunk_count, cut
from arco.orchestration.partition_ranges import by_dimension, check_dimension
from arco.orchestration.partition_space import Calendar, count
from arco.orchestration.plan import MAX_TASKS_PER_RUN, Chunk, PlanRequest, PlanSpec, spans
from arco.orchestration.planner import NoPartitions, PlanScope
from arco.orchestration.planning import RunPlanner
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.run_requests import decode_request
from arco.orchestration.tables import RunRequestRow
from arco.state.core import Core
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Tier1

CHUNK_SIZE = 100
MAX_CONCURRENT_RUNS = 3
SAMPLED = 10
"""Number of chunks of which a preview plans each task; the numbers for others are estimates."""
RETRIED = 20_000
"""Numbers of spans of chunks in one retry."""
REQUEST_BYTES = 16 << 10
"""Each of its requests repeats what was asked for."""
RECENT = 200
"""Number of recent tasks of an asset whose mean is the estimate of its tasks."""


class BackfillDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to backfill."""

    request: PlanRequest
    chunk_size: int = CHUNK_SIZE
    max_concurrent_runs: int = MAX_CONCURRENT_RUNS
    newest_first: bool = False
    failure_threshold: str = ""
    reason: str = ""


class SampledChunk(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    partitions: tuple[str, ...]
    tasks: int
    up_to_date: int
    refused: str = ""
    """Why it could not be planned now."""


class BackfillPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill would do, by what is deployed and materialized now."""

    assets: dict[str, int]
    """The number of partitions of each."""
    partitions: int
    chunks: int
    max_concurrent_runs: int
    one_by_one: str
    """Why its runs follow each other, if they must."""
    up_to_date: int
    tasks: int
    """Partitions that are not up to date."""
    is_estimate: bool
    """Whether these two follow from some of the chunks."""
    sample: tuple[SampledChunk, ...]
    task_time_s: float | None
    """All of its tasks one after the other; None without tasks to tell from."""
    cost: float | None
    currency: str
    unknown_assets: tuple[str, ...]
    """Assets of which no task has ended lately: time and cost are without them."""


class _Definition(msgspec.Struct, frozen=True):
    event: BackfillCreated
    scope: PlanScope
    one_by_one: str


class BackfillCommands:
    def __init__(self, core: Core, tier1: Tier1, library: Library, actor: str = "") -> None:
        self._core = core
        self._tier1 = tier1
        self._planner = RunPlanner(core, library, actor)
        self._actor = actor

    def create(self, draft: BackfillDraft, *, backfill_id: str = "") -> Backfill:
        """Start a backfill, which orchestrators carry out. `backfill_id` is for who may ask twice:
        of one that is there already nothing is changed.

        Raises Invalid for one that has nothing to do, or whose first chunk cannot be planned.
        """
        snapshot = self._core.snapshot()
        event = self._define(snapshot, draft).event
        if backfill_id:
            event = msgspec.structs.replace(event, backfill_id=backfill_id)
        with contextlib.suppress(NoPartitions):  # the keys of another chunk are there
            self._chunk(snapshot, event, 0)
        self._tier1.execute(event, actor=self._actor)
        return self._backfill(event.backfill_id)

    def preview(self, draft: BackfillDraft) -> BackfillPreview:
        """What it would do. Changes nothing."""
        snapshot = self._core.snapshot()
        definition = self._define(snapshot, draft)
        event, scope = definition.event, definition.scope
        ranges = scope.ranges(msgspec.structs.replace(event.request, chunk=None))
        assets = {key: count(ranges[key]) for key in sorted(ranges)}
        to_run, sample = self._sample(snapshot, event)
        planned = sum(chunk.tasks for chunk in sample)
        is_estimate = planned != event.partitions
        tasks = {key: round(total * to_run.get(key, 1.0)) for key, total in assets.items() if total}
        means = {key: self._mean(snapshot, key) for key in tasks}
        measured = {key: mean for key, mean in means.items() if mean is not None}
        return BackfillPreview(
            assets=assets,
            partitions=event.partitions,
            chunks=event.chunks,
            max_concurrent_runs=event.max_concurrent_runs,
            one_by_one=definition.one_by_one,
            up_to_date=event.partitions - sum(tasks.values()),
            tasks=sum(tasks.values()),
            is_estimate=is_estimate,
            sample=tuple(sample),
            task_time_s=sum(tasks[key] * mean.wall_s for key, mean in measured.items())
            if measured
            else None,
            cost=sum(tasks[key] * mean.cost for key, mean in measured.items())
            if measured
            else None,
            currency=next((mean.currency for mean in measured.values() if mean.currency), ""),
            unknown_assets=tuple(sorted(tasks.keys() - measured.keys())),
        )

    def pause(self, backfill: str, *, reason: str = "") -> Backfill:
        """No other chunk is asked for until it is resumed. Runs that were started go on."""
        id = self._backfill(backfill).row.backfill_id
        return self._do(BackfillPaused(backfill_id=id, reason=reason))

    def resume(self, backfill: str) -> Backfill:
        return self._do(BackfillResumed(backfill_id=self._backfill(backfill).row.backfill_id))

    def cancel(self, backfill: str, *, reason: str = "") -> Backfill:
        """No other chunk is asked for; orchestrators cancel the runs that it has."""
        id = self._backfill(backfill).row.backfill_id
        return self._do(BackfillCancelled(backfill_id=id, reason=reason))

    def retry(self, backfill: str) -> Backfill:
        """Ask again for the chunks that failed or were cancelled, and go on with the others.

        What was good in them is up to date, and reused. Of very many only the first are asked for
        again; retry what is left when it has ended.
        """
        reader = AutomationReader(self._core.snapshot())
        entry = reader.backfill(backfill)
        id = entry.row.backfill_id
        chunks = [row.chunk_index for row in reader.backfill_runs(id) if row.state in CHUNK_BAD]
        return self._do(BackfillRetried(backfill_id=id, chunks=spans(sorted(chunks))[:RETRIED]))

    def chunk_texts(
        self, snapshot: Snapshot, rows: Iterable[RunRequestRow]
    ) -> dict[str, tuple[str, ...]]:
        """By the keys of requests for chunks: the partitions of the chunk, as -p takes them.

        Those of a deployment that is gone are left out. The assets of a backfill are looked up
        once.
        """
        scopes: dict[str, PlanScope] = {}
        texts: dict[str, tuple[str, ...]] = {}
        for row in rows:
            request: PlanRequest = decode_request(row.request)
            if request.chunk is None:
                continue
            id = backfill_of(row.reference)
            try:
                if id not in scopes:
                    scopes[id] = self._planner.scope(snapshot, request, row.until)
                texts[row.request_key] = scopes[id].chunk_texts(request)
            except (Invalid, NotFound):
                continue
        return texts

    def _do(self, event: BackfillCommand) -> Backfill:
        self._tier1.execute(event, actor=self._actor)
        return self._backfill(event.backfill_id)

    def _backfill(self, text: str) -> Backfill:
        return AutomationReader(self._core.snapshot()).backfill(text)

    # -- what it is ------------------------------------------------------------------------

    def _define(self, snapshot: Snapshot, draft: BackfillDraft) -> _Definition:
        until = self._core.clock.now()
        deployments = OrchestrationReader(snapshot).current_deployments()
        if len(msgspec.json.encode(draft.request)) > REQUEST_BYTES:
            raise Invalid(
                "the selection and the partitions of a backfill are too long",
                hint="give ranges instead of single partitions, or create several backfills",
            )
        request = msgspec.structs.replace(
            draft.request,
            max_tasks=MAX_TASKS_PER_RUN,
            deployments=tuple(f"{row.project}/{row.deployment_id}" for row in deployments),
        )
        scope = self._planner.scope(snapshot, request, until)
        _check_periods(scope, request.partitions)
        spaces = {key: scope.spaces[key] for key in scope.chosen}
        ranges = scope.ranges(request)
        parts = cut(scope.graph.assets, spaces, ranges, draft.chunk_size)
        if not parts.partitions:
            raise Invalid("no such partitions exist", hint="see `servo partitions list`")
        if parts.one_by_one and draft.newest_first:
            raise Invalid(
                f"{parts.one_by_one}: the order newest is not possible",
                hint="leave --order newest out",
            )
        failures_allowed(draft.failure_threshold, parts.partitions)
        chunk = Chunk(axes=parts.axes, newest_first=draft.newest_first)
        event = BackfillCreated(
            backfill_id=self._core.ids(),
            request=msgspec.structs.replace(request, chunk=chunk),
            until=until,
            partitions=parts.partitions,
            chunks=chunk_count(parts.axes),
            chunk_size=draft.chunk_size,
            max_concurrent_runs=1 if parts.one_by_one else draft.max_concurrent_runs,
            # A later chunk reads what an earlier one writes: it stops at the first failure.
            failure_threshold="0" if parts.one_by_one else draft.failure_threshold,
            reason=draft.reason,
        )
        return _Definition(event, scope, parts.one_by_one)

    def _chunk(
        self, snapshot: Snapshot, event: BackfillCreated, number: int
    ) -> tuple[PlanRequest, PlanSpec]:
        assert event.request.chunk is not None
        chunk = msgspec.structs.replace(event.request.chunk, number=number)
        request = msgspec.structs.replace(event.request, chunk=chunk)
        return request, self._planner.spec(snapshot, request, event.until)

    def _sample(
        self, snapshot: Snapshot, event: BackfillCreated
    ) -> tuple[Mapping[str, float], list[SampledChunk]]:
        """Some chunks, evenly spread; and of each asset which part of the tasks would run."""
        sample: list[SampledChunk] = []
        planned: dict[str, int] = {}
        running: dict[str, int] = {}
        for number in _spread(event.chunks, SAMPLED):
            try:
                request, spec = self._chunk(snapshot, event, number)
            except Invalid as error:
                chunk = SampledChunk(
                    number=number, partitions=(), tasks=0, up_to_date=0, refused=str(error)
                )
                sample.append(chunk)
                continue
            for task in spec.tasks:
                planned[task.asset] = planned.get(task.asset, 0) + 1
                running[task.asset] = running.get(task.asset, 0) + (task.action == "run")
            scope = self._planner.scope(snapshot, request, event.until)
            sample.append(
                SampledChunk(
                    number=number,
                    partitions=scope.chunk_texts(request),
                    tasks=len(spec.tasks),
                    up_to_date=sum(task.action == "reuse" for task in spec.tasks),
                )
            )
        return {key: running[key] / total for key, total in planned.items()}, sample

    def _mean(self, snapshot: Snapshot, asset_key: str) -> _Mean | None:
        """What recent tasks of an asset took."""
        asset_id = OrchestrationReader(snapshot).asset_id(asset_key)
        walls: list[int] = []
        costs: list[int] = []
        currency = ""
        for rows, _ in newest_first(snapshot, TASK_COSTS, asset_id):
            rows = rows.filter(pc.equal(rows.column("outcome"), "succeeded")).slice(0, RECENT)
            walls += rows.column("wall_ms").to_pylist()
            costs += rows.column("total_cost").to_pylist()
            currency = next(filter(None, rows.column("currency").to_pylist()), currency)
            if len(walls) >= RECENT:
                break
        if not walls:
            return None
        return _Mean(_mean(walls) / 1e3, _mean(costs) / 1e9, currency)


class _Mean(msgspec.Struct, frozen=True):
    wall_s: float
    cost: float
    currency: str


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def _spread(total: int, most: int) -> Iterable[int]:
    """Numbers below `total`, evenly spread, the first and the last among them."""
    if total <= most:
        return range(total)
    return [round(at * (total - 1) / (most - 1)) for at in range(most)]


def _check_periods(scope: PlanScope, texts: Iterable[str]) -> None:
    """Of a dimension of time the periods must be named: there is no end of them."""
    named = by_dimension(texts)
    dimensions = [keys.name for key in scope.chosen for keys in scope.spaces[key].dimensions]
    for name in named:
        check_dimension(name, dimensions)
    for key in scope.chosen:
        for keys in scope.spaces[key].dimensions:
            if isinstance(keys, Calendar) and keys.name not in named:
                raise Invalid(
                    f"{key}: no periods of {keys.name!r} are given",
                    hint=f"give a range, as in -p {keys.name}=2025-01-01..2025-12-31, "
                    f"or -p {keys.name}=all",
                )
