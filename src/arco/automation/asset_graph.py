"""The graph of assets for automation: from a new version to the partitions that read it.

Made once for each set of deployments. The cost of a new version depends on the assets that read it,
not on the number of assets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import NamedTuple

from arco.orchestration.mapping import Resolver
from arco.orchestration.partition_space import Calendar, Keys, Names, Point, Space, Value, keys_of
from arco.orchestration.selection import Graph
from servo.contract.manifest import Asset, Dimension, DynamicDimension, Input, TimeDimension
from servo.errors import Invalid


class AutomatedPartition(NamedTuple):
    """A partition of an asset that has automation."""

    asset: str
    point: Point


class Read(NamedTuple):
    """An input of an asset that has automation."""

    reader: str
    input: Input


class AssetGraph:
    """The assets that have automation, what they read, and in which order they come."""

    def __init__(
        self, assets: Mapping[str, Asset], ids: Mapping[str, str], deployed: Graph
    ) -> None:
        """All assets by key, and their ids; `deployed` is for selections of requests."""
        self.assets = assets
        self.deployed = deployed
        self.ids = ids
        self.keys = {id: key for key, id in ids.items() if key in assets}
        automated = [asset for asset in assets.values() if asset.automation is not None]
        self.automated = {asset.key: asset for asset in automated}
        self.readers: dict[str, list[Read]] = {}
        """By the key of what is read."""
        for asset in automated:
            for each in asset.inputs:
                if each.asset in assets and not each.is_pinned:
                    self.readers.setdefault(each.asset, []).append(Read(asset.key, each))
        self.rank = _ranks(automated)
        """An asset comes after those that it reads, directly or not."""
        self.timed = {
            asset.key
            for asset in automated
            if any(isinstance(dimension, TimeDimension) for dimension in asset.partitions)
        }
        """Those with a time dimension: the end of a period may make them due."""
        self.by_keys: dict[str, list[str]] = {}
        """By the set of keys of a dynamic dimension, those that have it."""
        for asset in automated:
            for dimension in asset.partitions:
                if isinstance(dimension, DynamicDimension):
                    self.by_keys.setdefault(dimension.keys, []).append(asset.key)

    def matters(self, key: str) -> bool:
        """Whether an asset has automation, or is read by one that has."""
        return key in self.automated or key in self.readers

    def fits(self, node: AutomatedPartition) -> bool:
        """Whether a partition has the dimensions that its asset has, and that asset automation."""
        asset = self.automated.get(node.asset)
        if asset is None:
            return False
        return [type(value) for value in node.point] == [
            _value_type(dimension) for dimension in _sorted(asset)
        ]


def _sorted(asset: Asset) -> list[Dimension]:
    return sorted(asset.partitions, key=lambda dimension: dimension.name)


def _value_type(dimension: Dimension) -> type[Value]:
    if not isinstance(dimension, TimeDimension):
        return str
    return datetime if dimension.every == "hour" else date


def _ranks(assets: Sequence[Asset]) -> dict[str, int]:
    keys = {asset.key for asset in assets}
    reads = {
        asset.key: {each.asset for each in asset.inputs if each.asset != asset.key} & keys
        for asset in sorted(assets, key=lambda asset: asset.key)
    }
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError:  # between projects; plans refuse it
        order = sorted(keys)
    return {key: number for number, key in enumerate(order)}


def _axes(space: Space, *, newest: bool = False) -> list[list[Value]]:
    """The keys of each dimension; of time dimensions only the newest, if requested."""
    axes: list[list[Value]] = []
    for keys in space.dimensions:
        numbers = keys.every_key()
        if newest and isinstance(keys, Calendar):
            numbers = numbers[-1:]
        axes.append([keys.key(number) for number in numbers])
    return axes


class Periods:
    """The graph with the partitions that exist at one time."""

    def __init__(
        self,
        graph: AssetGraph,
        until: datetime,
        dynamic_keys: Callable[[str], Sequence[str]],
        existing: Callable[[str], Iterable[str]] = lambda key: (),
        tried: Callable[[str], Iterable[str]] = lambda key: (),
    ) -> None:
        """`existing` returns the partitions with a version, `tried` those with an attempt."""
        self.graph = graph
        self._existing = existing
        self._tried = tried
        self.until = until
        self._dynamic_keys = cache(dynamic_keys)
        self._keys = cache(self._keys_of)
        self.space = cache(self._space)
        self._resolvers: dict[tuple[str, int], Resolver] = {}

    def _keys_of(self, dimension: Dimension) -> Keys:
        return keys_of(dimension, self.until, self._dynamic_keys)

    def _space(self, key: str) -> Space:
        return Space.of(self.graph.assets[key], self._keys)

    def resolver(self, read: Read) -> Resolver:
        """Raises Invalid where the two do not fit: a deployment of another project changed one."""
        key = read.reader, self.graph.assets[read.reader].inputs.index(read.input)
        if key not in self._resolvers:
            upstream = read.input.asset
            spaces = self.space(read.reader), self.space(upstream)
            self._resolvers[key] = Resolver(
                read.reader,
                read.input,
                *spaces,
                lambda: self._points(upstream, self._existing(upstream)),
            )
        return self._resolvers[key]

    def pinned_partitions(
        self, node: AutomatedPartition, input: Input, partitions: Iterable[str]
    ) -> list[str]:
        """The partitions that an input which names versions reads, if it has those."""
        own, space = self.space(node.asset), self.space(input.asset)
        resolver = Resolver(
            node.asset, input, own, space, lambda: self._points(input.asset, partitions)
        )
        return [space.text(point) for point in resolver.resolve(resolver.relevant(node.point))]

    def _points(self, key: str, texts: Iterable[str]) -> list[Point]:
        points = (self.space(key).point(text) for text in texts)
        return [point for point in points if point is not None]

    def is_alike(self, read: Read) -> bool:
        """Whether partitions of all times read the same versions of an input."""
        dimensions = self.space(read.reader).dimensions
        return any(isinstance(dimensions[at], Calendar) for at in self.resolver(read).free)

    def has_ended(self, key: str, point: Point) -> bool:
        """Whether an asset has this partition, and its period is over."""
        for keys, value in zip(self.space(key).dimensions, point, strict=True):
            if not keys.has(value):
                return False
            if isinstance(keys, Calendar) and keys.number(value) >= keys.complete:
                return False
        return True

    def newly_ended(self, key: str, since: datetime) -> Iterator[Point]:
        """The partitions of an asset whose periods have ended after a time."""
        space, dimensions = self.space(key), _sorted(self.graph.assets[key])
        before = [
            keys_of(dimension, since) if isinstance(now, Calendar) else now
            for dimension, now in zip(dimensions, space.dimensions, strict=True)
        ]
        axes: list[list[Value]] = []
        for now, old in zip(space.dimensions, before, strict=True):
            numbers = now.every_key()
            if isinstance(now, Calendar) and isinstance(old, Calendar):
                numbers = range(max(now.first, old.complete), now.complete)
            axes.append([now.key(number) for number in numbers])
        if sum(isinstance(keys, Calendar) for keys in space.dimensions) == 1:
            yield from product(*axes)

    def every(self, key: str) -> Iterator[Point]:
        """All partitions of an asset."""
        yield from product(*_axes(self.space(key)))

    def with_key(self, keys: str, value: str) -> Iterator[AutomatedPartition]:
        """Partitions with a key of a dynamic dimension; of time dimensions, the newest."""
        for key in self.graph.by_keys.get(keys, ()):
            space = self.space(key)
            axes = [
                [value] if isinstance(own, Names) and own.keys == keys else axis
                for own, axis in zip(space.dimensions, _axes(space, newest=True), strict=True)
            ]
            yield from (AutomatedPartition(key, point) for point in product(*axes))

    def next_end(self, key: str) -> datetime | None:
        """When the next period of an asset is over; None if there is none to come."""
        ends = [
            keys.end_of(max(keys.first, keys.complete))
            for keys in self.space(key).dimensions
            if isinstance(keys, Calendar) and keys.complete < keys.bound
        ]
        return min(ends, default=None)

    def readers_of(self, key: str, partition: str) -> Iterator[AutomatedPartition]:
        """The partitions with automation that may read a partition of an asset.

        If partitions of all times read the same, those with an attempt.
        """
        point = self.space(key).point(partition)
        if point is None:
            return
        for read in self.graph.readers.get(key, ()):
            try:
                yield from self._reading(read, point)
            except Invalid:  # the planner refuses it too, with the reason
                continue

    def _reading(self, read: Read, point: Point) -> Iterator[AutomatedPartition]:
        reader = read.reader
        space = self.space(reader)
        axes = self.resolver(read).readers(point)
        if self.is_alike(read):
            chosen: Iterable[Point] = [
                each
                for each in self._points(reader, self._tried(reader))
                if all(values is None or v in values for v, values in zip(each, axes, strict=True))
            ]
        else:
            chosen = product(
                *[
                    every if values is None else values
                    for every, values in zip(_axes(space), axes, strict=True)
                ]
            )
        for each in chosen:
            if self.has_ended(reader, each):
                yield AutomatedPartition(reader, each)
