"""Which files each table consists of at a generation, and the SQL that makes the table of them.

A browser with DuckDB reads them itself. They hold rows of all namespaces: they need a role on the
whole workspace. Tables of keys, roles and the audit log are not among them, and neither are
change files as they are in the store, which have rows of those tables too: of the latest commits'
changes each table has a file of its own, which the server makes.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from datetime import date
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from arco.api.routes import AtParameters, read
from arco.api.views import View
from arco.errors import Denied, NotFound
from arco.log.contents import TableFiles
from arco.log.manifest import FileRef
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.state.table import Key, Table, Versioned, keep_newest
from arco.state.table_views import read_parquet, table_select

PERMISSION: Final = Permission.METADATA_READ_ALL
CHANGES: Final = "changes/"
KEPT_BYTES: Final = 32 << 20
_HIDDEN_DOMAIN: Final = "security."

FileKind = Literal["base", "l0", "change", "history"]


class TableFilesParameters(AtParameters, frozen=True, kw_only=True):
    table: Annotated[
        list[Annotated[str, Meta(max_length=100)]],
        Meta(max_length=100, description="Only these tables, as `catalog.assets`."),
    ] = []


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    """As Arrow names it."""


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    """The name of the file in `sql`."""
    url: str
    """Below the workspace; GET is answered with 307, or with the bytes, and HEAD with 206."""
    kind: FileKind
    rows: int
    bytes: int | None = None
    """Null for `change`: HEAD tells."""
    shard_keys: tuple[str, str] | None = None
    """The lowest and the highest value of the first column of the table's key, as text."""
    buckets: tuple[int, int]
    """The lowest and the highest bucket; files are sorted by `_bucket`, then by the key."""
    row_versions: tuple[int, int]
    days: tuple[date, date] | None = None
    """Of `history`: the first and the last day that it is for."""


class FilesOfTable(msgspec.Struct, frozen=True, kw_only=True):
    table: str
    key: list[str]
    columns: list[TableColumn]
    """Files have `row_version`, `_deleted` and `_bucket`, too."""
    sql: str
    """The table's rows at this generation, for DuckDB 1.5 or newer, over files that are registered
    under their paths."""
    files: list[TableFile]


class FilesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    """In the log."""
    tables: list[FilesOfTable]


def list_files(view: View, visible: Visible, parameters: TableFilesParameters) -> FilesAnswer:
    """List the files of each table, and the SQL that combines them into the table."""
    require_all(visible)
    chosen = parameters.table
    names = sorted(name for name in view.tables if not name.startswith(_HIDDEN_DOMAIN))
    for name in chosen:
        if name not in names:
            raise NotFound(f"there is no table {name}", hint="leave out `table` to see all of them")
    tables = [_described(view, name) for name in names if not chosen or name in chosen]
    return FilesAnswer(position=view.snapshot.position, tables=tables)


def require_all(visible: Visible) -> None:
    if not visible.all:
        raise Denied("files need a role on the whole workspace", hint="use POST …/query instead")


def _described(view: View, name: str) -> FilesOfTable:
    table = view.tables[name]
    files = view.snapshot.manifest(table)
    changed = changes_path(name, files)

    def rows(refs: Any) -> str:
        paths = dict.fromkeys(changed if ref.table else ref.path for ref in refs)
        return read_parquet(list(paths))

    listed = [
        *(_file(view, ref, "base") for ref in files.base),
        *(_file(view, ref, "l0") for ref in files.l0 if not ref.table),
        *(_file(view, ref, "history") for ref in files.history),
    ]
    shared = [ref for ref in files.l0 if ref.table]
    if shared:
        listed.append(
            TableFile(
                path=changed,
                url=_url(view, changed),
                kind="change",
                rows=sum(ref.rows for ref in shared),
                buckets=_span([ref.buckets for ref in shared]),
                row_versions=_span([ref.versions for ref in shared]),
            )
        )
    return FilesOfTable(
        table=name,
        key=list(files.key),
        columns=[TableColumn(name=each.name, type=each.type) for each in files.columns],
        sql=table_select(files, rows, table.computed),
        files=listed,
    )


def _file(view: View, ref: FileRef, kind: FileKind) -> TableFile:
    return TableFile(
        path=ref.path,
        url=_url(view, ref.path),
        kind=kind,
        rows=ref.rows,
        bytes=ref.bytes,
        shard_keys=ref.shard,
        buckets=ref.buckets,
        row_versions=ref.versions,
        days=ref.days,
    )


def _span(ranges: list[tuple[int, int]]) -> tuple[int, int]:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _url(view: View, path: str) -> str:
    return f"/files/{quote(path)}?generation={view.generation}"


# -- one file ---------------------------------------------------------------------------------


def changes_path(name: str, files: TableFiles) -> str:
    """The name of the file with a table's changes: another one when they are others."""
    paths = "\n".join(ref.path for ref in files.l0 if ref.table)
    return f"{CHANGES}{name}/{hashlib.sha256(paths.encode()).hexdigest()[:32]}.parquet"


def stored_file(view: View, path: str) -> FileRef:
    """The file of a table at the view's generation. Raises NotFound for anything else."""
    match path.split("/"):
        case ["state", domain, name, _, _]:
            table = view.tables.get(f"{domain}.{name}")
            if table is not None and domain != _HIDDEN_DOMAIN.rstrip("."):
                files = view.snapshot.manifest(table)
                for ref in (*files.recent(), *files.history):
                    if ref.path == path and not ref.table:
                        return ref
    raise no_file(path)


def no_file(path: str) -> NotFound:
    return NotFound(
        f"no table has a file {path} at this generation",
        hint="GET …/files lists them, with the generation",
    )


class ChangeFiles:
    """The files with the changes of tables, created on request. A bounded cache."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, view: View, path: str) -> bytes:
        """Raises NotFound for a path that is not of the view's generation."""
        name, _, _ = path.removeprefix(CHANGES).partition("/")
        table = view.tables.get(name)
        if table is None or name.startswith(_HIDDEN_DOMAIN):
            raise no_file(path)
        files = view.snapshot.manifest(table)
        refs = [ref for ref in files.l0 if ref.table]
        if not refs or changes_path(name, files) != path:
            raise no_file(path)
        with self._lock:
            if (cached := self._cache.get(path)) is not None:
                self._cache.move_to_end(path)
                return cached
        raw = _changes_file(view, table, refs)
        with self._lock:
            self._bytes += len(raw) - len(self._cache.pop(path, b""))
            self._cache[path] = raw
            while self._bytes > KEPT_BYTES and len(self._cache) > 1:
                self._bytes -= len(self._cache.popitem(last=False)[1])
        return raw


def _changes_file(view: View, table: Table[Any], refs: list[FileRef]) -> bytes:
    """For each key that change files have, its newest row or tombstone."""
    changed: dict[Key, Versioned[Any]] = {}
    for ref in refs:
        keep_newest(changed, view.snapshot.files.changed_rows(table, ref))
    sink = pa.BufferOutputStream()
    pq.write_table(table.to_arrow(changed), sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


ROUTES = (read("/files", PERMISSION, list_files),)
