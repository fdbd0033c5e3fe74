"""What outputs have said of the columns of an asset, kept for when the newest is taken back.

Columns are those of the newest output that counts. A version that somebody quarantines by hand
counts no more, and counts again when it is released. So whenever an output changes the columns of
an asset, they are kept as they are from then on, and the last few of these states stay. Which of
them holds after a version is taken back follows from positions in the log: the newest state that
is no younger than the version before it in its partition, or that another partition began.

Not told: that the output of another partition, which began a state, was itself taken back before,
while a younger output that said the same was the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from arco.lineage.column_changes import replaced, uses_changed
from arco.lineage.events import HeldLineageDecided, LineageRecorded, LineageWithdrawn
from arco.lineage.tables import (
    COLUMN_STATES,
    COLUMNS,
    COVERAGE,
    EDGES,
    IMPORTED_FROM,
    TOPOLOGIES,
    ColumnEdgeRow,
    ColumnStateRow,
    CoverageRow,
)
from arco.state.fold import Change, Delete, Fact, Put, Rows
from arco.state.table import Key

STATES_KEPT: Final = 8
OF_PEOPLE: Final = ("manual", *IMPORTED_FROM)
"""Methods of edges that no output has said."""


def keep_state(
    rows: Rows,
    fact: Fact,
    recorded: LineageRecorded,
    existing: Sequence[ColumnEdgeRow],
    columns: dict[Key, ColumnEdgeRow],
    coverage: CoverageRow,
) -> Iterator[Change]:
    """Keep what is known from an output on, if that is something else than `existing`."""
    target = recorded.asset_id
    before = rows.get(COVERAGE, target)
    if before is not None and _says_the_same(before, coverage) and _by_key(existing) == columns:
        return
    of_outputs = [row for row in columns.values() if row.method not in OF_PEOPLE]
    states = rows.scan(COLUMN_STATES, target)
    for state in states[: max(0, len(states) + 1 - STATES_KEPT)]:
        yield Delete(COLUMN_STATES, COLUMN_STATES.key_of(state))
    yield Put(
        COLUMN_STATES,
        ColumnStateRow(
            target=target,
            position=fact.position,
            materialization_id=recorded.materialization_id,
            partition_key=recorded.partition,
            columns=msgspec.json.encode(of_outputs).decode(),
            coverage=msgspec.json.encode(coverage).decode(),
            since=coverage.since,
        ),
    )


def withdraw(rows: Rows, fact: Fact, e: LineageWithdrawn) -> Iterator[Change]:
    """The newest output counts no more: its columns are those of what is current now."""
    newest = rows.get(COVERAGE, e.asset_id)
    if newest is None or newest.materialization_id != e.materialization_id:
        return  # a newer one counts, which says what is known
    states = [
        state
        for state in rows.scan(COLUMN_STATES, e.asset_id)
        if state.materialization_id != e.materialization_id
        and (state.position <= e.previous_position or state.partition_key != e.partition)
    ]
    if states:
        position = max(states[-1].position, e.previous_position)
        yield from _restore(rows, states, position, e.previous_id)


def release(rows: Rows, fact: Fact, e: HeldLineageDecided) -> Iterator[Change]:
    """A version that was taken back counts again."""
    newest = rows.get(COVERAGE, e.asset_id)
    if not e.approved or newest is None or newest.position >= e.position:
        return
    states = [s for s in rows.scan(COLUMN_STATES, e.asset_id) if s.position <= e.position]
    if states:
        yield from _restore(rows, states, e.position, e.materialization_id)


def _restore(
    rows: Rows, states: Sequence[ColumnStateRow], position: int, version: str
) -> Iterator[Change]:
    """Make the columns of an asset those of the last of some states."""
    state = states[-1]
    target = state.target
    existing = rows.scan(COLUMNS, target)
    sources = {edge.source for edge in rows.scan(EDGES, target)}
    is_declared = rows.get(TOPOLOGIES, target) is not None
    columns = {
        COLUMNS.key_of(row): row
        for row in msgspec.json.decode(state.columns, type=list[ColumnEdgeRow])
        if not is_declared or row.source in sources or row.source == target
    }
    for row in existing:
        key = COLUMNS.key_of(row)
        if row.method == "manual" or (row.method in IMPORTED_FROM and key not in columns):
            columns[key] = row
    coverage = msgspec.json.decode(state.coverage, type=CoverageRow)
    yield from replaced(existing, columns)
    yield Put(
        COVERAGE,
        msgspec.structs.replace(coverage, position=position, materialization_id=version),
    )
    yield from uses_changed(target, existing, columns.values(), sources, sources)


def _says_the_same(old: CoverageRow, new: CoverageRow) -> bool:
    moving = ("position", "observed_at", "named_at", "materialization_id")
    moved = {name: getattr(new, name) for name in moving}
    return bool(msgspec.structs.replace(old, **moved) == new)


def _by_key(rows: Sequence[ColumnEdgeRow]) -> dict[Key, ColumnEdgeRow]:
    return {COLUMNS.key_of(row): row for row in rows}
