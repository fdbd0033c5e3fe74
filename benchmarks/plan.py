"""The cost of a task in a large plan against one in a small plan.

A chain of ten daily assets, each reading seven days of the one before. Ten days of
it are 100 tasks, 1,000 days are 10,000, which must cost no more each. The plan is made
of nothing (all runs), and again where all is up to date (every fingerprint is computed,
all is reused).
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.orchestration.plan import CurrentVersion, PlanRequest, PlanSpec, spec_fingerprint
from arco.orchestration.planner import plan
from benchmarks.workload import arguments, asset_ids, progress, report, timed
from servo.contract.manifest import Asset, Code, Input, Manifest, TimeDimension, Window

ASSETS = 10
START = date(2020, 1, 1)
SMALL, LARGE = 10, 1_000


class Materialized:
    """What is known: nothing, or the outputs of a plan."""

    def __init__(self, manifest: Manifest, count: int) -> None:
        keys = [asset.key for asset in manifest.assets]
        self._ids = dict(zip(keys, asset_ids(len(keys)), strict=True))
        self._versions = asset_ids(count, seed=2)
        self._current: dict[str, dict[str, CurrentVersion]] = {
            made: {} for made in self._ids.values()
        }

    def asset_id(self, key: str) -> str:
        return self._ids[key]

    def current(self, asset_id: str) -> Mapping[str, CurrentVersion]:
        return self._current[asset_id]

    def expect(self, asset_id: str, partitions: Iterable[str]) -> None:
        pass

    def pinned(self, asset_id: str, each: Input) -> Mapping[str, CurrentVersion]:
        return {}

    def held(self, asset_id: str) -> Mapping[str, str]:
        return {}

    def dynamic_keys(self, name: str) -> list[str]:
        return []

    def run(self, spec: PlanSpec) -> None:
        """One more stage of the plan: whatever now has a fingerprint."""
        for number, task in enumerate(spec.tasks):
            if task.fingerprint:
                self._current[task.asset_id][task.partition] = CurrentVersion(
                    materialization_id=self._versions[number],
                    path=f"data/{task.asset}/{task.partition}",
                    fingerprint=task.fingerprint,
                )


def chain() -> Manifest:
    daily = TimeDimension(name="date", every="day", start=START.isoformat())
    return Manifest(
        assets=tuple(
            Asset(
                key=f"bench.a{at:02}",
                code=Code(module="bench", name=f"a{at:02}"),
                partitions=(daily,),
                inputs=(Input(asset=f"bench.a{at - 1:02}", parameter="x", mapping=Window(-6, 0)),)
                if at
                else (),
                transform=f"{at:064x}",
            )
            for at in range(ASSETS)
        )
    )


class Case:
    def __init__(self, days: int, *, done: bool) -> None:
        self.manifest = chain()
        self.tasks = ASSETS * days
        self.known = Materialized(self.manifest, self.tasks)
        last = START + timedelta(days=days - 1)
        self.request = PlanRequest(selection=("*",), partitions=(f"date={START}..{last}",))
        self.seconds: list[float] = []
        for _ in range(ASSETS if done else 0):
            self.known.run(self.plan())

    def plan(self) -> PlanSpec:
        until = datetime(2030, 1, 1)
        return plan(self.manifest, "0" * 64, self.request, self.known, until=until)

    def measure(self, repeat: int) -> None:
        """The mean of a few plans, for small ones are over too soon to be timed alone."""
        runs = [timed(self.plan) for _ in range(repeat)]
        self.seconds.append(sum(seconds for seconds, _ in runs) / repeat / self.tasks)
        assert all(len(spec.tasks) == self.tasks for _, spec in runs)

    @property
    def us(self) -> float:
        return round(statistics.median(self.seconds) * 1e6, 2)


def measure(rounds: int) -> dict[str, object]:
    small, large = Case(SMALL, done=False), Case(LARGE, done=False)
    small_done, large_done = Case(SMALL, done=True), Case(LARGE, done=True)
    progress(f"{small.tasks} and {large.tasks:,} tasks; {rounds} rounds")
    for number in range(rounds):
        for case, repeat in ((small, 20), (large, 1), (small_done, 20), (large_done, 1)):
            case.measure(repeat)
        progress(
            f"round {number + 1}: {small.us} and {large.us} µs a task; "
            f"all up to date {small_done.us} and {large_done.us} µs"
        )
    fingerprint_s = timed(spec_fingerprint, large.plan())[0]
    return {
        "per_task_10k_over_100": round(large.us / small.us, 3),
        "reused_per_task_10k_over_100": round(large_done.us / small_done.us, 3),
        "us_per_task_100": small.us,
        "us_per_task_10k": large.us,
        "reused_us_per_task_100": small_done.us,
        "reused_us_per_task_10k": large_done.us,
        "spec_fingerprint_us_per_task_10k": round(fingerprint_s / large.tasks * 1e6, 2),
    }


def main() -> None:
    args = arguments(__doc__).parse_args()
    report(measure(5 if args.quick else 9))


if __name__ == "__main__":
    main()
