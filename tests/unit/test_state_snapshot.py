"""Reading one generation: which one, how little of it, and what if it is damaged."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetCreated
from arco.catalog.tables import ASSET_NAMES, ASSETS, NAMESPACES
from arco.errors import Corrupt, NotFound, NotYet
from arco.log import segment
from arco.log.manifest import FileRef
from arco.state import file_encoder, parquet
from arco.state.snapshot import AsOf, AsOfRow, Current, Generation
from arco.state.system import SEGMENTS, segment_ref
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.model import state_of
from tests.kit.workspace import corrupt, make_workspace


class Setting:
    """Five generations, a minute apart, with one more asset in each."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.hooks = HookStore(self.memory)
        self.w = make_workspace(self.memory, 1, clock=self.clock)
        self.times = [self.clock.now()]
        self.w.commands.catalog.create_namespace("sales")
        for n in range(4):
            self.clock.advance(timedelta(minutes=1))
            self.times.append(self.clock.now())
            self.w.commands.catalog.create_asset(f"sales.a{n}")

    def reader(self) -> Workspace:
        return make_workspace(self.hooks, 5, clock=self.clock)

    def files(self, prefix: str = paths.STATE) -> list[str]:
        return [m.path for m in self.memory.list(prefix)]


@pytest.fixture
def at() -> Setting:
    return Setting()


def assets(w: Workspace, where: Any) -> int:
    return len(w.read.catalog(where).assets("sales"))


def test_current_is_the_newest_and_generations_are_what_they_were(at: Setting) -> None:
    assert assets(at.w, None) == assets(at.w, Current()) == 4
    assert [assets(at.w, Generation(n)) for n in range(1, 6)] == [0, 1, 2, 3, 4]
    assert at.w.read.snapshot(Generation(0)).all(NAMESPACES) == []


def test_generation_above_the_head_is_not_yet(at: Setting) -> None:
    with pytest.raises(NotYet, match="newest is 5") as caught:
        at.w.read.snapshot(Generation(6))
    assert caught.value.retry_after_s > 0


def test_generation_below_zero_is_not_found(at: Setting) -> None:
    with pytest.raises(NotFound):
        at.w.read.snapshot(Generation(-1))


def test_as_of_is_the_generation_that_was_current_then(at: Setting) -> None:
    second = timedelta(seconds=1)
    found = [at.w.read.snapshot(AsOf(t + second)).generation for t in at.times]
    assert found == [1, 2, 3, 4, 5]
    assert [at.w.read.snapshot(AsOf(t)).generation for t in at.times] == [1, 2, 3, 4, 5]
    assert at.w.read.snapshot(AsOf(at.times[0] - second)).generation == 0
    assert at.w.read.snapshot(AsOf(at.times[-1] + timedelta(days=9))).generation == 5


def test_as_of_row_is_the_first_generation_at_which_it_holds(at: Setting) -> None:
    def where(n: int) -> AsOfRow[Any]:
        return AsOfRow(NAMESPACES, ("sales",), lambda row: row.assets >= n, f"{n} assets")

    assert [at.w.read.snapshot(where(n)).generation for n in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(NotYet, match="5 assets"):
        at.w.read.snapshot(where(5))


def test_snapshot_stays_what_it_is_while_the_world_goes_on(at: Setting) -> None:
    s = at.w.read.snapshot()
    before = state_of(at.w, s)
    at.w.commands.catalog.drop_asset("sales.a0")
    at.w.upkeep.merger.merge(everything=True)
    assert state_of(at.w, s) == before
    assert s.refresh().generation == 7
    assert len(s.refresh().all(ASSETS)) == 3


def test_refresh_of_what_has_not_changed_is_itself(at: Setting) -> None:
    s = at.w.read.snapshot()
    assert s.refresh() is s


def test_refresh_reads_only_the_files_that_are_new(at: Setting) -> None:
    reader = at.reader()
    s = reader.read.snapshot()
    for row in s.rows(ASSET_NAMES, "sales"):
        s.get(ASSETS, row.asset_id)
    at.w.commands.catalog.create_asset("sales.new")
    at.hooks.calls.clear()
    fresh = s.refresh()
    for row in fresh.rows(ASSET_NAMES, "sales"):
        fresh.get(ASSETS, row.asset_id)
    read = [p for op, p in at.hooks.calls if op == "get" and p.startswith(paths.STATE)]
    new = {ref.path for t in (ASSETS, ASSET_NAMES) for ref in fresh.manifest(t).l0[-1:]}
    assert sorted(read) == sorted(new)


def large(at: Setting) -> tuple[FileRef, list[str]]:
    """A file that is read in parts, and the ids of the assets in it."""
    rng = random.Random(0)
    made = [
        AssetCreated(namespace="sales", name=f"b{n}", description=rng.randbytes(90).hex())
        for n in range(3_000)
    ]
    ids = at.w.ledger.append(made).event_ids
    at.w.committer.commit()
    (ref,) = at.w.read.snapshot().head.manifest.l0[str(ASSETS)]
    assert ref.bytes > parquet.WHOLE_FILE_BYTES
    return ref, list(ids)


def test_look_up_reads_only_some_row_groups_of_a_large_file(
    at: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_encoder, "ROWS_PER_GROUP", 500)
    ref, ids = large(at)
    s = at.reader().read.snapshot()
    at.hooks.calls.clear()
    for asset_id in (ids[0], ids[-1], ids[1_456]):
        row = s.get(ASSETS, asset_id)
        assert row is not None and row.asset_id == asset_id
    assert s.get(ASSETS, "nobody") is None
    parts = [path for op, path in at.hooks.calls if op == "get_range"]
    assert ("get", ref.path) not in at.hooks.calls
    # The footer once, and at most two of the twelve row groups for each of the four.
    assert 2 <= len(parts) <= 1 + 2 * 4
    before = len(at.hooks.calls)
    assert s.get(ASSETS, ids[0]) is not None
    assert len(at.hooks.calls) == before


# Damage


def test_missing_state_file_is_corrupt_and_named_never_empty(at: Setting) -> None:
    path = at.w.read.snapshot().manifest(NAMESPACES).l0[-1].path
    at.memory.delete(path)
    s = at.reader().read.snapshot()
    with pytest.raises(Corrupt, match=path):
        s.all(NAMESPACES)
    with pytest.raises(Corrupt, match=path):
        s.get(NAMESPACES, "sales")
    with at.reader().read.sql() as engine, pytest.raises(Corrupt, match=path):
        engine.query(s, "SELECT * FROM catalog.namespaces")


@pytest.mark.parametrize("at_byte", [0, 100, -1])
def test_flipped_byte_in_a_state_file_is_corrupt_and_named(at: Setting, at_byte: int) -> None:
    path = at.w.read.snapshot().manifest(NAMESPACES).l0[-1].path
    raw = bytearray(at.memory.get(path).data)
    raw[at_byte] ^= 1
    corrupt(at.memory, path, bytes(raw))
    s = at.reader().read.snapshot()
    with pytest.raises(Corrupt, match=path):
        s.all(NAMESPACES)
    with pytest.raises(Corrupt, match=path):
        s.get(NAMESPACES, "sales")


@pytest.mark.parametrize("damage", ["missing", "short", "flipped", "missing after the footer"])
def test_damage_in_a_large_file_is_corrupt_and_named(at: Setting, damage: str) -> None:
    ref, ids = large(at)
    path = ref.path
    raw = bytearray(at.memory.get(path).data)
    s = at.reader().read.snapshot()
    match damage:
        case "missing":
            at.memory.delete(path)
        case "short":
            corrupt(at.memory, path, bytes(raw[:-1000]))
        case "flipped":
            for n in range(4, len(raw) - 20_000, 97):
                raw[n] ^= 1
            corrupt(at.memory, path, bytes(raw))
        case _:
            at.hooks.after("get_range", path, lambda: at.memory.delete(path))
    with pytest.raises(Corrupt, match=path):
        s.get(ASSETS, ids[17])


def test_missing_or_damaged_segment_is_corrupt_and_named(at: Setting) -> None:
    row = at.w.read.snapshot().get(SEGMENTS, 2)
    assert row is not None
    good = at.memory.get(row.path).data
    corrupt(at.memory, row.path, good[:-5] + b"?" + good[-4:])
    with pytest.raises(Corrupt, match=row.path):
        segment.read_table(at.memory, segment_ref(row))
    at.memory.delete(row.path)
    with pytest.raises(Corrupt, match=row.path):
        segment.read_table(at.memory, segment_ref(row))
    with pytest.raises(Corrupt, match=row.path):
        at.reader().upkeep.rebuild(publish=False)
