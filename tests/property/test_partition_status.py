"""Ranges of equal status against one dictionary with every partition in it."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from itertools import product
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.execution.states import PartitionState, Quality
from arco.orchestration.partition_cells import NEVER, PartitionStateQuality
from arco.orchestration.partition_space import Calendar, Names, Ranges, Space, merged
from arco.orchestration.partition_status import PartitionStatuses
from servo.contract.manifest import TimeDimension
from servo.contract.partition import PartitionKey
from tests.kit.depth import examples

START = date(2026, 1, 1)
LOOKS = [PartitionStateQuality(s, q) for s in list(PartitionState)[2:] for q in list(Quality)[:3]]


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    keys: list[Any] = []
    if draw(st.booleans()):
        days = draw(st.integers(0, 9))
        dimension = TimeDimension(name="m", every="day", start=START.isoformat())
        keys.append(Calendar(dimension, datetime(2026, 1, 1) + timedelta(days=days)))
    values = st.lists(st.sampled_from(["eu", "us", "a,b", "ü ", "x=y"]), unique=True, max_size=4)
    for name in draw(st.sampled_from([[], ["a"], ["z"], ["a", "z"]])):
        keys.append(Names(name, draw(values)))
    return Space(keys)


@given(spaces(), st.data())
@settings(max_examples=examples(200))
def test_ranges_have_every_partition_once_with_its_status(
    space: Space, data: st.DataObject
) -> None:
    chosen: list[Ranges] = []
    for keys in space.dimensions:
        numbers = keys.every_key()
        picked = data.draw(st.sets(st.sampled_from(numbers))) if len(numbers) else set()
        chosen.append(merged(range(n, n + 1) for n in picked))
    statuses = PartitionStatuses(space, chosen)
    points = space.points(chosen)
    model = {str(space.key(point)): NEVER for point in points}
    everything = [
        str(space.key(p)) for p in space.points([(k.every_key(),) for k in space.dimensions])
    ]
    for key in data.draw(st.lists(st.sampled_from(everything or ["no=s:such"]))):
        look = data.draw(st.sampled_from(LOOKS))
        assert statuses.mark(key, look) == (key in model)
        if key in model:
            model[key] = look
    for stranger in ("m=d:2031-01-01", "a=s:nowhere", "", "q=i:4", "m=d:2026-01-01,y=s:eu"):
        assert statuses.mark(stranger, LOOKS[0]) == (stranger in model)
        model |= {stranger: LOOKS[0]} if stranger in model else {}
    singles = {
        each.first: PartitionStateQuality(each.state, each.quality) for each in statuses.each()
    }
    assert singles == model
    ranges = list(statuses.ranges())
    assert sum(each.partitions for each in ranges) == len(model) == statuses.partitions
    expanded: dict[str, PartitionStateQuality] = {}
    for each in ranges:
        inside = keys_between(space, chosen, each.first, each.last)
        assert len(inside) == each.partitions
        expanded |= dict.fromkeys(inside, PartitionStateQuality(each.state, each.quality))
    assert expanded == model
    counted = {look: list(model.values()).count(look) for look in model.values()}
    assert {look: count for look, count in statuses.counts().items() if count} == counted
    assert_marked_together(space, chosen, model)
    assert_cells(statuses, list(singles.values()))
    only = [each for each in ranges if each.state == PartitionState.FAILED]
    assert list(statuses.ranges(["FAILED"])) == only


STRANGERS = ["m=d:2031-01-01", "q=i:4", "m=d:2026-01-01,y=s:eu,z=s:eu,a=s:eu"]


def assert_marked_together(
    space: Space, chosen: list[Ranges], model: dict[str, PartitionStateQuality]
) -> None:
    """Many keys at once are marked as each alone."""
    statuses = PartitionStatuses(space, chosen)
    keys = [*model, *STRANGERS]
    codes = [statuses.code(look) for look in model.values()] + [0] * len(STRANGERS)
    statuses.mark_all(pa.array(keys, pa.string()), pa.array(codes, pa.uint8()))
    looks = {
        each.first: PartitionStateQuality(each.state, each.quality) for each in statuses.each()
    }
    assert (looks, statuses.outside) == (model, len(STRANGERS))


def assert_cells(statuses: PartitionStatuses, looks: list[PartitionStateQuality]) -> None:
    """A cell has a look of its share, and no partition of it a worse one."""
    if not looks:
        return
    whole = statuses.cells(len(looks))
    order = whole.statuses.index
    assert [whole.statuses[number] for number in expanded_runs(whole.runs)] == looks
    for most in (1, 3):
        cells = statuses.cells(most)
        shares = [looks[at : at + cells.share] for at in range(0, len(looks), cells.share)]
        assert len(shares) <= most
        worst = [min(share, key=order) for share in shares]
        assert [cells.statuses[number] for number in expanded_runs(cells.runs)] == worst
    for place, each in enumerate(statuses.each()):
        start, around = statuses.range_at(place)
        assert start <= place < start + around.partitions
        assert (around.state, around.quality) == (each.state, each.quality)


def expanded_runs(runs: list[int]) -> list[int]:
    pairs = zip(runs[::2], runs[1::2], strict=True)
    return [number for number, times in pairs for _ in range(times)]


def keys_between(space: Space, chosen: list[Ranges], first: str, last: str) -> list[str]:
    """The keys that differ in one dimension, from one to another, of those that were chosen."""
    low, high = PartitionKey.parse(first).dimensions, PartitionKey.parse(last).dimensions
    axes = []
    for keys, ranges in zip(space.dimensions, chosen, strict=True):
        values = [keys.key(number) for numbers in ranges for number in numbers]
        start, stop = values.index(low[keys.name]), values.index(high[keys.name])  # type: ignore[arg-type]
        axes.append(values[start : stop + 1])
    return [str(space.key(point)) for point in product(*axes)]
