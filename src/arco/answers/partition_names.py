"""Checks that an asset has a named partition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime

from arco.execution.tables import PARTITION_STATUS, PARTITIONS
from arco.execution.version_lookup import VersionLookup
from arco.orchestration.partition_ranges import check_dimension, latest, pick
from arco.orchestration.partition_space import Space, count, keys_of
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.tables import DYNAMIC_KEYS
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Asset
from servo.contract.partition import PartitionKey
from servo.errors import Invalid

_MONTH = re.compile(r"\d{4}-\d{2}")


class PartitionCheck:
    """At one generation and one time."""

    def __init__(self, snapshot: Snapshot, library: Library, now: datetime) -> None:
        self._snapshot = snapshot
        self._library = library
        self._now = now

    def named(self, asset: str, asset_id: str, texts: Sequence[str]) -> str:
        """The key of the partition that `name=value` texts name, materialized or not."""
        lookup = VersionLookup(self._snapshot, asset, asset_id)
        return self.checked(asset, asset_id, lookup.partition(texts, may_be_absent=True))

    def last(self, asset: Asset) -> str | None:
        """The key with the last value of each dimension; None if there is no partition yet."""
        space = self._space_of(asset)
        points = space.points([latest(each) for each in space.dimensions])
        return space.text(points[0]) if points else None

    def checked(self, asset: str, asset_id: str, key: str) -> str:
        """The key. Raises Invalid for a partition that the asset does not have, and never had."""
        dimensions = PartitionKey.parse(key).dimensions
        texts = {
            name: value.isoformat() if isinstance(value, date) else str(value)
            for name, value in dimensions.items()
        }
        return self._checked(asset, asset_id, [key], texts)

    def _checked(
        self, asset: str, asset_id: str, keys: Sequence[str], texts: Mapping[str, str]
    ) -> str:
        get = self._snapshot.get
        for key in keys:
            if get(PARTITIONS, asset_id, key) or get(PARTITION_STATUS, asset_id, key):
                return key
        space = self._space(asset)
        if space is None:
            return keys[0]
        for name in texts:
            check_dimension(name, space.names, f"the partitions of {asset}")
        for dimension in space.dimensions:
            if dimension.name not in texts:
                raise Invalid(
                    f"the partitions of {asset} also have the dimension {dimension.name!r}",
                    hint=f"give a value for each of {', '.join(space.names)}",
                )
        for key in keys:
            point = space.point(key)
            if point is not None and all(
                each.number(value) in each.every_key()
                for each, value in zip(space.dimensions, point, strict=True)
            ):
                return key
        picked = [pick(dimension, texts[dimension.name]) for dimension in space.dimensions]
        for each in picked:
            if each.problem:
                error = each.problem()
                raise Invalid(f"{asset}: {error.message}", hint=error.hint)
        ranges = [each.keys for each in picked]
        if count(ranges) != 1:
            raise Invalid(
                f"{asset}: {', '.join(f'{n}={t}' for n, t in texts.items())} is not one partition",
                hint="name one",
            )
        return space.text(space.points(ranges)[0])

    def _space(self, asset: str) -> Space | None:
        """None for an asset that is not deployed any more."""
        declared = deployed(self._snapshot, self._library, asset)
        return None if declared is None else self._space_of(declared)

    def _space_of(self, asset: Asset) -> Space:
        rows = self._snapshot.rows
        return Space.of(
            asset,
            lambda each: keys_of(
                each, self._now, lambda name: [row.key for row in rows(DYNAMIC_KEYS, name)]
            ),
        )


def deployed(snapshot: Snapshot, library: Library, key: str) -> Asset | None:
    """An asset as its project's current deployment has it; None if it does not have it."""
    reader = OrchestrationReader(snapshot)
    row = reader.deployed_asset(key)
    current = reader.current_deployment(row.project) if row and row.active else None
    return None if current is None else library.assets(current.manifest).get(key)
