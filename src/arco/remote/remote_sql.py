"""SQL that the server runs, over what the caller sees."""

from __future__ import annotations

from arco.errors import Invalid
from arco.remote.snapshot import ScopedSnapshot
from arco.state.snapshot import Snapshot
from arco.state.sql import RowFilter, SqlEngine, SqlLimits, SqlResult

MAX_ROWS = 10_000


class RemoteSql(SqlEngine):
    """The same, with the bounds of the server."""

    def query(
        self,
        snapshot: Snapshot,
        sql: str,
        limits: SqlLimits | None = None,
        rows: RowFilter | None = None,
    ) -> SqlResult:
        assert isinstance(snapshot, ScopedSnapshot)
        max_rows = (limits or self.limits).rows
        if max_rows >= MAX_ROWS:
            most = MAX_ROWS - 1
            raise Invalid(f"the API returns at most {most:,} rows", hint=f"give --limit {most}")
        table = snapshot.query(sql, max_rows + 1)
        more = table.num_rows > max_rows
        return SqlResult(table.slice(0, max_rows), more, snapshot.generation)
