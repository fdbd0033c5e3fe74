"""The fold of manual edges. Outputs and deployments do not change them."""

from __future__ import annotations

from collections.abc import Iterator

from arco.lineage.column_changes import replaced, uses_changed
from arco.lineage.events import EdgeAdded, EdgeRemoved
from arco.lineage.tables import COLUMNS, EDGES, ColumnEdgeRow, EdgeRow
from arco.state.fold import Change, Delete, Fact, Put, Rows
from arco.state.system import applied, refused
from servo.contract.identity import edge_id

MANUAL = "manual edge"
"""Used as parameter; no real parameter has this name."""


def add_edge(rows: Rows, fact: Fact, e: EdgeAdded) -> Iterator[Change]:
    if bool(e.source_column) != bool(e.target_column):
        yield refused(fact, "invalid_edge", "an edge is between two assets, or between two columns")
        return
    if e.source_id == e.target_id:
        yield refused(fact, "edge_to_itself", "an edge leads from one asset to another")
        return
    target, now = e.target_id, fact.received_at
    existing, before = rows.scan(COLUMNS, target), rows.scan(EDGES, target)
    id = edge_id(e.source_id, target, MANUAL)
    old = rows.get(EDGES, target, id)
    edge = EdgeRow(
        target=target,
        edge_id=id,
        source=e.source_id,
        parameter="",
        origin="manual",
        since=now if old is None else old.since,
        owner=e.owner,
        description=e.description,
        added_by=fact.actor,
    )
    yield Put(EDGES, edge)
    columns = {COLUMNS.key_of(row): row for row in existing}
    if e.source_column:
        row = ColumnEdgeRow(
            target=target,
            target_column=e.target_column,
            source=e.source_id,
            source_column=e.source_column,
            kind=e.kind,
            masked=e.masked,
            method="manual",
            confidence="high",
            since=now,
        )
        for key in [key for key, each in columns.items() if _is_meant(each, e)]:
            del columns[key]
        columns[COLUMNS.key_of(row)] = row
        yield from replaced(existing, columns)
    sources = {row.source for row in before}
    yield from uses_changed(target, existing, columns.values(), sources, sources | {e.source_id})
    yield applied(fact)


def remove_edge(rows: Rows, fact: Fact, e: EdgeRemoved) -> Iterator[Change]:
    target = e.target_id
    existing, before = rows.scan(COLUMNS, target), rows.scan(EDGES, target)
    columns = {COLUMNS.key_of(row): row for row in existing if not _is_meant(row, e)}
    id = edge_id(e.source_id, target, MANUAL)
    is_whole = not e.source_column
    if (rows.get(EDGES, target, id) is None) if is_whole else (len(columns) == len(existing)):
        yield refused(fact, "edge_not_found", "nobody has added this edge: there is none to remove")
        return
    edges = [row for row in before if not (is_whole and row.edge_id == id)]
    if is_whole:
        yield Delete(EDGES, (target, id))
    yield from replaced(existing, columns)
    now = {row.source for row in edges}
    yield from uses_changed(target, existing, columns.values(), {row.source for row in before}, now)
    yield applied(fact)


def _is_meant(row: ColumnEdgeRow, e: EdgeAdded | EdgeRemoved) -> bool:
    """Whether this is a manual column edge that the command refers to."""
    ends = (row.source_column, row.target_column)
    return (
        row.method == "manual"
        and row.source == e.source_id
        and (not e.source_column or ends == (e.source_column, e.target_column))
    )
