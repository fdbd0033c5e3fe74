"""An HTTP API in memory: a workspace with two projects, callers with roles, and a client.

    shop     sales.orders ─► sales.total     a schedule, two sensors, a backfill
    people   hr.salaries                     reads nothing; hr.report reads sales.total

Tests take `sales` as their own namespace, and `hr` as somebody else's.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
from litestar.types import ASGIApp

from arco.api.access_log import AccessLog
from arco.api.api_settings import ApiSettings
from arco.api.application import make_app
from arco.api.authentication import Authenticator, LocalAccess
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.api.table import ROUTES
from arco.app import Workspace
from arco.automation.backfill_commands import BackfillDraft
from arco.catalog.events import Column
from arco.lineage.reader import Node
from arco.orchestration.plan import PlanRequest
from arco.security.caller import Caller, Grant, Scope
from arco.security.permissions import Role
from arco.worker.supervise import Control
from servo.contract.task import Lineage, TaskRequest, TaskResult
from tests.kit.flows import ScriptedExecutor, project
from tests.kit.freshness import AgingTown, HoldingExecutor, succeed
from tests.kit.workspace import NAME, TENANT

BASE = f"/api/v1/workspaces/{TENANT}/{NAME}"
SHOP = """
from servo import *

days = daily('date', start='2026-01-01')

@asset(namespace='sales', partitions=days, description='What was ordered', owners=['ana'])
def orders() -> None: ...

@asset(namespace='sales')
def total(orders: AssetIn['sales.orders', latest]) -> None: ...

nightly = schedule('nightly', cron='0 2 * * *', selection=[total])
hook = webhook_sensor('hook', selection=[total])
"""
PEOPLE = """
from servo import *

@asset(namespace='hr')
def salaries() -> None: ...

@asset(namespace='hr')
def report(total: AssetIn['sales.total'], salaries: AssetIn['hr.salaries']) -> None: ...

payday = schedule('payday', cron='0 3 * * *', selection=[salaries])
badge = webhook_sensor('badge', selection=[salaries])
"""


class _Tokens:
    """Callers by their tokens."""

    def __init__(self) -> None:
        self.callers: dict[str, Caller] = {}

    def caller(self, token: str) -> Caller | None:
        return self.callers.get(token)


class ApiClient:
    """Sends requests to the application, without a network, one after the other."""

    def __init__(self, world: ApiWorld, token: str) -> None:
        self._world = world
        self._token = token

    @property
    def token(self) -> str:
        return self._token

    def send(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        params: Any = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        url = (
            path
            if path.startswith(("/api/", "/healthz", "/readyz", "/local/", "/auth/"))
            else f"{BASE}{path}"
        )
        sent = httpx.Headers({"Authorization": f"Bearer {self._token}"} if self._token else {})
        if isinstance(headers, Mapping):
            sent.update(headers)
        else:
            sent = httpx.Headers([*sent.multi_items(), *headers])

        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self._world.app)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://arco") as client:
                return await client.request(
                    method, url, json=json, headers=sent, params=params or None, content=content
                )

        return self._world.runner.run(call())

    def request(self, prepared: Mapping[str, Any]) -> httpx.Response:
        """Send what schemathesis has prepared, for the library `requests`."""
        data = prepared.get("data")
        sent = {
            name: value
            for name, value in dict(prepared.get("headers") or {}).items()
            if name.lower() != "authorization" and value.isascii() and value.isprintable()
        }
        if isinstance(data, dict):
            data = urlencode(data)
        url = str(prepared["url"]).removeprefix("http://arco")
        json = prepared.get("json")
        if json is not None:
            data = msgspec.json.encode(json)
            sent.setdefault("Content-Type", "application/json")
        content = data.encode() if isinstance(data, str) else data
        return self.send(
            prepared["method"], url, headers=sent, params=prepared.get("params"), content=content
        )

    def get(self, path: str, **params: Any) -> Any:
        """The document of an answer that must be good."""
        response = self.send("GET", path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: object = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send("POST", path, json={} if body is None else body, headers=named)

    def pages(self, path: str, size: int, **params: Any) -> list[Any]:
        """All items of a list, by its pages."""
        items: list[Any] = []
        token = ""
        while True:
            more = {"page_token": token} if token else {}
            page = self.get(path, page_size=size, **more, **params)
            items += page["items"]
            token = page.get("next_page_token", "")
            if not token:
                return items
            assert len(page["items"]) == size  # short only at the end


class ApiWorld:
    def __init__(
        self, workspace: Workspace, log: Callable[[str], object] | None = None, **settings: Any
    ) -> None:
        self.workspace = workspace
        self.tokens = _Tokens()
        given: dict[str, Any] = {"head_age_s": -1.0, "rate_burst": 1_000_000}
        self.settings = ApiSettings(**(given | settings))
        self.served = ServedWorkspace(workspace, self.settings)
        self.local = LocalAccess([(workspace.tenant, workspace.name)], "ana")
        self.runner = asyncio.Runner()
        self._authenticators: list[Authenticator] = [self.local, self.tokens]
        self.server = ApiServer(
            [self.served],
            self._authenticators,
            self.settings,
            workspace.clock,
            [self.served],
            AccessLog(workspace.clock, log),
        )
        self.app = self.make_app()  # now: it asks the store for something

    def make_app(self) -> ASGIApp:
        return make_app(self.server, ROUTES, self.workspace.ids, self.local)

    def close(self) -> None:
        self.server.close()
        self.runner.close()

    def add_authenticator(self, authenticator: Authenticator) -> None:
        self._authenticators.append(authenticator)

    @property
    def owner(self) -> ApiClient:
        return ApiClient(self, self.local.token)

    def client(self, role: Role, *namespaces: str, tenant: str = TENANT) -> ApiClient:
        """A caller with a role in namespaces, or in the whole workspace if none is named."""
        scopes = [Scope(tenant, NAME, each) for each in namespaces] or [Scope(tenant, NAME)]
        token = f"{role}-{tenant}-{'-'.join(namespaces)}"
        self.tokens.callers[token] = Caller(
            kind="user", id=token, grants=tuple(Grant(role, scope) for scope in scopes)
        )
        return ApiClient(self, token)

    def nobody(self) -> ApiClient:
        return ApiClient(self, "unknown")

    def without_token(self) -> ApiClient:
        return ApiClient(self, "")


class _ReadingExecutor(ScriptedExecutor):
    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        result = super().run(request, control, again=again)
        return msgspec.structs.replace(result, lineage=Lineage(read=request.inputs))


class Company:
    """The workspace, with something of everything in it.

    It is made once in a process; each one is a copy, which a test may change.
    """

    def __init__(self) -> None:
        first = _first_company()
        self.town = first.town.copied()
        self.town.crowd.orchestrator()
        add_reading_worker(self.town)
        self.workspace = self.town.fresh()
        self.sales_run = first.sales_run
        self.hr_run = first.hr_run
        self.both_run = first.both_run
        self.sales_backfill = first.sales_backfill
        self.sales_held = first.sales_held
        self.hr_held = first.hr_held
        self.hr_request = first.hr_request
        self.hr_key = first.hr_key

    def deploy(self, text: str, name: str) -> None:
        deploy_named(self.town, text, name)

    def task_of(self, run_id: str, asset: str) -> str:
        tasks = self.town.fresh().read.orchestration().tasks(run_id)
        return next(task.task_id for task in tasks if task.asset_key == asset)


def add_reading_worker(town: AgingTown) -> None:
    town.crowd.worker(executor=lambda w: _ReadingExecutor(w, "worker", succeed))


def deploy_named(town: AgingTown, text: str, name: str) -> None:
    manifest, artifact = project(text)
    named = msgspec.structs.replace(manifest, project=name)
    town.fresh().commands.orchestration.deploy(named, artifact)


class _FirstCompany:
    def __init__(self) -> None:
        self.town = AgingTown(SHOP)
        self.town.crowd.workers.clear()
        add_reading_worker(self.town)
        deploy_named(self.town, PEOPLE, "people")
        w = self.town.fresh()
        self.sales_run = self._run("sales.orders", "date=2026-01-02")
        self._run("sales.total")
        self.hr_run = self._run("hr.salaries")
        self.both_run = self._run("hr.report")
        self.sales_backfill = self._backfill("sales.orders")
        self._hold("sales.total")
        self.sales_held = self._held("sales.total")
        self._hold("hr.salaries")
        self.hr_held = self._held("hr.salaries")
        w.commands.catalog.create_asset(
            "sales.notes", columns=[Column(name="text", type="string")], owners=["ana"]
        )
        w.commands.catalog.create_asset("hr.notes", owners=["bob"])
        w.commands.lineage.add(Node("hr.notes"), Node("sales.notes"))
        w.commands.orchestration.change_partition_keys("shops", add=["berlin", "paris"])
        self.hr_request = "payroll"
        w.commands.orchestration.request(PlanRequest(selection=("hr.salaries",)), run_key="payroll")
        key = w.commands.security.create_key("payroll", Role.VIEWER, namespaces=["hr"])
        self.hr_key = key.row.key_id

    def _run(self, selection: str, *partitions: str) -> str:
        return self.town.run(*partitions, selection=selection)

    def _backfill(self, asset: str) -> str:
        request = PlanRequest(selection=(asset,), partitions=("date=2026-01-03..2026-01-04",))
        entry = self.town.fresh().commands.backfills.create(BackfillDraft(request=request))
        self.town.settle()
        return entry.row.backfill_id

    def _hold(self, asset: str) -> None:
        workers = list(self.town.crowd.workers)
        self.town.crowd.workers.clear()
        self.town.crowd.worker(executor=lambda w: HoldingExecutor(w, "holding", succeed))
        self._run(asset)
        self.town.crowd.workers[:] = workers

    def _held(self, asset: str) -> str:
        rows = self.town.fresh().read.execution().quarantine(asset_key=asset)
        return rows[0].materialization_id


@functools.cache
def _first_company() -> _FirstCompany:
    return _FirstCompany()
