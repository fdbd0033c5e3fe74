"""Contracts, personal data, terms, columns, plans of schedules and automation, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco.lineage.reader import Node
from arco.security.permissions import Role
from servo.contract.manifest import Manifest
from tests.kit.api import SHOP, ApiClient, ApiWorld, Company
from tests.kit.flows import project


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    world = ApiWorld(Company().town.fresh())
    yield world
    world.close()


def _document(version: str, *columns: str) -> dict[str, Any]:
    properties = [{"name": name, "logicalType": "string"} for name in columns]
    return {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": "notes",
        "version": version,
        "status": "active",
        "schema": [{"name": "sales.notes", "properties": properties}],
    }


def _put(client: ApiClient, document: object, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = "/assets/sales.notes/contract"
    return client.send("PUT", path, json={"document": document}, headers=named)


def test_a_contract_is_declared_read_compared_and_removed(world: ApiWorld) -> None:
    owner = world.owner
    owner.post("/assets/sales.notes/columns", {"name": "mood", "type": "string"})
    first = _put(owner, _document("1.0.0", "text", "mood"))
    assert first.status_code == 200, first.text
    read = owner.send("GET", "/assets/sales.notes/contract")
    assert read.json()["contract"]["columns"][0]["name"] == "text"
    etag = read.headers["etag"]
    stale = _put(owner, _document("2.0.0", "text"), If_Match='"g1.v1"')
    assert stale.status_code == 412
    assert _put(owner, _document("2.0.0", "text"), If_Match=etag).status_code == 200
    diff = owner.get("/assets/sales.notes/contract/diff")
    assert (diff["before"], diff["after"]) == ("1.0.0", "2.0.0")
    assert [each["breaks"] for each in diff["changes"]] == [True]
    versions = owner.pages("/assets/sales.notes/contract/versions", 1)
    assert [each["version"] for each in versions] == ["2.0.0", "1.0.0"]
    exported = owner.get("/assets/sales.notes/contract/document", version="1.0.0")["document"]
    assert exported["schema"][0]["properties"][0]["name"] == "text"
    assert [each["asset"] for each in owner.pages("/contracts", 1)] == ["sales.notes"]
    checked = owner.post(
        "/assets/sales.notes/contract/validate", {"document": _document("1.5.0", "text")}
    )
    assert checked.status_code == 400  # a lower version than the one in effect
    removed = owner.post("/assets/sales.notes/contract/remove", {"reason": "not needed"})
    assert removed.status_code == 200, removed.text
    assert owner.send("GET", "/assets/sales.notes/contract").status_code == 404
    assert owner.get("/contracts")["items"] == []


def test_contracts_of_other_namespaces_are_not_listed(world: ApiWorld) -> None:
    _put(world.owner, _document("1.0.0", "text"))
    assert world.client(Role.VIEWER, "hr").get("/contracts")["items"] == []
    assert len(world.client(Role.VIEWER, "sales").get("/contracts")["items"]) == 1


def test_a_contract_cannot_name_a_hidden_consumer(world: ApiWorld) -> None:
    admin = world.client(Role.ADMIN, "sales")
    answers = [
        _put(admin, _document("1.0.0", "text") | {"team": {"name": "x"}} | _consumer(name))
        for name in ("hr.salaries", "hr.nothing")
    ]
    assert [each.status_code for each in answers] == [404, 404]


def _consumer(name: str) -> dict[str, Any]:
    return {"customProperties": [{"property": "consumers", "value": [name]}]}


def test_personal_columns_are_listed_explained_and_overridden(world: ApiWorld) -> None:
    owner = world.owner
    path = "/assets/sales.notes/columns"
    changed = owner.send("PATCH", path, json={"column": "text", "pii": "email"})
    assert changed.status_code == 200, changed.text
    items = owner.pages("/personal-columns", 1)
    assert [(each["asset"], each["column"], each["pii"]) for each in items] == [
        ("sales.notes", "text", ["email"])
    ]
    why = owner.get("/assets/sales.notes/personal", column="text")
    assert (why["pii"], why["own"]["pii"]) == (["email"], "email")
    assert world.client(Role.VIEWER, "hr").get("/personal-columns")["items"] == []
    added = owner.post(path, {"name": "phone_number", "type": "string"})
    assert added.status_code == 201, added.text
    suggested = owner.get("/assets/sales.notes/personal/suggestions")["suggestions"]
    assert [each["column"] for each in suggested] == ["phone_number"]
    renamed = owner.post(f"{path}/rename", {"column": "phone_number", "new_name": "phone"})
    assert renamed.status_code == 200, renamed.text
    assert owner.post(f"{path}/drop", {"column": "phone"}).status_code == 200


def test_search_finds_personal_data_of_columns_that_the_caller_does_not_see(
    world: ApiWorld,
) -> None:
    for asset in ("hr.notes", "sales.notes"):
        columns = f"/assets/{asset}/columns"
        assert world.owner.post(columns, {"name": "mail", "type": "string"}).status_code == 201
    path = "/assets/hr.notes/columns"
    world.owner.send("PATCH", path, json={"column": "mail", "pii": "email"})
    world.workspace.commands.lineage.add(Node("hr.notes", "mail"), Node("sales.notes", "mail"))

    def found(client: ApiClient) -> list[tuple[str, str]]:
        hits = client.get("/search", q="has:pii")["hits"]
        return [(hit["asset"], hit["matches"][0]["text"]) for hit in hits]

    assert found(world.owner) == [("hr.notes", "mail"), ("sales.notes", "mail")]
    assert found(world.client(Role.VIEWER, "sales")) == [("sales.notes", "mail")]


def test_terms_have_versions_and_show_their_uses(world: ApiWorld) -> None:
    owner = world.owner
    made = owner.post("/terms", {"term": "customer", "description": "Who buys"})
    assert (made.status_code, made.headers["location"][-15:]) == (201, "/terms/customer")
    use = {"subject": "sales.notes", "set": [{"field": "terms", "entry": "customer", "value": ""}]}
    assert owner.post("/governance", use).status_code == 200
    assert owner.get("/terms/customer")["used_by"] == ["sales.notes"]
    assert world.client(Role.VIEWER, "hr").get("/terms/customer")["used_by"] == []
    etag = owner.send("GET", "/terms/customer").headers["etag"]
    patch = {"description": "Who has bought"}
    first = owner.send("PATCH", "/terms/customer", json=patch, headers={"If-Match": etag})
    second = owner.send("PATCH", "/terms/customer", json=patch, headers={"If-Match": etag})
    assert (first.status_code, second.status_code) == (200, 412)
    assert [each["term"] for each in owner.get("/terms")["items"]] == ["customer"]
    assert owner.send("DELETE", "/terms/customer").status_code == 409  # it is used
    force = {"force": "true"}
    late = owner.send("DELETE", "/terms/customer", params=force, headers={"If-Match": etag})
    assert late.status_code == 412
    forced = owner.send(
        "DELETE", "/terms/customer", params=force, headers={"If-Match": first.headers["etag"]}
    )
    assert forced.status_code == 200, forced.text
    editor = world.client(Role.EDITOR, "sales")
    refused = editor.post("/terms", {"term": "shop", "description": "x"})
    assert refused.status_code == 403  # terms are the workspace's


def test_a_schedule_shows_what_its_next_ticks_would_run(world: ApiWorld) -> None:
    preview = world.owner.get("/schedules/main/nightly/preview", count=2)
    assert preview["clock_change"] is None  # the schedule's zone is UTC
    assert [each["tick"][-5:] for each in preview["ticks"]] == ["02:00", "02:00"]
    assert preview["ticks"][0]["first_tasks"][0]["asset"] == "sales.total"
    foreign = world.client(Role.VIEWER, "hr").send("GET", "/schedules/main/nightly/preview")
    assert foreign.status_code == 404


HOURLY = """
from servo import *
days = daily('date', start='2026-01-01')
@asset(namespace='hours', partitions=days)
def day() -> None: ...
often = schedule('often', cron='0 */8 * * *', selection=[day], timezone='Europe/Berlin')
"""


def test_a_preview_of_each_tick_is_the_plan_of_that_time() -> None:
    company = Company()
    company.deploy(HOURLY, "hours")
    world = ApiWorld(company.town.fresh())
    ticks = world.owner.get("/schedules/hours/often/preview", count=9)["ticks"]
    planned = []
    for tick in ticks:
        body = {"request": {"selection": ["hours.day"]}, "until": tick["at"]}
        tasks = world.owner.post("/runs/plan", body).json()["spec"]["tasks"]
        planned.append([[task["partition"], task["action"]] for task in tasks])
    previewed = [[[t["partition"], t["action"]] for t in each["first_tasks"]] for each in ticks]
    assert previewed == planned
    assert 1 < len({str(each) for each in planned}) < len(planned)  # some ticks end the same days
    world.close()


def test_a_column_changes_where_it_has_the_version_that_was_read(world: ApiWorld) -> None:
    owner, path = world.owner, "/assets/sales.notes/columns"
    etag = owner.send("GET", "/governance", params={"subject": "sales.notes.text"}).headers["etag"]
    patch = {"column": "text", "description": "What it says"}
    first = owner.send("PATCH", path, json=patch, headers={"If-Match": etag})
    assert first.status_code == 200, first.text
    assert first.json()["subject"] == "sales.notes.text"
    renaming = {"column": "text", "new_name": "body"}
    late = [
        owner.send("PATCH", path, json=patch, headers={"If-Match": etag}),
        owner.send("POST", f"{path}/rename", json=renaming, headers={"If-Match": etag}),
        owner.send("POST", f"{path}/drop", json={"column": "text"}, headers={"If-Match": etag}),
    ]
    assert [answer.status_code for answer in late] == [412] * 3
    etag = first.headers["etag"]
    renamed = owner.send("POST", f"{path}/rename", json=renaming, headers={"If-Match": etag})
    assert (renamed.status_code, renamed.json()["subject"]) == (200, "sales.notes.body")
    etag = renamed.headers["etag"]
    back = {"column": "body", "name": "text"}
    again = owner.send("PATCH", path, json=back, headers={"If-Match": etag})
    assert (again.status_code, again.json()["subject"]) == (200, "sales.notes.text")


def test_what_is_said_of_a_column_is_read_by_its_name(world: ApiWorld) -> None:
    said = world.owner.get("/governance", subject="sales.notes.text")
    assert said["governance"]["kind"] == "column"
    foreign = world.client(Role.VIEWER, "sales").send("GET", "/governance?subject=hr.notes")
    assert foreign.status_code == 404


def test_two_versions_are_compared(world: ApiWorld) -> None:
    versions = world.owner.get("/assets/sales.total/versions")["items"]
    ids = [each["materialization_id"] for each in versions]
    assert len(ids) == 2
    compared = world.owner.get("/assets/sales.total/compare", before=ids[1], after=ids[0])
    assert compared["before"]["materialization_id"] == ids[1]
    viewer = world.client(Role.VIEWER, "sales")
    refused = viewer.send("GET", f"/assets/sales.total/compare?before={ids[0]}")
    assert refused.status_code == 403  # rows and bounds are data


def test_versions_are_held_and_released_by_people(world: ApiWorld) -> None:
    owner = world.owner
    (version,) = owner.get("/assets/sales.orders/versions", page_size=1)["items"]
    id = version["materialization_id"]
    body = {"materialization_id": id, "reason": "half of the shops"}
    held = owner.post("/assets/sales.orders/quarantine", body)
    assert (held.status_code, held.json()["reason"]) == (200, "half of the shops")
    again = owner.post("/assets/sales.orders/quarantine", body)
    assert again.json()["held_at"] == held.json()["held_at"]
    released = owner.post(f"/quarantine/{id}/release", {"reason": "they were closed"})
    assert released.json()["status"] == "APPROVED"
    repeated = owner.post(f"/quarantine/{id}/release", {"reason": "they were closed"})
    assert repeated.status_code == 200
    checks = owner.get("/quarantine", asset="sales.total")["items"][0]["materialization_id"]
    assert owner.post(f"/quarantine/{checks}/release", {}).status_code == 400
    wrong = {"materialization_id": checks, "reason": "of another asset"}
    assert owner.post("/assets/sales.orders/quarantine", wrong).status_code == 404


def test_a_dbt_project_is_imported_listed_and_removed(world: ApiWorld) -> None:
    golden = Path(__file__).parents[2] / "examples" / "dbt" / "target"
    body = {
        "manifest": msgspec.json.decode((golden / "manifest.json").read_bytes()),
        "catalog": msgspec.json.decode((golden / "catalog.json").read_bytes()),
        "dry_run": True,
    }
    owner = world.owner
    tried = owner.post("/imports/dbt", body)
    assert (tried.status_code, owner.get("/imports")["items"]) == (200, []), tried.text
    first = owner.post("/imports/dbt", body | {"dry_run": False}).json()["imported"]
    second = owner.post("/imports/dbt", body | {"dry_run": False}).json()["imported"]
    assert (len(first["added"]) > 0, second["added"], second["changed"]) == (True, [], [])
    assert [each["source"] for each in owner.get("/imports")["items"]] == [first["source"]]
    removed = owner.post("/imports/remove", {"source": first["source"]})
    assert len(removed.json()["imported"]["removed"]) == first["nodes"]
    wrong = owner.post("/imports/dbt", {"manifest": {"metadata": {}}})
    assert (wrong.status_code, "not a file of dbt" in wrong.json()["detail"]) == (400, True)
    assert world.client(Role.EDITOR, "sales").post("/imports/dbt", body).status_code == 403


def test_inputs_and_open_lineage_leave_out_what_is_hidden(world: ApiWorld) -> None:
    everything = world.owner.get("/assets/hr.report/inputs")
    assert sorted(each["source"] for each in everything["inputs"]) == ["hr.salaries", "sales.total"]
    part = world.client(Role.VIEWER, "hr").get("/assets/hr.report/inputs")
    assert ([each["source"] for each in part["inputs"]], part["hidden"]) == (["hr.salaries"], 1)
    run_id = everything["run_id"]
    events = world.owner.get(f"/runs/{run_id}/lineage")["events"]
    assert [each["eventType"] for each in events] == ["START", "COMPLETE"]
    assert len(events[1]["inputs"]) == 2
    (_, end) = world.client(Role.VIEWER, "hr").get(f"/runs/{run_id}/lineage")["events"]
    assert [each["name"] for each in end["inputs"]] == ["hr.salaries"]


def test_the_audit_log_is_shown_and_verified(world: ApiWorld) -> None:
    owner = world.owner
    owner.post("/terms", {"term": "customer", "description": "Who buys"})
    newest = owner.get("/audit", page_size=1)["items"][0]
    assert owner.get(f"/audit/{newest['position']}")["hash"] == newest["hash"]
    verified = owner.get("/audit/verification")
    assert (verified["intact"], verified["report"]["problems"]) == (True, [])
    head = verified["report"]["head"]
    assert owner.get("/audit/verification", head=head)["intact"]
    forged = f"{head.partition(':')[0]}:{'0' * 64}"
    assert not owner.get("/audit/verification", head=forged)["intact"]
    admin = world.client(Role.ADMIN, "sales")
    assert admin.send("GET", "/audit/verification").status_code == 403
    assert admin.send("GET", f"/audit/{newest['position']}").status_code == 404


def test_pins_and_recommendations_are_listed(world: ApiWorld) -> None:
    world.workspace.upkeep.pins.pin("quarter", 3, "books")
    assert [each["name"] for each in world.owner.get("/pins")["items"]] == ["quarter"]
    assert world.client(Role.VIEWER, "sales").send("GET", "/pins").status_code == 403
    seen = world.client(Role.VIEWER, "sales").pages("/recommendations", 1)
    assert {each["asset"].partition(".")[0] for each in seen} <= {"sales"}
    assert (
        world.client(Role.VIEWER, "hr")
        .send("GET", "/recommendations", params={"asset": "sales.total"})
        .status_code
        == 404
    )


def test_a_rollback_that_is_sent_twice_happens_once(world: ApiWorld) -> None:
    owner = world.owner
    first = owner.get("/deployments", project="main")["items"][-1]["deployment_id"]
    manifest = owner.get(f"/deployments/{first}/manifest")["manifest"]
    changed = msgspec.convert(manifest, Manifest)
    fewer = msgspec.structs.replace(changed, schedules=())
    world.workspace.commands.orchestration.deploy(fewer, _source())
    path = f"/deployments/{first}/rollback"
    answers = [owner.post(path, {}, Idempotency_Key="back") for _ in range(2)]
    assert [each.status_code for each in answers] == [201, 201]
    ids = {each.json()["deployment"]["deployment_id"] for each in answers}
    newest = owner.get("/deployments", project="main")["items"]
    assert (ids, len(newest)) == ({newest[0]["deployment_id"]}, 3)
    other = owner.post(
        f"/deployments/{newest[1]['deployment_id']}/rollback", {}, Idempotency_Key="back"
    )
    assert other.status_code == 409


def _source() -> bytes:
    return project(SHOP)[1]
