"""Contracts, personal data, terms, columns, plans of schedules and automation, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from arco.security.permissions import Role
from tests.kit.api import ApiClient, ApiWorld, Company


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
    forced = owner.send("DELETE", "/terms/customer", params={"force": "true"})
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
