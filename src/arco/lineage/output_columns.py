"""The column edges and coverage of one output, as rows."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.lineage.events import LineageRecorded
from arco.lineage.tables import COVERAGE, ColumnEdgeRow, CoverageRow
from arco.state.copied_rows import row_from
from arco.state.fold import Fact, Rows
from servo.contract.task import ColumnSource, Confidence, InputRef, LineageMethod


def source_id(ref: InputRef) -> str:
    return ref.asset_id or ref.asset


def columns_of(fact: Fact, recorded: LineageRecorded) -> Iterator[ColumnEdgeRow]:
    lineage = recorded.lineage
    ids = {ref.asset: source_id(ref) for ref in lineage.read} | {recorded.asset: recorded.asset_id}

    def row(
        column: str, source: ColumnSource, method: LineageMethod, confidence: Confidence
    ) -> ColumnEdgeRow:
        return ColumnEdgeRow(
            target=recorded.asset_id,
            target_column=column,
            source=ids.get(source.asset, source.asset),
            source_column=source.column,
            kind=source.kind,
            masked=source.masked,
            method=method,
            confidence=confidence,
            since=fact.received_at,
        )

    for each in lineage.columns:
        for source in each.sources:
            yield row(each.column, source, each.method, each.confidence)
    for source in lineage.influences:
        yield row("", source, lineage.method, lineage.confidence)


def coverage_of(
    rows: Rows, fact: Fact, recorded: LineageRecorded, *, is_silent: bool
) -> CoverageRow:
    """`is_silent`: it has read none of its inputs, so it shows nothing about them."""
    lineage, coverage = recorded.lineage, rows.get(COVERAGE, recorded.asset_id)
    if coverage is not None and is_silent and not lineage.columns:
        return msgspec.structs.replace(
            coverage, position=fact.position, materialization_id=recorded.materialization_id
        )
    row = row_from(
        CoverageRow,
        lineage,
        target=recorded.asset_id,
        columns=[each.column for each in lineage.columns],
        since=fact.received_at,
        position=fact.position,
        observed_at=fact.received_at,
        materialization_id=recorded.materialization_id,
    )
    if coverage is None:
        return row
    since = msgspec.structs.replace(row, since=coverage.since)
    same = msgspec.structs.replace(
        coverage,
        position=row.position,
        observed_at=row.observed_at,
        named_at=None,
        materialization_id=row.materialization_id,
        state_position=row.state_position,
        outputs=row.outputs,
    )
    return since if since == same else row
