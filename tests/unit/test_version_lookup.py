"""Versions by number, id and time; quarantine of versions that have left for history."""

from __future__ import annotations

import datetime as dt
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from arco.errors import Invalid, NotFound
from arco.execution.commands import ExecutionCommands, find_held
from arco.execution.pinned_versions import numbered_versions, version_by_id, versions_as_of
from arco.execution.reader import ExecutionReader
from arco.execution.states import VersionStatus
from arco.execution.tables import PARTITION_STATUS, PARTITIONS
from arco.execution.version_lookup import VersionLookup, names_partition
from arco.state.snapshot import Snapshot
from servo.contract.partition import PartitionKey
from tests.kit.lake import KEPT, Lake

SOURCE = "city.derived"


class Versions:
    """Three versions of an asset, ten days apart: the older ones are in history files."""

    def __init__(self) -> None:
        self.lake = Lake()
        self.w = self.lake.w
        self.ids: list[str] = []
        self.times = []
        for _ in range(3):
            self.make()
            self.times.append(self.lake.clock.now())
            self.lake.wait(10)
            self.lake.settle()
            self.w.upkeep.merger.merge(everything=True)
        self.asset_id = self.w.read.orchestration().asset_id(SOURCE)

    def make(self) -> str:
        run = self.lake.begin("city.source", SOURCE)
        self.lake.finish(run, "city.source")
        self.ids.append(self.lake.finish(run, SOURCE))
        return self.ids[-1]

    def lookup(self) -> VersionLookup:
        return VersionLookup(self.w.read.snapshot(), SOURCE, self.asset_id)

    def current(self) -> str:
        return self.lookup().current("").materialization_id

    def quarantine(self, id: str, reason: str = "bad") -> bool:
        return self.w.commands.execution.quarantine(SOURCE, self.asset_id, id, reason).is_new

    def release(self, id: str) -> None:
        held = find_held(self.w.read.snapshot(), id)
        self.w.commands.execution.decide(held, approved=True)

    def as_of(self, number: int) -> str:
        time = self.times[number] + timedelta(hours=1)
        rows = versions_as_of(self.w.read.snapshot(), self.asset_id, time)
        return rows[""].materialization_id


@pytest.fixture
def versions() -> Versions:
    return Versions()


def test_history_that_is_needed_again_comes_back_and_a_rebuild_agrees(versions: Versions) -> None:
    first, second, third = versions.ids
    assert versions.quarantine(third) and not versions.quarantine(third)
    assert versions.current() == second
    assert versions.quarantine(second)
    assert versions.current() == first
    versions.w.upkeep.merger.merge(everything=True)
    rows = ExecutionReader(versions.w.read.snapshot()).versions(versions.asset_id)
    assert [(row.materialization_id, row.status) for row in rows] == [
        (third, VersionStatus.QUARANTINED),
        (second, VersionStatus.QUARANTINED),
        (first, VersionStatus.GOOD),
    ]
    assert [versions.as_of(n) for n in range(3)] == [first] * 3
    versions.lake.settle()
    collected = versions.w.upkeep.collect_data(KEPT, dry_run=False)
    assert not {*versions.ids} & {given.materialization_id for given in collected.expired}
    versions.release(second)
    assert versions.current() == second
    versions.lake.wait(60)  # the first hold leaves for history
    versions.lake.settle()
    versions.w.upkeep.merger.merge(everything=True)
    assert versions.quarantine(second, "again")
    assert find_held(versions.w.read.snapshot(), second).reason == "again"
    assert versions.current() == first
    assert versions.quarantine(first)
    assert versions.w.read.snapshot().get(PARTITIONS, versions.asset_id, "") is None
    rebuilt = versions.w.upkeep.rebuild(publish=False)
    assert rebuilt.same and not rebuilt.failures


def test_versions_are_named_by_number_id_and_time(versions: Versions) -> None:
    first, second, third = versions.ids
    lookup = versions.lookup()
    names = {"1": first, "v_00002": second, third: third, first: first, "current": third}
    assert {name: lookup.version((), name).materialization_id for name in names} == names
    for unknown in ("0", "7", "abc", "01ZZZZZZ"):
        with pytest.raises(NotFound, match=r"city\.derived"):
            lookup.version((), unknown)
    assert [versions.as_of(n) for n in range(3)] == versions.ids
    snapshot = versions.w.read.snapshot()
    assert numbered_versions(snapshot, versions.asset_id, 2)[""].materialization_id == second
    assert version_by_id(snapshot, versions.asset_id, first)[""].materialization_id == first
    assert numbered_versions(snapshot, versions.asset_id, 9) == {}


def test_the_version_before_skips_what_is_held_or_expired(versions: Versions) -> None:
    first, second, _ = versions.ids
    before = versions.lookup().before(versions.lookup().version((), "3"))
    assert before is not None and before.materialization_id == second
    versions.quarantine(second)
    before = versions.lookup().before(versions.lookup().version((), "3"))
    assert before is not None and before.materialization_id == first


def test_what_changes_between_looking_and_deciding_is_looked_at_again(versions: Versions) -> None:
    first, second, third = versions.ids
    meanwhile = [lambda: versions.quarantine(second)]

    def snapshot() -> Snapshot:
        seen = versions.w.read.snapshot()
        if meanwhile:
            meanwhile.pop()()
        return seen

    commands = ExecutionCommands(versions.w.commands.tier1, snapshot, "ana")
    assert commands.quarantine(SOURCE, versions.asset_id, third, "bad").is_new
    assert versions.current() == first
    versions.release(third)
    meanwhile.append(lambda: bool(versions.make()))
    assert commands.quarantine(SOURCE, versions.asset_id, third, "bad").is_new
    assert versions.current() == versions.ids[-1] not in (first, second, third)


# -- partitions ---------------------------------------------------------------------------

HOSTILE = [
    "it's",
    'a"b',
    "..",
    "../../x",
    "a,b=c",
    "x\ny",
    "=cmd|' /C calc'!A0",
    "%41",
    "é",
    "\u202e",
]


def lookup_of(*keys: PartitionKey) -> VersionLookup:
    """Over a snapshot that has these partitions."""
    there = {str(key) for key in keys}

    def get(table: Any, asset_id: str, key: str) -> Any:
        assert (table, asset_id) == (PARTITION_STATUS, "A")
        return key if key in there else None

    def columns(table: Any, asset_id: str, names: Any) -> pa.Table:
        return pa.table({"partition_key": sorted(there)})

    snapshot: Any = SimpleNamespace(get=get, columns=columns)
    return VersionLookup(snapshot, "a.b", "A")


@pytest.mark.parametrize("value", HOSTILE)
def test_any_value_names_its_partition_and_no_other(value: str) -> None:
    key = PartitionKey({"region": value, "shop": "x"})
    others = [PartitionKey({"region": other, "shop": "x"}) for other in HOSTILE if other != value]
    lookup = lookup_of(key, *others)
    assert lookup.partition([f"region={value}", "shop=x"]) == str(key)
    assert lookup.partition([str(key)]) == str(key)
    assert lookup.partition([f"region={value}"]) == str(key)
    assert names_partition([f"region={value}"], str(key))
    assert not any(names_partition([f"region={value}"], str(other)) for other in others)


def test_times_are_named_as_people_write_them() -> None:
    day = PartitionKey({"date": dt.date(2026, 1, 1), "region": "eu"})
    hour = PartitionKey({"hour": dt.datetime(2026, 1, 1, 5)})
    lookup = lookup_of(day, hour)
    assert lookup.partition(["date=2026-01-01,region=eu"]) == str(day)
    assert lookup.partition(["date=2026-01", "region=eu"]) == str(day)
    assert lookup.partition(["date=2026-01-01"]) == str(day)
    assert lookup.partition(["hour=2026-01-01T05:00"]) == str(hour)
    with pytest.raises(NotFound, match="no partition date=2026-01-02"):
        lookup.partition(["date=2026-01-02"])
    several = lookup_of(day, PartitionKey({"date": dt.date(2026, 1, 1), "region": "us"}))
    with pytest.raises(Invalid, match="names 2 partitions"):
        several.partition(["date=2026-01-01"])
