"""SQL over HTTP: what it may name, what it sees, and its bounds."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from arco.api import query
from arco.security.permissions import Role
from tests.kit.api import ApiClient, ApiWorld, Company


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    world = ApiWorld(Company().town.fresh())
    yield world
    world.close()


def rows(client: ApiClient, sql: str) -> Any:
    response = client.post("/query", {"sql": sql})
    assert response.status_code == 200, response.text
    return response.json()["rows"]


KEYS = "SELECT namespace || '.' || name FROM catalog.assets ORDER BY 1"


def test_rows_are_those_that_the_caller_sees(world: ApiWorld) -> None:
    whole = [key for (key,) in rows(world.owner, KEYS)]
    assert {"hr.salaries", "sales.total"} <= set(whole)
    viewer = world.client(Role.VIEWER, "sales")
    seen = [key for (key,) in rows(viewer, KEYS)]
    assert seen == [key for key in whole if key.startswith("sales.")]
    assert rows(viewer, "SELECT count(*) FROM orchestration.tasks WHERE asset_key LIKE 'hr.%'") == [
        [0]
    ]
    edges = "SELECT count(*) FROM lineage.asset_edges"
    assert rows(viewer, edges) < rows(world.owner, edges)


def test_keys_are_in_no_table(world: ApiWorld) -> None:
    response = world.owner.post("/query", {"sql": "SELECT * FROM security.api_keys"})
    assert response.status_code == 400
    viewer = world.client(Role.VIEWER, "sales")
    for table in ("orchestration.runs", "log.commands", "notifications.outbox"):
        assert viewer.post("/query", {"sql": f"SELECT * FROM {table}"}).status_code == 400


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM catalog.assets",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH 'x.db'",
        "SELECT",
        "\ud83d",
    ],
)
def test_anything_but_a_read_is_refused(world: ApiWorld, sql: str) -> None:
    raw = b'{"sql": "\\ud83d"}' if sql == "\ud83d" else None
    json = {"Content-Type": "application/json"}
    for client in (world.owner, world.client(Role.VIEWER, "sales")):
        if raw is None:
            response = client.post("/query", {"sql": sql})
        else:
            response = client.send("POST", "/query", content=raw, headers=json)
        assert response.status_code == 400, response.text


def test_rows_are_bounded_and_that_is_said(world: ApiWorld) -> None:
    body = {"sql": "SELECT * FROM range(100)", "max_rows": 3}
    document = world.owner.post("/query", body).json()
    assert (document["rows"], document["truncated"]) == ([[0], [1], [2]], True)


def test_arrow_answers_are_filtered_too(world: ApiWorld) -> None:
    arrow = "application/vnd.apache.arrow.stream"
    response = world.owner.post("/query", {"sql": KEYS}, Accept=arrow)
    assert response.headers["content-type"] == arrow
    assert pa.ipc.open_stream(response.content).read_all().num_rows > 3
    filtered = world.client(Role.VIEWER, "sales").post("/query", {"sql": KEYS}, Accept=arrow)
    own = pa.ipc.open_stream(filtered.content).read_all().to_pylist()
    assert own and all("hr" not in str(row) for row in own)


def test_texts_are_filtered_before_a_query_sees_them(world: ApiWorld) -> None:
    """So that no part of a hidden name can be cut out of one."""
    workspace = world.workspace
    workspace.commands.catalog.update_asset("sales.notes", description="made of hr.salaries, daily")
    viewer = world.client(Role.VIEWER, "sales")
    sql = "SELECT regexp_extract(description, 'of (.*),', 1) FROM catalog.assets WHERE name='notes'"
    assert rows(viewer, sql) == [["(hidden)"]]
    assert rows(world.owner, f"{sql} AND namespace='sales'") == [["hr.salaries"]]


def test_files_of_filtered_tables_are_out_of_reach(world: ApiWorld) -> None:
    viewer = world.client(Role.VIEWER, "sales")
    named = "-- catalog.assets orchestration.tasks"
    assert rows(viewer, f"SELECT current_setting('allowed_paths') {named}") == [[[]]]
    views = f"SELECT count(*) FROM duckdb_views() WHERE sql LIKE '%parquet%' {named}"
    assert rows(viewer, views) == [[0]]


def test_an_error_of_a_query_tells_nothing_of_hidden_rows(world: ApiWorld) -> None:
    sql = "SELECT * FROM catalog.assets WHERE error(namespace || ' ' || name) IS NULL"
    response = world.client(Role.VIEWER, "sales").post("/query", {"sql": sql})
    assert response.status_code == 400 and "salaries" not in response.text


def test_a_list_that_reads_some_columns_leaves_sql_all_of_them() -> None:
    """The table has no merged files yet: what of it is known is what programs say."""
    company = Company()
    world = ApiWorld(company.town.fresh())
    try:
        assert world.owner.get(f"/runs/{company.both_run}/tasks")["items"]
        assert rows(world.owner, "SELECT count(partition_key) > 0 FROM orchestration.tasks") == [
            [True]
        ]
    finally:
        world.close()


def test_a_query_that_takes_too_long_is_not_worth_repeating(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
    with monkeypatch.context() as patched:
        patched.setattr(query, "TIMEOUT_S", 0.2)
        response = world.owner.post("/query", {"sql": endless})
    assert (response.status_code, response.json()["code"]) == (400, "query_timeout")
    assert world.owner.post("/query", {"sql": "SELECT 1"}).status_code == 200


def test_compressed_bodies_are_refused(world: ApiWorld) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    body = gzip.compress(b'{"sql": "SELECT 1"}')
    response = world.owner.send("POST", "/query", content=body, headers=headers)
    assert response.status_code == 415
    assert "compressed" in response.json()["detail"]
