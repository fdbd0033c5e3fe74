"""A workspace with many runs, which ended over the last hundred days.

Rows of runs and tasks are put into files by the product's own writer of tables, and a merge, as it
runs beside commits, puts them where they belong: recent ones into the base, old ones into history.
Nothing reads the events that would have led to them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from arco.app import Workspace
from arco.orchestration.states import RunState, RunTrigger, TaskState
from arco.orchestration.tables import RUNS, TASKS, RunRow, TaskRow
from arco.state.rewrite import Swap, write_file
from arco.state.table import Table
from benchmarks.workload import progress, timed
from servo.contract import ulid

DAYS = 100
BATCH = 50_000


def fill_runs(workspace: Workspace, count: int, namespaces: Sequence[str] = ()) -> None:
    """`namespaces`: each run has a task of an asset of one of them, chosen at random."""
    seconds, _ = timed(_fill, workspace, count, namespaces)
    progress(f"{count:,} runs in {seconds:.1f} s")


def _fill(workspace: Workspace, count: int, namespaces: Sequence[str]) -> None:
    for rows in _runs(workspace.clock.now(), count):
        if namespaces:
            rng = random.Random(len(rows))
            chosen = [rng.choice(namespaces) for _ in rows]
            rows = [
                msgspec.structs.replace(row, namespaces=[namespace])  # as the fold does
                for row, namespace in zip(rows, chosen, strict=True)
            ]
            tasks = [_task(row, namespace) for row, namespace in zip(rows, chosen, strict=True)]
            _put(workspace, TASKS, {(task.run_id, task.task_id): task for task in tasks})
        _put(workspace, RUNS, {(row.run_id,): row for row in rows})
    workspace.upkeep.merger.merge(everything=True)


def _put(workspace: Workspace, table: Table[Any], rows: Mapping[Any, Any]) -> None:
    core, position = workspace.core, workspace.read.snapshot().position
    arrow = table.to_arrow({key: (position, row) for key, row in rows.items()})
    ref = write_file(core.files, table, arrow, "l0", core.ids(), core.clock.now())
    workspace.upkeep.merger.publish([Swap(table, frozenset(), l0=(ref,))])


def _runs(now: datetime, count: int) -> Iterator[list[RunRow]]:
    rng, step = random.Random(3), timedelta(days=DAYS) / count
    rows: list[RunRow] = []
    for number in range(count):
        at = now - step * (count - number)
        took = timedelta(seconds=rng.randrange(1, 30))
        rows.append(
            msgspec.structs.replace(
                _RUN,
                run_id=_ulid(at, rng),
                plan_id=f"{rng.getrandbits(256):064x}",
                created_at=at,
                started_at=at,
                finished_at=min(at + took, now),
            )
        )
        if len(rows) == BATCH:
            yield rows
            rows = []
    if rows:
        yield rows


def _ulid(at: datetime, rng: random.Random) -> str:
    milliseconds = int(at.replace(tzinfo=UTC).timestamp() * 1000)
    return ulid.encode(milliseconds << 80 | rng.getrandbits(80))


_RUN = RunRow(
    run_id="",
    plan_id="",
    plan_fingerprint="0" * 64,
    deployment_id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    run_key="",
    state=RunState.SUCCEEDED,
    trigger=RunTrigger.SCHEDULE,
    triggered_by="nightly",
    selection=["flow.root"],
    partitions=["date=2026-01-01"],
    priority=0,
    tasks_total=1,
    tasks_planned=1,
    tasks_succeeded=1,
    tasks_reused=0,
    tasks_failed=0,
    tasks_skipped=0,
    tasks_cancelled=0,
    retries=0,
    timeout_s=0,
    timed_out=False,
    retry_of="",
    created_at=datetime(2026, 1, 1),
    started_at=None,
    cancel_requested_at=None,
    cancel_reason="",
    finished_at=None,
)


def _task(run: RunRow, namespace: str) -> TaskRow:
    return TaskRow(
        run_id=run.run_id,
        task_id=f"{namespace}.root",
        index=0,
        asset_key=f"{namespace}.root",
        asset_id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        partition_key="date=2026-01-01",
        tenant=namespace,
        state=TaskState.SUCCEEDED,
        attempt=1,
        attempt_id=run.run_id,
        max_attempts=1,
        deps_total=0,
        deps_satisfied=0,
        upstream=[],
        downstream=[],
        priority=0,
        timeout_s=0,
        retry_delay_s=0,
        retry_max_delay_s=0,
        retry_on=[],
        never_on=[],
        redelivery=0,
        worker_id="worker",
        ready_at=run.created_at,
        dispatched_at=run.created_at,
        started_at=run.created_at,
        finished_at=run.finished_at,
        retry_not_before=None,
        materialization_id="",
        path="",
        adopted=False,
        error_category="",
        error_code="",
        error_message="",
        error_hint="",
        wall_ms=1_000,
        cpu_ms=500,
        peak_memory_kib=100_000,
    )
