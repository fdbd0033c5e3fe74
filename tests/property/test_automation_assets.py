"""Random graphs, mappings and changes: automation makes what an oracle that looks at everything
says, each partition once.

The oracle knows nothing of cursors, rows or inverse mappings. After each change it walks all
partitions of all assets, and asks which of them read something that was replaced.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import pytest

from arco.orchestration.states import TaskState
from arco.orchestration.tables import RUNS, TASKS
from servo.errors import Invalid
from tests.kit.automation import Mill, declared, project
from tests.kit.depth import scaled

NOW = datetime(2026, 3, 5, 8)
DAYS = [f"2026-02-{day}" for day in range(24, 29)] + [f"2026-03-0{day}" for day in range(1, 5)]
MONTHS = ["2026-02-01"]
KEYS = {"none": [""], "day": DAYS, "month": MONTHS}
PARTITIONS = {
    "none": "",
    "day": 'daily("date", start="2026-02-24")',
    "month": 'monthly("date", start="2026-02-01")',
}
MAPPINGS = {
    ("day", "day"): ["", "window(-2, 0)", "window(0, 1)", "all_upstream", "latest"],
    ("day", "month"): ["time_window()", "all_upstream"],
    ("day", "none"): ["all_upstream", "latest"],
    ("month", "month"): [""],
    ("month", "day"): ["time_window()", "latest"],
    ("month", "none"): ["all_upstream"],
    ("none", "none"): [""],
    ("none", "day"): [""],
    ("none", "month"): [""],
}
"""From what is read to what reads it."""


class Drawn(NamedTuple):
    name: str
    unit: str
    reads: dict[str, str]
    eager: bool

    @property
    def text(self) -> str:
        reads = [f"{name}: {mapping}" if mapping else name for name, mapping in self.reads.items()]
        settings = {"retry": "1"}
        if self.unit != "none":
            settings["partitions"] = PARTITIONS[self.unit]
        if self.eager:
            settings["automation"] = "eager()"
        return declared(self.name, *reads, **settings)


Place = tuple[str, str]


def drawn(dice: random.Random) -> list[Drawn]:
    assets: list[Drawn] = []
    for number in range(dice.randint(3, 7)):
        unit = dice.choice(["none", "day", "day", "month"])
        reads = {}
        if assets and number > 1:
            for other in dice.sample(assets, min(len(assets), dice.randint(1, 3))):
                reads[other.name] = dice.choice(MAPPINGS[other.unit, unit])
        assets.append(Drawn(f"a{number}", unit, reads, bool(reads) and dice.random() < 0.85))
    return assets


class Oracle:
    def __init__(self, mill: Mill, assets: list[Drawn]) -> None:
        self.mill = mill
        self.assets = assets
        self.exists: set[Place] = set()
        self.failed: set[Place] = set()
        self.tried: set[Place] = set()

    def change(self, asset: Drawn, keys: list[str], failing: set[str]) -> set[Place]:
        """What automation has to try, once each, after a person made these."""
        replaced: set[Place] = set()
        tried: set[Place] = set()
        self._attempt({(asset.name, key) for key in keys}, failing, replaced)
        for other in self.assets:  # each after those that it reads
            if not other.eager or other.name == asset.name:
                continue
            own = {
                (other.name, key) for key in KEYS[other.unit] if self._runs(other, key, replaced)
            }
            tried |= own
            self._attempt(own, failing, replaced)
        return tried

    def _attempt(self, places: set[Place], failing: set[str], replaced: set[Place]) -> None:
        good = {place for place in places if place[0] not in failing}
        replaced |= good
        self.exists |= good
        self.tried |= places
        self.failed = (self.failed - good) | (places - good)

    def _runs(self, asset: Drawn, key: str, replaced: set[Place]) -> bool:
        places = {name: set(self._reads(asset, name, key)) for name in asset.reads}
        if any(not own & self.exists for own in places.values()):
            return False
        if any(own & self.failed for own in places.values()):
            return False
        if (asset.name, key) not in self.tried and not any(
            own & self.exists for name, own in places.items() if not self._is_alike(asset, name)
        ):
            return False  # nothing that all times read alike makes what nobody has ever tried
        return any(own & replaced for own in places.values())

    def _is_alike(self, asset: Drawn, name: str) -> bool:
        upstream = next(each for each in self.assets if each.name == name)
        if asset.unit == "none":
            return False
        return upstream.unit == "none" or asset.reads[name] in ("all_upstream", "latest")

    def _reads(self, asset: Drawn, name: str, key: str) -> Iterator[Place]:
        """By definition of the mapping, in plain words."""
        upstream = next(each for each in self.assets if each.name == name)
        mapping = asset.reads[name]
        keys = KEYS[upstream.unit]
        if mapping in ("all_upstream", "latest"):
            existing = sorted(place for place in self.exists if place[0] == name)
            yield from existing[-1:] if mapping == "latest" else existing
        elif upstream.unit == "none":
            yield name, ""
        elif mapping.startswith("window"):
            first, last = eval(mapping.removeprefix("window"))
            at = keys.index(key)
            yield from (
                (name, keys[other])
                for other in range(at + first, at + last + 1)
                if 0 <= other < len(keys)
            )
        elif mapping == "time_window()":
            same = [other for other in keys if other[:7] == key[:7]]
            yield from ((name, other) for other in same)
        else:
            yield name, key


def attempts(mill: Mill, seen: set[str]) -> Counter[Place]:
    """What automation has tried in new runs; of each task whether it was worth it."""
    snapshot = mill.fresh().read.snapshot()
    counts: Counter[Place] = Counter()
    for run in snapshot.all(RUNS):
        if run.trigger == "materialization" and run.run_id not in seen:
            seen.add(run.run_id)
            for task in snapshot.rows(TASKS, run.run_id):
                assert task.state != TaskState.REUSED
                name = task.asset_key.partition(".")[2]
                counts[name, task.partition_key.rpartition(":")[2]] += 1
    return counts


@pytest.mark.parametrize("seed", range(scaled(12, 150)))
def test_automation_makes_what_the_oracle_says_each_once(seed: int) -> None:
    dice = random.Random(seed)
    assets = drawn(dice)
    mill = Mill(project(*(asset.text for asset in assets)), start=NOW, orchestrators=1 + seed % 2)
    oracle = Oracle(mill, assets)
    seen: set[str] = set()
    for _ in range(3):
        asset = dice.choice(assets)
        keys = dice.sample(KEYS[asset.unit], dice.randint(1, min(3, len(KEYS[asset.unit]))))
        failing = {each.name for each in assets if dice.random() < 0.15}
        mill.failing = {f"m.{name}" for name in failing}
        partitions = () if asset.unit == "none" else tuple(f"date={key}" for key in keys)
        try:
            mill.run(f"m.{asset.name}", partitions=partitions)
        except Invalid:  # what it reads is not there
            continue
        expected = oracle.change(asset, keys, failing)
        assert attempts(mill, seen) == dict.fromkeys(expected, 1), (seed, assets)
