"""From partitions to run to few requests: ranges of them, the same for several assets.

Points become blocks, each the product of some keys of each dimension, so that a request has exactly
these partitions. Blocks of one shape of several assets become one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from arco.automation.asset_events import AutomationAdvanced, AutomationRequest
from arco.automation.asset_graph import AutomatedPartition
from arco.orchestration.partition_ranges import show
from arco.orchestration.partition_space import Calendar, Keys, Point, Space, merged

MAX_PARTITIONS = 1_000
"""Of one asset in one request."""
MAX_ASSETS = 100
"""In one request."""
EVENT_BYTES = 256 << 10
"""Of the requests in one event."""
Block = tuple[tuple[int, ...], ...]
"""For each dimension, numbers of keys, ascending."""


def coalesced(
    causes: Mapping[AutomatedPartition, str], spaces: Mapping[str, Space]
) -> list[AutomationRequest]:
    """Requests for exactly these partitions, each once. `causes` has the cause of each."""
    by_asset: dict[str, dict[Point, str]] = {}
    for node, cause in causes.items():
        by_asset.setdefault(node.asset, {})[node.point] = cause
    shapes: dict[tuple[str, ...], dict[str, str]] = {}
    for asset in sorted(by_asset):
        space, points = spaces[asset], by_asset[asset]
        for block in _blocks(space, points):
            first = points[_first(space, block)]
            count = _count(block)
            cause = first if count == 1 else f"{first} (the first of {count:,} causes)"
            shapes.setdefault(_texts(space, block), {})[asset] = cause
    requests = []
    for partitions, assets in shapes.items():
        keys = list(assets)
        for at in range(0, len(keys), MAX_ASSETS):
            few = tuple(keys[at : at + MAX_ASSETS])
            requests.append(
                AutomationRequest(assets=few, partitions=partitions, cause=assets[few[0]])
            )
    return requests


def in_events(
    last: AutomationAdvanced, requests: Sequence[AutomationRequest]
) -> list[AutomationAdvanced]:
    """Requests in events of a bounded size. The last one is this, with some of them; those before
    it do not move the cursor."""
    groups: list[list[AutomationRequest]] = [[]]
    size = 0
    for request in requests:
        request_bytes = len(msgspec.json.encode(request))
        if groups[-1] and size + request_bytes > EVENT_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(request)
        size += request_bytes
    events = [
        AutomationAdvanced(
            proposal=last.proposal,
            part=number,
            step=last.step + number,
            position=last.position,
            until=last.until,
            requests=tuple(group),
            has_more=True,
        )
        for number, group in enumerate(groups[:-1])
    ]
    part = len(events)
    requested = tuple(groups[-1])
    return [
        *events,
        msgspec.structs.replace(last, part=part, step=last.step + part, requests=requested),
    ]


def _blocks(space: Space, points: Iterable[Point]) -> Iterator[Block]:
    numbered = {
        tuple(keys.number(value) for keys, value in zip(space.dimensions, point, strict=True))
        for point in points
    }
    for block in _products(numbered, len(space.dimensions)):
        yield from _pieces(block)


def _products(points: set[tuple[int, ...]], width: int) -> Iterator[Block]:
    """Points as products: those with the same rest share their keys of the first dimension."""
    if width == 0:
        yield ()
    elif width == 1:
        yield (tuple(sorted(number for (number,) in points)),)
    else:
        rests: dict[int, set[tuple[int, ...]]] = {}
        for point in points:
            rests.setdefault(point[0], set()).add(point[1:])
        alike: dict[frozenset[tuple[int, ...]], list[int]] = {}
        for number, rest in sorted(rests.items()):
            alike.setdefault(frozenset(rest), []).append(number)
        for rest_points, numbers in alike.items():
            for block in _products(set(rest_points), width - 1):
                yield (tuple(numbers), *block)


def _pieces(block: Block) -> Iterator[Block]:
    """A block in pieces of a bounded size, cut along its longest dimension."""
    if _count(block) <= MAX_PARTITIONS:
        yield block
        return
    at = max(range(len(block)), key=lambda each: len(block[each]))
    half = len(block[at]) // 2
    for part in (block[at][:half], block[at][half:]):
        yield from _pieces((*block[:at], part, *block[at + 1 :]))


def _count(block: Block) -> int:
    count = 1
    for numbers in block:
        count *= len(numbers)
    return count


def _first(space: Space, block: Block) -> Point:
    return tuple(
        keys.key(numbers[0]) for keys, numbers in zip(space.dimensions, block, strict=True)
    )


def _texts(space: Space, block: Block) -> tuple[str, ...]:
    return tuple(
        text
        for keys, numbers in zip(space.dimensions, block, strict=True)
        for text in _ranges(keys, numbers)
    )


def _ranges(keys: Keys, numbers: Sequence[int]) -> Iterator[str]:
    """One text for each range, or for each name: a name may hold a comma."""
    if not isinstance(keys, Calendar):
        yield from (f"{keys.name}={keys.key(number)}" for number in numbers)
        return
    for part in merged(range(number, number + 1) for number in numbers):
        first, last = show(keys, part[0]), show(keys, part[-1])
        yield f"{keys.name}={first}" if len(part) == 1 else f"{keys.name}={first}..{last}"
