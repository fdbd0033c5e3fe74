"""Which partitions a plan has because the request did not name their dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from arco.orchestration.partition_ranges import by_dimension
from arco.orchestration.partition_space import keys_of
from arco.orchestration.plan import PlanSpec
from arco.orchestration.selection import Graph, select
from servo.contract.manifest import Dimension, DynamicDimension, Manifest, TimeDimension
from servo.contract.partition import PartitionKey


class DefaultRange(Struct, frozen=True):
    """What a dimension stands for in a plan whose request does not name it."""

    dimension: str
    rule: Literal["latest", "all"]
    values: int
    latest: str = ""
    """The key of the last complete period, for a dimension of time."""
    every: str = ""
    """Such as `day`, for a dimension of time."""
    keys: str = ""
    """The set of keys of a dynamic dimension."""
    assets: tuple[str, ...] = ()
    """The assets that it is a dimension of."""

    @property
    def text(self) -> str:
        name = self.dimension
        if not self.values and self.keys:
            command = f"servo partitions add {self.keys} KEY"
            return f"{name}: no keys yet, so no tasks of {self._assets}; add some with: {command}"
        if self.rule == "latest":
            which = f"{self.latest}, the last complete {self.every}"
        else:
            which = "its only value" if self.values == 1 else f"all {self.values:,} values"
        return f"{name}: {which}; choose with -p {name}=…"

    @property
    def _assets(self) -> str:
        more = f" and {len(self.assets) - 3:,} more" if len(self.assets) > 3 else ""
        return ", ".join(self.assets[:3]) + more


def default_ranges(
    manifest: Manifest, spec: PlanSpec, dynamic_keys: Callable[[str], Sequence[str]]
) -> list[DefaultRange]:
    """The defaults of a plan, by dimension; several if assets differ in what they stand for."""
    named = by_dimension(spec.request.partitions)
    partitions: dict[str, str] = {}
    for task in spec.tasks:
        partitions.setdefault(task.asset, task.partition)
    graph = Graph(manifest)
    ranges: dict[DefaultRange, list[str]] = {}
    for key in select(graph, spec.request.selection, spec.request.exclude):
        for dimension in graph.assets[key].partitions:
            if dimension.name not in named:
                default = _default(dimension, partitions.get(key), dynamic_keys)
                if default is not None:
                    ranges.setdefault(default, []).append(key)
    with_assets = [
        msgspec.structs.replace(default, assets=tuple(sorted(keys)))
        for default, keys in ranges.items()
    ]
    return sorted(with_assets, key=lambda default: (default.dimension, default.assets))


def _default(
    dimension: Dimension, partition: str | None, dynamic_keys: Callable[[str], Sequence[str]]
) -> DefaultRange | None:
    """`partition` is one of the asset's in the plan; None if it has no tasks there."""
    name = dimension.name
    if not isinstance(dimension, TimeDimension):
        values = len(keys_of(dimension, dynamic=dynamic_keys).every_key())
        keys = dimension.keys if isinstance(dimension, DynamicDimension) else ""
        return DefaultRange(name, "all", values, keys=keys)
    if partition is None:  # another dimension may be the reason
        return None
    value = PartitionKey.parse(partition).dimensions[name]
    text = f"{value:%Y-%m-%dT%H:%M}" if isinstance(value, datetime) else str(value)
    return DefaultRange(name, "latest", 1, text, dimension.every)
