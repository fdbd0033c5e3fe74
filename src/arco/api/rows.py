"""`POST …/rows`: rows of one table at one generation, as the caller sees them.

`servo` uses it for callers with a role on some namespaces: snapshots on the client request the
rows that they look up. The visibility rules of the tables (`table_rules.py`) select the rows, and
hidden parts are removed (`reduced_rows.py`). Look-ups by key are executed here: a response has no
more rows than were requested, or than a page has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from litestar import Request
from msgspec import Meta

from arco.api.admission import admitted
from arco.api.exchange import Answer, RequestHeaders
from arco.api.parameters import parse
from arco.api.query import ARROW, arrow_stream
from arco.api.reduced_rows import reduced
from arco.api.request_bodies import decoded
from arco.api.routes import AtParameters
from arco.api.row_visibility import RowVisibility
from arco.api.run_visibility import require_run
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer, may
from arco.api.table_rules import RULES
from arco.errors import Invalid, NotFound
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.state.rows_details import RowsDetails
from arco.state.snapshot import Snapshot
from arco.state.table import Key, Table
from arco.times import utc

PERMISSION: Final = Permission.ASSETS_READ
OPERATION: Final = "read_rows"
PAGE_ROWS: Final = 20_000
MAX_KEYS: Final = 10_000
KeyValues = list[str | int]


class RowsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    table: Annotated[str, Meta(min_length=3, max_length=100, description="`catalog.assets`.")]
    select: Literal["keys", "part", "all", "hot", "recent", "since", "days", "day", "changed"]
    """`keys`: rows with these keys. `part`: rows whose keys begin with the first of `keys`. `all`,
    and `hot`: what has not left for history. `recent`: what is not older than `since`, by the time
    by which rows leave. `since`: what changed after `position`. `days`: no rows, the last days of
    files of history. `day`: rows of the files of history that end with `day`. `changed`: rows that
    differ from those of the generation `before`, or are new."""
    keys: Annotated[list[KeyValues], Meta(max_length=MAX_KEYS)] = []
    history: bool = True
    """Look in history too."""
    day: date | None = None
    since: datetime | None = None
    position: Annotated[int, Meta(ge=0)] = 0
    before: Annotated[int, Meta(ge=0)] | None = None
    between: tuple[str, str] | None = None
    """Only files that may hold first columns of keys between these."""
    after: KeyValues = []
    """`next` of the answer before."""


async def answer_rows(server: ApiServer, request: Request[Any, Any, Any]) -> Answer:
    scope = request.scope
    served, caller, _ = await admitted(
        server, request, "/rows", OPERATION, PERMISSION, is_read=False
    )
    parameters = parse(AtParameters, {}, scope["query_string"])
    content_type = RequestHeaders(scope).get("content-type")
    body = decoded(await server.body(request), content_type, RowsBody)
    data, generation = await server.in_thread(
        lambda: _run(served, caller, parameters, body), served
    )
    return Answer(200, data, ARROW, {"Arco-Generation": str(generation)})


def _run(
    served: ServedWorkspace, caller: Caller, parameters: AtParameters, body: RowsBody
) -> tuple[bytes, int]:
    table, rule = served.tables.get(body.table), RULES.get(body.table)
    if table is None or rule is None:
        raise NotFound(f"there is no table {body.table}")
    visible = may(caller, rule.permission)
    if parameters.as_of_run is not None and not visible.all:
        require_run(served.view(AtParameters()), visible, parameters.as_of_run)
    view = served.view(parameters, caller)
    _check_keys(table, body)
    visibility = RowVisibility(view, visible)
    if rule.is_hidden and not visibility.everything:
        rows, details = table.no_rows, _NONE  # also the days on which it has rows are not told
    else:
        rows, details = _SELECTED[body.select](view.snapshot, table, body, served)
    rows, following = _page(table, rule.visible_rows(rows, visibility), body.after)
    details = msgspec.structs.replace(details, next=following)
    visible_rows = reduced(body.table, rows, visibility)
    return arrow_stream(details.on(visible_rows)), view.generation


def _check_keys(table: Table[Any], body: RowsBody) -> None:
    types = [table.schema.field(name).type for name in table.key]
    for key in (*body.keys, *([body.after] if body.after else ())):
        is_whole = body.select == "keys" or key is body.after
        fits = len(key) == len(types) if is_whole else table.shard <= len(key) <= len(types)
        pairs = zip(key, types, strict=False)
        if not fits or not all(isinstance(v, int) == (t == pa.int64()) for v, t in pairs):
            raise Invalid(
                f"{key!r} is not a key of {table}",
                hint=f"its columns are {', '.join(table.key)}",
            )
        if any(isinstance(value, int) and abs(value) >= 1 << 63 for value in key):
            raise Invalid(f"{key!r} has a number that no key has")


def _page(table: Table[Any], rows: pa.Table, after: KeyValues) -> tuple[pa.Table, KeyValues]:
    """The part of rows that an answer has, and the key of its last row if there are more."""
    if rows.num_rows <= PAGE_ROWS and not after:
        return rows, []
    rows = rows.sort_by([(name, "ascending") for name in ("_bucket", *table.key)])
    if after:
        rows = rows.filter(_is_after(table, rows, (table.bucket(tuple(after)), *after)))
    if rows.num_rows <= PAGE_ROWS:
        return rows, []
    page = rows.slice(0, PAGE_ROWS)
    return page, [page.column(name)[PAGE_ROWS - 1].as_py() for name in table.key]


def _is_after(table: Table[Any], rows: pa.Table, place: Sequence[Any]) -> pa.ChunkedArray:
    result: Any = None
    for name, value in zip(reversed(("_bucket", *table.key)), reversed(place), strict=True):
        column = rows.column(name)
        greater = pc.greater(column, pa.scalar(value, column.type))
        equal = pc.equal(column, pa.scalar(value, column.type))
        result = greater if result is None else pc.or_(greater, pc.and_(equal, result))
    return result


# -- what is selected -------------------------------------------------------------------------

SelectedRows = tuple[pa.Table, RowsDetails]
Select = Callable[[Snapshot, Table[Any], RowsBody, ServedWorkspace], SelectedRows]
_NONE: Final = RowsDetails()


def _keys(
    snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace
) -> SelectedRows:
    keys: list[Key] = [tuple(key) for key in body.keys]
    if body.day is not None:
        rows = {key: snapshot.get_of_day(table, key, body.day) for key in keys}
        return table.to_arrow({k: (0, row) for k, row in rows.items() if row is not None}), _NONE
    if body.history and table.history is not None:
        versions = {key: snapshot.versioned(table, key) for key in keys}
    elif table.history is not None:
        versions = {key: snapshot.versioned(table, key, history=False) for key in keys}
    else:
        versions = snapshot.get_many_versioned(table, keys)
    return table.to_arrow({k: each for k, each in versions.items() if each[0]}), _NONE


def _part(
    snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace
) -> SelectedRows:
    if not body.keys:
        raise Invalid("`part` needs the beginning of a key", hint="give it as the first of `keys`")
    rows = snapshot.rows_versioned(table, tuple(body.keys[0]), history=body.history)
    return table.to_arrow(rows), _NONE


def _all(snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace) -> SelectedRows:
    return snapshot.scan(table), _NONE


def _hot(snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace) -> SelectedRows:
    shard = tuple(body.keys[0]) if body.keys else ()
    if table.history is None:
        return snapshot.scan(table), _NONE
    rows, rest_before = snapshot.hot_rows(table, shard, body.between)
    return rows, RowsDetails(rest_before=rest_before)


def _recent(
    snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace
) -> SelectedRows:
    if table.history is None or body.since is None:
        raise Invalid("`recent` needs `since`, and a table with history")
    return snapshot.recent_rows(table, utc(body.since)), _NONE


def _since(
    snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace
) -> SelectedRows:
    return table.to_arrow(snapshot.versions_since(table, body.position)), _NONE


def _days(
    snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace
) -> SelectedRows:
    return table.no_rows, RowsDetails(days=snapshot.history_days(table, body.between))


def _day(snapshot: Snapshot, table: Table[Any], body: RowsBody, _: ServedWorkspace) -> SelectedRows:
    if body.day is None:
        raise Invalid("`day` needs a day")
    shard = tuple(body.keys[0]) if body.keys else ()
    return snapshot.rows_of_day(table, body.day, shard, body.between), _NONE


def _changed(
    snapshot: Snapshot, table: Table[Any], body: RowsBody, served: ServedWorkspace
) -> SelectedRows:
    if body.before is None:
        raise Invalid("`changed` needs the generation `before`")
    earlier = served.snapshot(AtParameters(generation=body.before))
    keys = snapshot.changed_keys(earlier, table)
    versions = {key: snapshot.versioned(table, key) for key in keys}
    return table.to_arrow({k: each for k, each in versions.items() if each[0]}), _NONE


_SELECTED: Final[Mapping[str, Select]] = {
    "keys": _keys,
    "part": _part,
    "all": _all,
    "hot": _hot,
    "recent": _recent,
    "since": _since,
    "days": _days,
    "day": _day,
    "changed": _changed,
}
