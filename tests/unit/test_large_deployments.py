"""Deployments in parts: all of one takes effect at once, or nothing of it does."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.app import Workspace
from arco.catalog.tables import ASSETS, COLUMNS
from arco.errors import NotFound, Refused
from arco.log.envelope import MAX_EVENT_BYTES
from arco.orchestration import deploying
from arco.orchestration.deployments import joined, packed, unpacked
from arco.orchestration.events import (
    DeployedAsset,
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
)
from arco.orchestration.tables import (
    DEPLOYED_ASSETS,
    DEPLOYMENT_PARTS,
    DEPLOYMENTS,
    PROJECT_NAMESPACES,
    PROJECTS,
)
from arco.state import staging
from arco.state.replay import read_log
from arco.state.system import OUTCOMES
from arco.state.table import Table
from arco.storage.memory import MemoryStore
from servo.contract.keys import AssetKey
from servo.contract.manifest import Asset, ColumnDef
from tests.kit import planning
from tests.kit.clocks import SimClock
from tests.kit.deploying import active, columns, cut_small, everything, put
from tests.kit.faulty import Crash, CrashStore
from tests.kit.flows import check_store
from tests.kit.hooks import HookStore
from tests.kit.runs import Folding
from tests.kit.workspace import clone, make_workspace


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few assets, a few parts to a batch."""
    cut_small(monkeypatch)
    monkeypatch.setattr(staging, "BATCH_BYTES", 1_200)


def project(count: int, text: str = "x") -> list[Asset]:
    return [
        planning.asset(f"s{at % 3}.a{at}", description=text, columns=columns(3, text))
        for at in range(count)
    ]


def catalog(w: Workspace, key: str) -> Any:
    return w.read.catalog().asset(AssetKey.parse(key))


# -- as people deploy ---------------------------------------------------------------------


def test_project_that_is_larger_than_an_event_is_deployed() -> None:
    w = make_workspace()
    assets = [planning.asset(f"s.a{at}", columns=columns(20, "x" * 60)) for at in range(700)]
    assert len(msgspec.json.encode(assets)) > MAX_EVENT_BYTES
    assert len(put(w, *assets).added) == 700
    assert len(w.read.snapshot().all(COLUMNS)) == 14_000
    assert w.read.snapshot().all(DEPLOYMENT_PARTS) == []
    check_store(w)


def test_asset_whose_columns_are_larger_than_an_event_is_deployed() -> None:
    w = make_workspace()
    put(w, planning.asset("s.wide", columns=columns(5_000, "x" * 300)), planning.asset("s.b"))
    found = catalog(w, "s.wide").columns
    assert [column.name for column in found] == [f"c{at}" for at in range(5_000)]
    assert active(w) == {"s.wide": "main", "s.b": "main"}


@pytest.mark.usefixtures("small_parts")
def test_parts_give_the_rows_of_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    parted = make_workspace()
    put(parted, *project(20))
    put(parted, *project(15, "other"), planning.asset("s0.new", renamed_from="s0.a18"))
    monkeypatch.undo()
    whole = make_workspace()
    put(whole, *project(20))
    put(whole, *project(15, "other"), planning.asset("s0.new", renamed_from="s0.a18"))

    def told(w: Workspace) -> Any:
        at = w.read.catalog()
        assets = {
            f"{row.namespace}.{row.name}": (row.description, row.active, row.previous_names)
            for row in w.read.snapshot().all(ASSETS)
        }
        keys = [key for key, (_, is_active, _) in assets.items() if is_active]
        shown = {key: at.asset(AssetKey.parse(key)).columns for key in keys}
        texts = {key: [(c.name, c.description) for c in rows] for key, rows in shown.items()}
        return assets, texts, active(w), w.read.snapshot().all(PROJECT_NAMESPACES)

    assert told(parted) == told(whole)


@pytest.mark.usefixtures("small_parts")
def test_nothing_of_a_deployment_shows_before_all_of_it() -> None:
    clock = SimClock()
    store = HookStore(MemoryStore(clock))
    w = make_workspace(store, clock=clock)
    put(w, *project(10))
    seen: list[Any] = []
    visible = [table for table in everything(w) if not table.endswith("deployment_parts")]

    def look() -> None:
        rows = everything(make_workspace(store, seed=9, clock=clock))
        seen.append({table: rows[table] for table in visible})

    before, generation = everything(w), w.read.snapshot().generation
    store.after("put", "manifests/0", look, times=30)
    put(w, *project(12, "new"))
    after = everything(w)
    assert w.read.snapshot().generation - generation > 3
    states = [{table: rows[table] for table in visible} for rows in (before, after)]
    assert all(rows in states for rows in seen)
    assert len(seen) >= 4


@pytest.mark.usefixtures("small_parts")
def test_crash_anywhere_leaves_one_deployment_or_the_other() -> None:
    clock = SimClock()
    base = MemoryStore(clock)
    put(make_workspace(base, clock=clock), *project(2))
    for at in range(1, 400, 4):
        memory = clone(base, clock)
        store = CrashStore(memory, at, after_effect=at % 8 == 1)
        with contextlib.suppress(Crash):
            put(make_workspace(store, seed=2, clock=clock), *project(6, "new"))
        survivor = make_workspace(memory, seed=3, clock=clock)
        survivor.committer.commit()
        rows = survivor.read.snapshot().all(ASSETS)
        assert {(len(rows), row.description) for row in rows} in ({(2, "x")}, {(6, "new")})
        put(survivor, *project(7, "last"))
        rows = survivor.read.snapshot().all(ASSETS)
        assert {(len(rows), row.description) for row in rows} == {(7, "last")}
        assert survivor.read.snapshot().all(DEPLOYMENT_PARTS) == []
        if not store.crashed:
            return
    raise AssertionError("it never came to its end")


@pytest.mark.usefixtures("small_parts")
def test_two_deployments_at_once_both_take_effect_one_after_the_other() -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    put(make_workspace(memory, clock=clock), *project(4))
    other = make_workspace(memory, seed=1, clock=clock)
    store = HookStore(memory)
    w = make_workspace(store, seed=2, clock=clock)
    # The other's whole deployment happens between two batches of parts of ours.
    store.after("put", "ledger/inbox", lambda: put(other, *project(7, "other")))
    done = put(w, *project(9, "ours"))
    assert done.number == 3
    rows = w.read.snapshot().all(ASSETS)
    assert {(len(rows), row.description) for row in rows} == {(9, "ours")}
    assert w.read.snapshot().all(DEPLOYMENT_PARTS) == []


def test_unchanged_assets_are_not_said_again() -> None:
    w = make_workspace()
    put(w, *project(300))
    before = {row.asset_key: row for row in w.read.snapshot().all(DEPLOYED_ASSETS)}
    changed = [*project(299), planning.asset("s2.a299", description="new")]
    put(w, *changed)
    event = [recorded.payload for recorded in read_log(w.read.snapshot(), w.core.types)][-1]
    assert isinstance(event, DeploymentCreated)
    assert [asset.key for asset in event.assets] == ["s2.a299"]
    after = {row.asset_key: row for row in w.read.snapshot().all(DEPLOYED_ASSETS)}
    assert [key for key in after if after[key] != before[key]] == ["s2.a299"]


# -- as facts arrive ----------------------------------------------------------------------


def asset(key: str, id: str, **fields: Any) -> DeployedAsset:
    return DeployedAsset(key=key, asset_id=id, definition=f"def-{id}", **fields)


def part(
    deployment: str, number: int, *assets: DeployedAsset, parent: str = "", **more: Any
) -> DeploymentPart:
    named = [asset for asset in assets if not asset.continued]
    return DeploymentPart(
        deployment_id=deployment,
        parent=parent,
        number=number,
        asset_keys=tuple(asset.key for asset in named),
        asset_ids=tuple(asset.asset_id for asset in named),
        renamed_from=tuple(asset.renamed_from for asset in named),
        packed=packed(assets),
        **more,
    )


def command(deployment: str, parts: int, total: int, parent: str = "") -> list[Any]:
    created = DeploymentCreated(
        deployment_id=deployment,
        parent=parent,
        manifest=f"m-{deployment}",
        artifact="z",
        total=total,
        parts=parts,
    )
    return [created, DeploymentInstalled(deployment_id=deployment, parent=parent)]


def answer(f: Folding) -> str:
    last = max(f.all(OUTCOMES), key=lambda row: row.decided_at)
    return last.code or last.status


def keys(f: Folding) -> dict[str, bool]:
    return {row.asset_key: row.active for row in f.all(DEPLOYED_ASSETS)}


def test_parts_may_come_twice_and_in_any_order() -> None:
    zero, one = part("d1", 0, asset("s.a", "A")), part("d1", 1, asset("s.b", "B"))
    straight, mixed = Folding(), Folding()
    straight.add(zero, one, *command("d1", 2, 2))
    mixed.add(one, zero, one, zero, *command("d1", 2, 2), one)
    tables: tuple[Table[Any], ...] = (DEPLOYED_ASSETS, DEPLOYMENTS, PROJECTS, ASSETS)
    for table in tables:
        assert straight.all(table) == mixed.all(table)
    assert keys(mixed) == {"s.a": True, "s.b": True}
    assert mixed.all(DEPLOYMENT_PARTS) == []


def test_deployment_with_a_missing_part_is_refused_and_changes_nothing() -> None:
    f = Folding()
    f.add(part("d1", 0, asset("s.a", "A")), part("d1", 1, asset("s.b", "B")))
    f.wait(1).add(*command("d1", 2, 2))
    f.wait(1).add(part("d2", 1, asset("s.c", "C"), parent="d1"))
    f.wait(1).add(*command("d2", 2, 4, parent="d1"))
    assert answer(f) == "deployment_incomplete"
    f.wait(1).add(*command("d2", 1, 3, parent="d1"))
    assert answer(f) == "deployment_incomplete"
    assert keys(f) == {"s.a": True, "s.b": True}
    assert f.one(PROJECTS, "main").deployment_id == "d1"


def test_part_that_comes_late_changes_nothing() -> None:
    f = Folding()
    f.add(part("d1", 0, asset("s.a", "A")))
    f.wait(1).add(*command("d1", 2, 2))
    assert answer(f) == "deployment_incomplete"
    f.wait(1).add(part("d2", 0, asset("s.a", "A")), *command("d2", 1, 1))
    f.wait(1).add(part("d1", 1, asset("s.b", "B")), *command("d1", 2, 2))
    assert answer(f) == "deployment_moved"
    assert keys(f) == {"s.a": True}
    assert f.all(DEPLOYMENT_PARTS) == []


@pytest.mark.parametrize("change", [{"packed": "bm90IGRlZmxhdGVk"}, {"asset_ids": ("Z",)}])
def test_part_that_cannot_be_installed_is_as_good_as_missing(change: dict[str, Any]) -> None:
    w = make_workspace()
    good, bad = part("d1", 0, asset("s.a", "A")), part("d1", 1, asset("s.b", "B"))
    w.ledger.append([good, msgspec.structs.replace(bad, **change)])
    w.committer.commit()
    created, installed = command("d1", 2, 2)
    with pytest.raises(Refused, match="1 of 2 parts are in the log"):
        w.commands.tier1.execute(created, along=[installed])
    assert put(w, planning.asset("s.a")).number == 1


def test_interleaved_deployments_do_not_mix() -> None:
    f = Folding()
    f.add(
        part("x", 0, asset("s.a", "A")),
        part("y", 0, asset("s.a", "A2")),
        part("x", 1, asset("s.b", "B")),
        part("y", 1, asset("s.c", "C2")),
    )
    f.wait(1).add(*command("y", 2, 2))
    assert answer(f) == "applied"
    f.wait(1).add(*command("x", 2, 2))
    assert answer(f) == "deployment_moved"
    assert {row.asset_key: row.asset_id for row in f.all(DEPLOYED_ASSETS)} == {
        "s.a": "A2",
        "s.c": "C2",
    }
    assert f.all(DEPLOYMENT_PARTS) == []


def test_installing_what_was_refused_or_twice_changes_nothing() -> None:
    f = Folding()
    f.add(part("d1", 0, asset("s.a", "A")), *command("d1", 1, 1))
    before = {t: dict(rows) for t, rows in f.rows.items()}
    f.wait(1).add(DeploymentInstalled(deployment_id="d1"), DeploymentInstalled(deployment_id="d2"))
    assert {t: dict(rows) for t, rows in f.rows.items()} == before


def test_parts_that_nobody_made_a_deployment_of_are_forgotten_after_a_day() -> None:
    f = Folding()
    f.add(part("lost", 0, asset("s.a", "A")), part("lost", 1, asset("s.b", "B")))
    f.now += timedelta(hours=23)
    f.add(part("next", 0, asset("s.a", "A")))
    assert len(f.all(DEPLOYMENT_PARTS)) == 3
    f.now += timedelta(hours=2)
    f.add(part("last", 0, asset("s.a", "A")))
    assert {row.deployment_id for row in f.all(DEPLOYMENT_PARTS)} == {"next", "last"}


def test_columns_in_pieces_are_joined() -> None:
    more = [ColumnDef(name=f"c{at}", type="int") for at in range(4)]
    f = Folding()
    f.add(
        part(
            "d1", 1, asset("s.a", "A", columns=tuple(more[2:]), continued=True), asset("s.b", "B")
        ),
        part("d1", 0, asset("s.a", "A", description="wide", columns=tuple(more[:2]))),
        *command("d1", 2, 2),
    )
    assert answer(f) == "applied"
    assert sorted((c.ordinal, c.name) for c in f.all(COLUMNS)) == [
        (at, f"c{at}") for at in range(4)
    ]
    assert f.one(ASSETS, "A").description == "wide"


def test_deployment_whose_assets_are_not_all_described_is_refused() -> None:
    f = Folding()
    f.add(part("d1", 0, asset("s.a", "A")), *command("d1", 1, 2))
    assert answer(f) == "deployment_incomplete"


def test_deployment_that_never_was_cannot_be_rolled_back_to() -> None:
    w = make_workspace()
    put(w, planning.asset("s.a"))
    w.ledger.append([part("01JABANDONED", 0, asset("s.b", "B"))])
    w.committer.commit()
    with pytest.raises(NotFound, match="names no deployment"):
        w.commands.orchestration.rollback("01JABANDONED")


@given(
    st.lists(st.integers(0, 40), max_size=12),
    st.lists(st.text("abc", min_size=1, max_size=9), max_size=9),
)
def test_parts_have_all_of_a_change_and_are_small(widths: list[int], keys: list[str]) -> None:
    assets = [
        asset(f"s.a{at}", f"A{at}", columns=columns(width, f"text {at}"))
        for at, width in enumerate(widths)
    ]
    change = deploying.DeployedChange(assets, sorted(keys), sorted(keys, reverse=True))
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        parts = deploying.parts_of(change, part("d", 0))
        assert all(len(unpacked(p.packed)) == 1 or len(p.packed) <= 400 for p in parts if p.packed)
    assert [p.number for p in parts] == list(range(len(parts)))
    pieces = [piece for p in parts if p.packed for piece in unpacked(p.packed)]
    assert list(joined(pieces)) == assets
    assert [key for p in parts for key in p.asset_keys] == [a.key for a in assets]
    assert [key for p in parts for key in p.removed] == change.removed
    assert [key for p in parts for key in p.reads] == change.reads
