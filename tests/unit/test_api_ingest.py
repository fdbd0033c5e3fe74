"""Facts from elsewhere over HTTP: who may report what, and what becomes of unknown datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from arco.security.permissions import Role
from tests.kit.api import ApiWorld, Company

OWN = "arco://acme/prod"


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    world = ApiWorld(Company().town.fresh())
    yield world
    world.close()


def _event(*outputs: str, inputs: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-01T02:00:00+01:00",
        "producer": "https://example.org",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
        "run": {"runId": "0176a8c2-fe01-7439-87e6-56a1a1b4029f"},
        "job": {"namespace": "airflow", "name": "nightly"},
        "inputs": [{"namespace": OWN, "name": name} for name in inputs],
        "outputs": [{"namespace": OWN, "name": name} for name in outputs],
    } | fields


def test_a_run_event_is_an_output_of_each_asset(world: ApiWorld) -> None:
    editor = world.client(Role.EDITOR, "sales")
    answer = editor.post("/lineage", _event("sales.notes", inputs=("sales.orders",)))
    assert (answer.status_code, answer.json()["recorded"]) == (200, ["sales.notes"])
    (output,) = editor.get("/assets/sales.notes/reports")["items"]
    assert (output["inputs"], output["first_reported_at"]) == (
        ["sales.orders"],
        "2026-01-01T01:00:00.000000Z",
    )
    links = editor.get("/assets/sales.notes/upstream", depth=1)["links"]
    assert "sales.orders" in {link["source"]["asset"] for link in links}
    record = world.owner.get("/audit", page_size=1)["items"][0]
    assert (record["action"], record["resource_name"]) == ("ReportOutput", "sales.notes")


def test_what_the_caller_may_not_report_or_read_is_skipped(world: ApiWorld) -> None:
    editor = world.client(Role.EDITOR, "sales")
    answers = [
        editor.post("/lineage", _event("sales.notes", name, inputs=(name,))).json()
        for name in ("hr.salaries", "hr.nothing")
    ]
    assert [each["recorded"] for each in answers] == [["sales.notes"]] * 2
    assert [each["skipped"] for each in answers] == [
        [f"{OWN}/(hidden)"],
        [f"{OWN}/(hidden)"],
    ]
    assert world.owner.get("/assets/hr.salaries/reports")["items"] == []
    assert world.owner.get("/assets/sales.notes/reports")["items"][0]["inputs"] == []


def test_an_unknown_dataset_is_created_by_who_may(world: ApiWorld) -> None:
    table = [{"namespace": "postgres://db", "name": "shop.sales.clicks"}]
    operator = world.client(Role.OPERATOR, "sales")
    assert operator.post("/lineage", _event(outputs=table)).status_code == 403
    editor = world.client(Role.EDITOR, "sales")
    assert editor.post("/lineage", _event(outputs=table)).json()["recorded"] == ["sales.clicks"]
    shown = editor.get("/assets/sales.clicks")
    assert (shown["kind"], shown["location"]) == ("external", "postgres://db/shop.sales.clicks")
    elsewhere = [{"namespace": "postgres://db", "name": "other.clicks"}]
    skipped = editor.post("/lineage", _event(outputs=elsewhere)).json()
    assert (skipped["recorded"], len(skipped["skipped"])) == ([], 1)
    made = world.owner.post("/lineage", _event(outputs=elsewhere)).json()
    assert made["recorded"] == ["other.clicks"]


def test_events_that_are_no_runs_change_nothing(world: ApiWorld) -> None:
    event = _event("sales.notes")
    del event["run"]
    assert world.owner.post("/lineage", event).json()["recorded"] == []
    wrong = world.owner.post("/lineage", _event("sales.notes", eventType="NEVER"))
    assert wrong.status_code == 400
    many = [{"namespace": OWN, "name": f"sales.t{n}"} for n in range(201)]
    assert world.owner.post("/lineage", _event(outputs=many)).status_code == 400


def test_hostile_facets_are_left_out(world: ApiWorld) -> None:
    facets: dict[str, Any] = {
        "schema": {"fields": [{"name": 1}, "x", {"name": "a", "type": None}]},
        "columnLineage": {"fields": {"a": {"inputFields": [{"namespace": 7}, None]}}},
        "dataQualityAssertions": {"assertions": [{"assertion": "x", "success": "yes"}, 3]},
    }
    output = {
        "namespace": OWN,
        "name": "sales.notes",
        "facets": facets,
        "outputFacets": {"outputStatistics": {"rowCount": -1, "size": True, "fileCount": 2}},
    }
    answer = world.owner.post("/lineage", _event(outputs=[output]))
    assert answer.status_code == 200, answer.text
    (report,) = world.owner.get("/assets/sales.notes/reports")["items"]
    assert (report["rows"], report["bytes"], report["files"]) == (None, None, 2)


def test_severities_of_assertions_are_those_of_checks(world: ApiWorld) -> None:
    assertions = [
        {"assertion": name, "success": True, "severity": name}
        for name in ("info", "warn", "warning", "critical", "blocker")
    ]
    facets = {"dataQualityAssertions": {"assertions": assertions}}
    output = {"namespace": OWN, "name": "sales.notes", "facets": facets}
    answer = world.owner.post("/lineage", _event(outputs=[output]))
    assert answer.status_code == 200, answer.text
    checks = world.owner.get("/assets/sales.notes/checks")["items"]
    assert {check["check_name"]: check["severity"] for check in checks} == {
        "info": "info",
        "warn": "warning",
        "warning": "warning",
        "critical": "critical",
        "blocker": "error",
    }


def test_materializations_and_checks_are_reported_one_by_one(world: ApiWorld) -> None:
    editor = world.client(Role.EDITOR, "sales")
    body = {"id": "load-1", "rows": 10, "inputs": ["sales.orders"]}
    first = editor.post("/assets/sales.notes/materializations", body, Idempotency_Key="k")
    again = editor.post("/assets/sales.notes/materializations", body, Idempotency_Key="k")
    assert (first.status_code, again.json()["replayed"]) == (201, True), first.text
    more = {"id": "load-1", "bytes": 99}
    assert editor.post("/assets/sales.notes/materializations", more).status_code == 201
    (report,) = editor.get("/assets/sales.notes/reports")["items"]
    assert (report["rows"], report["bytes"]) == (10, 99)
    checks = {"id": "suite-1", "results": [{"name": "unique", "passed": False, "failing": 3}]}
    assert editor.post("/assets/sales.notes/check-results", checks).status_code == 201
    (check,) = editor.get("/assets/sales.notes/checks")["items"]
    assert (check["check_name"], check["kind"], check["failing"]) == ("unique", "reported", 3)
    foreign = editor.post("/assets/sales.notes/materializations", body | {"inputs": ["hr.notes"]})
    absent = editor.post("/assets/sales.notes/materializations", body | {"inputs": ["hr.none"]})
    assert (foreign.status_code, absent.status_code) == (404, 404)


def test_checks_of_others_leave_those_of_the_asset_alone(world: ApiWorld) -> None:
    owner = world.owner
    before = owner.get("/assets/sales.total/checks")["items"]
    body = {"id": "suite-1", "results": [{"name": "theirs", "passed": True}]}
    assert owner.post("/assets/sales.total/check-results", body).status_code == 201
    after = owner.get("/assets/sales.total/checks")["items"]
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_utc_cannot_have_is_refused(world: ApiWorld, time: str) -> None:
    editor = world.client(Role.EDITOR, "sales")
    event = _event("sales.notes", eventTime=time)
    assert editor.post("/lineage", event).status_code == 400
    report = {"id": "odd", "made_at": time}
    assert editor.post("/assets/sales.notes/materializations", report).status_code == 400
