"""Every operation × every role × {own, foreign, absent}: what is not seen does not exist.

The table of routes is what the server, the OpenAPI document and this test are made of: a new route
is tested as soon as it is there, or fails here because nobody said what its parameters are.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from arco.api.routes import NoBody, Route
from arco.api.table import ROUTES
from arco.security.permissions import PERMISSIONS, Role
from tests.kit.api import ApiWorld, Company
from tests.kit.hanging import HangingStore
from tests.kit.workspace import make_workspace

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
"""An id that nothing has."""
NOTHING = "nothing-has-this-key"

BODIES: dict[str, Any] = {
    "create_namespace": {"namespace": "$namespace"},
    "create_asset": {"asset": "$asset"},
    "govern": {"subject": "$asset", "set": [{"field": "description", "value": "x"}]},
    "add_edge": {"source": {"asset": "$asset"}, "target": {"asset": "sales.notes"}},
    "remove_edge": {"source": {"asset": "$asset"}, "target": {"asset": "sales.notes"}},
    "trigger_run": {"selection": ["$asset"]},
    "preview_run": {"selection": ["$asset"]},
    "plan_run": {"request": {"selection": ["$asset"]}},
    "cancel_request": {"key": "$request"},
    "create_backfill": {"selection": ["$asset"]},
    "preview_backfill": {"selection": ["$asset"]},
    "update_asset": {"description": "x"},
    "update_namespace": {"description": "x"},
    "rename_asset": {"new_name": "other"},
    "create_api_key": {"name": "x", "role": "viewer", "namespaces": ["$namespace"]},
    "grant_role": {"subject": "user:a@b.org", "role": "viewer", "namespace": "$namespace"},
    "revoke_role": {"subject": "user:a@b.org", "namespace": "$namespace"},
    "push_message": {"id": "m"},
    "set_limit": {"scope": "workspace", "name": "max_concurrent_runs", "value": "9"},
    "validate_deployment": {"manifest": {}},
    "set_contract": {"document": {}},
    "ingest_lineage": {
        "eventTime": "2026-01-01T00:00:00Z",
        "eventType": "COMPLETE",
        "run": {"runId": "one"},
        "job": {"namespace": "x", "name": "y"},
        "outputs": [{"namespace": "arco://acme/prod", "name": "$asset"}],
    },
    "report_materialization": {"id": "one", "inputs": ["$asset"]},
    "report_check_results": {"id": "one", "results": [{"name": "x", "passed": True}]},
    "import_dbt": {"manifest": {}},
    "remove_import": {"source": "dbt/none"},
    "quarantine_version": {"materialization_id": "$materialization_id", "reason": "x"},
    "validate_contract": {"document": {}},
    "remove_contract": {"reason": "x"},
    "add_column": {"name": "x", "type": "string"},
    "update_column": {"column": "text", "description": "x"},
    "rename_column": {"column": "text", "new_name": "words"},
    "drop_column": {"column": "text"},
    "create_term": {"term": "customer", "description": "x"},
    "update_term": {"description": "x"},
    "create_deployment": {"manifest": {}, "source": ""},
}
"""What differs from an empty object; `$name` is one of the values below."""

OF_THE_WORKSPACE = {
    # Without an object: there is nothing that could be foreign.
    "set_limit",
    "pause_dispatch",
    "resume_dispatch",
    "change_partition_keys",
    "validate_deployment",
    "create_deployment",
    "get_workspace",
    "get_limits",
    "get_snapshot",
    "list_files",
    "list_stored_objects",
    "get_diff",
    "get_costs",
    "get_health_summary",
    "search",
    "list_dynamic_keys",
    "list_terms",
    "get_term",
    "create_term",
    "update_term",
    "drop_term",
    "import_dbt",
    "remove_import",
    "list_imports",
    "list_pins",
    "verify_audit_log",
    # A key of the caller's own.
    "get_command",
}


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture(scope="module")
def world(company: Company) -> Iterator[ApiWorld]:
    world = ApiWorld(company.town.fresh())
    yield world
    world.close()


@pytest.fixture(scope="module")
def watched(company: Company) -> Iterator[tuple[ApiWorld, HangingStore]]:
    """A server whose calls of the store are written down."""
    store = HangingStore(company.town.crowd.store)
    world = ApiWorld(make_workspace(store, 78, clock=company.town.crowd.clock))
    yield world, store
    world.close()


@functools.cache
def _values(company: Company) -> dict[str, dict[str, str]]:
    """For each parameter: somebody else's, and what is not there."""
    reader = company.town.fresh().read.orchestration()
    versions = company.town.fresh().read.execution().versions(reader.asset_id("hr.salaries"))
    deployment = next(row for row in reader.deployments() if row.project == "people")
    return {
        "asset": {"foreign": "hr.salaries", "absent": "hr.nothing"},
        "namespace": {"foreign": "hr", "absent": "nowhere"},
        "run_id": {"foreign": company.hr_run, "absent": NOBODY},
        "task_id": {"foreign": company.task_of(company.hr_run, "hr.salaries"), "absent": NOBODY},
        "project": {"foreign": "people", "absent": "nobody"},
        "name": {"foreign": "payday", "absent": "noday"},
        "materialization_id": {
            "foreign": company.hr_held if versions else NOBODY,
            "absent": NOBODY,
        },
        "deployment_id": {"foreign": deployment.deployment_id, "absent": NOBODY},
        "backfill_id": {"foreign": NOBODY, "absent": NOBODY},
        "notification_id": {"foreign": NOBODY, "absent": NOBODY},
        "key_id": {"foreign": company.hr_key, "absent": NOBODY},
        "keys": {"foreign": "shops", "absent": "none"},
        "key": {"foreign": NOTHING, "absent": NOTHING},
        "request": {"foreign": company.hr_request, "absent": NOTHING},
        "position": {"foreign": "1", "absent": "999999"},
        "place": {"foreign": "0", "absent": "0"},
        "term": {"foreign": "nothing", "absent": "nothing"},
    }


QUERY = {"search": {"q": "x"}, "get_diff": {"since": "1"}, "get_request": {"key": "$request"}}
QUERY |= {"list_stored_objects": {"prefix": "plans/"}}
QUERY |= {"get_impact": {"column": "text"}, "explain_personal_column": {"column": "text"}}
QUERY |= {"get_governance": {"subject": "$asset"}, "compare_versions": {"before": "1"}}


def _filled(value: Any, chosen: dict[str, str]) -> Any:
    match value:
        case str():
            return chosen[value[1:]] if value.startswith("$") else value
        case list():
            return [_filled(each, chosen) for each in value]
        case dict():
            return {name: _filled(each, chosen) for name, each in value.items()}
    return value


def _send(world: ApiWorld, company: Company, route: Route[Any], role: Role, which: str) -> Any:
    chosen = {name: values[which] for name, values in _values(company).items()}
    path = route.path
    if "/sensors/" in path:
        chosen["name"] = "badge" if which == "foreign" else "nobadge"
    template = f"{path} {BODIES.get(route.operation)} {QUERY.get(route.operation)}"
    named = [v for n, v in chosen.items() if f"{{{n}}}" in path or f"'${n}'" in template]
    for name, value in chosen.items():
        path = path.replace(f"{{{name}}}", value)
    body = _filled(BODIES.get(route.operation, {}), chosen)
    response = world.client(role, "sales").send(
        route.method,
        path,
        params=_filled(QUERY.get(route.operation, {}), chosen),
        json=body if route.kind == "write" and route.body not in (None, NoBody) else None,
    )
    document = response.json() if response.content else {}
    document.pop("request_id", None)
    text = json.dumps(document, sort_keys=True)
    for value in sorted(named, key=len, reverse=True):
        text = text.replace(value, "<named>")
    headers = {
        name: value
        for name, value in response.headers.items()
        if name not in ("x-request-id", "content-length", "etag", "location")
    }
    return response.status_code, text, headers


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_foreign_is_answered_as_absent(
    world: ApiWorld, company: Company, route: Route[Any]
) -> None:
    for role in Role:
        foreign = _send(world, company, route, role, "foreign")
        absent = _send(world, company, route, role, "absent")
        assert foreign == absent
        if route.permission not in PERMISSIONS[role]:
            assert foreign[0] == 403, foreign
        elif route.operation not in OF_THE_WORKSPACE and "{" in route.path:
            assert foreign[0] in (404, 403), foreign


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_foreign_costs_the_store_what_absent_costs(
    watched: tuple[ApiWorld, HangingStore], company: Company, route: Route[Any]
) -> None:
    """What is not seen does not show in how long an answer takes: once both were asked for, the
    server asks the store for the same, in the same order. A server reads each file once."""
    world, store = watched
    calls: dict[str, list[tuple[str, str]]] = {}
    for which in ("foreign", "absent", "foreign", "absent"):
        store.calls.clear()
        _send(world, company, route, Role.OWNER, which)
        calls[which] = [(op, path.rpartition("/")[0]) for op, path in store.calls]
    assert calls["foreign"] == calls["absent"]
    assert store.by_loop == []


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_a_stranger_finds_no_workspace(world: ApiWorld, route: Route[Any]) -> None:
    stranger = world.client(Role.OWNER, tenant="rival")
    body: object = {} if route.kind == "write" else None
    response = stranger.send(route.method, route.path.replace("{", "").replace("}", ""), json=body)
    assert (response.status_code, response.json()["detail"]) == (
        404,
        "there is no workspace acme/prod",
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/events"),
        ("GET", "/files/state/catalog/assets/base/x.parquet"),
        ("GET", "/signed/state/catalog/assets/base/x.parquet?expires=1&signature=x"),
        ("GET", "/objects/plans/x.json"),
        ("POST", "/query"),
        ("GET", "/work/objects/plans/x.json"),
        ("GET", "/work/w/settings"),
        ("POST", "/work/w/claims"),
        ("POST", "/sensors/main/hook/events"),
        ("GET", "/assets"),
        ("POST", "/assets"),
    ],
)
def test_a_workspace_of_another_tenant_is_as_absent_as_one_that_is_not_there(
    watched: tuple[ApiWorld, HangingStore], method: str, path: str
) -> None:
    """Byte for byte but the request's id and the name that was sent, and with the same calls."""
    world, store = watched
    stranger = world.client(Role.OWNER, tenant="rival")
    answers: dict[str, Any] = {}
    for tenant in ("acme", "none", "acme", "none"):
        store.calls.clear()
        url = f"/api/v1/workspaces/{tenant}/prod{path}"
        response = stranger.send(method, url, json={} if method == "POST" else None)
        document = response.json() if "json" in response.headers["content-type"] else response.text
        if isinstance(document, dict):
            document.pop("request_id", None)
        text = json.dumps(document, sort_keys=True).replace(f"{tenant}/prod", "<named>")
        answers[tenant] = response.status_code, text, [op for op, _ in store.calls]
    assert answers["acme"] == answers["none"]
    assert answers["acme"][0] in (400, 401, 403, 404)
