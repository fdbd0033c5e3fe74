"""Lineage's folds: by target, then by source.

The stage of targets keeps what the newest output says, edges and columns alike; an
output that says what was known changes neither. Newest is by the position of the report,
so that one which was held back, and is approved late, is counted and replaces nothing.
What an asset uses of another goes to the stage of sources, whenever it changes, as a
whole.

An output is counted once: the execution's row says that it was. Such rows leave after
days, later than the run's own, so that no report comes that late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from arco.lineage.events import HeldLineageDecided, LineageRecorded, Use, UsesChanged
from arco.lineage.tables import (
    COLUMNS,
    COVERAGE,
    DEPENDENTS,
    EDGE_METADATA,
    EDGES,
    EXECUTIONS,
    HELD,
    USES,
    ColumnEdgeRow,
    CoverageRow,
    DependentRow,
    EdgeMetadataRow,
    EdgeRow,
    ExecutionRow,
    HeldRow,
    UseRow,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.table import Key
from servo.contract.identity import edge_id
from servo.contract.task import ColumnSource, Confidence, InputRef, LineageMethod

_KEPT = ("masked", "method", "confidence")


# -- by target ----------------------------------------------------------------------------


def _recorded(rows: Rows, fact: Fact, recorded: LineageRecorded) -> Iterator[Change]:
    reads = _reads(recorded.lineage.read)
    if _is_known(rows, recorded, reads):
        return
    if recorded.held:
        yield from _hold(rows, fact, recorded)
    else:
        yield from _record(rows, fact, recorded, reads)


def _hold(rows: Rows, fact: Fact, recorded: LineageRecorded) -> Iterator[Change]:
    key = recorded.asset, recorded.materialization_id
    if rows.get(HELD, *key) is None:
        text = msgspec.json.encode(recorded).decode()
        yield Put(HELD, HeldRow(*key, text, fact.received_at, fact.position))


def _decide(rows: Rows, fact: Fact, decided: HeldLineageDecided) -> Iterator[Change]:
    key = decided.asset, decided.materialization_id
    held = rows.get(HELD, *key)
    if held is None:
        return
    yield Delete(HELD, key)
    recorded = msgspec.json.decode(held.recorded, type=LineageRecorded)
    reads = _reads(recorded.lineage.read)
    if decided.approved and not _is_known(rows, recorded, reads):
        reported = msgspec.structs.replace(fact, position=held.position)
        yield from _record(rows, reported, recorded, reads)


def _record(
    rows: Rows, fact: Fact, recorded: LineageRecorded, reads: list[InputRef]
) -> Iterator[Change]:
    newest = rows.get(COVERAGE, recorded.asset)
    if newest is None and not reads and not recorded.lineage.columns:
        return  # it never came from anywhere, and there is nothing to forget
    is_newest = newest is None or newest.position <= fact.position
    for ref in reads:
        yield from _seen(rows, fact, recorded, ref, is_newest)
    if is_newest:
        yield from _depend(rows, fact, recorded, reads)


def _depend(
    rows: Rows, fact: Fact, recorded: LineageRecorded, reads: list[InputRef]
) -> Iterator[Change]:
    """Make the edges and columns of an asset those of this output."""
    existing, before = rows.scan(COLUMNS, recorded.asset), rows.scan(EDGES, recorded.asset)
    edges = {EDGES.key_of(row): row for row in (_edge(recorded, ref) for ref in reads)}
    for row in before:
        if EDGES.key_of(row) not in edges:
            yield Delete(EDGES, EDGES.key_of(row))
    for row in edges.values():
        yield Put(EDGES, row)
    columns = {COLUMNS.key_of(row): row for row in _columns(fact, recorded)}
    yield from _replace(existing, columns)
    yield Put(COVERAGE, _coverage(rows, fact, recorded))
    sources = [{edge.source for edge in edges_of} for edges_of in (before, edges.values())]
    yield from _uses(recorded.asset, existing, columns.values(), *sources)


def _is_known(rows: Rows, recorded: LineageRecorded, reads: list[InputRef]) -> bool:
    """Whether this very output was folded: another attempt has adopted it, say."""
    # Where nothing was read, nothing is counted, and nothing is counted twice.
    edges = (edge_id(ref.asset, recorded.asset, ref.parameter) for ref in reads)
    key = recorded.asset, recorded.materialization_id
    return any(rows.get(EXECUTIONS, *key, edge) is not None for edge in edges)


def _reads(read: Iterable[InputRef]) -> list[InputRef]:
    """One for each edge."""
    by_input: dict[tuple[str, str], InputRef] = {}
    for ref in read:
        earlier = by_input.get((ref.asset, ref.parameter))
        by_input[ref.asset, ref.parameter] = ref if earlier is None else _both(earlier, ref)
    return list(by_input.values())


def _both(earlier: InputRef, ref: InputRef) -> InputRef:
    """One input that was read twice. Of a list that was cut the longer one speaks for both."""
    if earlier.count or ref.count:
        return max(earlier, ref, key=lambda each: each.count or len(each.materializations))
    both = dict.fromkeys((*earlier.materializations, *ref.materializations))
    return msgspec.structs.replace(ref, materializations=tuple(both))


def _edge(recorded: LineageRecorded, ref: InputRef) -> EdgeRow:
    return EdgeRow(
        target=recorded.asset,
        edge_id=edge_id(ref.asset, recorded.asset, ref.parameter),
        source=ref.asset,
        parameter=ref.parameter,
        target_id=recorded.asset_id,
    )


def _seen(
    rows: Rows, fact: Fact, recorded: LineageRecorded, ref: InputRef, is_newest: bool
) -> Iterator[Change]:
    """Count an edge. One that is seen late was last seen when the newer ones say."""
    target, id = recorded.asset, edge_id(ref.asset, recorded.asset, ref.parameter)
    metadata = rows.get(EDGE_METADATA, target, id)
    row = EdgeMetadataRow(
        target=target,
        edge_id=id,
        first_seen_run=recorded.run_id,
        first_seen_at=fact.received_at,
        last_seen_run=recorded.run_id,
        last_seen_at=fact.received_at,
        executions=1,
        transform=recorded.transform,
    )
    if metadata is not None:
        last = row if is_newest else metadata
        row = msgspec.structs.replace(
            last,
            first_seen_run=metadata.first_seen_run,
            first_seen_at=metadata.first_seen_at,
            executions=metadata.executions + 1,
        )
    yield Put(EDGE_METADATA, row)
    yield Put(EXECUTIONS, _execution(fact, recorded, ref, id))


def _execution(fact: Fact, recorded: LineageRecorded, ref: InputRef, id: str) -> ExecutionRow:
    return ExecutionRow(
        target=recorded.asset,
        materialization_id=recorded.materialization_id,
        edge_id=id,
        source=ref.asset,
        partition_key=recorded.partition,
        run_id=recorded.run_id,
        task_id=recorded.task_id,
        source_materializations=[m.materialization_id for m in ref.materializations],
        source_partitions=[m.partition for m in ref.materializations],
        rows_read=ref.rows if ref.count else sum(m.rows for m in ref.materializations),
        rows_written=recorded.rows,
        bytes_written=recorded.bytes,
        recorded_at=fact.received_at,
        source_count=ref.count,
        source_fingerprint=ref.fingerprint,
        source_list="" if ref.listed_in is None else ref.listed_in.path,
    )


def _columns(fact: Fact, recorded: LineageRecorded) -> Iterator[ColumnEdgeRow]:
    lineage = recorded.lineage

    def row(
        column: str, source: ColumnSource, method: LineageMethod, confidence: Confidence
    ) -> ColumnEdgeRow:
        return ColumnEdgeRow(
            target=recorded.asset,
            target_column=column,
            source=source.asset,
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


def _replace(existing: list[ColumnEdgeRow], columns: dict[Key, ColumnEdgeRow]) -> Iterator[Change]:
    old = {COLUMNS.key_of(row): row for row in existing}
    for key in old.keys() - columns.keys():
        yield Delete(COLUMNS, key)
    for key, row in columns.items():
        if key not in old or any(getattr(old[key], n) != getattr(row, n) for n in _KEPT):
            yield Put(COLUMNS, row)


def _coverage(rows: Rows, fact: Fact, recorded: LineageRecorded) -> CoverageRow:
    lineage = recorded.lineage
    row = row_from(
        CoverageRow,
        lineage,
        target=recorded.asset,
        columns=[each.column for each in lineage.columns],
        since=fact.received_at,
        position=fact.position,
    )
    coverage = rows.get(COVERAGE, recorded.asset)
    if coverage is None:
        return row
    since = msgspec.structs.replace(row, since=coverage.since)
    return since if since == msgspec.structs.replace(coverage, position=row.position) else row


def _uses(
    target: str,
    existing: Iterable[ColumnEdgeRow],
    columns: Iterable[ColumnEdgeRow],
    before: set[str],
    now: set[str],
) -> Iterator[Emit]:
    """For each source of which something else is used than before: all that is used now."""
    old, new = _by_source(existing), _by_source(columns)
    for source in sorted({*old, *new, *before, *now}):
        if (source in before) != (source in now) or old.get(source) != new.get(source):
            yield Emit(
                UsesChanged(
                    source=source,
                    target=target,
                    uses=tuple(sorted(new.get(source, ()))),
                    ended=source not in now and source not in new,
                )
            )


def _by_source(rows: Iterable[ColumnEdgeRow]) -> dict[str, set[Use]]:
    grouped: dict[str, set[Use]] = {}
    for row in rows:
        use = Use(
            column=row.source_column,
            target_column=row.target_column,
            kind=row.kind,
            masked=row.masked,
            method=row.method,
            confidence=row.confidence,
        )
        grouped.setdefault(row.source, set()).add(use)
    return grouped


# -- by source ----------------------------------------------------------------------------


def _use(rows: Rows, fact: Fact, changed: UsesChanged) -> Iterator[Change]:
    yield from _dependent(rows, fact, changed)
    source, target = changed.source, changed.target
    used = [
        row_from(UseRow, use, source=source, source_column=use.column, target=target)
        for use in changed.uses
    ]
    new_rows = {USES.key_of(row): row for row in used}
    for row in rows.scan(USES, source):
        if row.target == target and USES.key_of(row) not in new_rows:
            yield Delete(USES, USES.key_of(row))
    for row in new_rows.values():
        yield Put(USES, row)


def _dependent(rows: Rows, fact: Fact, changed: UsesChanged) -> Iterator[Change]:
    key = changed.source, changed.target
    if changed.ended:
        yield Delete(DEPENDENTS, key)
    elif rows.get(DEPENDENTS, *key) is None:
        yield Put(DEPENDENTS, DependentRow(*key, fact.received_at))


TARGETS = Stage(
    "lineage_targets",
    (EDGES, EDGE_METADATA, EXECUTIONS, COLUMNS, COVERAGE, HELD),
    (On(LineageRecorded, by("asset"), _recorded), On(HeldLineageDecided, by("asset"), _decide)),
)
SOURCES = Stage("lineage_sources", (USES, DEPENDENTS), [On(UsesChanged, by("source"), _use)])
STAGES = (TARGETS, SOURCES)
