"""SQL over a snapshot, with DuckDB, over the very files that a browser reads.

Every table is there by its name (`catalog.assets`). A query sees one generation,
can change nothing, can read nothing but the snapshot's files, and is bounded in
time, memory, rows and bytes. It runs in a process of its own (`sqlprocess`), which
is given the files, fetched and verified here, and nothing else.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from arco.errors import Invalid
from arco.log.manifest import FileRef, TableManifest
from arco.state.snapshot import Snapshot
from arco.state.sqlprocess import MIB, Query, SqlLimits, SqlProcess, UnknownTable
from arco.state.table import Table
from arco.storage.parallel import each

__all__ = ["SqlEngine", "SqlLimits", "SqlResult"]

IDLE_PROCESSES = 2
"""So many are kept for the next queries; each has some 200 MiB."""
DUCKDB_SHARE = 0.8
"""How much of a query's memory DuckDB may manage: it reports that itself, in words."""


class SqlResult(msgspec.Struct, frozen=True):
    table: pa.Table
    truncated: bool
    """Whether there were more rows than the limit."""
    generation: int


class SqlEngine:
    """Runs queries. Fetched files stay in a temporary directory until `close`."""

    def __init__(
        self,
        tables: Sequence[Table[Any]] = (),
        limits: SqlLimits | None = None,
        process: SqlProcess | None = None,
    ) -> None:
        """`tables` are there for queries even where a snapshot has nothing in them yet.

        `process` was started earlier, to have it ready when the first query comes.
        """
        self._declared = {str(table): table.manifest() for table in tables}
        self.limits = limits or SqlLimits()
        self._dir = tempfile.TemporaryDirectory(prefix="arco-sql-")
        self._idle = [] if process is None else [process]
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()
        self._dir.cleanup()

    def __enter__(self) -> SqlEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, snapshot: Snapshot, sql: str, limits: SqlLimits | None = None) -> SqlResult:
        """Run one SELECT. Raises Invalid for anything else, and for what DuckDB refuses."""
        limits = limits or self.limits
        _check_text(sql)
        known = {**self._declared, **snapshot.tables()}
        tables = _named(known, sql)
        with self._process(limits) as process:
            self._fetch(snapshot, tables)
            views = [self._view(name, manifest) for name, manifest in tables.items()]
            setup = [*views, *self._lock_down(tables, limits)]
            try:
                raw = process.run(Query(sql, setup), limits)
            except UnknownTable as error:
                hint = f"the tables are {', '.join(known)}"
                raise Invalid(error.message, hint=hint) from None
        table = pa.ipc.open_stream(pa.py_buffer(raw)).read_all()
        more = table.num_rows > limits.rows
        return SqlResult(table.slice(0, limits.rows), more, snapshot.generation)

    @contextmanager
    def _process(self, limits: SqlLimits) -> Iterator[SqlProcess]:
        """A process that nobody uses. It starts while the files are fetched."""
        process = self._take(limits)
        try:
            yield process
        finally:
            self._give_back(process, limits)

    def _take(self, limits: SqlLimits) -> SqlProcess:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is not None and process.has_room(limits):
            return process
        if process is not None:
            process.close()
        return SqlProcess()

    def _give_back(self, process: SqlProcess, limits: SqlLimits) -> None:
        if process.has_room(limits):
            with self._lock:
                if len(self._idle) < IDLE_PROCESSES:
                    self._idle.append(process)
                    return
        process.close()

    def _fetch(self, snapshot: Snapshot, tables: dict[str, TableManifest]) -> None:
        wanted = [r for m in tables.values() for r in m.files() if not self._path(r).exists()]

        def fetch(ref: FileRef) -> None:
            partial = self._path(ref).with_suffix(f".{threading.get_ident()}")
            partial.write_bytes(snapshot.files.raw(ref))
            partial.rename(self._path(ref))

        each(snapshot.files.store, fetch, wanted)

    def _path(self, ref: FileRef) -> Path:
        return Path(self._dir.name) / f"{ref.sha256}.parquet"

    def _view(self, name: str, manifest: TableManifest) -> str:
        domain, table = (_quoted(part) for part in name.split("."))
        body = self._select(manifest) if manifest.files() else _no_rows(manifest)
        return f"CREATE SCHEMA IF NOT EXISTS {domain}; CREATE VIEW {domain}.{table} AS {body}"

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

    def _lock_down(self, tables: dict[str, TableManifest], limits: SqlLimits) -> list[str]:
        allowed = ", ".join(f"'{self._path(r)}'" for m in tables.values() for r in m.files())
        return [
            f"SET memory_limit='{int(limits.memory_mib * MIB * DUCKDB_SHARE)}B'",
            "SET temp_directory=''",
            "SET python_enable_replacements=false",
            f"SET allowed_paths=[{allowed}]",
            "SET enable_external_access=false",
            "SET lock_configuration=true",
        ]


def _check_text(sql: str) -> None:
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"the query has text that UTF-8 cannot hold: {error}") from None


def _named(known: dict[str, TableManifest], sql: str) -> dict[str, TableManifest]:
    """The tables whose name occurs in the text of a query: at worst, one too many."""
    words = set(re.findall(r"\w+", sql.lower()))
    return {n: manifest for n, manifest in known.items() if n.partition(".")[2] in words}


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
