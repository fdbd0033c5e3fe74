"""The fold of the results of a backfill's chunks: one key for each backfill.

Its facts are requested chunks, their runs, and the ends of runs. A chunk has one row, with its
newest run, and a backfill one row with the totals: there are no rows for partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from arco.automation.backfill_states import CHUNK_BAD, CHUNK_OPEN, ChunkState
from arco.automation.tables import (
    BACKFILL_PROGRESS,
    BACKFILL_RUNS,
    BackfillProgressRow,
    BackfillRunRow,
)
from arco.log.envelope import Payload
from arco.orchestration.derived import RunEnded, RunRequestDropped
from arco.orchestration.plan import Spans, numbers
from arco.orchestration.runs import RunAdmitted
from arco.orchestration.states import RunState, RunTrigger
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Fact, On, Put, Rows, Stage, by

replace = msgspec.structs.replace

COUNTS = ("succeeded", "reused", "failed", "skipped", "cancelled")


def backfill_of(reference: str) -> str:
    return reference.partition(":")[0]


class ChunkAsked(Payload, frozen=True, kw_only=True):
    """Derived: a backfill has requested a chunk."""

    TYPE: ClassVar[str] = "automation.chunk_asked"
    backfill_id: str
    chunk: int
    round: int
    request_key: str
    partitions: int


class BackfillRestarted(Payload, frozen=True, kw_only=True):
    """Derived: failed and cancelled partitions of these chunks are to run again."""

    TYPE: ClassVar[str] = "automation.backfill_restarted"
    backfill_id: str
    round: int
    chunks: Spans


def _chunk_requested(rows: Rows, fact: Fact, e: ChunkAsked) -> Iterator[Change]:
    old = rows.get(BACKFILL_RUNS, e.backfill_id, e.chunk)
    row = row_from(
        BackfillRunRow,
        e,
        chunk_index=e.chunk,
        state=ChunkState.PENDING,
        run_id="",
        succeeded=0 if old is None else old.succeeded,
        reused=0 if old is None else old.reused,
        failed=0,
        skipped=0,
        cancelled=0,
        reason="",
        asked_at=fact.received_at,
        finished_at=None,
    )
    yield Put(BACKFILL_RUNS, row)
    if rows.get(BACKFILL_PROGRESS, e.backfill_id) is None:
        yield Put(BACKFILL_PROGRESS, _no_progress(e.backfill_id))


def _no_progress(backfill_id: str) -> BackfillProgressRow:
    return BackfillProgressRow(
        backfill_id=backfill_id,
        round=1,
        ended=0,
        chunks_bad=0,
        chunks_skipped=0,
        succeeded=0,
        reused=0,
        failed=0,
        skipped=0,
        cancelled=0,
    )


def _open_chunk(rows: Rows, reference: str, key: str) -> BackfillRunRow | None:
    """The chunk that waits for the run of this key."""
    backfill_id, _, rest = reference.partition(":")
    chunk = rest.partition(":")[0]
    if not chunk.isdecimal():
        return None
    row = rows.get(BACKFILL_RUNS, backfill_id, int(chunk))
    return row if row is not None and row.request_key == key and row.state in CHUNK_OPEN else None


def _admitted(rows: Rows, fact: Fact, e: RunAdmitted) -> Iterator[Change]:
    is_chunk = e.trigger == RunTrigger.BACKFILL
    row = _open_chunk(rows, e.reference or "", e.run_key) if is_chunk else None
    if row is not None:
        yield Put(
            BACKFILL_RUNS,
            replace(row, state=ChunkState.RUNNING, run_id=e.run_id, partitions=e.tasks_total),
        )


def _run_ended(rows: Rows, fact: Fact, e: RunEnded) -> Iterator[Change]:
    is_chunk = e.trigger == RunTrigger.BACKFILL
    row = _open_chunk(rows, e.reference or "", e.run_key) if is_chunk else None
    if row is None:
        return
    before = min(row.succeeded, e.tasks_reused)  # by an earlier run of the same chunk
    ended = replace(
        row,
        state=_STATES.get(e.state, ChunkState.FAILED),
        succeeded=e.tasks_succeeded + before,
        reused=e.tasks_reused - before,
        failed=e.tasks_failed,
        skipped=e.tasks_skipped,
        cancelled=e.tasks_cancelled,
        finished_at=fact.received_at,
    )
    yield from _ended(rows, row, ended)


_STATES: Final = {
    RunState.SUCCEEDED: ChunkState.SUCCEEDED,
    RunState.CANCELLED: ChunkState.CANCELLED,
}


def _dropped(rows: Rows, fact: Fact, e: RunRequestDropped) -> Iterator[Change]:
    row = _open_chunk(rows, e.reference, e.request_key) if e.kind == RunTrigger.BACKFILL else None
    if row is None:
        return
    ended = replace(row, reason=e.reason, finished_at=fact.received_at)
    left = max(0, row.partitions - row.succeeded - row.reused)
    match e.code:
        case "partitions_gone":
            ended = replace(ended, state=ChunkState.SKIPPED, partitions=0)
        case "backfill_cancelled" | "withdrawn":
            ended = replace(ended, state=ChunkState.CANCELLED, cancelled=left)
        case _:
            ended = replace(ended, state=ChunkState.FAILED, failed=left)
    yield from _ended(rows, row, ended)


def _ended(rows: Rows, old: BackfillRunRow, new: BackfillRunRow) -> Iterator[Change]:
    yield Put(BACKFILL_RUNS, new)
    progress = rows.get(BACKFILL_PROGRESS, old.backfill_id) or _no_progress(old.backfill_id)
    yield Put(
        BACKFILL_PROGRESS,
        replace(
            _moved(progress, old, new),
            ended=progress.ended + 1,
            chunks_bad=progress.chunks_bad + (new.state in CHUNK_BAD),
            chunks_skipped=progress.chunks_skipped + (new.state == ChunkState.SKIPPED),
        ),
    )


def _moved(
    progress: BackfillProgressRow, old: BackfillRunRow, new: BackfillRunRow
) -> BackfillProgressRow:
    changed = {
        name: getattr(progress, name) + getattr(new, name) - getattr(old, name) for name in COUNTS
    }
    return replace(progress, **changed)


def _restarted(rows: Rows, fact: Fact, e: BackfillRestarted) -> Iterator[Change]:
    """Remove the failures of these chunks from the totals: they are pending again."""
    progress = rows.get(BACKFILL_PROGRESS, e.backfill_id) or _no_progress(e.backfill_id)
    for chunk in numbers(e.chunks):
        row = rows.get(BACKFILL_RUNS, e.backfill_id, chunk)
        if row is None or row.state not in CHUNK_BAD:
            continue
        cleared = replace(row, failed=0, skipped=0, cancelled=0)
        yield Put(BACKFILL_RUNS, cleared)
        progress = _moved(progress, row, cleared)
        progress = replace(progress, chunks_bad=progress.chunks_bad - 1)
    yield Put(BACKFILL_PROGRESS, replace(progress, round=e.round))


def _by_reference(fact: Fact, e: RunAdmitted | RunEnded | RunRequestDropped) -> str:
    return backfill_of(e.reference or "")


STAGE = Stage(
    "backfill_runs",
    (BACKFILL_RUNS, BACKFILL_PROGRESS),
    (
        On(ChunkAsked, by("backfill_id"), _chunk_requested),
        On(BackfillRestarted, by("backfill_id"), _restarted),
        On(RunAdmitted, _by_reference, _admitted),
        On(RunEnded, _by_reference, _run_ended),
        On(RunRequestDropped, _by_reference, _dropped),
    ),
)
