"""Objects of the store over HTTP: what readers elsewhere need, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from arco.app import Workspace
from arco.errors import NotFound
from arco.orchestration.tables import DEPLOYMENTS, RUNS
from arco.security.permissions import Role
from arco.state.system import OUTCOMES
from arco.storage.memory import MemoryStore
from arco.storage.paths import root_generation
from arco.storage.port import Mode
from tests.kit.api import ApiClient, ApiWorld, Company
from tests.kit.workspace import NAME, TENANT


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    world = ApiWorld(Company().town.fresh())
    yield world
    world.close()


def _listed(client: ApiClient, prefix: str) -> list[str]:
    return [each["path"] for each in client.get("/objects", prefix=prefix)["objects"]]


def _copy(world: ApiWorld, client: ApiClient) -> Workspace:
    """A workspace of all that a caller is given."""
    store = MemoryStore(world.workspace.clock)
    for prefix in ("manifests/", "state/"):
        for path in _listed(client, prefix):
            answer = client.send("GET", f"/objects/{path}")
            assert answer.status_code == 200, path
            store.put(path, answer.content, Mode.OVERWRITE)
    return Workspace(store, TENANT, NAME, clock=world.workspace.clock)


def test_readers_give_the_same_over_what_is_handed_out(world: ApiWorld) -> None:
    ours = world.workspace.read.snapshot()
    owner = _copy(world, world.owner).read.snapshot()
    assert {t: owner.all(t) for t in world.workspace.tables} == {
        t: ours.all(t) for t in world.workspace.tables
    }
    viewer = _copy(world, world.client(Role.VIEWER)).read.snapshot()
    for table in world.workspace.tables:
        expected = [] if table.domain == "security" else ours.all(table)
        assert viewer.all(table) == expected, table
    assert viewer.all(OUTCOMES)


def test_nothing_else_is_handed_out(world: ApiWorld) -> None:
    shown = ("manifests/", "state/", "logs/", "inputs/", "liveness/", "plans/")
    others = [
        meta.path
        for meta in world.workspace.store.list("")
        if not meta.path.startswith(shown) and not meta.path.endswith(".json")
    ]
    others += ["ledger/inbox/x.json", "keys/tasks.json", "../prod/manifests/head.json"]
    for path in others:
        assert world.owner.send("GET", f"/objects/{path}").status_code == 404, path
    for prefix in ("ledger/", "data/", "keys", "leases/", "a"):
        assert world.owner.send("GET", "/objects", params={"prefix": prefix}).status_code == 404
    viewer = world.client(Role.VIEWER)
    assert not [path for path in _listed(viewer, "state/") if "security" in path]
    with pytest.raises(NotFound):
        world.served.objects.get("state/security/audit/base/x.parquet", see_all=False)


def test_parts_are_those_that_were_asked_for(world: ApiWorld) -> None:
    for client in (world.owner, world.client(Role.VIEWER)):
        path = next(path for path in _listed(client, "state/") if "/changes/" in path)
        whole = client.send("GET", f"/objects/{path}").content
        part = client.send("GET", f"/objects/{path}", headers={"Range": "bytes=4-9"})
        assert (part.status_code, part.content) == (206, whole[4:10])


def test_a_part_of_a_root_manifest_tells_no_more_than_the_whole(world: ApiWorld) -> None:
    viewer = world.client(Role.VIEWER)
    path = [path for path in _listed(viewer, "manifests/") if root_generation(path)][-1]
    whole = viewer.send("GET", f"/objects/{path}").content
    assert whole != world.owner.send("GET", f"/objects/{path}").content
    last = len(whole) - 1
    part = viewer.send("GET", f"/objects/{path}", headers={"Range": f"bytes=0-{last}"})
    assert (part.status_code, part.content) == (206, whole)
    beyond = viewer.send("GET", f"/objects/{path}", headers={"Range": f"bytes=0-{last + 1}"})
    assert beyond.status_code == 400


def test_who_sees_some_namespaces_gets_what_is_of_them(world: ApiWorld) -> None:
    sales = world.client(Role.OWNER, "sales")
    assert sales.send("GET", "/objects/manifests/head.json").status_code == 200
    for path in ("/objects?prefix=state/", "/objects?prefix=plans/", "/objects/keys/tasks.json"):
        assert sales.send("GET", path).status_code == 404
    roots = [path for path in _listed(sales, "manifests/") if root_generation(path)]
    bare = sales.send("GET", f"/objects/{roots[-1]}").text
    assert "state/" not in bare and "ledger/" not in bare
    assert world.owner.send("GET", f"/objects/{roots[-1]}").text != bare
    manifests = world.workspace.read.snapshot().all(DEPLOYMENTS)
    codes = {
        row.project: sales.send("GET", f"/objects/artifacts/{row.manifest}.json").status_code
        for row in manifests
    }
    assert codes == {"main": 200, "people": 404}


def test_plans_and_logs_of_others_are_not_there(world: ApiWorld) -> None:
    sales = world.client(Role.OWNER, "sales")
    for run in world.workspace.read.snapshot().all(RUNS):
        tasks = world.workspace.read.orchestration().tasks(run.run_id)
        is_own = any(task.asset_key.startswith("sales.") for task in tasks)
        answer = sales.send("GET", f"/objects/plans/{run.plan_id}.json")
        assert answer.status_code == (200 if is_own else 404)
        assert "hr." not in answer.text.replace(run.plan_id, "")
        store = world.workspace.store
        log = f"logs/{run.run_id}/{tasks[0].task_id}/1.n.000000.log"
        store.put(log, b"INFO read hr.salaries and sales.orders\n", Mode.OVERWRITE)
        assert bool(_listed(sales, f"logs/{run.run_id}/")) == is_own
        answer = sales.send("GET", f"/objects/{log}")
        assert answer.status_code == (200 if is_own else 404)
        if is_own:
            assert answer.text == "INFO read (hidden) and sales.orders\n"
