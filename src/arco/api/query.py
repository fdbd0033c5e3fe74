"""SQL over a snapshot, in the process that runs it for the command line: bounded and read-only.

A caller with access to the whole workspace can query every table except keys, roles and the audit
log. Other callers see the rows of their visible namespaces, in the tables that have such rows;
names of hidden assets in texts are replaced.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
from litestar import Request
from msgspec import Meta

from arco.api.admission import admitted
from arco.api.exchange import Answer, RequestHeaders
from arco.api.hidden_names import Scrubbing, hidden_namespaces, without_hidden_names
from arco.api.parameters import parse
from arco.api.problems import ApiError, invalid_body
from arco.api.reduced_rows import REDUCED, without_hidden_texts
from arco.api.routes import AtParameters
from arco.api.row_visibility import RowVisibility
from arco.api.run_visibility import require_run
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.api.table_rules import RULES
from arco.api.views import View
from arco.columns.quoting import literal
from arco.plain_json import plain
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.state.sql import RowFilter, SqlLimits, SqlResult
from arco.state.sqlprocess import QueryTooLong
from arco.state.system import all_tables

PERMISSION: Final = Permission.QUERY_RUN
OPERATION: Final = "query"
ARROW: Final = "application/vnd.apache.arrow.stream"
TIMEOUT_S: Final = 20.0
MEMORY_MIB: Final = 512


_REDUCED: Final = REDUCED.keys() - {"orchestration.tasks"}
"""Columns of these name things of others: SQL does not have them. Of tasks those are mere ids."""


class QueryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sql: Annotated[str, Meta(min_length=1, max_length=100_000)]
    """One SELECT; tables are named `catalog.assets`."""
    max_rows: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


class QueryColumn(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    generation: int
    columns: list[QueryColumn]
    rows: list[list[Any]]
    truncated: bool
    """There were more rows than `max_rows`."""


async def answer_query(server: ApiServer, request: Request[Any, Any, Any]) -> Answer:
    headers = RequestHeaders(request.scope)
    served, _, visible = await admitted(
        server, request, "/query", OPERATION, PERMISSION, is_read=False
    )
    parameters = parse(AtParameters, {}, request.scope["query_string"])
    raw = await server.body(request)
    if (headers.get("content-type") or "").partition(";")[0].strip() != "application/json":
        raise ApiError("unsupported_media_type", "the body must be application/json")
    try:
        body = msgspec.json.decode(raw, type=QueryBody)
    except msgspec.DecodeError as error:
        raise invalid_body(error, "body") from None
    except (UnicodeDecodeError, RecursionError):
        raise ApiError("invalid", "the body is not JSON in UTF-8", code="invalid_json") from None
    is_arrow = ARROW in (headers.get("accept") or "")
    async with server.queries.turn():
        data, generation = await server.in_thread(
            lambda: _run(served, parameters, visible, body, is_arrow), served
        )
    sent = {"Arco-Generation": str(generation)}
    return Answer(200, data, ARROW if is_arrow else "application/json", sent)


def _run(
    served: ServedWorkspace,
    parameters: AtParameters,
    visible: Visible,
    body: QueryBody,
    is_arrow: bool,
) -> tuple[bytes, int]:
    if parameters.as_of_run is not None and not visible.all:
        require_run(served.view(AtParameters()), visible, parameters.as_of_run)
    view = served.view(parameters)
    limits = SqlLimits(timeout_s=TIMEOUT_S, rows=body.max_rows, memory_mib=MEMORY_MIB)
    rows = row_filter(served, view, visible)
    try:
        result = served.sql.query(view.snapshot, body.sql, limits, rows)
    except QueryTooLong as error:  # it is the query's fault: repeating it would not help
        raise ApiError("invalid", error.message, code="query_timeout", hint=error.hint) from None
    if is_arrow:
        hidden = hidden_namespaces(view, visible)
        return arrow_stream(without_hidden_texts(result.table, hidden)), result.generation
    return msgspec.json.encode(_document(view, visible, result)), result.generation


def arrow_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _document(view: View, visible: Visible, result: SqlResult) -> Any:
    table = result.table
    columns = [table.column(place).to_pylist() for place in range(table.num_columns)]
    document = {
        "generation": result.generation,
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [plain(list(row)) for row in zip(*columns, strict=True)],
        "truncated": result.truncated,
    }
    return without_hidden_names(view, visible, document)


def row_filter(served: ServedWorkspace, view: View, visible: Visible) -> RowFilter:
    tables = [str(table) for table in all_tables(served.workspace.chain)]
    if visible.namespaces is None:
        return RowFilter({name: "" for name in tables if not name.startswith("security.")})
    visibility = RowVisibility(view, visible)
    namespaces = ", ".join(map(literal, sorted(visible.namespaces)))
    conditions = {
        name: condition
        for name in tables
        if not name.startswith("security.")
        and name not in _REDUCED
        and (condition := RULES[name].condition(namespaces, "(SELECT id FROM arco_seen)"))
    }
    ids = ", ".join(map(literal, sorted(visibility.ids)))
    make = f"CREATE TEMP TABLE arco_seen AS SELECT unnest([{ids}]::VARCHAR[]) AS id"
    hidden = hidden_namespaces(view, visible)
    return RowFilter(conditions, (make,), Scrubbing(hidden).sql if hidden else "")
