"""Several projects in one workspace: each deployment changes its own project alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arco.app import Workspace
from arco.catalog.events import Column
from arco.catalog.tables import ASSETS
from arco.errors import Invalid, NotFound, Refused
from arco.orchestration.events import DeployedAsset, DeploymentCreated
from arco.orchestration.in_use import retention
from arco.orchestration.plan import PlanRequest
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.removals import RemovalRefused
from arco.orchestration.tables import DEPLOYED_ASSETS, PROJECT_NAMESPACES
from arco.state.system import OUTCOMES
from arco.storage.memory import MemoryStore
from servo.contract.keys import AssetKey
from servo.contract.manifest import AllUpstream, Asset, Check, Retention, Window
from tests.kit.clocks import SimClock
from tests.kit.deploying import active, columns, put
from tests.kit.hooks import HookStore
from tests.kit.planning import DAYS, asset, reads
from tests.kit.runs import Folding
from tests.kit.workspace import make_workspace

ORDERS = asset("sales.orders", columns=columns(2))
REACH = asset("ads.reach", reads("sales.orders"))


def two_projects(**settings: object) -> Workspace:
    w = make_workspace(**settings)  # type: ignore[arg-type]
    put(w, ORDERS, project="shop")
    put(w, REACH, project="ads")
    return w


def id_of(w: Workspace, key: str) -> str:
    return w.read.orchestration().asset_id(key)


def test_deployment_leaves_other_projects_alone() -> None:
    w = two_projects()
    before = id_of(w, "ads.reach")
    done = put(w, ORDERS, asset("sales.refunds"), project="shop")
    assert (done.project, done.number, done.added, done.removed) == (
        "shop",
        2,
        ("sales.refunds",),
        (),
    )
    assert active(w) == {"sales.orders": "shop", "sales.refunds": "shop", "ads.reach": "ads"}
    assert id_of(w, "ads.reach") == before


def test_deployment_counts_the_assets_that_it_changes() -> None:
    w = make_workspace()
    assert put(w, ORDERS, asset("sales.a"), asset("sales.b")).changed_assets == 0
    done = put(
        w,
        asset("sales.orders", DAYS, columns=columns(2)),
        asset("sales.a", description="other"),
        asset("sales.c", renamed_from="sales.b"),
        asset("sales.new"),
    )
    assert (done.added, done.renamed) == (("sales.new",), ("sales.b -> sales.c",))
    assert done.changed_assets == 2


def test_each_project_counts_its_own_deployments() -> None:
    w = two_projects()
    put(w, ORDERS, asset("sales.refunds"), project="shop")
    reader = w.read.orchestration()
    assert [(row.project, row.number) for row in reader.deployments()] == [
        ("shop", 2),
        ("ads", 1),
        ("shop", 1),
    ]
    assert [row.number for row in reader.deployments("shop")] == [2, 1]
    assert reader.deployment("2", "shop") == reader.deployment("shop/2")
    assert reader.deployment("ads/1").project == "ads"
    assert reader.deployment(reader.deployment("shop/1").deployment_id).number == 1
    with pytest.raises(NotFound, match="names no deployment of the project ads"):
        reader.deployment("2", "ads")


def test_rollback_is_of_one_project() -> None:
    w = two_projects()
    put(w, ORDERS, asset("sales.refunds"), project="shop")
    done = w.commands.orchestration.rollback("1", project="shop")
    assert (done.project, done.number, done.removed) == ("shop", 3, ("sales.refunds",))
    assert active(w) == {"sales.orders": "shop", "ads.reach": "ads"}


def test_asset_in_the_namespace_of_another_project_is_refused() -> None:
    w = two_projects()
    with pytest.raises(Invalid) as caught:
        put(w, REACH, asset("sales.orders"), project="ads")
    assert caught.value.message.startswith(
        "sales.orders is deployed by the project shop: the namespace sales belongs to the "
        "project shop, and sales.orders of the project ads is in it"
    )
    assert "first deploy shop without its 1 assets in sales" in caught.value.hint
    with pytest.raises(Invalid, match="the namespace sales belongs to the project shop"):
        put(w, REACH, asset("sales.new"), project="ads")
    assert active(w) == {"sales.orders": "shop", "ads.reach": "ads"}


def test_missing_input_of_another_project_is_refused_with_a_suggestion() -> None:
    w = two_projects()
    with pytest.raises(Invalid) as caught:
        put(w, asset("ads.reach", reads("sales.ordres")), project="ads")
    assert "the input 'sales.ordres' of ads.reach is not deployed" in caught.value.message
    assert "did you mean 'sales.orders'?" in caught.value.message
    assert "--allow-missing-inputs" in caught.value.hint
    put(w, asset("ads.reach", reads("sales.ordres")), project="ads", allow_missing_inputs=True)


def test_input_that_has_left_its_project_is_refused() -> None:
    w = make_workspace()
    put(w, ORDERS, asset("sales.refunds"), project="shop")
    put(w, ORDERS, project="shop")
    with pytest.raises(
        Invalid, match=r"'sales.refunds' of ads.reach was removed from the project shop"
    ):
        put(w, asset("ads.reach", reads("sales.refunds")), project="ads")


def test_mapping_that_does_not_fit_another_projects_asset_is_refused() -> None:
    w = make_workspace()
    put(w, ORDERS, project="shop")
    with pytest.raises(Invalid, match="not partitioned by time"):
        put(w, asset("ads.reach", reads("sales.orders", Window(-1, 0)), DAYS), project="ads")


def test_circle_through_two_projects_is_refused() -> None:
    w = two_projects()
    with pytest.raises(Invalid, match=r"cycle: ads.reach -> sales.orders -> ads.reach"):
        put(w, asset("sales.orders", reads("ads.reach")), project="shop")


def test_partitions_that_readers_of_another_project_cannot_map_are_refused() -> None:
    w = two_projects()
    with pytest.raises(Invalid) as caught:
        put(w, asset("sales.orders", DAYS, columns=columns(2)), project="shop")
    assert "1 problem with assets of other projects" in caught.value.message
    assert "it is partitioned by 'date', and ads.reach is not" in caught.value.message
    with pytest.raises(Invalid, match=r"ads\.reach is not"):
        put(w, asset("sales.orders", DAYS), project="shop", allow_missing_inputs=True)
    put(w, asset("ads.reach", reads("sales.orders", AllUpstream())), project="ads")
    put(w, asset("sales.orders", DAYS, columns=columns(2)), project="shop")
    w.commands.orchestration.plan(PlanRequest(selection=("*",), partitions=("date=latest",)))


def test_new_asset_that_another_project_waits_for_must_fit_it() -> None:
    w = make_workspace()
    put(w, REACH, project="ads", allow_missing_inputs=True)
    with pytest.raises(Invalid, match=r"ads\.reach is not"):
        put(w, asset("sales.orders", DAYS), project="shop")
    put(w, ORDERS, project="shop")


def test_column_that_a_check_of_another_project_looks_up_stays() -> None:
    w = make_workspace()
    lookup = Check(
        kind="references",
        name="known",
        columns=("c0",),
        params={"asset": "sales.orders", "column": "c1"},
    )
    put(w, ORDERS, project="shop")
    put(w, asset("ads.reach", columns=columns(1), checks=(lookup,)), project="ads")
    with pytest.raises(Invalid, match=r"sales\.orders has no column 'c1'"):
        put(w, asset("sales.orders", columns=columns(1)), project="shop")


def test_missing_inputs_are_allowed_and_circles_and_wrong_mappings_are_not() -> None:
    w = two_projects()
    circle = asset("sales.orders", reads("ads.reach"))
    with pytest.raises(Invalid, match="cycle") as caught:
        put(w, circle, project="shop", allow_missing_inputs=True)
    assert "--allow-missing-inputs" not in caught.value.hint
    wrong = asset("ads.reach", reads("sales.orders", Window(-1, 0)), reads("sales.no"), DAYS)
    with pytest.raises(Invalid, match=r"1 problem with .*\n.*not partitioned by time"):
        put(w, wrong, project="ads", allow_missing_inputs=True)
    with pytest.raises(Invalid, match="2 problems") as caught:
        put(w, wrong, project="ads")
    assert "--allow-missing-inputs" in caught.value.hint


def test_asset_that_a_check_looks_up_may_be_missing() -> None:
    w = two_projects()
    lookup = Check(
        kind="references",
        name="known",
        columns=("c0",),
        params={"asset": "sales.no", "column": "c1"},
    )
    checked = asset("ads.reach", reads("sales.orders"), checks=(lookup,))
    with pytest.raises(
        Invalid, match=r"1 problem with .*\n.*'sales.no' of ads.reach is not deployed"
    ):
        put(w, checked, project="ads")
    put(w, checked, project="ads", allow_missing_inputs=True)


def test_missing_input_is_named_by_what_it_is_called_now_and_not_by_itself() -> None:
    w = make_workspace()
    put(w, ORDERS, asset("sales.refunds"), project="shop")
    put(
        w, asset("sales.purchases", renamed_from="sales.orders", columns=columns(2)), project="shop"
    )
    with pytest.raises(Invalid) as caught:
        put(w, REACH, project="ads")
    assert "it was renamed to 'sales.purchases'" in caught.value.message
    with pytest.raises(Invalid) as caught:
        put(w, asset("ads.reach", reads("sales.refunds")), project="ads")
    assert "was removed from the project shop" in caught.value.message
    assert "did you mean 'sales.refunds'" not in caught.value.message
    with pytest.raises(Invalid) as caught:
        put(w, asset("sales.refunds", reads("ads.refunds")), project="shop")
    assert "did you mean 'ads.refunds'" not in caught.value.message


@pytest.mark.parametrize(
    "without",
    [[], [asset("sales.purchases", renamed_from="sales.orders")]],
    ids=["gone", "renamed"],
)
def test_what_another_project_reads_is_not_taken_away(without: list[Asset]) -> None:
    w = two_projects()
    with pytest.raises(Invalid) as caught:
        put(w, *without, asset("sales.other"), project="shop")
    assert "removes or renames: sales.orders (project ads)" in caught.value.message
    assert "--allow-missing-inputs" in caught.value.hint
    assert active(w) == {"sales.orders": "shop", "ads.reach": "ads"}
    put(w, *without, asset("sales.other"), project="shop", allow_missing_inputs=True)
    with pytest.raises(Invalid, match=r"ads.reach reads sales.orders, which is not deployed"):
        w.commands.orchestration.plan(PlanRequest(selection=("ads.reach",)))


def test_asset_that_leaves_is_inactive_in_the_catalog_and_comes_back_as_itself() -> None:
    w = make_workspace()
    refunds = asset("sales.refunds", description="money back", columns=columns(3))
    put(w, ORDERS, refunds, project="shop")

    def shown() -> tuple[str, str, bool, str, int]:
        found = w.read.catalog().asset(AssetKey.parse("sales.refunds"))
        row = found.row
        return row.asset_id, row.project, row.active, row.description, len(found.columns)

    before = shown()
    put(w, ORDERS, project="shop")
    assert shown() == (before[0], "shop", False, "money back", 3)
    put(w, ORDERS, refunds, project="shop")
    assert shown() == before == (before[0], "shop", True, "money back", 3)


def test_asset_that_was_dropped_while_it_was_away_is_declared_again() -> None:
    w = make_workspace()
    put(w, ORDERS, asset("sales.refunds"), project="shop")
    put(w, ORDERS, project="shop")
    w.commands.catalog.drop_asset("sales.refunds")
    put(w, ORDERS, asset("sales.refunds"), project="shop")
    assert w.read.catalog().asset(AssetKey.parse("sales.refunds")).row.active


def test_catalog_does_not_rename_or_drop_what_code_declares() -> None:
    w = two_projects()
    w.commands.catalog.add_column("sales.orders", Column(name="by_hand", type="string"))
    changes: tuple[Callable[[], object], ...] = (
        lambda: w.commands.catalog.drop_asset("sales.orders"),
        lambda: w.commands.catalog.rename_asset("sales.orders", "sold"),
        lambda: w.commands.catalog.drop_column("sales.orders", "c1"),
        lambda: w.commands.catalog.update_column("sales.orders", "c1", name="c9"),
    )
    for change in changes:
        with pytest.raises(Refused, match="project shop") as caught:
            change()
        assert caught.value.code == "asset_deployed"
    w.commands.catalog.update_column("sales.orders", "c1", name="c1", description="more")
    w.commands.catalog.drop_column("sales.orders", "by_hand")
    put(w, asset("sales.orders", columns=columns(1)), project="shop")
    w.commands.catalog.drop_column("sales.orders", "c1")
    put(w, asset("ads.other"), project="ads")
    w.commands.catalog.rename_asset("ads.reach", "old_reach")
    w.commands.catalog.drop_asset("ads.old_reach")


def test_namespace_moves_to_another_project_with_ids_and_all() -> None:
    w = make_workspace()
    put(w, ORDERS, asset("sales.refunds"), asset("shop.x"), project="shop")
    before = {key: id_of(w, key) for key in ("sales.orders", "sales.refunds")}
    put(w, asset("shop.x"), project="shop")
    put(w, ORDERS, project="finance")
    assert active(w) == {"sales.orders": "finance", "shop.x": "shop"}
    assert {key: id_of(w, key) for key in before} == before
    rows = {row.asset_key: row.project for row in w.read.snapshot().all(DEPLOYED_ASSETS)}
    assert rows == {"sales.orders": "finance", "sales.refunds": "finance", "shop.x": "shop"}
    assert w.read.snapshot().get(ASSETS, before["sales.orders"]).project == "finance"  # type: ignore[union-attr]
    put(w, ORDERS, asset("sales.refunds"), project="finance")
    assert id_of(w, "sales.refunds") == before["sales.refunds"]


def test_single_asset_moves_to_another_project_by_a_rename() -> None:
    w = make_workspace()
    put(w, ORDERS, asset("old.x"), project="shop")
    before = id_of(w, "old.x")
    put(w, ORDERS, project="shop")
    moved = put(w, asset("new.x", renamed_from="old.x"), project="finance")
    assert moved.renamed == ("old.x -> new.x",)
    assert active(w) == {"sales.orders": "shop", "new.x": "finance"}
    assert id_of(w, "new.x") == before
    assert w.read.catalog().asset_id(AssetKey.parse("new.x")) == before


def race(clock: SimClock, meanwhile: Callable[[Workspace], object]) -> Workspace:
    """A workspace in which something happens just before its next append."""
    memory = MemoryStore(clock)
    other = two_projects(store=memory, clock=clock)
    store = HookStore(memory)
    store.before("put", "ledger/inbox", lambda: meanwhile(other))
    return make_workspace(store, seed=7, clock=clock)


def test_removal_of_what_another_project_begins_to_read_meanwhile_is_refused() -> None:
    more = asset("ads.more", reads("sales.refunds"))

    def begin(other: Workspace) -> None:
        put(other, ORDERS, asset("sales.refunds"), project="shop")
        put(other, REACH, more, project="ads")

    w = race(SimClock(), begin)
    with pytest.raises(Invalid, match=r"removes or renames: sales.refunds \(project ads\)"):
        put(w, ORDERS, asset("sales.third"), project="shop")


def test_change_of_what_another_project_begins_to_read_meanwhile_is_refused() -> None:
    memory = MemoryStore(clock := SimClock())
    other = make_workspace(memory, clock=clock)
    put(other, ORDERS, project="shop")
    store = HookStore(memory)
    store.before("put", "ledger/inbox", lambda: put(other, REACH, project="ads"))
    w = make_workspace(store, seed=7, clock=clock)
    with pytest.raises(Invalid, match=r"ads\.reach is not"):
        put(w, asset("sales.orders", DAYS, columns=columns(2)), project="shop")


def test_of_two_projects_that_take_a_namespace_at_once_one_gets_it() -> None:
    w = race(SimClock(), lambda other: put(other, asset("new.a"), project="red"))
    with pytest.raises(Exception, match="the namespace new belongs to the project red"):
        put(w, asset("new.b"), project="blue")
    assert "new.b" not in active(w)


def test_fold_refuses_a_namespace_of_another_project() -> None:
    f = Folding()
    for number, project in enumerate(("red", "blue")):
        f.wait(1).add(
            DeploymentCreated(
                deployment_id=f"d{number}",
                manifest="m",
                artifact="z",
                project=project,
                total=1,
                assets=(DeployedAsset(key=f"s.a{number}", asset_id=f"A{number}"),),
            )
        )
    last = max(f.all(OUTCOMES), key=lambda row: row.decided_at)
    assert (last.code, last.message) == (
        "namespace_taken",
        "the namespace s belongs to the project red",
    )
    assert [(row.project, row.assets) for row in f.all(PROJECT_NAMESPACES)] == [("red", 1)]


# -- planning ------------------------------------------------------------------------------


def test_run_is_planned_from_all_projects_and_names_their_manifests() -> None:
    w = two_projects()
    shop, ads = (
        DeploymentReader(w.read.snapshot()).deployment(name).manifest
        for name in ("shop/1", "ads/1")
    )
    spec = w.commands.orchestration.plan(PlanRequest(selection=("+ads.reach",)))
    assert [task.asset for task in spec.tasks] == ["sales.orders", "ads.reach"]
    assert (spec.manifest_of("ads.reach"), spec.manifest_of("sales.orders")) == (ads, shop)
    alone = w.commands.orchestration.plan(PlanRequest(selection=("sales.orders",)))
    assert (alone.manifest, alone.manifests) == (shop, {})
    everything = w.commands.orchestration.plan(PlanRequest(selection=("*",)))
    assert {task.asset for task in everything.tasks} == {"sales.orders", "ads.reach"}


def test_retention_is_what_the_current_deployment_of_each_project_says() -> None:
    w = make_workspace()
    put(w, asset("a.x", retention=Retention(versions=1)), asset("a.y"), project="red")
    put(w, asset("a.x", retention=Retention(versions=1)), project="red")
    put(w, asset("b.x", retention=Retention(versions=3)), project="blue")
    kept = retention(w.read.snapshot(), w.library)
    assert {key: kept[id_of(w, key)].versions for key in ("a.x", "a.y", "b.x")} == {
        "a.x": 1,
        "a.y": 0,
        "b.x": 3,
    }


# -- deployments that remove most of a project -----------------------------------------------


def test_removing_more_assets_than_are_kept_is_refused() -> None:
    w = make_workspace()
    keys = ["sales.a", "sales.b", "sales.c"]
    put(w, asset("sales.a"), asset("sales.b", reads("sales.a")), asset("sales.c"), project="shop")
    before = w.read.snapshot().generation
    with pytest.raises(RemovalRefused) as caught:
        put(w, asset("sales.c"), asset("sales.new"), project="shop", allow_removals=False)
    assert caught.value.message.splitlines() == [
        "this deployment would remove 2 of 3 assets of the project shop, more than it keeps:",
        "sales.a, read by sales.b",
        "sales.b",
    ]
    assert "--allow-removals" in caught.value.hint
    assert (w.read.snapshot().generation, sorted(active(w))) == (before, keys)
    put(w, asset("sales.c"), project="shop", allow_removals=True)
    assert sorted(active(w)) == ["sales.c"]


def test_removing_as_many_as_are_kept_and_renaming_all_is_allowed() -> None:
    w = make_workspace()
    put(w, asset("sales.a"), asset("sales.b"))
    put(w, asset("sales.a"), allow_removals=False)
    put(w, asset("sales.z", renamed_from="sales.a"), allow_removals=False)
    assert sorted(active(w)) == ["sales.z"]


def test_a_refused_deployment_leaves_nothing_in_the_store() -> None:
    store = MemoryStore(SimClock())
    w = make_workspace(store)
    put(w, asset("sales.a"))
    before = [each.path for each in store.list("")]
    with pytest.raises(RemovalRefused, match="no assets; it would remove all 1"):
        put(w, allow_removals=False)
    assert [each.path for each in store.list("")] == before


def test_the_first_deployment_needs_assets() -> None:
    w = make_workspace()
    with pytest.raises(RemovalRefused, match="the project main has no assets"):
        put(w, allow_removals=False)


def test_a_rollback_that_removes_more_than_it_keeps_is_refused() -> None:
    w = make_workspace()
    put(w, asset("sales.a"))
    put(w, asset("sales.a"), asset("sales.b"), asset("sales.c"))
    with pytest.raises(RemovalRefused, match="would remove 2 of 3"):
        w.commands.orchestration.rollback("1")
    done = w.commands.orchestration.rollback("1", allow_removals=True)
    assert done.removed == ("sales.b", "sales.c")
