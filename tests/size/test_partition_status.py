"""A million partitions of one asset are listed as ranges, with little memory for each."""

from __future__ import annotations

import tracemalloc
from datetime import date, timedelta

from arco.execution.states import PartitionState, Quality
from arco.orchestration.partition_cells import PartitionStateQuality
from arco.orchestration.partition_space import Calendar, Names, Space
from arco.orchestration.partition_status import PartitionStatuses
from servo.contract.manifest import TimeDimension

GOOD = PartitionStateQuality(PartitionState.MATERIALIZED, Quality.PASSED)
DAYS, NAMES = 1_000, 1_000


def test_a_million_partitions_take_a_byte_each_and_are_few_ranges() -> None:
    start = date(2020, 1, 1)
    dimension = TimeDimension(
        name="date", every="day", start="2020-01-01", end=str(start + timedelta(days=DAYS))
    )
    space = Space([Calendar(dimension), Names("shop", [f"shop{n:04}" for n in range(NAMES)])])
    ranges = [(keys.every_key(),) for keys in space.dimensions]
    days = [str(start + timedelta(days=n)) for n in range(0, DAYS, 500)]
    tracemalloc.start()
    statuses = PartitionStatuses(space, ranges)
    for day in days:
        for shop in range(NAMES):
            assert statuses.mark(f"date=d:{day},shop=s:shop{shop:04}", GOOD)
    lines = sum(1 for _ in statuses.ranges())
    counts = statuses.counts()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert statuses.partitions == DAYS * NAMES
    assert counts[GOOD] == len(days) * NAMES
    assert lines == NAMES * 2 * len(days)
    assert peak < 8 * DAYS * NAMES
