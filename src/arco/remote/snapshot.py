"""A generation for callers that do not see all of it: rows are requested from the server.

Readers are the same as for files. A lookup by key is one request; answers are cached. Rows that the
caller may not see are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from arco.log.head import Head, Manifests
from arco.remote.client import Client
from arco.remote.store import ApiStore
from arco.state.file_rows import ShardRange
from arco.state.parquet import Files
from arco.state.rows_details import RowsDetails
from arco.state.snapshot import Snapshot
from arco.state.table import Key, Row, Table, Versioned
from arco.times import iso

R = TypeVar("R", bound=Row)
KEYS = 5_000
"""Maximum number of keys in one request."""


class RowsAnswer(msgspec.Struct, frozen=True):
    rows: pa.Table
    details: RowsDetails


class ScopedSnapshot(Snapshot):
    def __init__(self, manifests: Manifests, files: Files, head: Head) -> None:
        super().__init__(manifests, files, head)
        self._answers: dict[bytes, RowsAnswer] = {}

    @property
    def _client(self) -> Client:
        store = self.files.store
        assert isinstance(store, ApiStore)
        return store.client

    def _ask(self, table: Table[Any], select: str, **body: Any) -> RowsAnswer:
        query = {"table": str(table), "select": select, **body}
        key = msgspec.json.encode(query)
        if key not in self._answers:
            self._answers[key] = self._fetched(table, query)
        return self._answers[key]

    def _fetched(self, table: Table[Any], query: dict[str, Any]) -> RowsAnswer:
        pages: list[pa.Table] = []
        details = RowsDetails()
        while True:
            after = {"after": details.next} if details.next else {}
            page = self._client.read_rows({**query, **after}, generation=self.generation)
            details = RowsDetails.of(page)
            pages.append(_of_table(table, page))
            if not details.next:
                return RowsAnswer(pa.concat_tables(pages), details)

    def query(self, sql: str, max_rows: int) -> pa.Table:
        """Run one SELECT at the server."""
        return self._client.query_arrow(sql, max_rows=max_rows, generation=self.generation)

    # -- rows by their keys --------------------------------------------------------------

    def versioned(self, table: Table[R], key: Key, *, history: bool = True) -> Versioned[R]:
        rows = self._ask(table, "keys", keys=[key], history=history).rows
        return next(iter(table.versioned(rows).values()), (0, None))

    def get_many_versioned(self, table: Table[R], keys: Sequence[Key]) -> dict[Key, Versioned[R]]:
        versions: dict[Key, Versioned[R]] = {}
        for start in range(0, len(keys), KEYS):
            rows = self._ask(table, "keys", keys=list(keys[start : start + KEYS])).rows
            versions |= table.versioned(rows)
        return versions

    def get_of_day(self, table: Table[R], key: Key, day: date) -> R | None:
        rows = self._ask(table, "keys", keys=[key], day=day).rows
        return next(iter(table.rows_of(rows)), None)

    def rows_versioned(
        self, table: Table[R], shard: Key, *, history: bool = True
    ) -> dict[Key, Versioned[R]]:
        return table.versioned(self._ask(table, "part", keys=[shard], history=history).rows)

    def columns(self, table: Table[Any], shard: str, names: Sequence[str]) -> pa.Table:
        chosen = list(dict.fromkeys([*table.key, *names, "row_version", "_deleted", "_bucket"]))
        return self._ask(table, "part", keys=[(shard,)], history=False).rows.select(chosen)

    # -- many rows -----------------------------------------------------------------------

    def scan(self, table: Table[Any]) -> pa.Table:
        return self._ask(table, "all").rows

    def hot(self, table: Table[R]) -> list[R]:
        return list(table.rows_of(self._ask(table, "hot").rows))

    def recent_rows(self, table: Table[Any], since: datetime) -> pa.Table:
        return self._ask(table, "recent", since=iso(since)).rows

    def versions_since(self, table: Table[R], position: int) -> dict[Key, Versioned[R]]:
        return table.versioned(self._ask(table, "since", position=position).rows)

    def hot_rows(
        self, table: Table[Any], shard: Key, between: ShardRange
    ) -> tuple[pa.Table, datetime | None]:
        answer = self._ask(table, "hot", **_part(shard, between))
        return answer.rows, answer.details.rest_before

    def history_days(self, table: Table[Any], between: ShardRange) -> list[date]:
        return self._ask(table, "days", **_part((), between)).details.days

    def rows_of_day(
        self, table: Table[Any], last: date, shard: Key, between: ShardRange
    ) -> pa.Table:
        return self._ask(table, "day", day=last, **_part(shard, between)).rows

    def changed_keys(self, before: Snapshot, table: Table[Any]) -> set[Key]:
        assert isinstance(before, ScopedSnapshot)
        new = self._ask(table, "changed", before=before.generation).rows
        old = before._ask(table, "changed", before=self.generation).rows
        return {*table.versioned(new), *table.versioned(old)}


def _part(shard: Key, between: ShardRange) -> dict[str, Any]:
    part: dict[str, Any] = {"keys": [shard]} if shard else {}
    return part if between is None else {**part, "between": between}


def _of_table(table: Table[Any], rows: pa.Table) -> pa.Table:
    """Rows of a server, which may have columns that this program does not know yet."""
    own = [name for name in table.schema.names if name in rows.column_names]
    return rows.select(own).replace_schema_metadata(None)
