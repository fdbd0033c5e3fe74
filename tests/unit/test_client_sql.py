"""What a query of `arco.open(…).sql` can reach: the tables that it names, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.errors import Invalid
from arco.open_workspace import OpenWorkspace
from tests.kit.lake import Lake


@pytest.fixture(scope="module")
def ws() -> OpenWorkspace:
    lake = Lake()
    lake.make("city.recent")
    return OpenWorkspace(lake.w)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"word": ["xyzzy"]}), path)
    return path


HOSTILE = (
    "SELECT * FROM read_parquet('{secret}')",
    "SELECT * FROM '{secret}'",
    "FROM '{secret}'",
    'SELECT * FROM "{secret}"',
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table('{secret}')",
    "WITH t AS (SELECT * FROM '{secret}') SELECT * FROM t",
    "SELECT (SELECT word FROM '{secret}') FROM execution.partitions",
    "PIVOT '{secret}' ON word",
    "DESCRIBE SELECT * FROM '{secret}'",
    "SUMMARIZE '{secret}'",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
    "SELECT * FROM sqlite_scan('{secret}', 't')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT getenv('HOME')",
    "SELECT * FROM query",
    "SELECT * FROM rows",
    "COPY (SELECT 1) TO '{secret}'",
    "COPY (SELECT 1) TO '{secret}.new'",
    "ATTACH '{secret}.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "CALL pragma_version()",
    "EXPORT DATABASE '{secret}.d'",
    "CREATE SECRET s (TYPE s3)",
    "CREATE TABLE t AS SELECT 1",
    "SELECT 1; SELECT * FROM '{secret}'",
    "",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
)


@pytest.mark.parametrize("sql", HOSTILE, ids=lambda sql: sql[:50])
def test_query_that_reaches_beyond_its_tables_is_refused(
    ws: OpenWorkspace, secret: Path, sql: str
) -> None:
    files = {path: path.read_bytes() for path in secret.parent.iterdir()}
    with pytest.raises(Invalid) as refusal:
        ws.sql(sql.replace("{secret}", str(secret))).arrow()
    assert "xyzzy" not in str(refusal.value)
    assert {path: path.read_bytes() for path in secret.parent.iterdir()} == files


def test_tables_can_be_joined_and_summed(ws: OpenWorkspace) -> None:
    query = """
        WITH p AS (SELECT asset_id, count(*) AS n FROM execution.partitions GROUP BY ALL)
        SELECT sum(n) AS partitions, count(DISTINCT a.asset_id) AS assets
        FROM p JOIN catalog.assets a USING (asset_id), range(2)
    """
    assert ws.sql(query).arrow().to_pylist() == [{"partitions": 2, "assets": 1}]
