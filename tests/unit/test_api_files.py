"""Files of tables: which there are, what answers them, and that SQL over them is the server's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pytest

from arco.security.permissions import Role
from tests.kit.api import ApiClient, ApiWorld, Company
from tests.kit.depth import DEEP


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture(scope="module")
def world(company: Company) -> Iterator[ApiWorld]:
    world = ApiWorld(company.town.fresh())
    yield world
    world.close()


def _fetched(client: ApiClient, file: Any) -> bytes:
    """As a browser does: the redirect is followed, without the token."""
    answer = client.send("GET", file["url"])
    if answer.status_code == 307:
        answer = client.send("GET", answer.headers["location"], headers={"Authorization": ""})
    assert answer.status_code == 200, answer.text
    return answer.content


def _in_duckdb(
    connection: duckdb.DuckDBPyConnection, client: ApiClient, folder: Path, described: Any
) -> list[Any]:
    sql = described["sql"]
    for number, file in enumerate(described["files"]):
        local = folder / f"{described['table']}-{number}.parquet"
        local.write_bytes(_fetched(client, file))
        sql = sql.replace(file["path"], str(local))
    columns = ", ".join(f'"{each["name"]}"' for each in described["columns"])
    rows = connection.sql(f"SELECT {columns}, row_version FROM ({sql})")
    return list(rows.to_arrow_table().to_pylist())


def _on_server(world: ApiWorld, described: Any) -> list[Any]:
    columns = ", ".join(f'"{each["name"]}"' for each in described["columns"])
    sql = f"SELECT {columns}, row_version FROM {described['table']}"
    snapshot = world.workspace.read.snapshot()
    return list(world.served.sql.query(snapshot, sql).table.to_pylist())


def _comparable(row: dict[str, Any]) -> str:
    """Maps have no order."""
    return repr([sorted(v, key=repr) if isinstance(v, list) else v for v in row.values()])


def _compare(world: ApiWorld, folder: Path, first: int) -> set[str]:
    """The kinds of files that were compared: those of every third table, or of all of them."""
    kinds: set[str] = set()
    tables = world.owner.get("/files")["tables"]
    with duckdb.connect() as connection:
        for described in tables if DEEP else tables[first::3]:
            rows = _in_duckdb(connection, world.owner, folder, described)
            ours = sorted(map(_comparable, rows))
            server = sorted(map(_comparable, _on_server(world, described)))
            assert ours == server, described["table"]
            kinds |= {each["kind"] for each in described["files"] if ours}
    return kinds


def test_a_client_has_the_same_rows_as_the_server(world: ApiWorld, tmp_path: Path) -> None:
    assert "change" in _compare(world, tmp_path, 0)


def test_also_after_a_merge(company: Company, tmp_path: Path) -> None:
    world = ApiWorld(company.town.fresh())
    world.workspace.upkeep.merger.merge(everything=True)
    world.workspace.commands.catalog.create_asset("sales.more")
    world.workspace.commands.catalog.drop_asset("sales.more")
    world.workspace.commands.catalog.update_asset("sales.notes", description="changed")
    assert {"base", "change"} <= _compare(world, tmp_path, 1)
    world.close()


def test_a_file_is_answered_with_a_signed_url(company: Company) -> None:
    world = ApiWorld(company.town.fresh())
    world.workspace.upkeep.merger.merge(everything=True)
    tables = world.owner.get("/files", table="catalog.assets")["tables"]
    file = next(each for each in tables[0]["files"] if each["kind"] == "base")
    head = world.owner.send("HEAD", file["url"], headers={"Range": "bytes=0-"})
    assert (head.status_code, head.headers["content-length"]) == (206, str(file["bytes"]))
    assert head.headers["content-range"] == f"bytes 0-{file['bytes'] - 1}/{file['bytes']}"
    answer = world.owner.send("GET", file["url"])
    assert answer.status_code == 307
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "private, max-age=240"
    url = answer.headers["location"]
    nobody = world.without_token()
    whole = nobody.send("GET", url)
    assert (whole.status_code, len(whole.content)) == (200, file["bytes"])
    part = nobody.send("GET", url, headers={"Range": "bytes=-4", "Origin": "https://x.example"})
    assert (part.status_code, part.content) == (206, b"PAR1")
    assert part.headers["access-control-allow-origin"] == "https://x.example"
    asked = nobody.send("OPTIONS", url, headers={"Origin": "https://x.example"})
    assert (asked.status_code, asked.headers["access-control-allow-headers"]) == (204, "Range")
    # Of another file, later, and changed: nothing.
    assert nobody.send("GET", url.replace("assets", "columns")).status_code == 403
    assert nobody.send("GET", url[:-1]).status_code == 403
    assert nobody.send("GET", urlsplit(url).path).status_code == 403
    assert nobody.send("GET", url.replace("acme/prod", "acme/other")).status_code == 403
    company.town.clock.advance(timedelta(seconds=301))
    assert nobody.send("GET", url).status_code == 403
    world.close()


def test_who_cannot_sign_does_not_learn_which_workspaces_there_are(world: ApiWorld) -> None:
    nobody = world.without_token()
    for query in (
        "",
        "?expires=9",
        *(f"?expires=9&key_id={id}&signature=x" for id in ["w1", "k"]),
    ):
        here, other = (
            nobody.send("GET", f"/api/v1/workspaces/acme/{name}/signed/state/a{query}")
            for name in ("prod", "other")
        )
        assert (here.status_code, here.text) == (other.status_code, other.text) == (403, here.text)


def test_changes_are_sent_in_parts(world: ApiWorld) -> None:
    world.workspace.commands.catalog.update_asset("sales.notes", description="again")
    (table,) = world.owner.get("/files", table="catalog.assets")["tables"]
    file = next(each for each in table["files"] if each["kind"] == "change")
    size = int(world.owner.send("HEAD", file["url"]).headers["content-length"])
    whole = world.owner.send("GET", file["url"])
    assert (whole.status_code, len(whole.content)) == (200, size)
    part = world.owner.send("GET", file["url"], headers={"Range": f"bytes={size - 4}-"})
    assert (part.status_code, part.content) == (206, b"PAR1")
    beyond = world.owner.send("GET", file["url"], headers={"Range": f"bytes={size}-"})
    assert beyond.status_code == 416


def test_only_files_of_tables_are_handed_out(world: ApiWorld) -> None:
    workspace = world.workspace
    paths = [meta.path for meta in workspace.store.list("")]
    listed = {file["path"] for t in world.owner.get("/files")["tables"] for file in t["files"]}
    refused = [path for path in paths if path not in listed]
    assert any(path.startswith("state/changes/") for path in refused)
    refused += ["state/security/api_keys/base/x.parquet", "changes/security.api_keys/0.parquet"]
    refused += ["changes/security.audit/0.parquet", "../prod/clock.json", "state/../clock.json"]
    for path in refused:
        for method in ("GET", "HEAD"):
            assert world.owner.send(method, f"/files/{path}").status_code == 404, path


def test_no_row_of_keys_or_audits_is_in_a_file(world: ApiWorld) -> None:
    tables = world.owner.get("/files")["tables"]
    assert not [each["table"] for each in tables if each["table"].startswith("security.")]
    for table in tables:
        for file in table["files"]:
            assert b"key_hash" not in _fetched(world.owner, file)


def test_files_are_for_those_who_see_everything(world: ApiWorld) -> None:
    (table,) = world.owner.get("/files", table="catalog.assets")["tables"]
    url = table["files"][0]["url"]
    assert world.client(Role.VIEWER).send("GET", url).status_code in (200, 307)
    for role in (Role.VIEWER, Role.OWNER):
        restricted = world.client(role, "sales")
        for path in ("/files", url, "/files/state/x/y/base/z.parquet"):
            answer = restricted.send("GET", path)
            assert (answer.status_code, answer.json()["code"]) == (403, "denied")
    assert world.nobody().send("GET", url).status_code == 401
    foreign = world.client(Role.OWNER, tenant="other").send("GET", url)
    assert foreign.status_code == 404


def test_a_generation_that_is_gone_has_no_files(world: ApiWorld) -> None:
    (table,) = world.owner.get("/files", table="catalog.assets")["tables"]
    path = table["files"][0]["path"]
    assert world.owner.send("GET", f"/files/{path}?generation=1").status_code == 404
    assert world.owner.send("GET", f"/files/{path}?generation=999999").status_code in (
        404,
        409,
        503,
    )
