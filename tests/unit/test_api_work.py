"""Routes for workers without access to the store: claims, reports and objects, and who may not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from litestar import Request

from arco.api.table import ROUTES
from arco.api.work_objects import raw_path
from arco.app import Workspace
from arco.clock import SystemClock
from arco.errors import Invalid
from arco.log.envelope import encode_payload
from arco.orchestration.events import RunTriggered, TaskStarted
from arco.orchestration.limits import Timing
from arco.orchestration.results import finished
from arco.security.permissions import Role
from arco.storage import paths
from arco.storage.http import HttpStore
from arco.storage.http_client import checked_api_url
from arco.storage.memory import MemoryStore
from arco.transport.liveness import LivenessRecord, Progress, records
from arco.transport.queues.objectstore import contents
from arco.worker.failures import TaskFailed
from arco.worker.sensing import check_reads_others
from servo.contract.sensing import SensorCall
from servo.contract.task import Materialization, TaskRequest, TaskResult
from tests.kit.api import ApiClient, ApiWorld
from tests.kit.flows import deploy, trigger
from tests.kit.workspace import NAME, TENANT

PROJECT = """
from servo import *

@asset(namespace='sales')
def orders() -> None: ...

@asset(namespace='sales')
def total(orders: AssetIn['sales.orders']) -> None: ...

@asset(namespace='hr')
def salaries() -> None: ...
"""


class Fleet:
    """A workspace with tasks in its queue, and a server for workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = w = self._open()
        deploy(w, PROJECT)
        self._orchestrator = w.runtime.orchestrator(
            w.runtime.store_queue("o"), w.runtime.reports(), w.runtime.signer(), timing=Timing()
        )
        self.worlds: list[ApiWorld] = []
        self.world = self.server()
        self.worker = self.key("k1")

    def _open(self) -> Workspace:
        return Workspace.open(f"file://{self.folder}/lake", TENANT, NAME)

    def server(self) -> ApiWorld:
        """Another server of the same store."""
        self.worlds.append(ApiWorld(self._open(), failed_logins_per_minute=100_000))
        return self.worlds[-1]

    def key(self, name: str, world: ApiWorld | None = None) -> ApiClient:
        world = world or self.world
        client = world.client(Role.ADMIN)
        caller = world.tokens.callers[client.token]
        world.tokens.callers[name] = msgspec.structs.replace(caller, kind="worker", id=name)
        return ApiClient(world, name)

    def run(self, *selection: str) -> str:
        run_id = trigger(self.workspace, *selection)
        self.tick()
        return run_id

    def tick(self) -> None:
        for _ in range(3):
            self._orchestrator.tick()

    def claim(
        self, client: ApiClient, token: str = "t1", worker: str = "box", wait_s: float = 0.0
    ) -> list[Any]:
        body = {"token": token, "slots": 4, "free_slots": 4, "limit": 4, "wait_s": wait_s}
        response = client.post(f"/work/{worker}/claims", body)
        assert response.status_code == 200, response.text
        tasks: list[Any] = response.json()["tasks"]
        return tasks

    def as_task(self, task: Any) -> ApiClient:
        return ApiClient(self.world, task["access"])

    def finish(self, client: ApiClient, task: Any, **changes: Any) -> Any:
        """Report a result, and acknowledge it."""
        answer = self.report(client, task, result(task, **changes))
        if answer.status_code == 200:
            done = client.post("/work/box/done", {"claims": [task["claim"]]})
            assert done.status_code == 200
        return answer

    def report(
        self, client: ApiClient, task: Any, outcome: TaskResult, *, batch: str = "", claim: str = ""
    ) -> Any:
        payload = finished(outcome)
        event = {
            "id": self.workspace.ids(),
            "type": payload.TYPE,
            "version": payload.lowest_version,
            "time": "2026-01-01T00:00:00Z",
            "data": msgspec.json.decode(encode_payload(payload)),
        }
        body = {
            "batch": batch or self.workspace.ids(),
            "events": [event],
            "claims": [claim or task["claim"]],
        }
        return client.post("/work/box/reports", body)

    def close(self) -> None:
        for world in self.worlds:
            world.close()


def request_of(task: Any) -> TaskRequest:
    envelope = msgspec.json.decode(task["envelope"])
    return msgspec.convert(envelope["request"], TaskRequest)


def result(task: Any, **changes: Any) -> TaskResult:
    request = request_of(task)
    version = task["version"]
    output = Materialization(
        materialization_id=version,
        asset=request.asset,
        asset_id=request.asset_id,
        partition=request.partition,
        run_id=request.run_id,
        task_id=request.task_id,
        attempt_id=request.attempt_id,
        path=f"{request.output}/{version}",
        fingerprint=request.fingerprint,
    )
    good = TaskResult(
        run_id=request.run_id,
        task_id=request.task_id,
        attempt=request.attempt,
        attempt_id=request.attempt_id,
        outcome="succeeded",
        worker_id="box@k1",
        materialization=output,
    )
    return msgspec.structs.replace(good, **changes)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()


# -- claims and reports -------------------------------------------------------------------


def test_a_task_is_given_to_one_worker_and_again_to_the_same_request(fleet: Fleet) -> None:
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    assert request_of(task).asset == "sales.orders"
    assert fleet.claim(fleet.worker, "t1") == [task]  # its answer was lost
    assert fleet.claim(fleet.worker, "t2") == []
    assert fleet.claim(fleet.key("k2"), "t1") == []
    assert fleet.claim(fleet.key("k3", fleet.server()), "t1") == []


def test_results_that_come_through_the_server_end_the_run(fleet: Fleet) -> None:
    run_id = fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    outcome = result(task)
    batch = fleet.workspace.ids()
    assert fleet.report(fleet.worker, task, outcome, batch=batch).status_code == 200
    fleet.tick()
    assert fleet.worker.post("/work/box/done", {"claims": [task["claim"]]}).status_code == 200
    assert contents(fleet.workspace.store).messages == {}
    run = fleet.workspace.read.orchestration().run(run_id)
    assert run.state == "SUCCEEDED"


def test_the_same_batch_is_in_the_log_once(fleet: Fleet) -> None:
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    request = request_of(task)
    payload = TaskStarted(
        run_id=request.run_id,
        task_id=request.task_id,
        attempt_id=request.attempt_id,
        worker_id="box@k1",
    )
    event = {
        "id": fleet.workspace.ids(),
        "type": payload.TYPE,
        "time": "2026-01-01T00:00:00Z",
        "data": msgspec.json.decode(encode_payload(payload)),
    }
    body = {"batch": fleet.workspace.ids(), "events": [event], "claims": [task["claim"]]}
    before = fleet.workspace.read.snapshot().position
    for _ in range(2):  # the first answer was lost
        assert fleet.worker.post("/work/box/reports", body).status_code == 200
    fleet.workspace.committer.commit()
    assert fleet.key("k1", fleet.server()).post("/work/box/reports", body).status_code == 200
    fleet.workspace.committer.commit()
    assert fleet.workspace.read.snapshot().position == before + 1


def test_another_server_goes_on_with_the_claims_of_one_that_is_gone(fleet: Fleet) -> None:
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    other = fleet.key("k1", fleet.server())
    request = request_of(task)
    record = LivenessRecord(
        "somebody else",
        1,
        {
            request.attempt_id: Progress(request.run_id, request.task_id),
            "not its own": Progress(request.run_id, "t"),
        },
        slots=4,
    )
    path = next(m.path for m in fleet.workspace.store.list("queue/claims/"))
    before = fleet.workspace.store.head(path)
    beat = {"claims": [task["claim"]], "renew": True, "record": msgspec.to_builtins(record)}
    answer = other.post("/work/box/heartbeat", beat)
    assert (answer.status_code, answer.json()) == (200, {"cancelled_runs": []})
    assert fleet.workspace.store.head(path).size == before.size + 1
    (written,) = records(fleet.workspace.store)
    assert (written.worker_id, set(written.attempts)) == ("box@k1", {request.attempt_id})
    assert fleet.finish(other, task).status_code == 200
    assert contents(fleet.workspace.store).messages == {}


def test_a_heartbeat_says_which_runs_are_cancelled(fleet: Fleet) -> None:
    run_id = fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    fleet.workspace.commands.orchestration.cancel(run_id)
    answer = fleet.worker.post("/work/box/heartbeat", {"claims": [task["claim"]]})
    assert answer.json() == {"cancelled_runs": [run_id]}


def test_a_released_task_is_given_to_others_at_once(fleet: Fleet) -> None:
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    assert fleet.worker.post("/work/box/releases", {"claims": [task["claim"]]}).status_code == 200
    (again,) = fleet.claim(fleet.key("k2"), "t9", "other")
    assert (again["name"], again["number"], again["lost"]) == (task["name"], 2, 0)
    # A worker that was slow releases nothing that another has.
    assert fleet.worker.post("/work/box/releases", {"claims": [task["claim"]]}).status_code == 200
    assert fleet.claim(fleet.key("k3"), "t9", "third") == []


def test_reports_on_what_a_worker_was_not_given_are_refused(fleet: Fleet) -> None:
    fleet.run("sales.orders", "hr.salaries")
    mine, other = sorted(fleet.claim(fleet.worker), key=lambda task: request_of(task).asset)
    good = result(mine)
    assert good.materialization is not None
    replace = msgspec.structs.replace
    stolen = replace(good.materialization, path=f"{request_of(other).output}/{other['version']}")
    elsewhere = replace(good.materialization, files=("../../secret.parquet",))
    above = replace(good.materialization, files=(f"{good.materialization.path}/../../x.parquet",))
    dots = replace(
        good.materialization,
        materialization_id="..",
        path=f"{request_of(mine).output}/..",
        files=(),
    )
    refused = [
        replace(good, attempt_id=request_of(other).attempt_id),
        replace(good, run_id="another"),
        replace(good, worker_id="box@k2"),
        replace(good, materialization=stolen),
        replace(good, materialization=elsewhere),
        replace(good, materialization=above),
        replace(good, materialization=dots),
        replace(good, materialization=replace(good.materialization, partition="date=d:2026-01-01")),
        replace(good, materialization=replace(good.materialization, asset_id="x")),
    ]
    for each in refused:
        assert fleet.report(fleet.worker, mine, each).status_code == 403, each
    # A claim is of one worker, with one key; a task token is no claim.
    assert fleet.report(fleet.key("k2"), mine, good).status_code == 403
    assert fleet.report(fleet.worker, mine, good, claim=mine["access"]).status_code == 403
    assert fleet.report(fleet.worker, mine, good, claim=mine["claim"][:-2]).status_code == 403
    response = fleet.worker.post(
        "/work/box/reports",
        {
            "batch": fleet.workspace.ids(),
            "events": [
                {
                    "id": fleet.workspace.ids(),
                    "type": RunTriggered.TYPE,
                    "time": "2026-01-01T00:00:00Z",
                    "data": {},
                }
            ],
            "claims": [mine["claim"]],
        },
    )
    assert response.status_code in (400, 403)
    assert list(fleet.workspace.store.list("ledger/inbox/")) == []


def test_only_a_role_on_the_whole_workspace_lets_work(fleet: Fleet) -> None:
    body = {"token": "t", "slots": 1, "free_slots": 1}
    for client in (
        fleet.world.client(Role.EDITOR),
        fleet.world.client(Role.ADMIN, "sales"),
    ):
        assert client.post("/work/box/claims", body).status_code == 403
    assert fleet.world.without_token().post("/work/box/claims", body).status_code == 401
    foreign = fleet.world.client(Role.ADMIN, tenant="other")
    assert foreign.post("/work/box/claims", body).status_code == 404


# -- objects --------------------------------------------------------------------------------


def objects(path: str) -> str:
    return f"/work/objects/{quote(path)}"


def test_a_task_reaches_its_inputs_and_its_output_and_nothing_else(fleet: Fleet) -> None:
    store = fleet.workspace.store
    fleet.run("sales.orders", "hr.salaries")
    for task in fleet.claim(fleet.worker):
        folder = f"{request_of(task).output}/{task['version']}"
        store.put(f"{folder}/part-0.parquet", b"rows")
        assert fleet.finish(fleet.worker, task).status_code == 200
    fleet.tick()
    fleet.run("sales.total")
    (task,) = fleet.claim(fleet.worker, "t2", wait_s=20.0)
    request, slot = request_of(task), fleet.as_task(task)
    (read,) = request.inputs[0].materializations
    assert slot.send("GET", objects(f"{read.path}/part-0.parquet")).content == b"rows"
    listed = slot.get("/work/objects", prefix=f"{read.path}/")["items"]
    assert [each["path"] for each in listed] == [f"{read.path}/part-0.parquet"]

    own = f"{request.output}/{task['version']}"
    once = {"If-None-Match": "*"}
    new = objects(f"{own}/part-0.parquet")
    assert slot.send("PUT", new, content=b"1", headers=once).status_code == 204
    assert slot.send("PUT", new, content=b"2", headers=once).status_code == 409
    assert slot.send("GET", new).content == b"1"
    marker = objects(paths.output_commit(request.run_id, request.task_id))
    assert slot.send("PUT", marker, content=b"{}").status_code == 403
    assert slot.send("PUT", marker, content=b"{}", headers=once).status_code == 204
    assert slot.send("PUT", marker, content=b"[]", headers=once).status_code == 409
    assert slot.send("DELETE", marker).status_code == 403

    everything = [meta.path for meta in store.list("")]
    allowed = {f"{read.path}/part-0.parquet", f"{own}/part-0.parquet"}
    allowed.add(paths.output_commit(request.run_id, request.task_id))
    assert len(everything) > 10
    for path in everything:
        expected = 200 if path in allowed else 403
        assert slot.send("GET", objects(path)).status_code == expected, path
        if not path.startswith(f"{own}/"):
            assert slot.send("PUT", objects(path), content=b"x").status_code == 403, path
            assert slot.send("DELETE", objects(path)).status_code == 403, path
    hostile = [
        f"{own}/../../../../keys/tasks.json",
        f"{own}/%2e%2e/%2e%2e/keys/tasks.json",
        f"{own}%2f..%2fx",
        f"{own}x/part-0.parquet",
        f"{request.output}/{read.materialization_id}/more.parquet",
        f"{read.path}/more.parquet",
        f"{own}",
        "",
    ]
    for path in hostile:
        for method in ("PUT", "DELETE"):
            answer = slot.send(method, objects(path), content=b"x")
            assert answer.status_code in (400, 403, 404, 405), path
    for prefix in ("", "data/", "data/sales/", read.path[:-1], f"{own}/../", request.output):
        answer = slot.send("GET", "/work/objects", params={"prefix": prefix})
        assert answer.status_code in (400, 403), prefix
    assert [m.path for m in store.list("") if m.path not in everything] == []


def test_a_task_token_is_nobody_on_all_other_routes(fleet: Fleet) -> None:
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    for token in (task["access"], task["claim"]):
        client = ApiClient(fleet.world, token)
        for route in ROUTES:
            assert client.send(route.method, route.path, json={}).status_code == 401, route
        for path in ("/work/box/claims", "/work/box/heartbeat", "/work/box/reports"):
            assert client.post(path, {}).status_code == 401
        assert client.send("GET", "/work/box/settings").status_code == 401
        assert client.post("/query", {"sql": "select 1"}).status_code == 401
        assert client.send("GET", "/api/v1/me").status_code == 401
    assert ApiClient(fleet.world, task["claim"]).send("GET", objects("a")).status_code == 401


def test_a_forged_task_token_does_not_tell_which_workspaces_there_are(fleet: Fleet) -> None:
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    for token in ("arco_task_x", task["access"][:-4] + "AAAA"):
        client = ApiClient(fleet.world, token)
        here = client.send("GET", objects("a"))
        path = f"/api/v1/workspaces/{TENANT}/other/work/objects/a"
        other = client.send("GET", path)
        assert here.status_code == other.status_code == 401
        assert here.json()["detail"] == other.json()["detail"]


def test_many_forged_task_tokens_close_the_door_to_an_address(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    world = ApiWorld(fleet.workspace, failed_logins_per_minute=3)
    client = ApiClient(world, "arco_task_x")
    statuses = [client.send("GET", objects("a")).status_code for _ in range(5)]
    assert statuses[-1] == 429
    world.close()
    fleet.close()


def test_a_workspace_may_be_called_work(tmp_path: Path) -> None:
    scope: Any = {"raw_path": b"/api/v1/workspaces/work/work/work/objects/data/a%20b"}
    assert raw_path(Request(scope)) == "data/a b"


def test_a_task_token_ends_with_the_claim(fleet: Fleet) -> None:
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker)
    request, slot = request_of(task), fleet.as_task(task)
    own = objects(f"{request.output}/{task['version']}/part-0.parquet")
    assert slot.send("PUT", own, content=b"1").status_code == 204
    assert fleet.finish(fleet.worker, task).status_code == 200
    other = ApiClient(fleet.server(), task["access"])  # which has not seen the token yet
    assert other.send("GET", own).status_code == 403
    assert other.send("PUT", own, content=b"2").status_code == 403


def test_a_supervisor_puts_the_log_of_what_it_has_claimed_alone(fleet: Fleet) -> None:
    fleet.run("sales.orders", "hr.salaries")
    mine, other = fleet.claim(fleet.worker)
    request = request_of(mine)
    log = objects(f"logs/{request.run_id}/{request.task_id}/1.nonce.000000.log")
    claim = {"Arco-Claim": mine["claim"], "Arco-Worker": "box"}
    assert fleet.worker.send("PUT", log, content=b"line", headers=claim).status_code == 204
    assert fleet.worker.send("PUT", log, content=b"line").status_code == 403
    wrong = claim | {"Arco-Claim": other["claim"]}
    assert fleet.worker.send("PUT", log, content=b"line", headers=wrong).status_code == 403
    thief = fleet.key("k2")
    assert thief.send("PUT", log, content=b"line", headers=claim).status_code == 403
    assert fleet.as_task(mine).send("PUT", log, content=b"line").status_code == 403
    artifact = objects(paths.artifact(request.code.artifact))
    assert fleet.worker.send("GET", artifact).status_code == 200
    manifest = next(m.path for m in fleet.workspace.store.list("manifests/"))
    for path in (paths.TASK_KEYS, manifest):
        assert fleet.worker.send("GET", objects(path), headers=claim).status_code == 403


# -- the worker's side ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://arco.example", "ftp://arco.example", "https://", "https://ann@arco.example"]
)
def test_a_key_is_not_sent_in_the_clear_nor_to_what_is_no_server(url: str) -> None:
    with pytest.raises(Invalid):
        checked_api_url(url)


def test_versions_of_another_workspace_are_refused_with_what_to_do() -> None:
    call = SensorCall(
        sensor_id="shop/new",
        name="new",
        kind="asset",
        number=0,
        asset="sales.orders",
        workspace="other",
    )
    with pytest.raises(TaskFailed) as refused:
        check_reads_others(HttpStore("https://arco.example/work"), call)
    assert refused.value.info.code == "sensor.needs_store"
    check_reads_others(MemoryStore(SystemClock()), call)


def test_an_evaluation_looks_for_versions_of_its_asset_through_the_server(fleet: Fleet) -> None:
    new_orders = "asset_sensor('new_orders', 'sales.orders', selection=[total])"
    deploy(fleet.workspace, f"{PROJECT}\nnew_orders = {new_orders}\n")
    fleet.tick()
    (sensing,) = [t for t in fleet.claim(fleet.worker) if request_of(t).sensor is not None]
    evaluation = fleet.as_task(sensing)
    first = evaluation.get("/work/versions")
    assert (first["versions"], first["more"]) == ([], False)
    fleet.run("sales.orders")
    (task,) = fleet.claim(fleet.worker, "t2", wait_s=20)
    assert fleet.as_task(task).send("GET", "/work/versions").status_code == 403
    assert fleet.worker.send("GET", "/work/versions").status_code == 403
    fleet.finish(fleet.worker, task)
    fleet.tick()
    (version,) = evaluation.get("/work/versions", cursor=first["cursor"])["versions"]
    assert (version["asset"], version["version"]) == ("sales.orders", 1)
    beyond = evaluation.send("GET", "/work/versions", params={"cursor": "999999"})
    assert (beyond.status_code, evaluation.send("GET", "/work/versions?cursor=x").status_code) == (
        400,
        400,
    )
