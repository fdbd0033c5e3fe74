"""Reading the log back: its segments, in order, without what was rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from arco.errors import Corrupt
from arco.log import segment
from arco.log.envelope import EventTypes, Recorded
from arco.state.snapshot import Snapshot
from arco.state.system import SEGMENTS, SegmentRow, segment_ref
from arco.storage.port import Store

ReportProgress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is."""

PositionRange = tuple[int, int]


def silent(what: str, done: int, total: int) -> None:
    pass


def segments(snapshot: Snapshot, first: int = 1) -> list[SegmentRow]:
    """The segments of the log at a generation, from the one that holds a position on.

    Raises Corrupt if positions are not dense.
    """
    rows = sorted(
        (row for _, row in snapshot.since(SEGMENTS, first - 1)), key=lambda row: row.first_position
    )
    expected = rows[0].first_position if rows and rows[0].first_position <= first else first
    for row in rows:
        if row.first_position != expected:
            raise _jump(expected - 1, row.first_position)
        expected = row.last_position + 1
    if first <= snapshot.position and expected - 1 != snapshot.position:
        raise Corrupt(f"the log ends at {expected - 1}, the manifest says {snapshot.position}")
    return rows


def _jump(before: int, after: int) -> Corrupt:
    return Corrupt(
        f"the log jumps from position {before} to {after}",
        hint="a segment is missing from log.segments: restore from a backup",
    )


def voided(rows: Sequence[SegmentRow]) -> list[PositionRange]:
    """Positions that rollbacks have undone, as inclusive spans, newest first.

    A rollback that was itself rolled back does not count. Rollbacks come after what they undo: with
    the segments from a position on, the result is correct for later positions.
    """
    spans: list[PositionRange] = []
    for row in reversed(rows):
        if row.rolled_back_to is None or is_void(row.first_position, spans):
            continue
        spans.append((row.rolled_back_to + 1, row.first_position))
    return spans


def is_void(position: int, spans: Sequence[PositionRange]) -> bool:
    return any(low <= position <= high for low, high in spans)


def read_segment(store: Store, row: SegmentRow, spans: Sequence[PositionRange]) -> pa.Table:
    """The events of a segment that still count."""
    table = segment.read_table(store, segment_ref(row))
    for low, high in spans:
        if low <= row.last_position and row.first_position <= high:
            position = table.column("position")
            excluded = pc.and_(pc.greater_equal(position, low), pc.less_equal(position, high))
            table = table.filter(pc.invert(excluded))
    return table


def read_log(
    snapshot: Snapshot, types: EventTypes, *, first: int = 1, progress: ReportProgress = silent
) -> Iterator[Recorded]:
    """The events that count, from a position on, up to the snapshot's."""
    rows = segments(snapshot, first)
    spans = voided(rows)
    for row in rows:
        table = read_segment(snapshot.files.store, row, spans)
        for recorded in segment.decode(table, types):
            if recorded.position >= first:
                yield recorded
        progress("reading the log", row.last_position, snapshot.position)
