"""The state and quality of an asset's partitions, also of those that are missing.

Partitions without an attempt have no row. The rows are mapped to the space of all partitions: one
byte for each, so that a million of them take a megabyte, and neighbours with equal status are one
range. Rows are read as columns, a slice at a time.

* MATERIALIZING: a task of an active run computes it.
* STALE: a plan made now would run it again, because its code, configuration or inputs are others,
  or because its files are damaged. This needs a plan of each, so it is computed for at most
  `MAX_JUDGED` partitions.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import groupby, islice
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.execution.states import (
    PartitionState,
    Quality,
)
from arco.execution.tables import PARTITION_STATUS_ROWS
from arco.orchestration.partition_cells import (
    NEVER,
    PartitionCells,
    PartitionStateQuality,
    cells_of,
    codes_of,
)
from arco.orchestration.partition_space import Calendar, Keys, Ranges, Space, Value, count, keys_of
from arco.orchestration.plan import PlanRequest
from arco.orchestration.planner import requested
from arco.orchestration.planner_tasks import Draft, Drafting
from arco.orchestration.reader import SnapshotLookups
from arco.orchestration.states import TERMINAL
from arco.orchestration.tables import RUNS, TASKS
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Asset, Dimension
from servo.contract.partition import PartitionKey
from servo.errors import Invalid

MAX_PARTITIONS = 20_000_000
MAX_JUDGED = 10_000
SLICE = 50_000


class StatusRange(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring partitions with equal status."""

    first: str
    last: str
    partitions: int
    state: PartitionState
    quality: Quality


class _StatusAxis:
    """The keys of one dimension that are looked at, numbered without gaps."""

    def __init__(self, keys: Keys, ranges: Ranges) -> None:
        self.keys = keys
        self.ranges = ranges
        self.starts: list[int] = []
        self.size = 0
        for numbers in ranges:
            self.starts.append(self.size)
            self.size += len(numbers)
        self._firsts = [numbers.start for numbers in ranges]

    def place(self, part: str) -> int | None:
        """The same of a part of a partition key, `date=d:2026-01-31`."""
        name, _, text = part.partition("=")
        return self.index(text) if name == self.keys.name else None

    def index(self, text: str) -> int | None:
        """Where a value of a partition key is, as it is spelled there; None if it is not."""
        value = _value(text)
        number = None if value is None else self.keys.find(value)
        if number is None:
            return None
        at = bisect_right(self._firsts, number) - 1
        if at < 0 or number >= self.ranges[at].stop:
            return None
        return self.starts[at] + number - self.ranges[at].start

    def value(self, index: int) -> Value:
        at = bisect_right(self.starts, index) - 1
        return self.keys.key(self.ranges[at].start + index - self.starts[at])


def _value(text: str) -> Value | None:
    tag, _, value = text.partition(":")
    match tag:
        case "d":
            return date.fromisoformat(value)
        case "t":
            return datetime.fromisoformat(value.removesuffix("Z"))
        case "s":
            return unquote(value) if "%" in value else value
    return None


class PartitionStatuses:
    """The status of the requested partitions."""

    def __init__(self, space: Space, ranges: Sequence[Ranges]) -> None:
        self.partitions = count(ranges)
        if self.partitions > MAX_PARTITIONS:
            raise Invalid(
                f"these are {self.partitions:,} partitions; at most {MAX_PARTITIONS:,} are listed",
                hint="give a range with -p",
            )
        axes = [
            _StatusAxis(keys, each) for keys, each in zip(space.dimensions, ranges, strict=True)
        ]
        # Ranges are along time, if there is such a dimension.
        self._axes = sorted(axes, key=lambda axis: isinstance(axis.keys, Calendar))
        self._names = [axis.keys.name for axis in self._axes]
        self._sorted = [self._names.index(name) for name in sorted(self._names)]
        """By the place in a key, the place of the axis."""
        self._places = [sorted(self._names).index(name) for name in self._names]
        self._codes = bytearray(self.partitions)
        self._statuses: list[PartitionStateQuality] = [NEVER]
        self.outside = 0
        """Partitions with a row that are not among the asset's partitions, or not yet."""

    # -- marking -------------------------------------------------------------------------

    def mark(self, partition_key: str, status: PartitionStateQuality) -> bool:
        """Give a partition a status; False if it is not one of these."""
        index = self._index(partition_key)
        if index is None:
            return False
        self._codes[index] = self.code(status)
        return True

    def mark_all(self, keys: pa.Array, codes: pa.Array) -> None:
        """Give many partitions the statuses with these codes. Others are counted.

        Equal parts of keys, such as a day or a region, are looked up once.
        """
        parts = pc.split_pattern(keys, ",") if self._axes else None
        if parts is None:
            places: Any = [self._index(key) for key in keys.to_pylist()]
        else:
            is_whole = pc.equal(pc.list_value_length(parts), len(self._axes))
            self.outside += len(keys) - pc.sum(is_whole.cast(pa.int64())).as_py()
            parts, codes = parts.filter(is_whole), codes.filter(is_whole)
            places = self._places_of(parts).to_pylist()
        marked = self._codes
        for place, code in zip(places, codes.to_pylist(), strict=True):
            if place is None:
                self.outside += 1
            else:
                marked[place] = code

    def _places_of(self, parts: pa.ListArray) -> pa.Array:
        """By the parts of keys, where the partitions are; null for others."""
        index: Any = pa.scalar(0, pa.int64())
        for axis, place in zip(self._axes, self._places, strict=True):
            spelled = pc.list_element(parts, place).dictionary_encode()
            positions = pa.array(map(axis.place, spelled.dictionary.to_pylist()), pa.int64())
            size = pa.scalar(axis.size, pa.int64())
            index = pc.add(pc.multiply(index, size), positions.take(spelled.indices))
        return index

    def copy(self) -> PartitionStatuses:
        """The same, to be marked without changing this."""
        twin = copy.copy(self)
        twin._codes, twin._statuses = self._codes.copy(), self._statuses.copy()
        return twin

    def get(self, partition_key: str) -> PartitionStateQuality | None:
        index = self._index(partition_key)
        return None if index is None else self._statuses[self._codes[index]]

    def code(self, status: PartitionStateQuality) -> int:
        """The number of a status."""
        if status not in self._statuses:
            self._statuses.append(status)
        return self._statuses.index(status)

    def _index(self, partition_key: str) -> int | None:
        parts = partition_key.split(",") if partition_key else []
        if len(parts) != len(self._axes):
            return None
        index = 0
        for axis, place in zip(self._axes, self._places, strict=True):
            position = axis.place(parts[place])
            if position is None:
                return None
            index = index * axis.size + position
        return index

    # -- reading -------------------------------------------------------------------------

    def counts(self) -> dict[PartitionStateQuality, int]:
        """How many partitions have each status."""
        counted = [(status, self._codes.count(code)) for code, status in enumerate(self._statuses)]
        return {status: count for status, count in counted if count}

    def ranges(self, states: Sequence[str] = ()) -> Iterator[StatusRange]:
        """Neighbours with equal status, in their order; only of these states, if any are given."""
        for start, stop, code in self._runs():
            if not states or self._statuses[code].state in states:
                yield self._range(start, stop, code)

    def _range(self, start: int, stop: int, code: int) -> StatusRange:
        status = self._statuses[code]
        return StatusRange(
            first=self.key(start),
            last=self.key(stop - 1),
            partitions=stop - start,
            state=status.state,
            quality=status.quality,
        )

    def each(self, states: Sequence[str] = ()) -> Iterator[StatusRange]:
        """The same, one partition at a time."""
        for index, code in enumerate(self._codes):
            status = self._statuses[code]
            if not states or status.state in states:
                key = self.key(index)
                yield StatusRange(
                    first=key, last=key, partitions=1, state=status.state, quality=status.quality
                )

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        width = self._axes[-1].size if self._axes else 1
        for row in range(0, self.partitions, width or 1):
            yield from self._runs_of(row, width)

    def _runs_of(self, row: int, width: int) -> Iterator[tuple[int, int, int]]:
        """Of the partitions that differ in the last dimension alone, from `row` on."""
        breaks = self._axes[-1].starts if self._axes else [0]
        for start, stop in zip(breaks, [*breaks[1:], width], strict=True):
            at = row + start
            for code, same in groupby(memoryview(self._codes)[at : row + stop]):
                length = sum(1 for _ in same)
                yield at, at + length, code
                at += length

    def cells(self, most: int) -> PartitionCells:
        """All partitions in at most `most` cells: each has the worst status of its share."""
        return cells_of(self._codes, self._statuses, most)

    def range_at(self, place: int) -> tuple[int, StatusRange]:
        """The neighbours of equal status around a place, and where they begin."""
        inner = self._axes[-1].size if self._axes else 1
        row = place - place % inner
        for start, stop, code in self._runs_of(row, inner):
            if start <= place < stop:
                return start, self._range(start, stop, code)
        raise AssertionError(place)

    def point(self, index: int) -> tuple[Value, ...]:
        """In the order of the dimensions' names."""
        values: list[Value] = []
        for axis in reversed(self._axes):
            index, at = divmod(index, axis.size)
            values.append(axis.value(at))
        values.reverse()
        return tuple([values[at] for at in self._sorted])

    def key(self, index: int) -> str:
        names = sorted(self._names)
        return str(PartitionKey(dict(zip(names, self.point(index), strict=True))))

    def current(self) -> Iterator[int]:
        """Where the partitions are that are MATERIALIZED."""
        good = {
            code
            for code, status in enumerate(self._statuses)
            if status.state == PartitionState.MATERIALIZED
        }
        return (index for index, code in enumerate(self._codes) if code in good)

    def become_stale(self, index: int) -> None:
        status = self._statuses[self._codes[index]]
        self._codes[index] = self.code(status._replace(state=PartitionState.STALE))


class StatusReader:
    """Computes the statuses at one generation."""

    def __init__(self, snapshot: Snapshot, assets: Mapping[str, Asset], until: datetime) -> None:
        """`assets` are all that are deployed, by key; `until` decides which periods are over."""
        self._snapshot = snapshot
        self._assets = assets
        self._until = until
        self._lookups = SnapshotLookups(snapshot, chunk_until=until)
        self._spaces: dict[str, Space] = {}

    def statuses(self, asset: str, texts: Sequence[str] = ()) -> tuple[PartitionStatuses, bool]:
        """The statuses of an asset's partitions: those that texts name, or all.

        Also returns False if they are too many to compute which are STALE.
        """
        return self.judged(asset, self.recorded(asset, self.ranges(asset, texts)))

    def ranges(self, asset: str, texts: Sequence[str] = ()) -> Sequence[Ranges]:
        """Which partitions texts name, by dimension."""
        space = self._space(asset)
        named = {text.partition("=")[0].strip() for text in texts}
        times = [keys.name for keys in space.dimensions if isinstance(keys, Calendar)]
        every = [
            f"{name}=all" for name in times if name not in named and self._has_any(name, space)
        ]
        return requested({asset: space}, [*texts, *every])[asset]

    def recorded(self, asset: str, ranges: Sequence[Ranges]) -> PartitionStatuses:
        """The statuses by the rows of a generation; cached for these ranges."""
        statuses = PartitionStatuses(self._space(asset), ranges)
        self._lay_rows(statuses, self._lookups.asset_id(asset))
        return statuses

    def judged(self, asset: str, statuses: PartitionStatuses) -> tuple[PartitionStatuses, bool]:
        """Marks partitions that a plan would run again now, and those that are running."""
        asset_id = self._lookups.asset_id(asset)
        is_judged = self._judge(statuses, asset, asset_id)
        for key in self._in_flight(asset_id):
            status = statuses.get(key)
            if status is not None:
                statuses.mark(key, status._replace(state=PartitionState.MATERIALIZING))
        return statuses, is_judged

    def _has_any(self, name: str, space: Space) -> bool:
        return bool(space.dimensions[space.names.index(name)].every_key())

    def _space(self, asset: str) -> Space:
        if asset not in self._spaces:
            self._spaces[asset] = Space.of(self._assets[asset], self._keys)
        return self._spaces[asset]

    def _keys(self, dimension: Dimension) -> Keys:
        return keys_of(dimension, self._until, self._lookups.dynamic_keys)

    def _lay_rows(self, statuses: PartitionStatuses, asset_id: str) -> None:
        names = ("partition_key", "status", "current", "last", "error_code")
        table = self._snapshot.columns(PARTITION_STATUS_ROWS, asset_id, names)
        for batch in table.to_batches(max_chunksize=SLICE):
            statuses.mark_all(batch.column("partition_key"), codes_of(batch, statuses.code))

    def _in_flight(self, asset_id: str) -> Iterator[str]:
        """Partitions that active tasks make."""
        for run in self._snapshot.hot(RUNS):
            if run.finished_at is not None:
                continue
            tasks = self._snapshot.columns(
                TASKS, run.run_id, ["asset_id", "partition_key", "state", "attempt"]
            )
            active = pc.and_(
                pc.equal(tasks["asset_id"], asset_id),
                pc.and_(
                    pc.greater(tasks["attempt"], 0),
                    pc.invert(pc.is_in(tasks["state"], pa.array(sorted(TERMINAL)))),
                ),
            )
            yield from tasks.filter(active)["partition_key"].to_pylist()

    def _judge(self, statuses: PartitionStatuses, asset: str, asset_id: str) -> bool:
        """Mark the partitions that a plan would run again; False if there are too many."""
        current = list(islice(statuses.current(), MAX_JUDGED + 1))
        if len(current) > MAX_JUDGED:
            return False
        space = self._space(asset)
        points = {statuses.point(index): index for index in current}
        drafting = Drafting(
            self._assets, PlanRequest(selection=(asset,)), self._lookups, self._space
        )
        drafting.add(Draft(self._assets[asset], asset_id, space, list(points)), asset)
        for point in drafting.to_run():
            statuses.become_stale(points[point])
        return True
