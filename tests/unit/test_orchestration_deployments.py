"""Deployments: who is who keeps its id, through renames, removals and returns."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from arco.app import Workspace
from arco.catalog.tables import ASSET_NAMES, ASSETS, COLUMNS, NAMESPACES
from arco.orchestration.deploying import Deployed
from arco.orchestration.events import DeployedAsset, DeploymentCreated, PartitionKeysChanged
from arco.orchestration.tables import DEPLOYED_ASSETS, DEPLOYMENTS, DYNAMIC_KEYS, PROJECTS
from arco.state.system import OUTCOMES
from servo.contract.manifest import ColumnDef
from tests.kit import planning
from tests.kit.runs import Folding
from tests.kit.workspace import make_workspace


def asset(key: str, id: str, **fields: Any) -> DeployedAsset:
    fields.setdefault("definition", f"def-{id}")
    return DeployedAsset(key=key, asset_id=id, **fields)


def deploy(f: Folding, number: int, *assets: DeployedAsset, **fields: Any) -> str:
    """Deploy on top of the one before; what was answered."""
    fields.setdefault("parent", f"d{number - 1}" if number > 1 else "")
    f.wait(60).add(
        DeploymentCreated(
            deployment_id=f"d{number}", manifest=f"m{number}", artifact="z", assets=assets, **fields
        )
    )
    last = max(f.all(OUTCOMES), key=lambda row: row.decided_at)
    return last.code or last.status


def who(f: Folding) -> dict[str, tuple[str, bool]]:
    return {row.asset_key: (row.asset_id, row.active) for row in f.all(DEPLOYED_ASSETS)}


def names(f: Folding) -> dict[str, str]:
    return {f"{row.namespace}.{row.name}": row.asset_id for row in f.all(ASSET_NAMES)}


def test_deployed_assets_are_declared_in_the_catalog() -> None:
    f = Folding()
    columns = (ColumnDef(name="id", type="bigint"),)
    assert deploy(f, 1, asset("s.a", "A", description="first", columns=columns)) == "applied"
    row = f.one(ASSETS, "A")
    assert (row.namespace, row.name, row.description) == ("s", "a", "first")
    assert [column.name for column in f.all(COLUMNS)] == ["id"]
    assert f.one(NAMESPACES, "s").assets == 1
    assert f.one(PROJECTS, "main").deployment_id == "d1"


def test_ids_and_rows_stay_when_the_same_is_deployed_again() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"), asset("s.b", "B"))
    before = f.one(ASSETS, "A")
    deploy(f, 2, asset("s.a", "A"), asset("s.b", "B"))
    assert f.one(ASSETS, "A") == before
    assert who(f) == {"s.a": ("A", True), "s.b": ("B", True)}
    assert [row.number for row in f.all(DEPLOYMENTS)] == [1, 2]


def test_changed_definition_is_declared_again() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A", description="old"))
    deploy(f, 2, asset("s.a", "A", definition="other", description="new"))
    assert f.one(ASSETS, "A").description == "new"


def test_deployment_that_was_built_on_another_is_refused_and_changes_nothing() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"))
    recording = ("log", "security")  # of the refusal
    before = {t: dict(rows) for t, rows in f.rows.items() if t.domain not in recording}
    assert deploy(f, 2, asset("s.z", "Z"), parent="") == "deployment_moved"
    assert {t: dict(rows) for t, rows in f.rows.items() if t.domain not in recording} == before


def test_another_id_for_a_key_that_is_taken_is_refused() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"))
    assert deploy(f, 2, asset("s.a", "B")) == "asset_id_changed"
    assert who(f) == {"s.a": ("A", True)}


def test_renamed_asset_keeps_its_id_and_the_catalog_follows() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"))
    created = f.one(ASSETS, "A").created_at
    deploy(f, 2, asset("t.b", "A", renamed_from="s.a"))
    assert who(f) == {"t.b": ("A", True)}
    assert names(f) == {"t.b": "A"}
    assert f.one(DEPLOYED_ASSETS, "main", "t.b").previous_keys == ["s.a"]
    row = f.one(ASSETS, "A")
    assert (row.namespace, row.name, row.created_at) == ("t", "b", created)
    deploy(f, 3, asset("t.c", "A", renamed_from="t.b"))
    assert f.one(DEPLOYED_ASSETS, "main", "t.c").previous_keys == ["s.a", "t.b"]
    deploy(f, 4, asset("t.b", "A", renamed_from="t.c"))
    assert f.one(DEPLOYED_ASSETS, "main", "t.b").previous_keys == ["s.a", "t.c"]
    deploy(f, 5, asset("t.c", "A", renamed_from="t.b"))
    assert f.one(DEPLOYED_ASSETS, "main", "t.c").previous_keys == ["s.a", "t.b"]


def test_declared_rename_that_was_done_already_does_nothing_more() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"))
    deploy(f, 2, asset("s.b", "A", renamed_from="s.a"))
    before = f.one(ASSETS, "A")
    deploy(f, 3, asset("s.b", "A"))
    assert (f.one(ASSETS, "A"), names(f)) == (before, {"s.b": "A"})


def test_removed_asset_is_inactive_and_has_its_id_when_it_comes_back() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"), asset("s.b", "B"))
    deploy(f, 2, asset("s.a", "A"))
    assert who(f) == {"s.a": ("A", True), "s.b": ("B", False)}
    assert f.one(DEPLOYED_ASSETS, "main", "s.b").deployment_id == "d1"
    deploy(f, 3, asset("s.a", "A"), asset("s.b", "B"))
    assert who(f) == {"s.a": ("A", True), "s.b": ("B", True)}
    assert f.one(DEPLOYED_ASSETS, "main", "s.b").deployment_id == "d3"


def test_new_asset_takes_the_key_of_one_that_is_gone() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A", definition="same"))
    deploy(f, 2)
    deploy(f, 3, asset("s.a", "B", definition="same"))
    assert (who(f), names(f)) == ({"s.a": ("B", True)}, {"s.a": "B"})
    assert f.one(ASSETS, "B").name == "a"


def both_orders(*assets: DeployedAsset) -> list[tuple[DeployedAsset, ...]]:
    return [assets, assets[::-1]]


def test_new_asset_under_the_name_that_another_leaves() -> None:
    for assets in both_orders(
        asset("s.a", "B", definition="same"),
        asset("s.b", "A", renamed_from="s.a", definition="same"),
    ):
        f = Folding()
        deploy(f, 1, asset("s.a", "A", definition="same"))
        created = f.one(ASSETS, "A").created_at
        assert deploy(f, 2, *assets) == "applied"
        assert who(f) == {"s.a": ("B", True), "s.b": ("A", True)}
        assert names(f) == {"s.a": "B", "s.b": "A"}
        assert f.one(DEPLOYED_ASSETS, "main", "s.b").previous_keys == ["s.a"]
        assert f.one(DEPLOYED_ASSETS, "main", "s.a").previous_keys == []
        assert (f.one(ASSETS, "A").name, f.one(ASSETS, "A").created_at) == ("b", created)
        assert f.one(ASSETS, "B").name == "a"
        assert f.one(NAMESPACES, "s").assets == 2


def test_assets_that_swap_their_names_keep_their_ids() -> None:
    for assets in both_orders(
        asset("s.b", "A", renamed_from="s.a"), asset("s.a", "B", renamed_from="s.b")
    ):
        f = Folding()
        deploy(f, 1, asset("s.a", "A"), asset("s.b", "B"))
        assert deploy(f, 2, *assets) == "applied"
        assert who(f) == {"s.a": ("B", True), "s.b": ("A", True)}
        assert names(f) == {"s.a": "B", "s.b": "A"}
        assert {row.asset_id: row.name for row in f.all(ASSETS)} == {"A": "b", "B": "a"}


def test_one_id_for_two_assets_is_refused() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"))
    twice = (asset("s.a", "A"), asset("s.b", "A", renamed_from="s.a"))
    assert deploy(f, 2, *twice) == "asset_id_taken"
    assert who(f) == {"s.a": ("A", True)}


def test_rollback_is_a_new_deployment_of_an_old_one() -> None:
    f = Folding()
    deploy(f, 1, asset("s.a", "A"), asset("s.b", "B"))
    deploy(f, 2, asset("s.a", "A"), asset("s.c", "B", renamed_from="s.b"))
    deploy(f, 3, asset("s.a", "A"), asset("s.b", "B", renamed_from="s.c"), rollback_of="d1")
    row = f.one(DEPLOYMENTS, "main", "d3")
    assert (row.number, row.rollback_of) == (3, "d1")
    assert who(f) == {"s.a": ("A", True), "s.b": ("B", True)}
    assert f.one(PROJECTS, "main").number == 3


def test_partition_keys_come_and_go_and_stay_when_they_come_twice() -> None:
    f = Folding()
    f.add(PartitionKeysChanged(keys="eu", added=("de", "fr")))
    first = f.one(DYNAMIC_KEYS, "eu", "de")
    f.wait(9).add(PartitionKeysChanged(keys="eu", added=("de", "it"), removed=("fr", "xx")))
    assert [row.key for row in f.all(DYNAMIC_KEYS)] == ["de", "it"]
    assert f.one(DYNAMIC_KEYS, "eu", "de") == first


# -- as people deploy ----------------------------------------------------------------------


def put(w: Workspace, *assets: Any) -> Deployed:
    artifact = b"a zip"
    digest = hashlib.sha256(artifact).hexdigest()
    manifest = msgspec.structs.replace(planning.manifest(*assets), artifact=digest)
    return w.commands.orchestration.deploy(manifest, artifact)


def ids(w: Workspace) -> dict[str, str]:
    return {r.asset_key: r.asset_id for r in w.read.snapshot().all(DEPLOYED_ASSETS) if r.active}


def test_ids_are_given_once_and_go_along_with_renames_and_rollbacks() -> None:
    w = make_workspace()
    a, b = planning.asset("s.a"), planning.asset("s.b")
    first = put(w, a, b)
    before = ids(w)
    assert first.added == ("s.a", "s.b")
    assert not put(w, a, b).changed
    renamed = put(w, a, planning.asset("s.c", renamed_from="s.b"))
    assert (renamed.number, renamed.renamed) == (2, ("s.b -> s.c",))
    assert ids(w) == {"s.a": before["s.a"], "s.c": before["s.b"]}
    put(w, planning.asset("s.c", renamed_from="s.b"))
    put(w, a, planning.asset("s.c", renamed_from="s.b"))
    assert ids(w) == {"s.a": before["s.a"], "s.c": before["s.b"]}
    back = w.commands.orchestration.rollback(first.deployment_id)
    assert back.number == 5
    assert ids(w) == before


def test_rename_and_a_new_asset_under_the_old_name_at_once_never_share_an_id() -> None:
    w = make_workspace()
    put(w, planning.asset("s.a"))
    before = ids(w)
    put(w, planning.asset("s.a"), planning.asset("s.b", renamed_from="s.a"))
    assert ids(w)["s.b"] == before["s.a"] != ids(w)["s.a"]
    # The name is free for others; `s.b` stays who it is.
    after = ids(w)
    put(w, planning.asset("s.b", renamed_from="s.a"))
    put(w, planning.asset("s.a"), planning.asset("s.b", renamed_from="s.a"))
    assert ids(w) == after
