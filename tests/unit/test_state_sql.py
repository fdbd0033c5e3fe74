"""SQL over snapshots: what a query sees, and what it cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.events import Column
from arco.errors import Corrupt, Invalid, Unavailable
from arco.log.manifest import ColumnSpec
from arco.state.project import with_table
from arco.state.snapshot import Generation
from arco.state.sql import SqlEngine, SqlLimits


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace.open(str(tmp_path / "store"), "acme", "test")
    workspace.catalog.create_namespace("sales", owners=["ana"])
    for name in ("orders", "items"):
        columns = [Column(name="id", type="bigint"), Column(name="at", type="date")]
        workspace.catalog.create_asset(f"sales.{name}", columns=columns, tags={"tier": "gold"})
    return workspace


@pytest.fixture
def engine(workspace: Workspace) -> Iterator[SqlEngine]:
    with workspace.sql() as engine:
        yield engine


def ask(workspace: Workspace, engine: SqlEngine, sql: str, at: int | None = None) -> list[object]:
    snapshot = workspace.snapshot(None if at is None else Generation(at))
    return [tuple(row.values()) for row in engine.query(snapshot, sql).table.to_pylist()]


def test_a_table_is_there_by_its_name_with_its_rows(
    workspace: Workspace, engine: SqlEngine
) -> None:
    found = ask(workspace, engine, "SELECT namespace, name FROM catalog.assets ORDER BY name")
    assert found == [("sales", "items"), ("sales", "orders")]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM catalog.assets JOIN catalog.columns USING (asset_id)", [(4,)]),
        ("SELECT count(*) FROM catalog.assets a, log.outcomes o WHERE a.name = 'items'", [(3,)]),
        ("WITH a AS (SELECT * FROM catalog.assets) SELECT count(*) FROM a", [(2,)]),
        ('SELECT count(*) FROM "catalog"."assets"', [(2,)]),
        ("SELECT count(*) FROM Catalog.ASSETS", [(2,)]),
        ("FROM catalog.assets SELECT count(*)", [(2,)]),
        ("SELECT (SELECT count(*) FROM catalog.columns)", [(4,)]),
        ("SELECT tags['tier'] FROM catalog.assets LIMIT 1", [("gold",)]),
        ("SELECT owners[1] FROM catalog.namespaces", [("ana",)]),
        ("SELECT 1 UNION ALL SELECT assets FROM catalog.namespaces ORDER BY 1", [(1,), (2,)]),
        ("SELECT count(*) FROM catalog.asset_stats", [(0,)]),
    ],
)
def test_every_way_to_name_a_table_finds_its_rows(
    workspace: Workspace, engine: SqlEngine, sql: str, expected: list[object]
) -> None:
    assert ask(workspace, engine, sql) == expected


def test_a_query_sees_the_generation_it_was_given(workspace: Workspace, engine: SqlEngine) -> None:
    before = workspace.snapshot().generation
    workspace.catalog.rename_asset("sales.orders", "orders_raw")
    workspace.catalog.drop_asset("sales.items")
    names = "SELECT name FROM catalog.assets ORDER BY name"
    assert ask(workspace, engine, names, before) == [("items",), ("orders",)]
    assert ask(workspace, engine, names) == [("orders_raw",)]


def test_rows_are_the_same_before_and_after_a_merge(
    workspace: Workspace, engine: SqlEngine
) -> None:
    workspace.catalog.drop_asset("sales.items")
    sql = "SELECT * FROM catalog.columns ORDER BY ALL"
    before = ask(workspace, engine, sql)
    workspace.merger.merge(everything=True)
    assert ask(workspace, engine, sql) == before
    workspace.catalog.add_column("sales.orders", Column(name="total", type="double"))
    assert len(ask(workspace, engine, sql)) == len(before) + 1


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE catalog.assets",
        "INSERT INTO catalog.assets VALUES (1)",
        "UPDATE catalog.assets SET name = 'x'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH '/tmp/x.db'",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
        "SELECT * FROM catalog.nope",
        "SELECT nope FROM catalog.assets",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
    ],
)
def test_anything_but_one_select_over_the_snapshot_is_refused(
    workspace: Workspace, engine: SqlEngine, sql: str
) -> None:
    with pytest.raises(Invalid):
        ask(workspace, engine, sql)


def test_an_unknown_table_is_answered_with_those_there_are(
    workspace: Workspace, engine: SqlEngine
) -> None:
    with pytest.raises(Invalid) as raised:
        ask(workspace, engine, "SELECT * FROM catalog.asset")
    assert "catalog.assets" in raised.value.hint


def test_rows_past_the_limit_are_cut_and_said_to_be(
    workspace: Workspace, engine: SqlEngine
) -> None:
    snapshot = workspace.snapshot()
    cut = engine.query(snapshot, "SELECT * FROM range(5000)", SqlLimits(rows=7))
    whole = engine.query(snapshot, "SELECT * FROM range(7)", SqlLimits(rows=7))
    assert (cut.table.num_rows, cut.truncated) == (7, True)
    assert (whole.table.num_rows, whole.truncated) == (7, False)


def test_a_query_that_takes_too_long_is_ended(workspace: Workspace, engine: SqlEngine) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range % 7 = b.range"
    with pytest.raises(Unavailable, match="longer than"):
        engine.query(workspace.snapshot(), sql, SqlLimits(timeout_s=0.2))


def test_a_damaged_file_is_an_error_that_names_it(
    workspace: Workspace, engine: SqlEngine, tmp_path: Path
) -> None:
    (file,) = (tmp_path / "store/acme/test/state/catalog/namespaces/l0").glob("*1-*.parquet")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(Corrupt, match=file.name):
        ask(workspace, engine, "SELECT * FROM catalog.namespaces")


def test_a_column_that_older_files_lack_is_null_there(
    workspace: Workspace, engine: SqlEngine
) -> None:
    head = workspace.manifests.head()
    domain = workspace.manifests.domains(head)["catalog"]
    table = domain.tables["namespaces"]
    grown = msgspec.structs.replace(table, columns=(*table.columns, ColumnSpec("cost", "double")))
    snapshot = workspace.snapshot()
    snapshot.domains["catalog"] = with_table(domain, "namespaces", grown)
    found = engine.query(snapshot, "SELECT namespace, cost FROM catalog.namespaces").table
    assert found.to_pylist() == [{"namespace": "sales", "cost": None}]


def test_a_missing_file_is_an_error_that_names_it(
    workspace: Workspace, engine: SqlEngine, tmp_path: Path
) -> None:
    (file,) = (tmp_path / "store/acme/test/state/catalog/namespaces/l0").glob("*1-*.parquet")
    file.unlink()
    with pytest.raises(Corrupt, match=file.name):
        ask(workspace, engine, "SELECT * FROM catalog.namespaces")
