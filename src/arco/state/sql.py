"""SQL over a snapshot, with DuckDB, on the same files that a browser reads.

Every table is there by its name (`catalog.assets`). A query sees one generation, can change
nothing, can read nothing but the snapshot's files, and is bounded in time, memory, rows and bytes.
It runs in a separate process (`sqlprocess`), which gets only the files, fetched and verified here.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from arco.columns.quoting import literal, quoted
from arco.errors import Invalid
from arco.log.contents import TableFiles
from arco.log.manifest import FileRef
from arco.state.snapshot import Snapshot
from arco.state.sqlprocess import MIB, SqlLimits, SqlProcess, SqlQuery, UnknownTable
from arco.state.table import Table
from arco.state.table_views import duckdb_type, read_parquet, table_select
from arco.storage.parallel import each

__all__ = ["SqlEngine", "SqlLimits", "SqlResult"]

IDLE_PROCESSES = 2
"""Maximum of idle processes for the next queries; each has some 200 MiB."""
KEPT_BYTES = 1 << 30
"""Maximum size of fetched files that are kept for the next queries."""
DUCKDB_SHARE = 0.8
"""The part of a query's memory that DuckDB may manage: it reports an excess itself."""


class SqlResult(msgspec.Struct, frozen=True):
    table: pa.Table
    truncated: bool
    """Whether there were more rows than the limit."""
    generation: int


class RowFilter(msgspec.Struct, frozen=True):
    """Which tables a query may name, and which of their rows it sees."""

    conditions: dict[str, str]
    """By table, a condition of SQL; empty: all rows. Other tables do not exist."""
    setup: tuple[str, ...] = ()
    """Statements that create what the conditions refer to."""
    shown_text: str = ""
    """How texts of filtered tables are shown: an SQL expression with the placeholder `{text}`."""


class SqlEngine:
    """Runs queries. Of the files that no query uses, the last used ones stay in a temporary
    directory, up to `KEPT_BYTES`."""

    def __init__(
        self,
        tables: Sequence[Table[Any]] = (),
        limits: SqlLimits | None = None,
        process: SqlProcess | None = None,
    ) -> None:
        """`tables` exist for queries even if a snapshot has no rows of them. `process` was started
        earlier, for the first query.
        """
        self._declared = {str(table): table for table in tables}
        self.limits = limits or SqlLimits()
        self.folder = tempfile.TemporaryDirectory(prefix="arco-sql-")
        self.idle = [] if process is None else [process]
        self._lock = threading.Lock()
        self._used: Counter[Path] = Counter()
        """How many queries use a file now."""

    def close(self) -> None:
        with self._lock:
            idle, self.idle = self.idle, []
        for process in idle:
            process.close()
        self.folder.cleanup()

    def __enter__(self) -> SqlEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(
        self,
        snapshot: Snapshot,
        sql: str,
        limits: SqlLimits | None = None,
        rows: RowFilter | None = None,
    ) -> SqlResult:
        """Run one SELECT. Raises Invalid for anything else, and for what DuckDB refuses."""
        limits = limits or self.limits
        _check_text(sql)
        table_names = sorted({*self._declared, *snapshot.contents.names()})
        conditions: dict[str, str] = {}
        if rows is not None:
            conditions = rows.conditions
            table_names = [name for name in table_names if name in conditions]
        tables = {name: self._table(snapshot, name) for name in _named(table_names, sql)}
        with self.process(limits) as process, self._using(tables):
            self._fetch(snapshot, tables)
            # A query can read the files of a view. What the caller may not read whole is copied
            # instead: filtered tables, and rows of change files, which hold other tables too.
            changes: list[str] = []
            for name, files in tables.items():
                if rows is not None and not conditions[name] and _shared(files.files()):
                    changes.append(f"CREATE TABLE {_apart(name)} AS {self._changes(files)}")
            views = [
                self._view(name, files, conditions.get(name, ""), rows)
                for name, files in tables.items()
            ]
            readable = [
                ref
                for name, files in tables.items()
                if not conditions.get(name)
                for ref in files.files()
                if rows is None or not ref.table
            ]
            prepared = () if rows is None else ("CREATE SCHEMA arco_changes", *rows.setup)
            setup = [*_bounds(limits), *prepared, *changes, *views, *self._lock_down(readable)]
            try:
                raw = process.run(SqlQuery(sql, setup), limits)
            except UnknownTable as error:
                hint = f"the tables are {', '.join(table_names)}"
                raise Invalid(error.message, hint=hint) from None
        table = pa.ipc.open_stream(pa.py_buffer(raw)).read_all()
        more = table.num_rows > limits.rows
        return SqlResult(table.slice(0, limits.rows), more, snapshot.generation)

    def _table(self, snapshot: Snapshot, name: str) -> TableFiles:
        declared = self._declared.get(name)
        return snapshot.contents.table(name, None if declared is None else declared.manifest())

    @contextmanager
    def process(self, limits: SqlLimits) -> Iterator[SqlProcess]:
        """An idle process. It starts while the files are fetched."""
        process = self._take(limits)
        try:
            yield process
        finally:
            self._give_back(process, limits)

    def _take(self, limits: SqlLimits) -> SqlProcess:
        with self._lock:
            process = self.idle.pop() if self.idle else None
        if process is not None and process.has_room(limits):
            return process
        if process is not None:
            process.close()
        return SqlProcess()

    def _give_back(self, process: SqlProcess, limits: SqlLimits) -> None:
        if process.has_room(limits):
            with self._lock:
                if len(self.idle) < IDLE_PROCESSES:
                    self.idle.append(process)
                    return
        process.close()

    @contextmanager
    def _using(self, tables: dict[str, TableFiles]) -> Iterator[None]:
        """Within this context, the files of these tables are not removed."""
        files = [self._path(ref) for manifest in tables.values() for ref in manifest.files()]
        with self._lock:
            self._used.update(files)
        try:
            yield
        finally:
            with self._lock:
                self._used.subtract(files)
                self._used += Counter()  # drops what is zero
                for file in files:
                    if file.exists():
                        os.utime(file)
                self._remove_unused()

    def _remove_unused(self) -> None:
        cached = [(file.stat(), file) for file in Path(self.folder.name).glob("*.parquet")]
        excess = sum(status.st_size for status, _ in cached) - KEPT_BYTES
        for status, file in sorted(cached, key=lambda item: item[0].st_mtime_ns):
            if excess > 0 and file not in self._used:
                file.unlink(missing_ok=True)
                excess -= status.st_size

    def _fetch(self, snapshot: Snapshot, tables: dict[str, TableFiles]) -> None:
        missing = [r for m in tables.values() for r in m.files() if not self._path(r).exists()]

        def fetch(ref: FileRef) -> None:
            partial = self._path(ref).with_suffix(f".{threading.get_ident()}")
            partial.write_bytes(snapshot.files.raw(ref))
            partial.rename(self._path(ref))

        each(snapshot.files.store, fetch, missing)

    def _path(self, ref: FileRef) -> Path:
        return Path(self.folder.name) / f"{ref.sha256}.parquet"

    def _view(self, name: str, manifest: TableFiles, condition: str, rows: RowFilter | None) -> str:
        domain, table = (quoted(part) for part in name.split("."))
        # With a filter, the rows of change files are in a table of their own.
        apart = _apart(name) if rows is not None and not condition else ""
        declared = self._declared.get(name)
        computed = {} if declared is None else declared.computed
        body = table_select(manifest, lambda refs: self._read(manifest, refs, apart), computed)
        if condition:
            columns = _text_columns(manifest, rows.shown_text if rows is not None else "")
            body = f"SELECT *{columns} FROM ({body}) WHERE {condition}"
        kind = "TABLE" if condition else "VIEW"
        return f"CREATE SCHEMA IF NOT EXISTS {domain}; CREATE {kind} {domain}.{table} AS {body}"

    def _read(self, manifest: TableFiles, refs: Sequence[FileRef], apart: str) -> str:
        parts: list[str] = []
        own = [str(self._path(ref)) for ref in refs if not ref.table]
        if own:
            parts.append(read_parquet(own))
        if _shared(refs):
            parts.append(f"SELECT * FROM {apart}" if apart else self._changes(manifest))
        return " UNION ALL BY NAME ".join(parts)

    def _changes(self, manifest: TableFiles) -> str:
        """The rows of change files, which have rows of several tables, each a JSON object."""
        shared = _shared(manifest.files())
        shape = json.dumps({c.name: duckdb_type(c.type) for c in manifest.columns})
        return (
            f"SELECT unnest(json_transform(row, {literal(shape)})), row_version, _deleted "
            f"FROM read_parquet([{self._paths(shared)}]) "
            f'WHERE "table" = {literal(shared[0].table)}'
        )

    def _paths(self, refs: Sequence[FileRef]) -> str:
        return ", ".join(literal(str(self._path(ref))) for ref in refs)

    def _lock_down(self, readable: Sequence[FileRef]) -> list[str]:
        return [
            "SET python_enable_replacements=false",
            f"SET allowed_paths=[{self._paths(readable)}]",
            "SET enable_external_access=false",
            "SET lock_configuration=true",
        ]


def _text_columns(manifest: TableFiles, expression: str) -> str:
    """The columns with texts, as a query sees them."""
    if not expression:
        return ""
    replaced: list[str] = []
    for column in manifest.columns:
        name, kind = quoted(column.name), duckdb_type(column.type)
        each = expression.format(text="x")
        if kind == "VARCHAR":
            replaced.append(f"{expression.format(text=name)} AS {name}")
        elif kind == "VARCHAR[]":
            replaced.append(f"[{each} for x in {name}] AS {name}")
        elif kind.startswith("MAP(VARCHAR, VARCHAR"):
            values = f"[{each} for x in map_values({name})]"
            replaced.append(f"map(map_keys({name}), {values}) AS {name}")
    return f" REPLACE ({', '.join(replaced)})" if replaced else ""


def _shared(refs: Sequence[FileRef]) -> list[FileRef]:
    """Change files."""
    return [ref for ref in refs if ref.table]


def _apart(name: str) -> str:
    return f"arco_changes.{quoted(name)}"


def _bounds(limits: SqlLimits) -> list[str]:
    return [
        f"SET memory_limit='{int(limits.memory_mib * MIB * DUCKDB_SHARE)}B'",
        "SET temp_directory=''",
    ]


def _check_text(sql: str) -> None:
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"the query has text that UTF-8 cannot hold: {error}") from None


def _named(names: Sequence[str], sql: str) -> list[str]:
    """The tables whose name occurs in the text of a query: at worst, one too many."""
    words = set(re.findall(r"\w+", sql.lower()))
    return [name for name in names if name.partition(".")[2] in words]
