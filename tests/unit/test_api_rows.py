"""Rows over HTTP, and snapshots that are made of them: of each table what its reader may see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from arco.api.table_rules import RULES
from arco.catalog.tables import ASSETS
from arco.errors import Denied
from arco.orchestration.tables import RUNS, TASKS
from arco.remote.client import Client
from arco.remote.snapshot import ScopedSnapshot
from arco.remote.workspace import RemoteWorkspace
from arco.security.permissions import Role
from arco.state.days import get_of_day, newest_first
from arco.state.diff import diff_table
from arco.state.snapshot import AsOf, Generation
from tests.kit.api import BASE, ApiClient, ApiWorld, Company
from tests.kit.served_api import ServedApi
from tests.kit.workspace import NAME, TENANT


class Readers:
    """A workspace, and what callers read of it."""

    def __init__(self) -> None:
        company = Company()
        workspace = company.town.fresh()
        workspace.commands.security.create_key("own", Role.VIEWER, namespaces=["sales"])
        self.hr_run = company.hr_run
        self.world = ApiWorld(workspace)
        self.api = ServedApi(self.world)
        self.whole = workspace.read.snapshot()

    def workspace(self, client: ApiClient) -> RemoteWorkspace:
        remote = Client(self.api.url, client.token, tenant=TENANT, workspace=NAME)
        return RemoteWorkspace(remote, clock=self.world.workspace.clock)

    def snapshot(self, client: ApiClient, **at: Any) -> ScopedSnapshot:
        snapshot = self.workspace(client).read.snapshot(**at)
        assert isinstance(snapshot, ScopedSnapshot)
        return snapshot


@pytest.fixture(scope="module")
def readers() -> Iterator[Readers]:
    readers = Readers()
    yield readers
    readers.api.close()
    readers.world.close()


def test_a_table_has_the_rows_of_its_readers_namespaces(readers: Readers) -> None:
    sales = readers.snapshot(readers.world.client(Role.OWNER, "sales"))
    others = readers.snapshot(readers.world.client(Role.OWNER, "hr"))
    for table in readers.world.workspace.tables:
        everything = set(map(table.key_of, readers.whole.all(table)))
        own = {table.key_of(row): row for row in sales.all(table)}
        foreign = {table.key_of(row): row for row in others.all(table)}
        assert own.keys() | foreign.keys() <= everything, table
        if not RULES[str(table)].is_open:
            assert not own.keys() & foreign.keys(), table
        if RULES[str(table)].is_hidden:
            assert not own, table
        text = msgspec.json.encode(list(own.values())).decode()
        assert not re.search(r"\bhr\.|payday|\bbadge|people/", text), table


def test_all_ways_to_read_a_table_give_the_same_rows(readers: Readers) -> None:
    snapshot = readers.snapshot(readers.world.client(Role.OWNER, "sales"))
    compared = 0
    for table in readers.world.workspace.tables:
        rows = {table.key_of(row): row for row in snapshot.all(table)}
        assert dict(snapshot.since(table, 0)) == rows, table
        if table.history is not None:
            stretches = newest_first(snapshot, table)
            assert {
                table.key_of(row): row for part, _ in stretches for row in table.rows_of(part)
            } == rows, table
            assert snapshot.hot(table) == list(table.rows_of(snapshot.hot_rows(table, (), None)[0]))
        elif rows:
            assert snapshot.get_many(table, list(rows)) == rows, table
        for key, row in list(rows.items())[:1]:
            assert snapshot.get(table, *key) == row, table
            assert row in snapshot.rows(table, *key[: table.shard]), table
            compared += 1
    assert compared > 25


def test_other_generations_and_days_are_read_too(readers: Readers) -> None:
    client = readers.world.client(Role.OWNER, "sales")
    now = readers.snapshot(client)
    first = readers.snapshot(client, at=Generation(3))
    added = diff_table(first, now, ASSETS).added
    assert added and set(added) <= {ASSETS.key_of(row) for row in now.all(ASSETS)}
    at = readers.snapshot(client, at=AsOf(first.published_at))
    assert at.all(ASSETS) == readers.snapshot(client, at=Generation(at.generation)).all(ASSETS)
    run = now.all(RUNS)[0]
    assert get_of_day(now, RUNS, (run.run_id,), date(2026, 1, 5)) == run
    assert now.recent(RUNS, run.created_at - timedelta(days=1))
    task = now.rows(TASKS, run.run_id)[0]
    assert now.columns(TASKS, run.run_id, ["state"]).column("state").to_pylist() == [task.state]


def test_a_row_of_others_is_as_one_that_is_not_there(readers: Readers) -> None:
    snapshot = readers.snapshot(readers.world.client(Role.OWNER, "sales"))
    assert readers.whole.get(RUNS, readers.hr_run) is not None
    assert snapshot.versioned(RUNS, (readers.hr_run,)) == (0, None)
    assert snapshot.versioned(RUNS, ("01KE6JT4N31KWC7V5EKY2WFNZJ",)) == (0, None)
    assert snapshot.rows(TASKS, readers.hr_run) == []


def test_who_sees_the_whole_workspace_reads_files(readers: Readers) -> None:
    viewer = readers.workspace(readers.world.client(Role.VIEWER))
    assert not viewer.is_scoped
    assert viewer.read.snapshot().all(RUNS) == readers.whole.all(RUNS)


def test_keys_roles_and_the_audit_log_need_their_permission(readers: Readers) -> None:
    viewer = readers.workspace(readers.world.client(Role.VIEWER, "sales"))
    with pytest.raises(Denied):
        viewer.read.security().api_keys()
    owner = readers.workspace(readers.world.client(Role.OWNER, "sales"))
    (key,) = owner.read.security().api_keys()
    assert (key.name, key.secret_hash) == ("own", "")


def test_many_rows_come_in_pages(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arco.api.rows.PAGE_ROWS", 2)
    snapshot = readers.snapshot(readers.world.client(Role.OWNER, "sales", "hr"))
    before = len(readers.api.rows_answered)
    rows = snapshot.all(TASKS)
    assert sorted(rows, key=TASKS.key_of) == sorted(readers.whole.all(TASKS), key=TASKS.key_of)
    assert max(readers.api.rows_answered[before:]) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"table": "catalog.assets", "select": "keys", "keys": [["a", "b"]]}, 400),
        ({"table": "catalog.assets", "select": "keys", "keys": [[1]]}, 400),
        ({"table": "catalog.assets", "select": "part"}, 400),
        ({"table": "catalog.assets", "select": "recent"}, 400),
        ({"table": "catalog.assets", "select": "changed"}, 400),
        ({"table": "catalog.assets", "select": "everything"}, 400),
        ({"table": "catalog.nothing", "select": "all"}, 404),
        ({"table": "orchestration.runs", "select": "day"}, 400),
        ({"table": "catalog.assets", "select": "all"}, 200),
    ],
)
def test_what_cannot_be_answered_is_refused(
    readers: Readers, body: dict[str, Any], status: int
) -> None:
    client = readers.world.client(Role.VIEWER, "sales")
    headers = {"Authorization": f"Bearer {client.token}"}
    answer = httpx.post(f"{readers.api.url}{BASE}/rows", json=body, headers=headers)
    assert answer.status_code == status, answer.text


def test_a_hidden_table_is_not_read_so_that_nothing_of_it_is_told(readers: Readers) -> None:
    client = readers.world.client(Role.OWNER, "sales")
    for hidden in sorted(name for name, rule in RULES.items() if rule.is_hidden):
        # `day` without a day is refused by whoever reads the table.
        answer = client.post("/rows", {"table": hidden, "select": "day"})
        assert answer.status_code == 200, hidden
    assert client.post("/rows", {"table": "orchestration.runs", "select": "day"}).status_code == 400
