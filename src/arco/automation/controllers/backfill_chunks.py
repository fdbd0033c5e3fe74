"""Backfills that continue: they request more chunks, or end.

A backfill has up to its maximum of concurrent runs. It has ended when all of its chunks were
requested and all requests have ended; it fails early when more partitions failed than its threshold
allows. The runs of a cancelled one are cancelled too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from arco.automation.backfill_runs import backfill_of
from arco.automation.backfill_states import ASKING, BackfillCause, BackfillState
from arco.automation.events import BackfillAdvanced, BackfillEnded
from arco.automation.tables import BackfillProgressRow, BackfillRow
from arco.errors import Invalid
from arco.log.envelope import Payload
from arco.orchestration.events import RunCancelRequested, RunRequestRefused
from arco.orchestration.states import RunState, RunTrigger
from arco.orchestration.tables import RunRequestRow, RunRow

ENDED = frozenset({BackfillState.SUCCEEDED, BackfillState.FAILED, BackfillState.CANCELLED})


class BackfillStep(NamedTuple):
    name: str
    """The name of a step; the same in every process."""
    event: Payload


def backfill_chunks(
    backfills: Iterable[BackfillRow],
    progress: Mapping[str, BackfillProgressRow],
    requests: Iterable[RunRequestRow],
    runs: Iterable[RunRow],
) -> list[BackfillStep]:
    steps: list[BackfillStep] = []
    cancelled: set[str] = set()
    for row in backfills:
        if row.state == BackfillState.CANCELLED:
            cancelled.add(row.backfill_id)
        elif row.state in ASKING:
            event = _next(row, progress.get(row.backfill_id))
            if event is not None:
                steps.append(BackfillStep(f"{row.backfill_id}@{row.step}", event))
    if cancelled:
        steps += _cancelling(cancelled, requests, runs)
    return steps


def is_over(row: BackfillRow, progress: BackfillProgressRow | None) -> bool:
    """Whether nothing is left to do for it."""
    return row.state in ENDED and row.asked == (0 if progress is None else progress.ended)


def _next(row: BackfillRow, progress: BackfillProgressRow | None) -> Payload | None:
    ended = 0 if progress is None else progress.ended
    if progress is not None:
        limit = failures_allowed(row.failure_threshold, row.total_partitions)
        if limit is not None and progress.failed > limit:
            return BackfillEnded(
                backfill_id=row.backfill_id,
                step=row.step,
                cause=BackfillCause.TOO_MANY_FAILED,
                reason=f"{progress.failed:,} of {row.total_partitions:,} partitions failed, "
                f"more than its threshold of {row.failure_threshold}",
            )
    active = row.asked - ended
    left = row.chunks - row.next_chunk + sum(row.again[1::2]) - sum(row.again[::2])
    room = min(left, row.max_concurrent_runs - active)
    if room > 0:
        return BackfillAdvanced(backfill_id=row.backfill_id, step=row.step, chunks=room)
    if left or active:
        return None
    bad = progress is not None and progress.chunks_bad > 0
    return BackfillEnded(
        backfill_id=row.backfill_id,
        step=row.step,
        cause=BackfillCause.NOT_ALL_GOOD if bad else BackfillCause.ALL_GOOD,
        reason=_summary(progress) if bad and progress is not None else "",
    )


def _summary(progress: BackfillProgressRow) -> str:
    counts = {
        "failed": progress.failed,
        "were skipped": progress.skipped,
        "were cancelled": progress.cancelled,
    }
    listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"of its partitions {listed}" if listed else "not all of its runs succeeded"


def _cancelling(
    cancelled: set[str], requests: Iterable[RunRequestRow], runs: Iterable[RunRow]
) -> Iterator[BackfillStep]:
    reason = "its backfill was cancelled"
    for request in requests:
        if request.kind == RunTrigger.BACKFILL and backfill_of(request.reference) in cancelled:
            key = request.request_key
            refusal = RunRequestRefused(request_key=key, reason=reason, code="backfill_cancelled")
            yield BackfillStep(key, refusal)
    for run in runs:
        if run.trigger != RunTrigger.BACKFILL or run.state == RunState.CANCELLING:
            continue
        if backfill_of(run.reference) in cancelled:
            cancel = RunCancelRequested(run_id=run.run_id, reason=reason, in_steps=True)
            yield BackfillStep(f"cancel {run.run_id}", cancel)


def failures_allowed(threshold: str, partitions: int) -> int | None:
    """How many partitions may fail; None if there is no threshold. Raises Invalid."""
    if not threshold:
        return None
    number = threshold.removesuffix("%")
    if not number.isdecimal() or (number != threshold and int(number) > 100):
        raise Invalid(
            f"{threshold!r} is not a threshold of failures", hint="write 10% or a number, as in 25"
        )
    return int(number) if number == threshold else partitions * int(number) // 100
