"""Lineage's folds: by target, then by source.

The stage of targets keeps the topology and the columns. Edges are added and removed by deployments:
an output that reads less than its code declares changes none. For assets that were deployed before
deployments had inputs, edges are all that their outputs have read. Columns are those of the newest
output; for inputs that it did not read, those of an earlier one. An output with the same columns
changes nothing. Newest is by the position of the report, so that a held output that is approved
late is counted and replaces nothing. After a version is withdrawn, the columns before it hold again
(`withdrawals.py`). Manual edges stay until people remove them, and imported ones until an import
does not have them any more. All that an asset uses of another is emitted to the stage of sources
whenever it changes.

An output is counted once, as its execution row shows. Such rows move to history after days, later
than the run's own, so that no report comes that late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from arco.lineage.column_changes import replaced, unchanged, uses_changed
from arco.lineage.events import (
    EdgeAdded,
    EdgeRemoved,
    HeldLineageDecided,
    InputsDeclared,
    LineageImported,
    LineageRecorded,
    LineageWithdrawn,
    UsesChanged,
)
from arco.lineage.imported_edges import import_lineage
from arco.lineage.manual_edges import add_edge, remove_edge
from arco.lineage.output_columns import columns_of, coverage_of, source_id
from arco.lineage.tables import (
    COLUMN_STATES,
    COLUMNS,
    COVERAGE,
    DEPENDENTS,
    EDGE_METADATA,
    EDGES,
    EXECUTIONS,
    HELD,
    IMPORTED_FROM,
    TOPOLOGIES,
    USES,
    ColumnEdgeRow,
    DependentRow,
    EdgeMetadataRow,
    EdgeRow,
    ExecutionRow,
    HeldRow,
    TopologyRow,
    UseRow,
)
from arco.lineage.withdrawals import count_late, keep_state, release, withdraw
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Fact, On, Put, Rows, Stage, by
from servo.contract.identity import edge_id
from servo.contract.task import InputRef

# -- by target ----------------------------------------------------------------------------


def _recorded(rows: Rows, fact: Fact, recorded: LineageRecorded) -> Iterator[Change]:
    reads = _reads(recorded.lineage.read)
    if _is_repeated(rows, recorded, reads):
        return
    if recorded.held:
        yield from _hold(rows, fact, recorded)
    else:
        yield from _record(rows, fact, recorded, reads)


def _hold(rows: Rows, fact: Fact, recorded: LineageRecorded) -> Iterator[Change]:
    key = recorded.asset_id, recorded.materialization_id
    if rows.get(HELD, *key) is None:
        text = msgspec.json.encode(recorded).decode()
        yield Put(HELD, HeldRow(*key, text, fact.received_at, fact.position))


def _decide(rows: Rows, fact: Fact, decided: HeldLineageDecided) -> Iterator[Change]:
    key = decided.asset_id, decided.materialization_id
    held = rows.get(HELD, *key)
    if held is None:
        yield from release(rows, fact, decided)
        return
    yield Delete(HELD, key)
    recorded = msgspec.json.decode(held.recorded, type=LineageRecorded)
    reads = _reads(recorded.lineage.read)
    if decided.approved and not _is_repeated(rows, recorded, reads):
        reported = msgspec.structs.replace(fact, position=held.position)
        yield from _record(rows, reported, recorded, reads, named_at=held.held_at)


def _record(
    rows: Rows,
    fact: Fact,
    recorded: LineageRecorded,
    reads: list[InputRef],
    *,
    named_at: datetime | None = None,
) -> Iterator[Change]:
    """`named_at` is when the output was reported, if it counts only since a later time."""
    newest = rows.get(COVERAGE, recorded.asset_id)
    if newest is None and not reads and not recorded.lineage.columns:
        return  # it never had sources, so there is nothing to remove
    is_newest = newest is None or newest.position <= fact.position or newest.is_withdrawn
    for ref in reads:
        yield from _seen(rows, fact, recorded, ref, is_newest)
    if is_newest:
        yield from _depend(rows, fact, recorded, reads, named_at)
    else:
        yield from count_late(rows, fact, recorded)


def _depend(
    rows: Rows,
    fact: Fact,
    recorded: LineageRecorded,
    reads: list[InputRef],
    named_at: datetime | None,
) -> Iterator[Change]:
    """Replace the columns of an asset by those of this output."""
    target = recorded.asset_id
    existing, before = rows.scan(COLUMNS, target), rows.scan(EDGES, target)
    edges = {EDGES.key_of(row): row for row in before}
    if rows.get(TOPOLOGIES, target) is None:
        for ref in reads:
            row = EdgeRow(
                target,
                _edge_id(recorded, ref),
                source_id(ref),
                ref.parameter,
                "output",
                fact.received_at,
            )
            if EDGES.key_of(row) not in edges:
                edges[EDGES.key_of(row)] = row
                yield Put(EDGES, row)
    sources = {edge.source for edge in edges.values()}
    columns = unchanged(existing, columns_of(fact, recorded))
    newest = rows.get(COVERAGE, target)
    said_at = None if newest is None else newest.names_of
    remaining = _remaining(existing, recorded, sources - {source_id(ref) for ref in reads}, said_at)
    for column in remaining:
        if column.method not in IMPORTED_FROM or COLUMNS.key_of(column) not in columns:
            columns[COLUMNS.key_of(column)] = column
    coverage = coverage_of(rows, fact, recorded, is_silent=bool(sources and not reads))
    if coverage.observed_at == fact.received_at:
        coverage = msgspec.structs.replace(coverage, named_at=named_at)
    is_late = named_at is not None
    states = keep_state(rows, fact, recorded, existing, columns, coverage, is_late=is_late)
    coverage = states.coverage
    yield from states.changes
    yield from replaced(existing, columns)
    yield Put(COVERAGE, coverage)
    yield from uses_changed(
        target, existing, columns.values(), {edge.source for edge in before}, sources
    )


def _remaining(
    existing: Iterable[ColumnEdgeRow],
    recorded: LineageRecorded,
    unread: set[str],
    said_at: datetime | None,
) -> Iterator[ColumnEdgeRow]:
    """The manual and imported columns, and those of inputs that this output did not read.

    `said_at` is the time of the output before this one."""
    lineage = recorded.lineage
    columns = {each.column for each in lineage.columns}.union(lineage.unmapped, [""])
    for row in existing:
        is_present = len(columns) == 1 or row.target_column in columns
        if row.method in ("manual", *IMPORTED_FROM):
            yield row
        elif row.source in unread and is_present:
            yield msgspec.structs.replace(row, said_at=row.said_at or said_at)


def _declare(rows: Rows, fact: Fact, declared: InputsDeclared) -> Iterator[Change]:
    """Replace the edges of an asset by those of the deployed code.

    Rows of older versions that have the key of an input get its id.
    """
    target, now = declared.asset_id, fact.received_at
    existing, before = rows.scan(COLUMNS, target), rows.scan(EDGES, target)
    edges = {EDGES.key_of(row): row for row in before if row.origin in ("manual", *IMPORTED_FROM)}
    since = {EDGES.key_of(row): row.since for row in before}
    ids = {each.key: each.source for each in declared.inputs if each.key not in ("", each.source)}
    for each in declared.inputs:
        id = edge_id(each.source, target, each.parameter)
        by_key = edge_id(each.key, target, each.parameter)
        first = since.get((target, id)) or since.get((target, by_key)) or now
        if each.key and by_key != id:
            yield from _move_metadata(rows, target, by_key, id)
        edges[target, id] = EdgeRow(target, id, each.source, each.parameter, "code", first)
    for key in since.keys() - edges.keys():
        yield Delete(EDGES, key)
    for row in edges.values():
        yield Put(EDGES, row)
    if rows.get(TOPOLOGIES, target) is None:
        yield Put(TOPOLOGIES, TopologyRow(target, now))
    sources = {edge.source for edge in edges.values()}
    removed = {edge.source for edge in before} - sources
    columns = {
        COLUMNS.key_of(row): row for row in _by_ids(existing, ids) if row.source not in removed
    }
    yield from replaced(existing, columns)
    yield from uses_changed(
        target, existing, columns.values(), {edge.source for edge in before}, sources
    )


def _by_ids(columns: Iterable[ColumnEdgeRow], ids: Mapping[str, str]) -> Iterator[ColumnEdgeRow]:
    """The columns with ids for keys; those that have an id already are the last."""
    for row in sorted(columns, key=lambda row: row.source not in ids):
        is_by_key = row.source in ids and row.method != "manual"
        yield msgspec.structs.replace(row, source=ids[row.source]) if is_by_key else row


def _move_metadata(rows: Rows, target: str, by_key: str, by_id: str) -> Iterator[Change]:
    """Move the metadata of an edge to its new id."""
    old = rows.get(EDGE_METADATA, target, by_key)
    if old is None:
        return
    yield Delete(EDGE_METADATA, (target, by_key))
    new = rows.get(EDGE_METADATA, target, by_id)
    yield Put(
        EDGE_METADATA,
        msgspec.structs.replace(
            new or old,
            edge_id=by_id,
            first_seen_run=old.first_seen_run,
            first_seen_at=old.first_seen_at,
            executions=old.executions + (0 if new is None else new.executions),
        ),
    )


# -- outputs ------------------------------------------------------------------------------


def _edge_id(recorded: LineageRecorded, ref: InputRef) -> str:
    return edge_id(source_id(ref), recorded.asset_id, ref.parameter)


def _is_repeated(rows: Rows, recorded: LineageRecorded, reads: list[InputRef]) -> bool:
    """Whether this output was folded before: e.g. another attempt has adopted it."""
    # Where nothing was read, nothing is counted, and nothing is counted twice.
    edges = (_edge_id(recorded, ref) for ref in reads)
    key = recorded.asset_id, recorded.materialization_id
    return any(rows.get(EXECUTIONS, *key, edge) is not None for edge in edges)


def _reads(read: Iterable[InputRef]) -> list[InputRef]:
    """One for each edge."""
    by_input: dict[tuple[str, str], InputRef] = {}
    for ref in read:
        earlier = by_input.get((ref.asset, ref.parameter))
        by_input[ref.asset, ref.parameter] = ref if earlier is None else _both(earlier, ref)
    return list(by_input.values())


def _both(earlier: InputRef, ref: InputRef) -> InputRef:
    """Combine two reads of one input. Of truncated lists, the longer one is used."""
    if earlier.count or ref.count:
        return max(earlier, ref, key=lambda each: each.count or len(each.materializations))
    both = dict.fromkeys((*earlier.materializations, *ref.materializations))
    return msgspec.structs.replace(ref, materializations=tuple(both))


def _seen(
    rows: Rows, fact: Fact, recorded: LineageRecorded, ref: InputRef, is_newest: bool
) -> Iterator[Change]:
    """Count an edge. A late output does not move its last time back."""
    target, id = recorded.asset_id, _edge_id(recorded, ref)
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
        target=recorded.asset_id,
        materialization_id=recorded.materialization_id,
        edge_id=id,
        source=source_id(ref),
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


# -- by source ----------------------------------------------------------------------------


def _use(rows: Rows, fact: Fact, changed: UsesChanged) -> Iterator[Change]:
    yield from _dependent(rows, fact, changed)
    ends = {"source": changed.source, "target": changed.target}
    for use in changed.left:
        left = row_from(UseRow, use, source_column=use.column, **ends)
        yield Delete(USES, USES.key_of(left))
    for use in changed.uses:
        yield Put(USES, row_from(UseRow, use, source_column=use.column, **ends))


def _dependent(rows: Rows, fact: Fact, changed: UsesChanged) -> Iterator[Change]:
    key = changed.source, changed.target
    if changed.ended:
        yield Delete(DEPENDENTS, key)
    elif rows.get(DEPENDENTS, *key) is None:
        yield Put(DEPENDENTS, DependentRow(*key, fact.received_at))


_by_target = by("asset_id")
TARGETS = Stage(
    "lineage_targets",
    (EDGES, TOPOLOGIES, EDGE_METADATA, EXECUTIONS, COLUMNS, COVERAGE, COLUMN_STATES, HELD),
    (
        On(LineageRecorded, _by_target, _recorded),
        On(HeldLineageDecided, _by_target, _decide),
        On(LineageWithdrawn, _by_target, withdraw),
        On(InputsDeclared, _by_target, _declare),
        On(EdgeAdded, by("target_id"), add_edge),
        On(EdgeRemoved, by("target_id"), remove_edge),
        On(LineageImported, _by_target, import_lineage),
    ),
)
SOURCES = Stage("lineage_sources", (USES, DEPENDENTS), [On(UsesChanged, by("source"), _use)])
STAGES = (TARGETS, SOURCES)
