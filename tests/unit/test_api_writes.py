"""Writes over HTTP: idempotency keys, versions of rows, and who may."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from arco.security.permissions import Role
from arco.worker import artifact as artifacts
from servo.contract.manifest import Manifest, encode_manifest
from tests.kit.api import PEOPLE, SHOP, ApiClient, ApiWorld, Company
from tests.kit.flows import project


@pytest.fixture
def company() -> Company:
    return Company()


@pytest.fixture
def world(company: Company) -> Iterator[ApiWorld]:
    world = ApiWorld(company.town.fresh())
    yield world
    world.close()


def test_a_trigger_is_a_request_that_an_orchestrator_plans(
    world: ApiWorld, company: Company
) -> None:
    operator = world.client(Role.OPERATOR, "sales")
    body = {"selection": ["sales.total"], "force": True}
    response = operator.post("/runs", body, Idempotency_Key="one")
    assert response.status_code == 202
    again = operator.post("/runs", body, Idempotency_Key="one")
    assert again.json() == response.json()  # the same generation too: nothing was committed
    other = operator.post("/runs", {"selection": ["sales.orders"]}, Idempotency_Key="one")
    assert (other.status_code, other.json()["code"]) == (409, "run_key_conflict")
    assert operator.get("/commands/one")["status"] == "pending"
    company.town.settle()
    assert operator.get(f"/runs/{response.json()['run_id']}")["run"]["state"] == "SUCCEEDED"
    assert operator.get("/commands/one")["status"] == "applied"
    location = response.headers["location"]
    assert world.owner.get(location)["state"] == "TRIGGERED"


def test_a_key_with_another_body_is_a_conflict(world: ApiWorld) -> None:
    owner = world.owner
    first = owner.post("/assets", {"asset": "sales.a"}, Idempotency_Key="k")
    again = owner.post("/assets", {"asset": "sales.a"}, Idempotency_Key="k")
    other = owner.post("/assets", {"asset": "sales.b"}, Idempotency_Key="k")
    assert (first.status_code, again.status_code, other.status_code) == (201, 201, 409)
    assert (first.json()["replayed"], again.json()["replayed"]) == (False, True)
    run = owner.post("/runs", {"selection": ["sales.total"]}, Idempotency_Key="r")
    assert run.status_code == 202
    changed = owner.post("/runs", {"selection": ["hr.salaries"]}, Idempotency_Key="r")
    assert (changed.status_code, changed.json()["code"]) == (409, "run_key_conflict")


def test_keys_of_two_callers_never_meet(world: ApiWorld) -> None:
    one, other = world.client(Role.ADMIN), world.client(Role.EDITOR)
    assert one.post("/assets", {"asset": "sales.a"}, Idempotency_Key="k").status_code == 201
    assert other.post("/assets", {"asset": "sales.b"}, Idempotency_Key="k").status_code == 201
    assert other.send("GET", "/commands/none").status_code == 404


def test_a_row_that_has_changed_is_not_overwritten(world: ApiWorld) -> None:
    owner = world.owner
    etag = owner.send("GET", "/assets/sales.notes").headers["etag"]
    first = owner.send(
        "PATCH", "/assets/sales.notes", json={"description": "a"}, headers={"If-Match": etag}
    )
    second = owner.send(
        "PATCH", "/assets/sales.notes", json={"description": "b"}, headers={"If-Match": etag}
    )
    assert (first.status_code, second.status_code) == (200, 412)
    assert second.json()["code"] == "version_mismatch"
    third = owner.send(
        "PATCH",
        "/assets/sales.notes",
        json={"description": "c"},
        headers={"If-Match": first.headers["etag"]},
    )
    assert third.status_code == 200
    assert owner.get("/assets/sales.notes")["description"] == "c"


def test_an_absent_field_stays(world: ApiWorld) -> None:
    owner = world.owner
    owner.send("PATCH", "/assets/sales.notes", json={"description": "about"})
    assert owner.get("/assets/sales.notes")["owners"] == ["ana"]


def test_a_run_is_cancelled_once(world: ApiWorld, company: Company) -> None:
    operator = world.client(Role.OPERATOR, "sales")
    company.town.crowd.workers.clear()
    run_id = company.town.run(selection="sales.total")
    cancelled = operator.post(f"/runs/{run_id}/cancel", {"reason": "no"}, Idempotency_Key="c")
    again = operator.post(f"/runs/{run_id}/cancel", {"reason": "no"}, Idempotency_Key="c")
    assert (cancelled.status_code, again.status_code) == (202, 202)
    assert cancelled.json()["generation"] <= again.json()["generation"]


def test_a_run_that_reaches_other_namespaces_is_denied(world: ApiWorld, company: Company) -> None:
    operator = world.client(Role.OPERATOR, "hr")
    assert operator.post("/runs", {"selection": ["hr.salaries"]}).status_code == 202
    reaching = operator.post("/runs", {"selection": ["+hr.report"], "force": True})
    assert reaching.status_code == 403
    foreign = operator.post("/runs", {"selection": ["sales.total"]})
    absent = operator.post("/runs", {"selection": ["nowhere.total"]})
    assert foreign.status_code == absent.status_code == 404
    cancelled = operator.post(f"/runs/{company.both_run}/cancel")
    assert cancelled.status_code in (202, 409)


def test_a_backfill_with_the_same_key_is_one(world: ApiWorld) -> None:
    editor = world.client(Role.EDITOR, "sales")
    body = {"selection": ["sales.orders"], "partitions": ["date=2026-01-01..2026-01-02"]}
    first = editor.post("/backfills", body, Idempotency_Key="b")
    again = editor.post("/backfills", body, Idempotency_Key="b")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["backfill_id"] == again.json()["backfill_id"]
    other = editor.post("/backfills", body | {"chunk_size": 7}, Idempotency_Key="b")
    assert other.status_code == 409
    path = first.headers["location"]
    assert editor.post(f"{path}/pause", {"reason": "later"}).json()["state"] == "PAUSED"
    assert editor.post(f"{path}/resume").status_code == 200
    assert editor.post(f"{path}/cancel").json()["state"] == "CANCELLED"


def test_a_deployment_with_the_same_key_is_one(world: ApiWorld) -> None:
    manifest, artifact = project(SHOP.replace("What was ordered", "All orders"))
    body: dict[str, Any] = {
        "manifest": msgspec.json.decode(encode_manifest(manifest)),
        "source": base64.b64encode(artifact).decode(),
        "message": "over HTTP",
    }
    owner = world.owner
    checked = owner.post("/deployments/validate", {k: body[k] for k in ("manifest", "message")})
    assert checked.status_code == 200, checked.text
    first = owner.post("/deployments", body, Idempotency_Key="d")
    assert first.status_code == 201, first.text
    later, other = project(SHOP.replace("What was ordered", "Orders"))
    moved = owner.post(
        "/deployments",
        {
            "manifest": msgspec.json.decode(encode_manifest(later)),
            "source": base64.b64encode(other).decode(),
        },
        Idempotency_Key="e",
    )
    assert moved.status_code == 201
    again = owner.post("/deployments", body, Idempotency_Key="d")
    ids = [each.json()["deployment"]["deployment_id"] for each in (first, again)]
    assert ids[0] == ids[1]
    current = owner.get("/deployments", project="main")["items"][0]["deployment_id"]
    assert current == moved.json()["deployment"]["deployment_id"]
    rolled = owner.post(f"/deployments/{ids[0]}/rollback", {})
    assert rolled.status_code == 201


@pytest.mark.parametrize(
    ("name", "size", "refusal"),
    [
        ("flow.py", None, "not a readable zip"),
        ("../flow.py", 1, "points outside"),
        ("bomb.bin", 2 << 20, "unpacks to more than"),
    ],
)
def test_a_source_that_no_worker_would_unpack_is_refused(
    world: ApiWorld,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    size: int | None,
    refusal: str,
) -> None:
    """By names and sizes: it is not unpacked."""
    monkeypatch.setattr(artifacts, "MAX_BYTES", 1 << 20)
    artifact = b"PK not a zip"
    if size is not None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, bytes(size))
        artifact = buffer.getvalue()
    manifest, _ = project(SHOP)
    named = msgspec.structs.replace(manifest, artifact=hashlib.sha256(artifact).hexdigest())
    body = {
        "manifest": msgspec.json.decode(encode_manifest(named)),
        "source": base64.b64encode(artifact).decode(),
    }
    response = world.owner.post("/deployments", body)
    assert response.status_code == 400
    assert refusal in response.json()["detail"]


def test_a_deployment_needs_every_namespace_that_it_touches_reads_or_runs(world: ApiWorld) -> None:
    manifest, artifact = project(PEOPLE)
    whole = msgspec.structs.replace(manifest, project="people")
    own = msgspec.structs.replace(
        whole, assets=tuple(asset for asset in whole.assets if asset.key == "hr.salaries")
    )
    (salaries,) = own.assets
    (payday,) = own.schedules
    taking = msgspec.structs.replace(salaries, renamed_from="sales.total")
    running = msgspec.structs.replace(payday, selection=("tag:x",))

    def deployed(caller: ApiClient, what: Manifest) -> int:
        body = {
            "manifest": msgspec.json.decode(encode_manifest(what)),
            "source": base64.b64encode(artifact).decode(),
            "allow_removals": True,
        }
        return int(caller.post("/deployments", body).status_code)

    editor = world.client(Role.EDITOR, "hr")
    assert deployed(world.client(Role.EDITOR, "sales"), own) == 403
    assert deployed(editor, whole) == 403  # it reads data of sales
    assert deployed(editor, msgspec.structs.replace(own, assets=(taking,))) == 403
    assert deployed(editor, msgspec.structs.replace(own, schedules=(running,))) == 403
    assert deployed(editor, own) == 201


def test_held_outputs_are_decided_once(world: ApiWorld, company: Company) -> None:
    admin = world.client(Role.ADMIN, "sales")
    path = f"/quarantine/{company.sales_held}"
    approved = admin.post(f"{path}/approve", {"reason": "looked"}, Idempotency_Key="q")
    assert (approved.status_code, approved.json()["status"]) == (200, "APPROVED")
    assert admin.post(f"{path}/reject").status_code == 409


def test_schedules_and_sensors_are_paused_and_resumed(world: ApiWorld) -> None:
    operator = world.client(Role.OPERATOR, "sales")
    for path in ("/schedules/main/nightly", "/sensors/main/hook"):
        paused = operator.post(f"{path}/pause", {"reason": "now"})
        assert "PAUSED" in paused.text, paused.text
        assert operator.post(f"{path}/resume").status_code == 200
    pushed = operator.post("/sensors/main/hook/messages", {"id": "m1", "payload": "{}"})
    assert (pushed.status_code, pushed.json()["is_repeated"]) == (202, False)
    repeated = operator.post("/sensors/main/hook/messages", {"id": "m1", "payload": "{}"})
    assert repeated.json()["is_repeated"]
    ticked = operator.post("/schedules/main/nightly/tick", None, Idempotency_Key="t")
    again = operator.post("/schedules/main/nightly/tick", None, Idempotency_Key="t")
    assert ticked.json()["run_id"] == again.json()["run_id"]


def test_limits_and_dispatch_are_for_the_whole_workspace(world: ApiWorld) -> None:
    body = {"scope": "workspace", "name": "max_concurrent_runs", "value": "7"}
    assert world.client(Role.ADMIN, "sales").send("PUT", "/limits", json=body).status_code == 403
    admin = world.client(Role.ADMIN)
    limits = admin.send("PUT", "/limits", json=body).json()["limits"]
    assert 7 in [each["value"] for each in limits if each["name"] == "max_concurrent_runs"]
    assert admin.post("/dispatch/pause", {"reason": "upgrade"}).json()["paused"]["reason"]
    assert admin.post("/dispatch/resume").json()["paused"] is None


def test_both_ends_of_an_edge_are_seen(world: ApiWorld) -> None:
    editor = world.client(Role.EDITOR, "sales")
    body = {"source": {"asset": "hr.notes"}, "target": {"asset": "sales.notes"}}
    absent = {"source": {"asset": "hr.none"}, "target": {"asset": "sales.notes"}}
    statuses = [editor.post("/lineage/edges", each).status_code for each in (body, absent)]
    assert statuses == [404, 404]


def test_an_api_key_opens_what_it_was_made_for(world: ApiWorld) -> None:
    created = world.owner.post("/keys", {"name": "ci", "role": "viewer", "namespaces": ["sales"]})
    assert created.status_code == 201
    assert created.json()["secret"].startswith("arco_")
    listed = world.owner.send("GET", "/keys")
    assert "secret" not in listed.text
    viewer = world.client(Role.VIEWER, "sales")
    assert viewer.post("/keys", {"name": "x", "role": "owner"}).status_code == 403
    key_id = created.json()["key"]["key_id"]
    revoked = world.owner.post(f"/keys/{key_id}/revoke", {"reason": "old"})
    assert revoked.json()["revoked_at"]


def test_a_write_is_in_the_audit_log_with_its_request(world: ApiWorld) -> None:
    response = world.owner.post("/assets", {"asset": "sales.audited"})
    request_id = response.headers["x-request-id"]
    records = world.owner.get("/audit", request_id=request_id)["items"]
    assert [(each["outcome"], each["resource_type"]) for each in records] == [("applied", "asset")]


def test_a_denial_is_in_the_audit_log(world: ApiWorld) -> None:
    viewer = world.client(Role.VIEWER, "sales")
    assert viewer.post("/assets", {"asset": "sales.no"}).status_code == 403
    world.server.flush(everything=True)
    world.workspace.writer.drain()
    records = world.owner.get("/audit", outcome="denied")["items"]
    assert [each["actor_id"] for each in records] == ["viewer-acme-sales"]


def test_a_body_that_is_not_json_is_refused(world: ApiWorld) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    sent = world.owner.send("POST", "/assets", content=b"asset=sales.x", headers=form)
    assert sent.status_code == 415
    for raw in (b"{", b"[]", b'{"asset": 1}', b'{"asset": "sales.x", "more": 1}', b"\xff"):
        json = {"Content-Type": "application/json"}
        assert world.owner.send("POST", "/assets", content=raw, headers=json).status_code == 400


def test_a_cookie_needs_a_header_to_write(world: ApiWorld) -> None:
    browser = world.without_token()
    opened = browser.send("GET", f"/local/{world.local.code}")
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    cookie = opened.headers["set-cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    sent = {"Cookie": cookie.partition(";")[0]}
    assert browser.send("GET", "/assets", headers=sent).status_code == 200
    body = {"asset": "sales.from_browser"}
    refused = browser.send("POST", "/assets", json=body, headers=sent)
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf")
    written = browser.send("POST", "/assets", json=body, headers={**sent, "X-Arco-Csrf": "1"})
    assert written.status_code == 201


def test_a_link_works_once(world: ApiWorld) -> None:
    link = f"/local/{world.local.code}"
    statuses = [world.without_token().send("GET", link).status_code for _ in range(2)]
    assert statuses == [303, 404]


def test_bodies_of_all_requests_together_are_bounded(company: Company) -> None:
    world = ApiWorld(company.town.fresh(), bodies_bytes=1_000)
    try:
        answers = [
            world.owner.post("/assets", {"asset": f"sales.a{number}", "description": text})
            for number, text in enumerate(["x" * 800, "x" * 2_000, "x" * 800, "x" * 800])
        ]
    finally:
        world.close()
    # What one request took is given back, also by the one that was refused.
    assert [each.status_code for each in answers] == [201, 503, 201, 201]
    assert answers[1].json()["code"] == "busy"
