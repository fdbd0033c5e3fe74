"""An orchestrator with schedules and sensors for a thousand days: a day costs what the first did.

Counted are the calls of the store, and the bytes that go each way, of the orchestrator's process
(with its merges) and of a worker's. Time is simulated.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import TypeVar

from arco.automation.tables import TickState
from arco.storage.port import Mode, Object, Store
from tests.kit.depth import DEEP, scaled
from tests.kit.faulty import StoreWrapper
from tests.kit.flows import Crowd
from tests.kit.sensors import SensorTown

T = TypeVar("T")

DAYS = scaled(10, 1_000)
WINDOW = scaled(3, 30)
"""The usual cost of so many days is compared: some days have more to merge than others."""
STEADY = ("queue", "ledger", "liveness", "commits", "inbox")
"""What is there does not grow, so calls are the same."""
GROWING = ("manifests", "state", "bytes read", "bytes written")
"""What merges read and write. It grows in the first weeks, until rows leave for history, and with
the list of months."""
QUARTER = timedelta(hours=6)
START = datetime(2026, 1, 5)
SENSORS = """
@sensor(selection=[alone], interval="6h", timeout="20s")
def poll(ctx: SensorContext) -> SensorResult:
    return SensorResult()

nightly = schedule("nightly", cron="15 3 * * *", timezone="Europe/Berlin", selection=[alone])
yearly = [schedule(f"yearly{n}", cron=f"0 0 {n + 1} 6 *", selection=[alone]) for n in range(20)]
quiet = [webhook_sensor(f"quiet{n}", selection=[alone]) for n in range(20)]

@asset(namespace="city")
def later() -> None: ...

versions = asset_sensor("versions", alone, selection=[later], interval="1h")
"""


class Meter(StoreWrapper):
    """Counts calls by the first part of their path, and the bytes of what is read and written."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.counts: Counter[str] = Counter()

    def get(self, path: str) -> Object:
        found = super().get(path)
        self.counts["bytes read"] += len(found.data)
        return found

    def get_range(self, path: str, start: int, length: int) -> bytes:
        self.counts["bytes read"] += length
        return super().get_range(path, start, length)

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        self.counts["bytes written"] += len(data)
        super().put(path, data, mode)

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.counts[path.partition("/")[0]] += 1
        return act()

    def measured(self, act: Callable[[], object]) -> Counter[str]:
        self.counts.clear()
        act()
        return self.counts.copy()


class Years(SensorTown):
    """One item a day for a sensor that polls four times, a nightly schedule, and what is idle."""

    def __init__(self) -> None:
        super().__init__(SENSORS, start=START)
        self.meter = Meter(self.store)
        self.crowd = Crowd(self.meter, self.clock, "")
        self.crowd.sense = self.sense
        self.crowd.orchestrator()
        self.crowd.worker()

    def day(self, number: int) -> None:
        self.items.append(f"item{number}")
        for quarter in range(4):
            until = START + timedelta(days=number) + (quarter + 1) * QUARTER
            while self.crowd.step():
                pass
            self.clock.advance(max(until - self.clock.now(), timedelta(0)))
        self.merge()

    def merge(self) -> None:
        while self.crowd.orchestrators[0].workspace.upkeep.merger.merge() is not None:
            pass

    def collect(self) -> None:
        """What an administrator's job does, on another connection."""
        self.crowd.orchestrators[0].workspace.upkeep.gc(dry_run=False)


def usual(days: Sequence[Mapping[str, int]], name: str) -> float:
    return median(day.get(name, 0) for day in days)


def test_a_day_costs_after_many_days_what_it_cost_after_few() -> None:
    town = Years()
    days: list[Counter[str]] = []
    for number in range(DAYS):
        days.append(town.meter.measured(functools.partial(town.day, number)))
        if number % 10 == 9:
            town.collect()
    young, old = days[DAYS // 4 : DAYS // 4 + WINDOW], days[-WINDOW:]
    for name in STEADY:
        assert usual(old, name) == usual(young, name), name
    for name in GROWING if DEEP else ():
        assert usual(old, name) <= 1.2 * usual(young, name), name
    assert set(town.asked()) >= {f"poll:{item}" for item in town.items}
    assert [state for _, state in town.states("nightly")] == DAYS * [TickState.FIRED]
    after = [run for run in town.runs() if run.selection == ["city.later"]]
    assert len(after) >= DAYS
