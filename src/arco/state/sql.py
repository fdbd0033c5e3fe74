"""SQL over a snapshot, with DuckDB, over the very files that a browser reads.

Every table is there by its name (`catalog.assets`). A query sees one generation,
can change nothing, can read nothing but the snapshot's files, and is bounded in
time, memory and rows.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from arco.errors import Invalid, Unavailable
from arco.log.manifest import FileRef, TableManifest
from arco.state.snapshot import Snapshot
from arco.state.table import Table
from arco.storage.parallel import each


class SqlLimits(msgspec.Struct, frozen=True):
    timeout_s: float = 30.0
    rows: int = 10_000
    memory_mib: int = 1024


class SqlResult(msgspec.Struct, frozen=True):
    table: pa.Table
    truncated: bool
    """Whether there were more rows than the limit."""
    generation: int


class SqlEngine:
    """Runs queries. Fetched files stay in a temporary directory until `close`."""

    def __init__(self, tables: Sequence[Table[Any]] = (), limits: SqlLimits | None = None) -> None:
        """`tables` are there for queries even where a snapshot has nothing in them yet."""
        self._declared = {str(table): table.manifest() for table in tables}
        self.limits = limits or SqlLimits()
        self._dir = tempfile.TemporaryDirectory(prefix="arco-sql-")

    def close(self) -> None:
        self._dir.cleanup()

    def __enter__(self) -> SqlEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, snapshot: Snapshot, sql: str, limits: SqlLimits | None = None) -> SqlResult:
        """Run one SELECT. Raises Invalid for anything else, and for what DuckDB refuses."""
        limits = limits or self.limits
        with duckdb.connect(":memory:") as connection:
            known = {**self._declared, **snapshot.tables()}
            tables = _named(known, sql)
            try:
                _refuse_all_but_select(connection.extract_statements(sql))
                self._fetch(snapshot, tables)
                for name, manifest in tables.items():
                    self._create_view(connection, name, manifest)
                self._lock_down(connection, tables, limits)
                return self._run(connection, snapshot, sql, limits)
            except duckdb.CatalogException as error:
                raise Invalid(str(error), hint=f"the tables are {', '.join(known)}") from None
            except duckdb.Error as error:
                raise Invalid(str(error)) from None

    def _fetch(self, snapshot: Snapshot, tables: dict[str, TableManifest]) -> None:
        wanted = [r for m in tables.values() for r in m.files() if not self._path(r).exists()]

        def fetch(ref: FileRef) -> None:
            partial = self._path(ref).with_suffix(f".{threading.get_ident()}")
            partial.write_bytes(snapshot.files.raw(ref))
            partial.rename(self._path(ref))

        each(snapshot.files.store, fetch, wanted)

    def _path(self, ref: FileRef) -> Path:
        return Path(self._dir.name) / f"{ref.sha256}.parquet"

    def _create_view(
        self, connection: duckdb.DuckDBPyConnection, name: str, manifest: TableManifest
    ) -> None:
        domain, table = (_quoted(part) for part in name.split("."))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {domain}")
        if manifest.files():
            body = self._select(manifest)
        else:
            body = _no_rows(manifest)
        connection.execute(f"CREATE VIEW {domain}.{table} AS {body}")

    def _select(self, manifest: TableManifest) -> str:
        """For each key the newest row: L0 before the base, the base before history.

        The few recent rows are deduplicated; the base is only checked against them. A
        key that was used again after its row had left is in history too.
        """
        columns = ", ".join([*(_quoted(c.name) for c in manifest.columns), "row_version"])
        keys = [_quoted(k) for k in manifest.key]
        newest = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY row_version DESC)"
        named = {"l0": manifest.l0, "base": manifest.base, "history": manifest.history}
        levels: dict[str, str] = {}
        for level, refs in named.items():
            if refs:
                rows = f"SELECT * FROM {self._read(manifest, refs)}"
                levels[level] = rows if level == "base" else f"{rows} QUALIFY {newest} = 1"
        parts: list[str] = []
        above: list[str] = []
        for level in levels:
            hidden = [
                f" AND NOT EXISTS (SELECT 1 FROM {other} WHERE "
                + " AND ".join(f"{other}.{k} = {level}.{k}" for k in keys)
                + ")"
                for other in above
            ]
            parts.append(f"SELECT {columns} FROM {level} WHERE NOT _deleted{''.join(hidden)}")
            above.append(level)
        named_rows = ", ".join(f"{level} AS ({rows})" for level, rows in levels.items())
        return f"WITH {named_rows} {' UNION ALL '.join(parts)}"

    def _read(self, manifest: TableManifest, refs: tuple[FileRef, ...]) -> str:
        """The files' rows, with every column of the table: older files may lack some."""
        paths = ", ".join(f"'{self._path(ref)}'" for ref in refs)
        files = f"SELECT * FROM read_parquet([{paths}], union_by_name=true)"
        return f"({files} UNION ALL BY NAME {_no_rows(manifest)})"

    def _lock_down(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: dict[str, TableManifest],
        limits: SqlLimits,
    ) -> None:
        allowed = ", ".join(f"'{self._path(r)}'" for m in tables.values() for r in m.files())
        connection.execute(f"SET memory_limit='{limits.memory_mib}MiB'")
        connection.execute(f"SET allowed_paths=[{allowed}]")
        connection.execute("SET enable_external_access=false")
        connection.execute("SET lock_configuration=true")

    def _run(
        self,
        connection: duckdb.DuckDBPyConnection,
        snapshot: Snapshot,
        sql: str,
        limits: SqlLimits,
    ) -> SqlResult:
        expired = threading.Event()

        def interrupt() -> None:
            expired.set()
            connection.interrupt()

        timer = threading.Timer(limits.timeout_s, interrupt)
        timer.start()
        try:
            reader: Any = connection.sql(sql).to_arrow_reader(2048)
            batches: list[Any] = []
            count = 0
            while count <= limits.rows:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    break
                batches.append(batch)
                count += batch.num_rows
            table = pa.Table.from_batches(batches, reader.schema)
        except (duckdb.Error, pa.ArrowException, OSError):
            if expired.is_set():
                raise Unavailable(
                    f"the query took longer than {limits.timeout_s:g} s",
                    hint="ask for less, or raise the limit",
                ) from None
            raise
        finally:
            timer.cancel()
        return SqlResult(table.slice(0, limits.rows), count > limits.rows, snapshot.generation)


def _named(known: dict[str, TableManifest], sql: str) -> dict[str, TableManifest]:
    """The tables whose name occurs in the text of a query: at worst, one too many."""
    words = set(re.findall(r"\w+", sql.lower()))
    return {n: manifest for n, manifest in known.items() if n.partition(".")[2] in words}


def _refuse_all_but_select(statements: Sequence[Any]) -> None:
    if len(statements) != 1:
        raise Invalid(f"expected one statement, found {len(statements)}")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        kind = statements[0].type.name
        raise Invalid(f"{kind} is not allowed", hint="a snapshot is read-only: use SELECT")


def _no_rows(manifest: TableManifest) -> str:
    columns = [f"NULL::{_duckdb_type(c.type)} AS {_quoted(c.name)}" for c in manifest.columns]
    return f"SELECT {', '.join(columns)}, NULL::BIGINT AS row_version WHERE false"


_DUCKDB = {
    "string": "VARCHAR",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
    "binary": "BLOB",
    "timestamp[us]": "TIMESTAMP",
    "date32[day]": "DATE",
    "map<string, string>": "MAP(VARCHAR, VARCHAR)",
}


def _duckdb_type(arrow: str) -> str:
    """DuckDB's name for a column's type, as the manifest spells it."""
    if arrow.startswith("list<"):
        return _duckdb_type(arrow.removesuffix(">").partition(": ")[2]) + "[]"
    return _DUCKDB.get(arrow, "VARCHAR")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
