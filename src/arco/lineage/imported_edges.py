"""The fold of lineage that was imported. Outputs and deployments leave it alone.

Of an asset that has outputs too, what they say of a column holds, and their coverage.
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.lineage.column_changes import replaced, unchanged, uses_changed
from arco.lineage.events import LineageImported
from arco.lineage.tables import COLUMNS, COVERAGE, EDGES, ColumnEdgeRow, CoverageRow, EdgeRow
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Fact, Put, Rows
from servo.contract.identity import edge_id
from servo.contract.task import ColumnSource, Confidence, Lineage

IMPORTED = "imported edge"
"""In the place of a parameter, of which none is called so."""


def import_lineage(rows: Rows, fact: Fact, e: LineageImported) -> Iterator[Change]:
    """Make what dbt says of an asset this, and nothing else."""
    target = e.asset_id
    existing, before = rows.scan(COLUMNS, target), rows.scan(EDGES, target)
    since = {row.source: row.since for row in before if row.origin == "dbt"}
    edges = [row for row in before if row.origin != "dbt"]
    for source in e.inputs:
        first = since.get(source) or fact.received_at
        row = EdgeRow(target, edge_id(source, target, IMPORTED), source, "", "dbt", first)
        edges.append(row)
        yield Put(EDGES, row)
    for source in since.keys() - set(e.inputs):
        yield Delete(EDGES, (target, edge_id(source, target, IMPORTED)))
    others = {COLUMNS.key_of(row): row for row in existing if row.method != "dbt"}
    imported = unchanged(existing, _columns(fact, target, e.lineage))
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


def _columns(fact: Fact, target: str, lineage: Lineage | None) -> Iterator[ColumnEdgeRow]:
    def row(column: str, source: ColumnSource, confidence: Confidence) -> ColumnEdgeRow:
        return ColumnEdgeRow(
            target=target,
            target_column=column,
            source=source.asset,
            source_column=source.column,
            kind=source.kind,
            masked=source.masked,
            method="dbt",
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
    if coverage is not None and coverage.method != "dbt":
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
