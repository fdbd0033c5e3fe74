"""An asset of very many partitions: a new version of one costs what one costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from arco.app import Workspace
from arco.errors import Invalid
from arco.execution.events import OutputAccepted
from arco.execution.tables import (
    MATERIALIZATIONS,
    PARTITION_STATUS,
    PARTITIONS,
    SPREAD,
    SUPERSEDED_KEPT_HOT,
)
from arco.log.commit import Committed
from arco.state import rewrite
from arco.state.fold import NoRows, Rows
from arco.state.table import BUCKETS, Table
from servo.contract.task import Materialization
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.derived import derived_workspace
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace

PER_FILE = 128
MANY, FEW = scaled(2_000, 4_000), 40
TABLES: tuple[Table[Any], ...] = (MATERIALIZATIONS, PARTITIONS, PARTITION_STATUS)


def accepted(asset: str, partition: int, version: str) -> OutputAccepted:
    made = Materialization(
        materialization_id=f"{asset}-{partition}-{version}",
        asset=f"ns.{asset}",
        asset_id=asset,
        partition=f"day=i:{partition}",
        run_id="r",
        task_id="t",
        attempt_id="a",
        path=f"data/{partition}",
        rows=partition,
    )
    return OutputAccepted(materialization=made)


def commit(w: Workspace, facts: Iterable[OutputAccepted]) -> None:
    w.ledger.append(list(facts))
    while isinstance(w.committer.commit(), Committed):
        pass


def filled(**assets: int) -> Workspace:
    w = derived_workspace(clock=SimClock())
    for asset, count in assets.items():
        commit(w, (accepted(asset, number, "1") for number in range(count)))
    w.upkeep.merger.merge(everything=True)
    return w


def files_of(w: Workspace, table: Table[Any]) -> dict[str, int]:
    return {ref.path: ref.rows for ref in w.read.snapshot().manifest(table).base}


def test_a_merge_of_one_version_rewrites_a_part_of_its_asset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewrite, "ROWS_PER_FILE", PER_FILE)
    w = filled(large=MANY)
    before = {table: files_of(w, table) for table in TABLES}
    commit(w, [accepted("large", 7, "2")])
    w.upkeep.merger.merge(everything=True)
    for table in TABLES:
        written = {p: rows for p, rows in files_of(w, table).items() if p not in before[table]}
        # The old version and the new one lie in two places.
        assert 0 < sum(written.values()) <= 2 * (PER_FILE * 3 // 2 + 2 * MANY // SPREAD)
        assert sum(files_of(w, table).values()) == MANY + (table is MATERIALIZATIONS)


def test_all_partitions_of_an_asset_are_read_and_no_others() -> None:
    w = filled(large=MANY, small=FEW, one=1)
    commit(w, (accepted("small", number, "2") for number in range(0, FEW, 3)))
    for asset, count in (("large", MANY), ("small", FEW), ("one", 1), ("none", 0)):
        snapshot = make_workspace(w.store, 2, clock=w.clock).read.snapshot()
        rows = snapshot.rows(PARTITIONS, asset)
        keys = sorted(f"day=i:{number}" for number in range(count))
        assert [row.partition_key for row in rows] == keys
        for row in rows[:FEW]:
            assert snapshot.get(PARTITIONS, asset, row.partition_key) == row
            assert snapshot.rows(PARTITIONS, asset, row.partition_key) == [row]
    assert w.upkeep.fsck().clean


def test_rows_of_a_shard_key_lie_in_neighbouring_buckets() -> None:
    for asset in ("A", "B", "01K9ZQ3F7M2A0000000000000A"):
        buckets = {PARTITIONS.bucket((asset, f"p{n}")) for n in range(1_000)}
        assert buckets == set(PARTITIONS.buckets((asset,))) and len(buckets) == SPREAD
        assert all(0 <= bucket < BUCKETS for bucket in buckets)
        assert PARTITIONS.buckets((asset, "p1")) == (PARTITIONS.bucket((asset, "p1")),)


def test_a_fold_cannot_look_at_all_rows_of_a_table_that_spreads_them() -> None:
    with pytest.raises(Invalid, match="spreads"):
        Rows(NoRows()).scan(PARTITIONS, "A")


def test_what_spreads_a_shard_key_is_a_column_of_the_key() -> None:
    row = PARTITIONS.row
    with pytest.raises(Invalid, match="next column"):
        Table("d", "t", row, key=["asset_id", "partition_key"], shard=2, spread=4)
    with pytest.raises(Invalid, match="next column"):
        Table("d", "t", row, key=["asset_id"], spread=4)


def test_superseded_versions_are_not_rewritten_by_later_merges() -> None:
    w = filled(asset=20)
    assert isinstance(w.clock, SimClock)
    for version in range(2, 9):
        commit(w, (accepted("asset", number, str(version)) for number in range(20)))
        w.clock.advance(SUPERSEDED_KEPT_HOT + timedelta(days=1))
        commit(w, [accepted("other", 0, str(version))])
        w.upkeep.merger.merge(everything=True)
    commit(w, (accepted("asset", number, "9") for number in range(20)))
    w.upkeep.merger.merge(everything=True)
    hot = w.read.snapshot().hot(MATERIALIZATIONS)
    assert len([row for row in hot if row.asset_id == "asset"]) == 2 * 20
    assert len(w.read.snapshot().rows(MATERIALIZATIONS, "asset")) == 9 * 20


def test_many_partitions_are_looked_up_with_two_looks_at_each_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewrite, "ROWS_PER_FILE", PER_FILE)
    w = filled(large=MANY, small=FEW)
    for version in ("2", "3"):
        commit(w, (accepted("large", number, version) for number in range(0, MANY, 100)))
    store = HookStore(w.store)
    reader = make_workspace(store, 7, clock=SimClock()).read.snapshot()
    keys = [("large", f"day=i:{number}") for number in range(0, 2 * MANY, 7)]
    keys.append(("small", "day=i:7"))
    rows = reader.get_many(PARTITIONS, keys)
    read = Counter(path for op, path in store.calls if op.startswith("get"))
    files = [ref.path for ref in reader.manifest(PARTITIONS).recent()]
    assert len(files) > 20 and max(read[path] for path in files) == 2, "keys, then rows"
    singly = {key: w.read.snapshot().get(PARTITIONS, *key) for key in keys}
    assert rows == {key: row for key, row in singly.items() if row is not None}
    assert len(rows) == MANY // 7 + 2
    store.calls.clear()
    assert reader.get_many(PARTITIONS, [("large", f"day=i:{-n}") for n in range(1, 100)]) == {}
    assert store.calls == [], "what is in the files is in memory, as hashes"
