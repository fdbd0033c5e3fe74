"""Chunks of a request: together all of its partitions, each in one of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from arco.orchestration.chunks import chunk_count, cut, expected, narrowed
from arco.orchestration.partition_space import Point, Ranges, Space, count, keys_of, merged
from arco.orchestration.plan import Chunk
from servo.contract.manifest import (
    Asset,
    Code,
    Dimension,
    DynamicDimension,
    StaticDimension,
    TimeDimension,
)

START = datetime(2025, 1, 1)
DIMENSIONS: dict[str, Dimension] = {
    "date": TimeDimension(name="date", every="day", start="2025-01-01", timezone="UTC"),
    "kind": StaticDimension(name="kind", values=("a", "b", "c")),
    "shop": DynamicDimension(name="shop", keys="shops"),
}


@st.composite
def some(draw: st.DrawFn, total: int) -> Ranges:
    """Some of the numbers below `total`, at least one."""
    numbers = draw(st.sets(st.integers(0, total - 1), min_size=1))
    return merged(range(number, number + 1) for number in numbers)


@given(st.data())
def test_every_partition_is_in_exactly_one_chunk(data: st.DataObject) -> None:
    days = data.draw(st.integers(1, 20), "days")
    shops = [f"s{n}" for n in range(data.draw(st.integers(1, 12), "shops"))]
    until = (START + timedelta(days=days)).replace(tzinfo=UTC)
    shared = data.draw(st.sets(st.sampled_from(sorted(DIMENSIONS)), min_size=1), "shared")
    extra = data.draw(st.sets(st.sampled_from(sorted(DIMENSIONS))), "extra")
    names = {"x.one": shared, "x.two": shared | extra}
    assets: dict[str, Asset] = {}
    spaces: dict[str, Space] = {}
    ranges: dict[str, tuple[Ranges, ...]] = {}
    chosen: dict[str, Ranges] = {}
    for key, own in names.items():
        dimensions = tuple(DIMENSIONS[name] for name in sorted(own))
        assets[key] = Asset(key=key, partitions=dimensions, code=Code(module="x", name="x"))
        spaces[key] = Space.of(assets[key], lambda d: keys_of(d, until, lambda _: shops))
        for keys in spaces[key].dimensions:
            if keys.name not in chosen:
                first = keys.every_key().start
                picked = data.draw(some(len(keys.every_key())), keys.name)
                chosen[keys.name] = tuple(range(r.start + first, r.stop + first) for r in picked)
        ranges[key] = tuple(chosen[keys.name] for keys in spaces[key].dimensions)
    size = data.draw(st.integers(1, 40), "size")
    parts = cut(assets, spaces, ranges, size)
    newest_first = data.draw(st.booleans(), "newest first")
    seen: dict[str, list[Point]] = {key: [] for key in names}
    total = 0
    for number in range(chunk_count(parts.axes)):
        chunk = Chunk(axes=parts.axes, number=number, newest_first=newest_first)
        inside = narrowed(spaces, ranges, chunk)
        partitions = sum(count(each) for each in inside.values())
        if "shop" not in shared:  # those keys are dealt, and blocks are about equal
            guess = expected(parts.axes, number, parts.partitions, newest_first=newest_first)
            assert guess == partitions
            assert partitions <= max(size, parts.partitions // count(ranges["x.one"]))
        total += partitions
        for key in names:
            seen[key] += spaces[key].points(inside[key])
    assert total == parts.partitions
    for key in names:
        whole = spaces[key].points(ranges[key])
        assert sorted(seen[key]) == whole
