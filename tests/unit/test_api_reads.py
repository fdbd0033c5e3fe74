"""Reads over HTTP: pages, generations, ETags, problems."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from arco.api.application import make_app
from arco.api.table import READS, ROUTES
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RUNS
from arco.security.permissions import Role
from tests.kit.api import BASE, ApiWorld, Company


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture(scope="module")
def world(company: Company) -> Iterator[ApiWorld]:
    world = ApiWorld(company.town.fresh())
    yield world
    world.close()


def test_every_list_answers_the_owner(world: ApiWorld, company: Company) -> None:
    values = {"asset": "sales.total", "run_id": company.both_run, "keys": "shops"}
    values |= {"project": "main", "name": "nightly", "backfill_id": company.sales_backfill}
    counts = {}
    for route in READS:
        if route.kind == "list":
            path = route.path.replace("/sensors/{project}/{name}", "/sensors/main/hook")
            for name, value in values.items():
                path = path.replace(f"{{{name}}}", value)
            counts[route.operation] = len(world.owner.get(path)["items"])
    with_items = {operation for operation, count in counts.items() if count}
    assert with_items >= {"list_runs", "list_tasks", "list_assets", "list_versions"}
    assert with_items >= {"list_held_outputs", "list_backfills", "list_schedules", "list_sensors"}
    assert with_items >= {"list_deployments", "list_generations", "list_run_outputs"}


def test_a_read_says_its_generation(world: ApiWorld) -> None:
    response = world.owner.send("GET", "/assets/sales.total")
    document = response.json()
    version = document["row_version"]
    assert response.headers["arco-generation"] == str(document["generation"])
    assert response.headers["etag"] == f'"g{document["generation"]}.v{version}"'


def test_an_unchanged_answer_is_not_sent_again(world: ApiWorld) -> None:
    etag = world.owner.send("GET", "/assets").headers["etag"]
    response = world.owner.send("GET", "/assets", headers={"If-None-Match": etag})
    assert (response.status_code, response.content) == (304, b"")


def test_an_older_generation_shows_the_past(world: ApiWorld) -> None:
    before = world.owner.get("/assets")
    created = world.owner.post("/assets", {"asset": "sales.later"})
    assert created.status_code == 201
    again = world.owner.get("/assets", generation=before["generation"])
    assert again == before
    keys = [row["name"] for row in world.owner.get("/assets", namespace="sales")["items"]]
    assert keys == ["later", "notes", "orders", "total"]


def test_the_end_of_a_run_is_a_moment(world: ApiWorld, company: Company) -> None:
    then = world.owner.get("/runs", as_of_run=company.sales_run)
    assert [row["run_id"] for row in then["items"]] == [company.sales_run]
    assert then["items"][0]["state"] == "SUCCEEDED"


def test_two_moments_exclude_each_other(world: ApiWorld) -> None:
    response = world.owner.send("GET", "/assets?generation=1&as_of=1h")
    assert (response.status_code, response.json()["code"]) == (400, "two_moments")


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_are_the_whole_list(world: ApiWorld, size: int) -> None:
    for path in ("/assets", "/runs", "/generations", "/deployments", "/quarantine"):
        whole = world.owner.get(path, page_size=100)["items"]
        assert world.owner.pages(path, size) == whole


def test_pages_stay_in_their_generation_while_others_write(world: ApiWorld) -> None:
    whole = world.owner.get("/assets", page_size=100)["items"]
    items: list[Any] = []
    token = ""
    for number in range(100):
        page = world.owner.get("/assets", page_size=2, **({"page_token": token} if token else {}))
        items += page["items"]
        token = page.get("next_page_token", "")
        if not token:
            break
        assert world.owner.post("/assets", {"asset": f"sales.new{number}"}).status_code == 201
    assert items == whole


def test_a_token_of_another_filter_is_refused(world: ApiWorld) -> None:
    token = world.owner.get("/runs", page_size=1)["next_page_token"]
    response = world.owner.send("GET", f"/runs?asset=sales.total&page_token={token}")
    problem = response.json()
    assert (response.status_code, problem["field_violations"][0]["field"]) == (400, "page_token")
    other = world.owner.send("GET", f"/assets?page_token={token}")
    assert other.status_code == 400


def test_a_token_of_another_caller_is_refused(world: ApiWorld) -> None:
    token = world.owner.get("/assets", page_size=1)["next_page_token"]
    viewer = world.client(Role.VIEWER, "sales")
    assert viewer.send("GET", f"/assets?page_token={token}").status_code == 400


@pytest.mark.parametrize("change", [0, 5, -1])
def test_a_token_that_was_changed_is_refused(world: ApiWorld, change: int) -> None:
    token = world.owner.get("/assets", page_size=1)["next_page_token"]
    other = "A" if token[change] != "A" else "B"
    changed = token[:change] + other + (token[change + 1 :] if change != -1 else "")
    assert world.owner.send("GET", f"/assets?page_token={changed}").status_code == 400


def test_an_empty_filter_is_not_an_absent_one(world: ApiWorld) -> None:
    assert world.owner.send("GET", "/runs?state=").status_code == 400
    assert world.owner.get("/assets/sales.total/versions", partition="nothing")["items"] == []


def test_a_problem_has_its_field_and_code(world: ApiWorld) -> None:
    response = world.owner.send("GET", "/assets?page_size=1000")
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert problem.pop("request_id") == response.headers["x-request-id"]
    assert problem == {
        "type": "https://arco.example/docs/reference/errors#invalid",
        "title": "Bad Request",
        "status": 400,
        "detail": "page_size: Expected `int` <= 100",
        "kind": "invalid",
        "code": "invalid_field",
        "field_violations": [
            {"field": "page_size", "description": "Expected `int` <= 100"},
        ],
    }


def test_an_unknown_parameter_is_refused_with_a_suggestion(world: ApiWorld) -> None:
    problem = world.owner.send("GET", "/assets?namspace=sales").json()
    assert problem["hint"] == "did you mean 'namespace'?"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nothing", 404), ("/assets/..%2f..%2fhr.x", 404), ("/assets/sales.total%00", 400)],
)
def test_strange_paths_are_problems(world: ApiWorld, path: str, status: int) -> None:
    response = world.owner.send("GET", path)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.status_code in (status, 400, 404)


def test_an_unknown_token_is_unauthenticated_whatever_it_asks_for(world: ApiWorld) -> None:
    for path in (f"{BASE}/assets/sales.total", "/api/v1/me", "/api/v1/workspaces/other/ws/assets"):
        response = world.nobody().send("GET", path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == 'Bearer realm="arco"'


def test_another_tenants_caller_finds_no_workspace(world: ApiWorld) -> None:
    stranger = world.client(Role.OWNER, tenant="rival")
    foreign = stranger.send("GET", "/assets")
    absent = stranger.send("GET", "/api/v1/workspaces/acme/none/assets")
    assert foreign.status_code == absent.status_code == 404
    assert stranger.get("/api/v1/workspaces") == {"items": []}


def test_a_failed_login_is_limited_by_address(company: Company) -> None:
    world = ApiWorld(company.town.fresh(), failed_logins_per_minute=3)
    statuses = [world.nobody().send("GET", "/assets").status_code for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    world.close()


def test_a_caller_is_limited_by_identity(company: Company) -> None:
    world = ApiWorld(company.town.fresh(), rate_burst=2, rate_per_s=0.1)
    viewer, other = world.client(Role.VIEWER), world.client(Role.VIEWER, "sales")
    responses = [viewer.send("GET", "/assets") for _ in range(3)]
    assert [each.status_code for each in responses] == [200, 200, 429]
    assert int(responses[2].headers["retry-after"]) >= 1
    assert other.send("GET", "/assets").status_code == 200
    world.close()


def test_a_large_body_is_refused(company: Company) -> None:
    world = ApiWorld(company.town.fresh(), body_bytes=100)
    response = world.owner.post("/assets", {"asset": "sales.x", "description": "x" * 200})
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
    world.close()


def test_security_headers_are_on_every_answer(world: ApiWorld) -> None:
    for response in (world.owner.send("GET", "/assets"), world.nobody().send("GET", "/assets")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_route_without_a_permission_does_not_start(world: ApiWorld) -> None:
    bare = dataclasses.replace(ROUTES[0], permission=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no permission"):
        make_app(world.server, [bare], world.workspace.ids)


def test_partitions_come_as_ranges_with_counts(world: ApiWorld) -> None:
    document = world.owner.get("/assets/sales.orders/partitions")
    assert document["partitions"] == sum(each["partitions"] for each in document["counts"])
    assert [each["state"] for each in document["ranges"]] == [
        "MISSING",
        "MATERIALIZED",
        "MISSING",
    ] or document["ranges"]


def test_partitions_come_as_a_picture_with_the_worst_of_each_cell(world: ApiWorld) -> None:
    path = "/assets/sales.orders/partition-map"
    whole = world.owner.get(path)
    ranges = world.owner.get("/assets/sales.orders/partitions")["ranges"]
    pairs = list(zip(whole["runs"][::2], whole["runs"][1::2], strict=True))
    assert [(whole["looks"][at]["state"], times) for at, times in pairs] == [
        (each["state"], each["partitions"]) for each in ranges
    ]
    one = world.owner.get(path, cells=1)
    assert (one["share"], len(one["runs"])) == (one["partitions"], 2)
    first = world.owner.get(f"{path}/0")
    assert (first["partition"], first["range"]) == (ranges[0]["first"], ranges[0])
    assert world.owner.send("GET", f"{path}/{one['partitions']}").status_code == 404
    assert world.client(Role.VIEWER, "hr").send("GET", path).status_code == 404


def test_tasks_of_a_run_come_in_pages_in_the_order_of_the_plan(
    world: ApiWorld, company: Company
) -> None:
    path = f"/runs/{company.both_run}/tasks"
    tasks = world.owner.get(path)["items"]
    assert [task["index"] for task in tasks] == list(range(len(tasks)))
    assert world.owner.get(path, page_size=1)["items"] == tasks[:1]
    state = tasks[-1]["state"]
    assert world.owner.get(path, state=state)["items"] == [t for t in tasks if t["state"] == state]
    assert world.owner.get(f"/runs/{company.both_run}", waiting="false")["waiting"] == []


def test_search_finds_what_the_caller_sees(world: ApiWorld) -> None:
    found = world.owner.get("/search", q="notes")
    assert [hit["asset"] for hit in found["hits"]] == ["hr.notes", "sales.notes"]
    seen = world.client(Role.VIEWER, "sales").get("/search", q="notes")
    assert (seen["total"], [hit["asset"] for hit in seen["hits"]]) == (1, ["sales.notes"])


def test_lineage_counts_what_is_hidden(world: ApiWorld) -> None:
    viewer = world.client(Role.VIEWER, "sales")
    whole = world.owner.get("/assets/sales.total/downstream")
    assert [link["target"]["asset"] for link in whole["links"]] == ["hr.report"]
    part = viewer.get("/assets/sales.total/downstream")
    assert (part["links"], part["hidden"]) == ([], 1)


def test_a_run_with_hidden_tasks_is_partial(world: ApiWorld, company: Company) -> None:
    viewer = world.client(Role.VIEWER, "hr")
    rows = {row["run_id"]: row for row in viewer.get("/runs")["items"]}
    assert company.sales_run not in rows
    assert not rows[company.hr_run]["is_partial"]
    operator = world.client(Role.VIEWER, "sales")
    assert company.hr_run not in {row["run_id"] for row in operator.get("/runs")["items"]}


def test_no_answer_to_a_restricted_caller_names_what_is_hidden(
    world: ApiWorld, company: Company
) -> None:
    viewer = world.client(Role.VIEWER, "sales")
    values = {"asset": "sales.total", "run_id": company.sales_run, "namespace": "sales"}
    values |= {"materialization_id": company.sales_held, "keys": "shops"}
    values |= {"project": "main", "name": "nightly", "backfill_id": company.sales_backfill}
    leaks = []
    for route in READS:
        path = route.path
        for name, value in values.items():
            path = path.replace(f"{{{name}}}", value)
        text = viewer.send(
            "GET", path, params={"q": "a"} if route.operation == "search" else {}
        ).text
        leaks += [route.operation for secret in ("hr.", "salaries", "people") if secret in text]
    assert leaks == []


def test_a_run_names_its_namespaces_only_to_those_who_see_all_of_its_tasks() -> None:
    company = Company()
    run_id = company.town.run(selection="1+hr.report")
    world = ApiWorld(company.town.fresh())
    assert world.owner.get(f"/runs/{run_id}")["run"]["namespaces"] == ["hr", "sales"]
    viewer = world.client(Role.VIEWER, "sales")
    listed = {row["run_id"]: row for row in viewer.get("/runs")["items"]}
    for run in (viewer.get(f"/runs/{run_id}")["run"], listed[run_id]):
        assert (run["is_partial"], run["namespaces"]) == (True, None)
    world.close()


def test_runs_of_history_are_listed_to_restricted_callers_as_to_others() -> None:
    company = Company()
    both = company.town.run(selection="1+hr.report")
    company.town.crowd.clock.advance(timedelta(days=5))
    workspace = company.town.fresh()
    workspace.commands.catalog.create_namespace("later")
    workspace.upkeep.merger.merge(everything=True)
    assert workspace.read.snapshot().manifest(RUNS).history
    world = ApiWorld(workspace)
    expected = {row["run_id"]: row for row in world.owner.get("/runs")["items"]}
    blank = {"is_partial": True, "selection": [], "partitions": [], "namespaces": None}
    expected[both] |= blank
    viewer = world.client(Role.VIEWER, "sales")
    for _ in range(2):  # read, and kept
        for size in (3, 4):
            listed = viewer.pages("/runs", size)
            assert both in {row["run_id"] for row in listed}
            assert listed == [expected[row["run_id"]] for row in listed]
    world.close()


@pytest.mark.parametrize("size", [1, 3, 100])
def test_requests_and_audit_records_are_listed_by_visible_namespaces(
    company: Company, world: ApiWorld, size: int
) -> None:
    requests = company.town.fresh().commands.orchestration.request
    selections = [("sales.total",), ("hr.salaries",), ("sales.total", "hr.report"), ("*",)]
    for number, selection in enumerate(selections):
        requests(PlanRequest(selection=selection), run_key=f"listed-{number}")
    excluding = PlanRequest(selection=("sales.total",), exclude=("hr.report",))
    requests(excluding, run_key="excluding")
    admin = world.client(Role.ADMIN, "sales")
    listed = [row["request_key"] for row in admin.pages("/requests", size)]
    assert "listed-0" in listed
    whole = {row["request_key"]: row["request"] for row in world.owner.pages("/requests", 100)}
    assert listed == [
        key
        for key, asked in whole.items()
        if all(term.startswith("sales.") for term in (*asked["selection"], *asked["exclude"]))
    ]
    records = world.owner.pages("/audit", 100)
    expected = [row["record_id"] for row in records if row["namespace"] == "sales"]
    assert [row["record_id"] for row in admin.pages("/audit", size)] == expected != []
    assert [row["record_id"] for row in world.owner.pages("/audit", 7)] == [
        row["record_id"] for row in records
    ]


@pytest.mark.parametrize("text", ["hr.pay", "a\nhr.pay", "\u0001hr.pay", f"{'x' * 300} hr.pay"])
def test_a_hidden_name_in_a_text_is_replaced_wherever_it_stands(
    company: Company, world: ApiWorld, text: str
) -> None:
    company.town.fresh().commands.catalog.update_asset("sales.notes", description=text)
    shown = world.client(Role.VIEWER, "sales").get("/assets/sales.notes")
    assert json.dumps(shown).count("(hidden)") == 1
    assert "hr.pay" not in json.dumps(shown)


@pytest.mark.parametrize("namespaces", [("sales",), ("hr",), ("sales", "hr"), ("nowhere",)])
def test_a_list_has_the_runs_of_which_the_caller_sees_a_task(
    world: ApiWorld, namespaces: tuple[str, ...]
) -> None:
    expected = []
    for run in world.owner.pages("/runs", 3):
        tasks = world.owner.pages(f"/runs/{run['run_id']}/tasks", 50)
        if {task["asset"].partition(".")[0] for task in tasks} & set(namespaces):
            expected.append(run["run_id"])
    caller = world.client(Role.VIEWER, *namespaces)
    for size in (1, 2, 50):
        assert [run["run_id"] for run in caller.pages("/runs", size)] == expected
