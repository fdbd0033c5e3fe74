"""Compares the rows of two versions with DuckDB, by key.

Columns are numbered as soon as they are read, so that queries do not contain names of users'
columns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from arco.columns.quoting import literal, quoted, unglobbed
from arco.execution.version_diff import (
    DiffColumns,
    DiffCounts,
    DuplicateKeys,
    KeyChanges,
    RowChange,
    RowDifference,
    duplicates_refused,
    example_of,
)
from arco.machine import machine
from arco.storage import parallel
from arco.storage.footers import parquet_files
from arco.storage.port import Store

MEMORY_BYTES: Final = 2 << 30
"""Maximum memory before it spills to disk; on small machines a quarter of their memory."""
_LOCAL: Final = "file://"
_CONDITIONS: Final[dict[RowDifference, str]] = {
    "added": "in_a IS NULL",
    "removed": "in_b IS NULL",
    "changed": "in_a AND in_b AND any_differs",
}


def compare_with_duckdb(
    store: Store,
    folders: tuple[str, str],
    columns: DiffColumns,
    examples: int,
    hidden: Collection[str],
) -> KeyChanges:
    """`folders` are those of the two versions. Raises Invalid if the key is not unique."""
    with tempfile.TemporaryDirectory(prefix="arco-compare-") as scratch:
        limits = machine()
        with duckdb.connect(
            ":memory:",
            config={
                "threads": limits.cores,
                "memory_limit": f"{min(MEMORY_BYTES, limits.memory_bytes // 4)}B",
                "temp_directory": f"{scratch}/spilled",
                "autoinstall_known_extensions": False,
            },
        ) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            comparison = _DuckComparison(connection, columns)
            for side, folder in zip("ab", folders, strict=True):
                paths = _local_files(store, folder, Path(scratch) / side)
                comparison.open(side, paths)
            return comparison.changes(examples, hidden)


def _local_files(store: Store, folder: str, scratch: Path) -> list[str]:
    """Fetches the files, unless they are on this machine's disk."""
    metas = parquet_files(store, folder)
    if store.url.startswith(_LOCAL):
        root = store.url.removeprefix(_LOCAL)
        return [f"{root}/{meta.path}" for meta in metas]
    scratch.mkdir()
    places = [scratch / f"{number}.parquet" for number in range(len(metas))]

    def fetch(number: int) -> None:
        places[number].write_bytes(store.get(metas[number].path).data)

    parallel.each(store, fetch, range(len(metas)))
    return [str(place) for place in places]


class _DuckComparison:
    def __init__(self, connection: duckdb.DuckDBPyConnection, columns: DiffColumns) -> None:
        self._connection = connection
        self._columns = columns
        self._keys = range(len(columns.keys))
        self._values = range(len(columns.values))

    def open(self, side: str, paths: Sequence[str]) -> None:
        names = [
            *((f"k{at}", column) for at, column in enumerate(self._columns.keys)),
            *((f"v{at}", column) for at, column in enumerate(self._columns.values)),
        ]
        sources = [
            f"{quoted(column.before if side == 'a' else column.after)} AS {name}"
            for name, column in names
        ]
        files = ", ".join(literal(unglobbed(path)) for path in paths)
        read = f"read_parquet([{files}], hive_partitioning = false)"
        if not paths:
            read = (
                f"(SELECT {', '.join(f'NULL AS {quoted(c.name)}' for _, c in names)}) WHERE FALSE"
            )
        self._connection.execute(f"CREATE VIEW {side} AS SELECT {', '.join(sources)} FROM {read}")

    def changes(self, examples: int, hidden: Collection[str]) -> KeyChanges:
        for side, version in (("a", "first"), ("b", "second")):
            if count := self._duplicates(side):
                raise duplicates_refused(DuplicateKeys(version, count), self._columns)  # type: ignore[arg-type]
        counts = self._counts()
        listed: list[RowChange] = []
        for change, count in (
            ("changed", counts.changed),
            ("added", counts.added),
            ("removed", counts.removed),
        ):
            if count:
                listed += self._examples(change, examples, hidden)  # type: ignore[arg-type]
        return KeyChanges(
            key=tuple(column.name for column in self._columns.keys),
            engine="duckdb",
            added=counts.added,
            removed=counts.removed,
            changed=counts.changed,
            same=counts.same,
            columns={
                column.name: count
                for column, count in zip(self._columns.values, counts.by_column, strict=True)
                if count
            },
            not_compared=self._columns.not_compared,
            examples=tuple(listed),
        )

    def _duplicates(self, side: str) -> int:
        keys = ", ".join(f"k{at}" for at in self._keys)
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {side} GROUP BY {keys} HAVING count(*) > 1)"
        return int(self._rows(sql)[0][0])

    def _joined(self) -> str:
        matches = " AND ".join(f"a.k{at} IS NOT DISTINCT FROM b.k{at}" for at in self._keys)
        keys = [f"CASE WHEN in_a THEN a.k{at} ELSE b.k{at} END AS k{at}" for at in self._keys]
        values = [f"a.v{at} AS a{at}, b.v{at} AS b{at}" for at in self._values]
        differs = [f"a.v{at} IS DISTINCT FROM b.v{at} AS d{at}" for at in self._values]
        any_differs = " OR ".join(f"a.v{at} IS DISTINCT FROM b.v{at}" for at in self._values)
        chosen = ", ".join(
            ["in_a", "in_b", *keys, *values, *differs, f"{any_differs or 'FALSE'} AS any_differs"]
        )
        return (
            f"(SELECT {chosen} FROM (SELECT *, TRUE AS in_a FROM a) a "
            f"FULL JOIN (SELECT *, TRUE AS in_b FROM b) b ON {matches})"
        )

    def _counts(self) -> DiffCounts:
        conditions = [*_CONDITIONS.values(), "in_a AND in_b AND NOT any_differs"]
        conditions += [f"in_a AND in_b AND d{at}" for at in self._values]
        counts = ", ".join(f"count(*) FILTER (WHERE {each})" for each in conditions)
        added, removed, changed, same, *by_column = self._rows(
            f"SELECT {counts} FROM {self._joined()}"
        )[0]
        return DiffCounts(added, removed, changed, same, by_column)

    def _examples(
        self, change: RowDifference, limit: int, hidden: Collection[str]
    ) -> list[RowChange]:
        keys = [f"CAST(k{at} AS VARCHAR)" for at in self._keys]
        before = [f"CAST(a{at} AS VARCHAR)" for at in self._values]
        after = [f"CAST(b{at} AS VARCHAR)" for at in self._values]
        differs = [f"d{at}" for at in self._values]
        order = ", ".join(f"k{at}" for at in self._keys)
        rows = self._rows(
            f"SELECT {', '.join([*keys, *before, *after, *differs])} FROM {self._joined()} "
            f"WHERE {_CONDITIONS[change]} ORDER BY {order} LIMIT {int(limit)}"
        )
        return [_example(change, self._columns, row, hidden) for row in rows]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()


def _example(
    change: RowDifference, columns: DiffColumns, row: Sequence[Any], hidden: Collection[str]
) -> RowChange:
    keys, values = len(columns.keys), len(columns.values)
    parts = row[:keys], row[keys : keys + values], row[keys + values : keys + 2 * values]
    return example_of(change, columns, parts, row[keys + 2 * values :], hidden)
