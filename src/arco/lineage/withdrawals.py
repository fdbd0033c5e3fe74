"""Earlier column states of an asset, for when the newest output is withdrawn.

Columns are those of the newest output that counts. A version that a person quarantines does not
count, until it is released. So whenever an output changes the columns of an asset, the new columns
are stored as a *state*, and the last few states are kept.

A state is said by all outputs from its position in the log up to the next one. How many of them
count is known of each: of the state that holds it is part of the row of coverage, which every
output writes anyway. The state of the newest output that counts is then the newest state with a
count above zero, whichever partitions the outputs belong to, and in whatever order they were
withdrawn. An output that a newer one of its partition has superseded may be among those counted:
the newer one counts too, and is newer.

Counts stay right because outputs come in the order of the log. One that was held, and is approved
late, comes later: if it is the newest all the same, what comes after it goes on as before it; if
not, it is taken to say what was known when it was reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

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
UNCOUNTED: Final = 1 << 40
"""For the outputs of a state from before they were counted: more than there are."""
OF_PEOPLE: Final = ("manual", *IMPORTED_FROM)
"""Methods of edges that do not come from outputs."""


class StoredStates(NamedTuple):
    coverage: CoverageRow
    """The row of coverage, with the state that holds from an output on."""
    changes: list[Change]


class _States:
    """The states that are kept of an asset, and how many outputs count for each."""

    def __init__(self, rows: Rows, target: str) -> None:
        self.coverage = rows.get(COVERAGE, target)
        self.rows = rows.scan(COLUMN_STATES, target)
        self._outputs = {state.position: state.outputs for state in self.rows}
        if self.coverage is not None and self.coverage.state_position in self._outputs:
            self._outputs[self.coverage.state_position] = self.coverage.outputs

    def of(self, position: int) -> ColumnStateRow | None:
        """The state of the output at a position; None if it is not kept any more."""
        return next((state for state in reversed(self.rows) if state.position <= position), None)

    def add(self, position: int, count: int, begun_by: str = "") -> None:
        """Count an output at a position, or count it no more.

        Of a state whose outputs were not counted, the one that began it stands for all.
        """
        state = self.of(position)
        if state is None:
            return
        outputs = self._outputs[state.position]
        if outputs is not None:
            self._outputs[state.position] = max(0, outputs + count)
        elif state.materialization_id == begun_by:
            self._outputs[state.position] = 0

    def newest(self) -> ColumnStateRow | None:
        """The state of the newest output that counts."""
        counted = (state for state in reversed(self.rows) if self._outputs[state.position] != 0)
        return next(counted, None)

    def knows(self, position: int) -> bool:
        return position in self._outputs

    def outputs(self, position: int) -> int:
        """Of the state at a position. Of one from before counts were kept: more than there are."""
        outputs = self._outputs[position]
        return UNCOUNTED if outputs is None else outputs

    def changes(self, holding: int) -> Iterator[Change]:
        """The counts that have changed, but for the state that holds."""
        for state in self.rows:
            outputs = self._outputs[state.position]
            if state.position != holding and outputs != state.outputs:
                yield Put(COLUMN_STATES, msgspec.structs.replace(state, outputs=outputs))


def keep_state(
    rows: Rows,
    fact: Fact,
    recorded: LineageRecorded,
    existing: Sequence[ColumnEdgeRow],
    columns: dict[Key, ColumnEdgeRow],
    coverage: CoverageRow,
    *,
    is_late: bool,
) -> StoredStates:
    """Store the state from the newest output on, if it differs from `existing`.

    `is_late`: it was held, and is approved now.
    """
    target = recorded.asset_id
    before = rows.get(COVERAGE, target)
    states = rows.scan(COLUMN_STATES, target)
    if (
        before is not None
        and states
        and before.state_position == states[-1].position
        and _says_the_same(before, coverage)
        and _by_key(existing) == columns
    ):
        is_new = before.materialization_id != recorded.materialization_id
        return StoredStates(_holding(coverage, before.state_position, before.outputs + is_new), [])
    of_outputs = [row for row in columns.values() if row.method not in OF_PEOPLE]
    state = ColumnStateRow(
        target=target,
        position=fact.position,
        materialization_id=recorded.materialization_id,
        partition_key=recorded.partition,
        columns=msgspec.json.encode(of_outputs).decode(),
        coverage=msgspec.json.encode(coverage).decode(),
        since=coverage.since,
    )
    stored = _States(rows, target)
    changes = list(stored.changes(fact.position))
    added = [state, *(_continued(stored, fact.position) if is_late else ())]
    for old in states[: max(0, len(states) + len(added) - STATES_KEPT)]:
        changes.append(Delete(COLUMN_STATES, COLUMN_STATES.key_of(old)))
    changes += [Put(COLUMN_STATES, row) for row in added]
    return StoredStates(_holding(coverage, fact.position, 1), changes)


def _continued(states: _States, position: int) -> Iterator[ColumnStateRow]:
    """After an output that was approved late: what those after it have said, which all are held."""
    state = states.of(position)
    if state is not None and states.of(position + 1) is state:
        yield msgspec.structs.replace(state, position=position + 1, outputs=0)


def _holding(coverage: CoverageRow, state: int, outputs: int) -> CoverageRow:
    return msgspec.structs.replace(coverage, state_position=state, outputs=outputs)


def count_late(rows: Rows, fact: Fact, recorded: LineageRecorded) -> Iterator[Change]:
    """Count an output that is not the newest."""
    states = _States(rows, recorded.asset_id)
    states.add(fact.position, 1)
    yield from _settle(rows, states)


def withdraw(rows: Rows, fact: Fact, e: LineageWithdrawn) -> Iterator[Change]:
    """An output does not count any more: restore the columns of the newest that does."""
    states = _States(rows, e.asset_id)
    states.add(e.position, -1, e.materialization_id)
    newest = states.coverage
    is_newest = newest is not None and newest.materialization_id == e.materialization_id
    yield from _settle(rows, states, e.previous_position, e.previous_id, anew=is_newest)


def release(rows: Rows, fact: Fact, e: HeldLineageDecided) -> Iterator[Change]:
    """A withdrawn version counts again."""
    if not e.approved:
        return
    states = _States(rows, e.asset_id)
    states.add(e.position, 1)
    newest = states.coverage
    is_newest = newest is not None and newest.position < e.position
    yield from _settle(rows, states, e.position, e.materialization_id, anew=is_newest)


def _settle(
    rows: Rows, states: _States, position: int = 0, version: str = "", *, anew: bool = False
) -> Iterator[Change]:
    """Make the state of the newest output that counts current. `anew`: that output changed.

    `position` and `version` are of an output that counts, and may be the newest.
    """
    coverage, state = states.coverage, states.newest()
    if coverage is None:
        return
    if state is None or (coverage.state_position in (0, state.position) and not anew):
        yield from states.changes(coverage.state_position)
        if states.knows(coverage.state_position):
            outputs = states.outputs(coverage.state_position)
            yield Put(COVERAGE, _holding(coverage, coverage.state_position, outputs))
        return
    if position < state.position:
        position, version = state.position, state.materialization_id
    yield from states.changes(state.position)
    yield from _restore(rows, state, states.outputs(state.position), position, version)


def _restore(
    rows: Rows, state: ColumnStateRow, outputs: int, position: int, version: str
) -> Iterator[Change]:
    """Replace the columns of an asset by those of a state."""
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
        msgspec.structs.replace(
            _holding(coverage, state.position, outputs),
            position=position,
            materialization_id=version,
        ),
    )
    yield from uses_changed(target, existing, columns.values(), sources, sources)


def _says_the_same(old: CoverageRow, new: CoverageRow) -> bool:
    moving = (
        "position",
        "observed_at",
        "named_at",
        "materialization_id",
        "state_position",
        "outputs",
    )
    moved = {name: getattr(new, name) for name in moving}
    return bool(msgspec.structs.replace(old, **moved) == new)


def _by_key(rows: Sequence[ColumnEdgeRow]) -> dict[Key, ColumnEdgeRow]:
    return {COLUMNS.key_of(row): row for row in rows}
