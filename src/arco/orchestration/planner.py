"""The planner: from a request to tasks. Pure, and the same in every process.

    selection ─► assets ─┐
    partition ranges ────┼─► points ─► inputs found ─► run or reuse ─► numbered tasks
    known, until ────────┘

Only requested assets are planned. Of an asset's dimensions that the request does not name, a time
dimension stands for its latest complete period and any other for all its values. A requested key
counts for the assets that have it; it is Invalid if none of them does.

`until` decides which periods are complete. The spec does not hold it, only the
partitions that follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from arco.orchestration.chunks import narrowed, texts_of
from arco.orchestration.configuration import check_config
from arco.orchestration.partition_ranges import (
    by_dimension,
    check_dimension,
    latest,
    pick,
    without_keys,
)
from arco.orchestration.partition_space import Calendar, Keys, Ranges, Space, count, keys_of, merged
from arco.orchestration.plan import (
    MAX_TASKS_PER_RUN,
    PlannerLookups,
    PlanRequest,
    PlanSpec,
    normalised,
)
from arco.orchestration.planner_tasks import Draft, Drafting
from arco.orchestration.selection import Graph, select
from servo.contract.manifest import Asset, Dimension, Manifest, reference_targets
from servo.errors import Invalid


class NoPartitions(Invalid):
    """There are no such partitions, or they were removed."""


def plan(
    manifest: Manifest | Graph,
    manifest_digest: str,
    request: PlanRequest,
    lookups: PlannerLookups,
    *,
    until: datetime,
) -> PlanSpec:
    """The tasks of a request. `until` is in UTC; later periods do not exist yet.

    Raises Invalid, and plans nothing, if the selection or a range is empty, if a value of the
    configuration belongs to no asset or is of another type than the declared one, if the tasks are
    too many, if the assets form a cycle, or if an input is neither in the plan nor materialized.
    """
    request = normalised(request)
    scope = PlanScope.of(manifest, request, lookups, until)
    graph, chosen, space = scope.graph, scope.chosen, scope.spaces.__getitem__
    order = ordered(graph, chosen)
    check_config(request.config, [graph.assets[key] for key in order], graph.assets.values())
    ranges = scope.ranges(request)
    no_keys = without_keys(d for key in chosen for d in space(key).dimensions)
    _check_count(ranges, request.max_tasks, no_keys)
    drafting = Drafting(graph.assets, request, lookups, space)
    for key in order:
        points = space(key).points(ranges[key])
        drafting.add(
            Draft(graph.assets[key], lookups.asset_id(key), space(key), points), chosen[key]
        )
    drafted = drafting.finished()
    return PlanSpec(
        manifest=manifest_digest,
        request=request,
        tasks=drafted.tasks,
        inputs=drafted.inputs,
        versions=drafted.versions,
        references=_reference_ids([graph.assets[key] for key in order], lookups),
    )


class PlanScope(NamedTuple):
    """The assets of a request, with the keys of their dimensions."""

    graph: Graph
    chosen: Mapping[str, str]
    """The keys of the assets, each with the term that selects it."""
    spaces: Mapping[str, Space]
    """Of the chosen assets; those of others are computed when needed."""

    @classmethod
    def of(
        cls,
        manifest: Manifest | Graph,
        request: PlanRequest,
        lookups: PlannerLookups,
        until: datetime,
    ) -> PlanScope:
        graph = manifest if isinstance(manifest, Graph) else Graph(manifest)

        @cache
        def keys(dimension: Dimension) -> Keys:
            return keys_of(dimension, until, lookups.dynamic_keys)

        chosen = select(graph, request.selection, request.exclude)
        return cls(graph, chosen, _Spaces(lambda key: Space.of(graph.assets[key], keys)))

    def ranges(
        self, request: PlanRequest, *, missing_ok: bool = False
    ) -> dict[str, tuple[Ranges, ...]]:
        """For each asset, the keys of each of its dimensions that the request means."""
        spaces = {key: self.spaces[key] for key in self.chosen}
        if request.chunk is None:
            return requested(spaces, request.partitions, missing_ok=missing_ok)
        whole = requested(spaces, request.partitions, missing_ok=True)
        return narrowed(spaces, whole, request.chunk)

    def chunk_texts(self, request: PlanRequest) -> tuple[str, ...]:
        """The partitions of a chunk, as a request would name them."""
        assert request.chunk is not None
        spaces = {key: self.spaces[key] for key in self.chosen}
        return texts_of(spaces, self.ranges(request), request.chunk.axes)


class _Spaces(dict[str, Space]):
    def __init__(self, make: Callable[[str], Space]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> Space:
        self[key] = self._make(key)
        return self[key]


def _reference_ids(assets: Iterable[Asset], lookups: PlannerLookups) -> dict[str, str]:
    targets = {key for asset in assets for key in reference_targets(asset)}
    return {key: lookups.asset_id(key) for key in sorted(targets)}


def ordered(graph: Graph, chosen: Iterable[str]) -> list[str]:
    """The chosen assets, each after those of them that it reads."""
    keys = set(chosen)
    sorter = TopologicalSorter(
        {key: [up for up in graph.upstream[key] if up in keys] for key in sorted(keys)}
    )
    try:
        return list(sorter.static_order())
    except CycleError as error:
        raise _cycle_error(error.args[1][:-1]) from None


def _cycle_error(cycle: Sequence[str]) -> Invalid:
    """`cycle` lists each asset before the one that reads it."""
    at = cycle.index(min(cycle))
    whole = [*cycle[at:], *cycle[:at], cycle[at]]
    return Invalid(
        f"assets form a cycle: {' -> '.join(whole)}",
        hint="remove one of these inputs, or select only a part of the cycle",
    )


def requested(
    spaces: Mapping[str, Space], texts: Sequence[str], *, missing_ok: bool = False
) -> dict[str, tuple[Ranges, ...]]:
    """For each asset, the keys of each of its dimensions that the request means."""
    by_name = by_dimension(texts)
    names = [name for space in spaces.values() for name in space.names]
    for name in by_name:
        check_dimension(name, names)
    chosen = {
        name: _named(spaces, name, ranges, missing_ok=missing_ok)
        for name, ranges in by_name.items()
    }
    return {
        key: tuple(
            chosen[keys.name][key] if keys.name in chosen else _default(keys)
            for keys in space.dimensions
        )
        for key, space in spaces.items()
    }


def _default(keys: Keys) -> Ranges:
    return latest(keys) if isinstance(keys, Calendar) else merged([keys.every_key()])


def _named(
    spaces: Mapping[str, Space], name: str, texts: Sequence[str], *, missing_ok: bool
) -> dict[str, Ranges]:
    """What the texts mean for each asset that has the dimension."""
    keys_of = {
        key: space.dimensions[space.names.index(name)]
        for key, space in sorted(spaces.items())
        if name in space.names
    }
    by_asset: dict[str, list[range]] = {key: [] for key in keys_of}
    for text in texts:
        for key, ranges in _one_text(keys_of, text, missing_ok=missing_ok).items():
            by_asset[key].extend(ranges)
    return {key: merged(ranges) for key, ranges in by_asset.items()}


def _one_text(keys_of: Mapping[str, Keys], text: str, *, missing_ok: bool) -> dict[str, Ranges]:
    ranges: dict[str, Ranges] = {}
    lacking: list[tuple[str, Callable[[], Invalid]]] = []
    for key, keys in keys_of.items():
        try:
            picked = pick(keys, text)
        except Invalid as error:
            raise Invalid(f"{key}: {error.message}", hint=error.hint) from None
        ranges[key] = picked.keys
        if picked.problem:
            lacking.append((key, picked.problem))
    if len(lacking) == len(keys_of) and not missing_ok:
        key, problem = lacking[0]
        raise Invalid(f"{key}: {problem().message}", hint=problem().hint)
    return ranges


def _check_count(by_asset: Mapping[str, Sequence[Ranges]], max_tasks: int, no_keys: str) -> None:
    tasks = sum(count(ranges) for ranges in by_asset.values())
    most = min(max_tasks, MAX_TASKS_PER_RUN)
    if tasks > most:
        raise Invalid(
            f"the plan would have {tasks:,} tasks, more than {most:,}",
            hint="select fewer partitions or assets"
            + (f", or raise --max-tasks (to {MAX_TASKS_PER_RUN:,})" if tasks > max_tasks else ""),
        )
    if not tasks:
        assets = ", ".join(sorted(by_asset)[:10])
        raise NoPartitions(
            f"nothing to do: no such partitions exist yet of {assets}",
            hint=no_keys or "name the partitions, or wait until a period is over",
        )
