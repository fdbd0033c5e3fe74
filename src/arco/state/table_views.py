"""A table as SQL over its files, for the server and for browsers.

    base      one row for each key
    l0        newer rows, with tombstones (`_deleted`); several for a key
    changes   the same, of the latest commits
    history   rows that have left the base because of their age

For each key the newest row counts, by `row_version`. DuckDB 1.5 and later give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from arco.columns.quoting import literal, quoted
from arco.log.contents import TableFiles
from arco.log.manifest import FileRef

ReadRows = Callable[[Sequence[FileRef]], str]
"""Files of a table as a SELECT of their rows."""


def table_select(files: TableFiles, read: ReadRows, computed: Mapping[str, str]) -> str:
    """A table's rows; `computed` are columns that only SQL has."""
    body = _newest(files, read) if files.files() else no_rows(files)
    if computed:
        more = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in computed.items())
        body = f"SELECT *, {more} FROM ({body})"
    return body


def _newest(files: TableFiles, read: ReadRows) -> str:
    """For each key the newest row: L0 before the base, the base before history.

    The few recent rows are deduplicated; the base is only checked against them. A key that was used
    again after its row moved to history is there too.
    """
    columns = ", ".join([*(quoted(c.name) for c in files.columns), "row_version"])
    keys = [quoted(k) for k in files.key]
    newest = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY row_version DESC)"
    named = {"l0": files.l0, "base": files.base, "history": files.history}
    levels: dict[str, str] = {}
    for level, refs in named.items():
        if refs:
            # With every column of the table: older files may lack some.
            rows = f"SELECT * FROM ({no_rows(files)} UNION ALL BY NAME {read(refs)})"
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


def read_parquet(names: Sequence[str]) -> str:
    """The rows of files with the columns of a table."""
    listed = ", ".join(map(literal, names))
    return f"SELECT * FROM read_parquet([{listed}], union_by_name=true)"


def no_rows(files: TableFiles) -> str:
    columns = [f"NULL::{duckdb_type(c.type)} AS {quoted(c.name)}" for c in files.columns]
    return f"SELECT {', '.join(columns)}, NULL::BIGINT AS row_version WHERE false"


_DUCKDB = {
    "string": "VARCHAR",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
    "binary": "BLOB",
    "timestamp[us]": "TIMESTAMP",
    "date32[day]": "DATE",
}


def duckdb_type(arrow: str) -> str:
    """DuckDB's name for a column's type, as the manifest spells it."""
    if arrow.startswith("list<"):
        return duckdb_type(arrow.removesuffix(">").partition(": ")[2]) + "[]"
    if arrow.startswith("map<"):
        key, _, value = arrow.removeprefix("map<").removesuffix(">").partition(", ")
        return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
    return _DUCKDB.get(arrow, "VARCHAR")
