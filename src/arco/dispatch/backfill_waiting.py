"""What the chunks of a backfill wait for: a pause of all dispatch, or a limit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from arco.automation.backfill_states import BackfillState, ChunkState
from arco.automation.tables import BackfillRow, BackfillRunRow
from arco.dispatch.waiting import Occupied, held_back
from arco.orchestration.limit_tables import pause_text
from arco.orchestration.limit_usage import run_limit_reached
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RunTrigger
from arco.state.snapshot import Snapshot


def waits_for(
    snapshot: Snapshot, backfill: BackfillRow, chunks: Sequence[BackfillRunRow], now: datetime
) -> list[str]:
    """Why the backfill waits; empty if it does not, is paused, or has ended."""
    if backfill.state not in (BackfillState.PENDING, BackfillState.RUNNING):
        return []
    reader = OrchestrationReader(snapshot)
    occupied = Occupied.read(snapshot)
    if occupied.declared.is_paused:
        return [f"{pause_text(occupied.declared.control)}; see `servo resume`"]
    texts = []
    pending = sum(chunk.state == ChunkState.PENDING for chunk in chunks)
    reached = run_limit_reached(occupied.declared, reader.run_use(now), RunTrigger.BACKFILL)
    if pending and reached is not None:
        texts.append(f"{pending:,} chunk{'' if pending == 1 else 's'}: {reached}")
    running = [chunk.run_id for chunk in chunks if chunk.state == ChunkState.RUNNING]
    tasks = [task for run_id in running for task in reader.tasks(run_id)]
    return texts + [each.text for each in held_back(tasks, occupied)]
