"""Chunks: many partitions, cut into parts of about the same size by arithmetic.

A *shared* dimension is one that all selected assets have, with the same keys. Each is an axis, cut
into blocks of consecutive keys; a chunk is one block of each axis, and of the other dimensions of
an asset all that was asked for. So chunk number 17 of 5,000 is computed without the others, and no
list of keys is stored.

Keys of a dynamic dimension are added and removed, so their numbers change. They are assigned to
blocks by a hash: a key is in the same block whatever other keys exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from arco.orchestration.mapping import mappings
from arco.orchestration.partition_ranges import show
from arco.orchestration.partition_space import (
    Calendar,
    Keys,
    Names,
    Ranges,
    Space,
    Value,
    count,
    merged,
)
from arco.orchestration.plan import Axis, Chunk
from servo.contract.manifest import Asset, Dimension, DynamicDimension, Identity, Latest, Window
from servo.errors import Invalid

SHOWN = 10
"""Maximum number of names of a block in a text."""


class Cut(NamedTuple):
    axes: tuple[Axis, ...]
    partitions: int
    """Of all assets together."""
    one_by_one: str
    """Why its chunks must run one after the other, the oldest first; empty if they need not."""


# -- cutting --------------------------------------------------------------------------------


def cut(
    assets: Mapping[str, Asset],
    spaces: Mapping[str, Space],
    ranges: Mapping[str, Sequence[Ranges]],
    chunk_size: int,
) -> Cut:
    """The axes for chunks of at most `chunk_size` partitions, as far as that can be.

    Raises Invalid if the assets share no dimension, or if one reads partitions that a later
    chunk makes.
    """
    names = _shared(assets, spaces)
    partitions = sum(count(each) for each in ranges.values())
    for_each_point = sum(
        prod(_total(r) for keys, r in _pairs(spaces[key], ranges[key]) if keys.name not in names)
        for key in spaces
    )
    room = max(1, chunk_size // max(1, for_each_point))
    axes: list[Axis] = []
    for name in reversed(names):  # the innermost is filled first
        axis = _axis(name, assets, spaces, ranges, room)
        axes.insert(0, axis)
        room = max(1, room // max(1, axis.size))
    return Cut(tuple(axes), partitions, _one_by_one(assets, spaces, axes))


def _shared(assets: Mapping[str, Asset], spaces: Mapping[str, Space]) -> list[str]:
    """Dimensions that all of the assets have with the same keys, those of time first."""
    for key, space in spaces.items():
        if not space.dimensions:
            raise Invalid(
                f"{key} has no partitions",
                hint=f"leave it out with --exclude {key}, and run it by itself",
            )
    grids = [
        {d.name: _grid(d, keys) for d, keys in _dimensions(assets[key], space)}
        for key, space in spaces.items()
    ]
    shared = [name for name, grid in grids[0].items() if all(g.get(name) == grid for g in grids)]
    if not shared:
        some = ", ".join(sorted(spaces)[:SHOWN])
        raise Invalid(
            f"these assets have no dimension in common: {some}",
            hint="create a backfill for each of them",
        )
    return sorted(shared, key=lambda name: (grids[0][name][0] != "time", name))


def _dimensions(asset: Asset, space: Space) -> Iterator[tuple[Dimension, Keys]]:
    by_name = {dimension.name: dimension for dimension in asset.partitions}
    return ((by_name[keys.name], keys) for keys in space.dimensions)


def _grid(dimension: Dimension, keys: Keys) -> tuple[object, ...]:
    """Equal for dimensions in which equal numbers are equal keys."""
    if isinstance(keys, Calendar):
        return "time", keys.every, keys.phase
    if isinstance(dimension, DynamicDimension):
        return "dynamic", dimension.keys
    return "names", keys.values


def _axis(
    name: str,
    assets: Mapping[str, Asset],
    spaces: Mapping[str, Space],
    ranges: Mapping[str, Sequence[Ranges]],
    room: int,
) -> Axis:
    numbers = merged(
        part
        for key, space in spaces.items()
        for keys, parts in _pairs(space, ranges[key])
        if keys.name == name
        for part in parts
    )
    keys = _total(numbers)
    size = max(1, min(keys, room))
    dimensions = next(iter(assets[key] for key in spaces)).partitions
    is_dynamic = any(isinstance(d, DynamicDimension) and d.name == name for d in dimensions)
    return Axis(
        name=name,
        spans=() if is_dynamic else tuple(n for r in numbers for n in (r.start, r.stop)),
        size=size,
        blocks=max(1, -(-keys // size)),
        keys=keys,
    )


def _one_by_one(
    assets: Mapping[str, Asset], spaces: Mapping[str, Space], axes: Sequence[Axis]
) -> str:
    """Why chunks must run in order: an asset reads what an earlier chunk writes. Raises Invalid if
    it reads what a later one writes."""
    cut_names = {axis.name for axis in axes if axis.blocks > 1}
    reason = ""
    for key in sorted(spaces):
        for each in assets[key].inputs:
            if each.asset not in spaces:
                continue
            upstream = spaces[each.asset]
            rules = mappings(key, each, spaces[key], upstream)
            for keys, rule in zip(upstream.dimensions, rules, strict=True):
                if keys.name not in cut_names or isinstance(rule, Identity):
                    continue
                if not isinstance(rule, Window) or rule.end > 0:
                    what = "the latest" if isinstance(rule, Latest) else "other"
                    raise Invalid(
                        f"{key} reads {what} partitions of {each.asset} along {keys.name!r}, "
                        "which other chunks of the same backfill write",
                        hint=f"create a backfill of {each.asset} first, and then one of {key}",
                    )
                reason = f"{key} reads earlier partitions of {each.asset}"
    return reason


def _pairs(space: Space, ranges: Sequence[Ranges]) -> Iterator[tuple[Keys, Ranges]]:
    return zip(space.dimensions, ranges, strict=True)


def _total(ranges: Ranges) -> int:
    return sum(len(numbers) for numbers in ranges)


# -- one chunk ------------------------------------------------------------------------------


def chunk_count(axes: Sequence[Axis]) -> int:
    return prod(axis.blocks for axis in axes)


def expected(axes: Sequence[Axis], number: int, partitions: int, *, newest_first: bool) -> int:
    """About how many of all partitions are in a chunk; exact for assets with equal keys."""
    points = prod(max(1, axis.keys) for axis in axes)
    chunk = Chunk(axes=tuple(axes), number=number, newest_first=newest_first)
    inside = prod(
        _total(block_ranges(axis, block)) if axis.spans else min(axis.size, axis.keys)
        for axis, block in zip(axes, blocks_of(chunk), strict=True)
    )
    return round(partitions * inside / points)


def blocks_of(chunk: Chunk) -> list[int]:
    """The number of the block of each axis."""
    rest = chunk.number
    blocks: list[int] = []
    for axis in reversed(chunk.axes):
        rest, block = divmod(rest, axis.blocks)
        blocks.insert(0, axis.blocks - 1 - block if chunk.newest_first else block)
    return blocks


def chunk_number(chunk: Chunk, key_of: Mapping[str, tuple[Keys, Value]]) -> int:
    """The number of the chunk with these keys of its axes, by their names."""
    number = 0
    for axis in chunk.axes:
        keys, value = key_of[axis.name]
        block = _block(axis, keys, value)
        number = number * axis.blocks + (axis.blocks - 1 - block if chunk.newest_first else block)
    return number


def _block(axis: Axis, keys: Keys, value: Value) -> int:
    """The block of an axis that has a key."""
    if not axis.spans:
        return _dealt(str(value), axis.blocks)
    number, before = keys.number(value), 0
    for start, stop in zip(axis.spans[::2], axis.spans[1::2], strict=True):
        before += max(0, min(number, stop) - start)
    return before // axis.size


def block_ranges(axis: Axis, block: int) -> Ranges:
    """The numbers of the keys in a block."""
    skip, left = block * axis.size, axis.size
    ranges: list[range] = []
    for start, stop in zip(axis.spans[::2], axis.spans[1::2], strict=True):
        numbers = range(start, stop)
        part = numbers[skip : skip + left]
        skip = max(0, skip - len(numbers))
        left -= len(part)
        if part:
            ranges.append(part)
    return tuple(ranges)


def narrowed(
    spaces: Mapping[str, Space], ranges: Mapping[str, Sequence[Ranges]], chunk: Chunk
) -> dict[str, tuple[Ranges, ...]]:
    """The part of the requested keys that is in a chunk."""
    blocks = dict(zip([axis.name for axis in chunk.axes], blocks_of(chunk), strict=True))
    axes = {axis.name: axis for axis in chunk.axes}

    def part(keys: Keys, whole: Ranges) -> Ranges:
        if keys.name not in axes:
            return whole
        axis, block = axes[keys.name], blocks[keys.name]
        if axis.spans:
            return _both(whole, block_ranges(axis, block))
        assert isinstance(keys, Names)
        return merged(
            range(number, number + 1)
            for numbers in whole
            for number in numbers
            if _dealt(keys.key(number), axis.blocks) == block
        )

    return {
        key: tuple(part(keys, whole) for keys, whole in _pairs(space, ranges[key]))
        for key, space in spaces.items()
    }


def texts_of(
    spaces: Mapping[str, Space], ranges: Mapping[str, Sequence[Ranges]], axes: Sequence[Axis]
) -> tuple[str, ...]:
    """The keys of the axes in these ranges, as people write them."""
    texts: list[str] = []
    for axis in axes:
        matching = [
            (keys, parts)
            for key, space in spaces.items()
            for keys, parts in _pairs(space, ranges[key])
            if keys.name == axis.name
        ]
        keys = matching[0][0]
        numbers = merged(part for _, parts in matching for part in parts)
        texts += _texts(keys, numbers)
    return tuple(texts)


def _texts(keys: Keys, numbers: Ranges) -> Iterator[str]:
    if isinstance(keys, Calendar):
        for part in numbers:
            first, last = show(keys, part[0]), show(keys, part[-1])
            yield f"{keys.name}={first}" if len(part) == 1 else f"{keys.name}={first}..{last}"
        return
    names = [keys.key(number) for part in numbers for number in part[:SHOWN]][:SHOWN]
    more = _total(numbers) - len(names)
    yield f"{keys.name}={','.join(names)}" + (f" and {more:,} more" if more else "")


def _both(left: Ranges, right: Ranges) -> Ranges:
    """The numbers that are in both."""
    return merged(range(max(a.start, b.start), min(a.stop, b.stop)) for a in left for b in right)


def _dealt(key: str, blocks: int) -> int:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % blocks
