"""Visible rows without the parts that refer to hidden objects.

A visible row can refer to hidden objects: a run has tasks of other namespaces, a contract has
consumers, a text quotes an error. Such parts are removed or replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.api.hidden_names import Scrubbing, hidden_namespaces
from arco.api.row_visibility import RowVisibility, project_namespaces
from arco.api.run_visibility import ASKED_OF_RUN
from arco.orchestration.run_requests import decode_request
from arco.orchestration.tables import PROJECT_NAMESPACES

Reduce = Callable[[pa.Table, RowVisibility], pa.Table]


def reduced(name: str, rows: pa.Table, visibility: RowVisibility) -> pa.Table:
    """Rows of a table as the caller may have them."""
    if name in ALWAYS:
        rows = ALWAYS[name](rows, visibility)
    if visibility.everything or not rows.num_rows:
        return rows
    if name in REDUCED:
        rows = REDUCED[name](rows, visibility)
    return without_hidden_texts(rows, hidden_namespaces(visibility.view, visibility.visible))


def without_hidden_texts(rows: pa.Table, hidden: frozenset[str]) -> pa.Table:
    """Names of assets of hidden namespaces in texts are replaced."""
    if not hidden:
        return rows
    scrubbing = Scrubbing(hidden)
    for place, field in enumerate(rows.schema):
        if not _has_text(field.type) or not _may_name(rows.column(place), scrubbing):
            continue
        values = rows.column(place).to_pylist()
        replaced = [scrubbing.value(value) for value in values]
        if replaced != values:
            rows = rows.set_column(place, field, pa.array(replaced, field.type))
    return rows


def _has_text(type: pa.DataType) -> bool:
    if pa.types.is_map(type):
        return _has_text(type.key_type) or _has_text(type.item_type)
    if pa.types.is_list(type):
        return _has_text(type.value_type)
    if pa.types.is_struct(type):
        return any(_has_text(field.type) for field in type)
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def _may_name(column: pa.ChunkedArray, scrubbing: Scrubbing) -> bool:
    """A fast check of a whole column; not for nested ones."""
    if not pa.types.is_string(column.type):
        return True
    return bool(pc.any(pc.match_substring_regex(column, scrubbing.names)).as_py())


def _replaced(column: str, change: Callable[[Any, RowVisibility], Any]) -> Reduce:
    """One column, value by value."""

    def reduce(rows: pa.Table, visibility: RowVisibility) -> pa.Table:
        place = rows.schema.get_field_index(column)
        if place < 0:
            return rows
        field = rows.schema.field(place)
        values = [change(value, visibility) for value in rows.column(place).to_pylist()]
        return rows.set_column(place, field, pa.array(values, field.type))

    return reduce


def _only(sees: Callable[[RowVisibility, str], bool]) -> Callable[[Any, RowVisibility], Any]:
    """The visible items of a list; of pairs, those whose second item is visible."""

    def change(values: Any, visibility: RowVisibility) -> Any:
        if values is None:
            return None
        return [
            value
            for value in values
            if sees(visibility, value[1] if isinstance(value, tuple) else value)
        ]

    return change


def _all_of(*steps: Reduce) -> Reduce:
    def reduce(rows: pa.Table, seen: RowVisibility) -> pa.Table:
        for step in steps:
            rows = step(rows, seen)
        return rows

    return reduce


def _blanked(
    rows: pa.Table, values: Mapping[str, Any], is_whole: Callable[[int], bool]
) -> pa.Table:
    """Other values in some columns, of rows that are not seen as a whole."""
    partial = [not is_whole(place) for place in range(rows.num_rows)]
    if not any(partial):
        return rows
    for column, blank in values.items():
        place = rows.schema.get_field_index(column)
        if place >= 0:
            field = rows.schema.field(place)
            own = rows.column(place).to_pylist()
            changed = [blank if partial[i] else value for i, value in enumerate(own)]
            rows = rows.set_column(place, field, pa.array(changed, field.type))
    return rows


def _runs(rows: pa.Table, visibility: RowVisibility) -> pa.Table:
    """The request is left out of a run with hidden tasks."""
    ids: Sequence[str] = rows.column("run_id").to_pylist()
    return _blanked(rows, ASKED_OF_RUN, lambda place: visibility.whole_run(ids[place]))


def _deployments(rows: pa.Table, visibility: RowVisibility) -> pa.Table:
    """For a project with hidden namespaces: only the deployment and its visible assets."""
    projects: Sequence[str] = rows.column("project").to_pylist()
    blank = {"artifact": "", "schedules": 0, "sensors": 0, "message": "", "rollback_of": ""}
    rows = _blanked(rows, blank, lambda place: visibility.project(projects[place]))
    counts = [_seen_assets(project, visibility) for project in projects]
    field = rows.schema.get_field_index("assets")
    own = rows.column(field).to_pylist()
    visible_counts = [
        count if visibility.project(project) else few
        for project, count, few in zip(projects, own, counts, strict=True)
    ]
    return rows.set_column(field, rows.schema.field(field), pa.array(visible_counts, pa.int64()))


def _seen_assets(project: str, visibility: RowVisibility) -> int:
    names = filter(visibility.namespace, project_namespaces(visibility.view).get(project, []))
    owned = [visibility.view.snapshot.get(PROJECT_NAMESPACES, name) for name in names]
    return sum(row.assets for row in owned if row is not None)


def _without_deployments(request: str, visibility: RowVisibility) -> str:
    """Without the deployments that it is planned with, of all projects."""
    plan_request = msgspec.structs.replace(decode_request(request), deployments=())
    return msgspec.json.encode(plan_request).decode()


_NO_LINKS: Final = _all_of(
    _replaced("upstream", lambda value, seen: []), _replaced("downstream", lambda value, seen: [])
)

ALWAYS: Final[Mapping[str, Reduce]] = {
    "security.api_keys": _replaced("secret_hash", lambda value, seen: ""),
}
"""For everybody."""

REDUCED: Final[Mapping[str, Reduce]] = {
    "orchestration.runs": _runs,
    "orchestration.deployments": _deployments,
    "orchestration.projects": _replaced("reads", _only(RowVisibility.asset)),
    "orchestration.tasks": _NO_LINKS,
    "orchestration.run_requests": _replaced("request", _without_deployments),
    "automation.backfills": _replaced("request", _without_deployments),
    "catalog.contracts": _replaced("consumer_ids", _only(RowVisibility.asset_id)),
    "ingest.outputs": _replaced("input_ids", _only(RowVisibility.asset_id)),
    "automation.freshness_policies": _replaced("upstream", _only(RowVisibility.asset)),
}
"""By table, for who does not see the whole workspace."""
