"""The fold of imported lineage. Outputs and deployments do not change it. For an asset that has
outputs too, their columns and coverage take precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from arco.lineage.column_changes import replaced, unchanged, uses_changed
from arco.lineage.events import LineageImported
from arco.lineage.tables import (
    COLUMNS,
    COVERAGE,
    EDGES,
    ColumnEdgeRow,
    CoverageRow,
    EdgeRow,
    ImportOrigin,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Fact, Put, Rows
from servo.contract.identity import edge_id
from servo.contract.task import ColumnSource, Confidence

_PARAMETERS: Final[Mapping[ImportOrigin, str]] = {
    "dbt": "imported edge",
    "openlineage": "reported edge",
}
"""Used as parameter; no real parameter has this name."""


def import_lineage(rows: Rows, fact: Fact, e: LineageImported) -> Iterator[Change]:
    """Replace the imported lineage of an asset."""
    target, origin, parameter = e.asset_id, e.origin, _PARAMETERS[e.origin]
    existing, before = rows.scan(COLUMNS, target), rows.scan(EDGES, target)
    since = {row.source: row.since for row in before if row.origin == origin}
    edges = [row for row in before if row.origin != origin]
    for source in e.inputs:
        first = since.get(source) or fact.received_at
        row = EdgeRow(target, edge_id(source, target, parameter), source, "", origin, first)
        edges.append(row)
        yield Put(EDGES, row)
    for source in since.keys() - set(e.inputs):
        yield Delete(EDGES, (target, edge_id(source, target, parameter)))
    others = {COLUMNS.key_of(row): row for row in existing if row.method != origin}
    imported = unchanged(existing, _columns(fact, target, e))
    columns = imported | others
    yield from replaced(existing, columns)
    yield from _coverage(rows, fact, e)
    yield from uses_changed(
        target,
        existing,
        columns.values(),
        {row.source for row in before},
        {row.source for row in edges},
    )


def _columns(fact: Fact, target: str, e: LineageImported) -> Iterator[ColumnEdgeRow]:
    lineage = e.lineage

    def row(column: str, source: ColumnSource, confidence: Confidence) -> ColumnEdgeRow:
        return ColumnEdgeRow(
            target=target,
            target_column=column,
            source=source.asset,
            source_column=source.column,
            kind=source.kind,
            masked=source.masked,
            method=e.origin,
            confidence=confidence,
            since=fact.received_at,
        )

    if lineage is None:
        return
    for each in lineage.columns:
        for source in each.sources:
            yield row(each.column, source, each.confidence)
    for source in lineage.influences:
        yield row("", source, lineage.confidence)


def _coverage(rows: Rows, fact: Fact, e: LineageImported) -> Iterator[Change]:
    coverage = rows.get(COVERAGE, e.asset_id)
    if coverage is not None and coverage.method != e.origin:
        return
    if e.lineage is None:
        yield Delete(COVERAGE, (e.asset_id,))
        return
    row = row_from(
        CoverageRow,
        e.lineage,
        target=e.asset_id,
        columns=[each.column for each in e.lineage.columns],
        since=fact.received_at,
        position=0,  # any output is newer
    )
    yield Put(COVERAGE, row)
