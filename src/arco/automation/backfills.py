"""The fold of backfills: one key for each, with its definition, state, and requested chunks.

This stage comes before those of requests and runs; `backfill_runs.py` comes after them, and handles
the ends of runs. What follows for this stage (there is room for another run, all have ended, too
many failed) is reported by orchestrators, with the step that they read. A step counts once, however
many orchestrators report it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from arco.automation.backfill_runs import BackfillRestarted, ChunkAsked
from arco.automation.backfill_states import (
    BackfillCause,
    BackfillState,
    allowed_in,
    backfill_after,
)
from arco.automation.events import (
    BackfillAdvanced,
    BackfillCancelled,
    BackfillCommand,
    BackfillCreated,
    BackfillEnded,
    BackfillPaused,
    BackfillResumed,
    BackfillRetried,
)
from arco.automation.tables import (
    BACKFILLS,
    BackfillRow,
)
from arco.log.envelope import Payload
from arco.orchestration.chunks import expected
from arco.orchestration.plan import PlanRequest, numbers, spans
from arco.orchestration.run_requests import (
    RunAsked,
    decode_request,
    packed_request,
    request_fingerprint,
)
from arco.orchestration.states import RunTrigger
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused

replace = msgspec.structs.replace

PRIORITY = -1_000
"""The lowest: everything else goes first."""


class BackfillOver(Payload, frozen=True, kw_only=True):
    """Derived: a backfill has succeeded or failed."""

    TYPE: ClassVar[str] = "automation.backfill_over"
    backfill_id: str
    state: BackfillState


def reference_of(backfill_id: str, chunk: int, round: int = 1) -> str:
    return f"{backfill_id}:{chunk}" + (f":{round}" if round > 1 else "")


def request_key(reference: str) -> str:
    return f"{RunTrigger.BACKFILL}:{reference}"


def request_of(row: BackfillRow, chunk: int, retries: tuple[str, ...] = ()) -> PlanRequest:
    """The request for a chunk."""
    request: PlanRequest = decode_request(row.request)
    assert request.chunk is not None
    return replace(request, chunk=replace(request.chunk, number=chunk, retries=retries))


def _create(rows: Rows, fact: Fact, e: BackfillCreated) -> Iterator[Change]:
    if rows.get(BACKFILLS, e.backfill_id) is not None or e.request.chunk is None:
        yield refused(fact, "backfill_exists", f"there is a backfill {e.backfill_id} already")
        return
    row = row_from(
        BackfillRow,
        e,
        state=BackfillState.PENDING,
        selection=list(e.request.selection),
        partitions=list(e.request.partitions),
        request=msgspec.json.encode(e.request).decode(),
        total_partitions=e.partitions,
        newest_first=e.request.chunk.newest_first,
        round=1,
        step=0,
        next_chunk=0,
        again=[],
        asked=0,
        created_at=fact.received_at,
        created_by=fact.actor,
        started_at=None,
        finished_at=None,
    )
    yield Put(BACKFILLS, row)
    yield applied(fact)


_CAUSES: Final[dict[type[Payload], tuple[str, BackfillCause]]] = {
    BackfillPaused: ("paused", BackfillCause.PAUSED),
    BackfillResumed: ("resumed", BackfillCause.RESUMED),
    BackfillCancelled: ("cancelled", BackfillCause.CANCELLED),
    BackfillRetried: ("retried", BackfillCause.RETRIED),
}


def _command(rows: Rows, fact: Fact, e: BackfillCommand) -> Iterator[Change]:
    row = rows.get(BACKFILLS, e.backfill_id)
    if row is None:
        yield refused(fact, "backfill_not_found", f"there is no backfill {e.backfill_id}")
        return
    word, cause = _CAUSES[type(e)]
    state = backfill_after(row.state, cause)
    if state is None:
        allowed = " or ".join(allowed_in(cause))
        text = (
            f"backfill {row.backfill_id} is {row.state}; only one that is {allowed} can be {word}"
        )
        yield refused(fact, "backfill_state", text)
        return
    ends = state == BackfillState.CANCELLED
    row = replace(
        row,
        state=state,
        step=row.step + 1,
        reason=getattr(e, "reason", ""),
        finished_at=fact.received_at if ends else None,
    )
    if isinstance(e, BackfillRetried):
        chunks = spans(n for n in numbers(e.chunks) if n < row.next_chunk)
        row = replace(row, round=row.round + 1, again=list(chunks))
        yield Emit(BackfillRestarted(backfill_id=row.backfill_id, round=row.round, chunks=chunks))
    yield Put(BACKFILLS, row)
    yield applied(fact)


def _advance(rows: Rows, fact: Fact, e: BackfillAdvanced) -> Iterator[Change]:
    row = rows.get(BACKFILLS, e.backfill_id)
    if row is None or row.step != e.step:
        return
    state = backfill_after(row.state, BackfillCause.ADVANCED)
    if state is None:
        return
    pending = list(numbers(tuple(row.again)))
    room = min(e.chunks, row.max_concurrent_runs)
    repeated, pending = pending[:room], pending[room:]
    stop = min(row.chunks, row.next_chunk + room - len(repeated))
    fresh = range(row.next_chunk, stop)
    for chunk in repeated:
        yield from _ask(row, chunk, row.round)
    for chunk in fresh:
        yield from _ask(row, chunk, 1)
    yield Put(
        BACKFILLS,
        replace(
            row,
            state=state,
            step=row.step + 1,
            next_chunk=max(row.next_chunk, stop),
            again=list(spans(pending)),
            asked=row.asked + len(repeated) + len(fresh),
            started_at=row.started_at or fact.received_at,
        ),
    )


def _ask(row: BackfillRow, chunk: int, round: int) -> Iterator[Change]:
    reference = reference_of(row.backfill_id, chunk, round)
    earlier = [reference_of(row.backfill_id, chunk, each) for each in range(round - 1, 0, -1)]
    request = request_of(row, chunk, tuple(map(request_key, earlier)))
    assert request.chunk is not None
    yield Emit(
        ChunkAsked(
            backfill_id=row.backfill_id,
            chunk=chunk,
            round=round,
            request_key=request_key(reference),
            partitions=expected(
                request.chunk.axes, chunk, row.total_partitions, newest_first=row.newest_first
            ),
        )
    )
    yield Emit(
        RunAsked(
            request_key=request_key(reference),
            fingerprint=request_fingerprint(request),
            kind=RunTrigger.BACKFILL,
            reference=reference,
            until=row.until,
            priority=PRIORITY,
            **packed_request(request),
        )
    )


def _end(rows: Rows, fact: Fact, e: BackfillEnded) -> Iterator[Change]:
    row = rows.get(BACKFILLS, e.backfill_id)
    if row is None or row.step != e.step:
        return
    state = backfill_after(row.state, e.cause)
    if state is not None:
        ended = replace(
            row, state=state, step=row.step + 1, reason=e.reason, finished_at=fact.received_at
        )
        yield Put(BACKFILLS, ended)
        yield Emit(BackfillOver(backfill_id=row.backfill_id, state=state))


_by_backfill = by("backfill_id")
STAGE = Stage(
    "backfills",
    (BACKFILLS,),
    (
        On(BackfillCreated, _by_backfill, _create),
        On(BackfillPaused, _by_backfill, _command),
        On(BackfillResumed, _by_backfill, _command),
        On(BackfillCancelled, _by_backfill, _command),
        On(BackfillRetried, _by_backfill, _command),
        On(BackfillAdvanced, _by_backfill, _advance),
        On(BackfillEnded, _by_backfill, _end),
    ),
)
