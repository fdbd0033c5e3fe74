"""Plans as events: slices of tasks, all in one batch with the run's trigger.

The slices of a small plan are plain JSON. Those of a larger one have their tasks deflated
(`packing.py`): some thirty bytes for each task, and two for each dependency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from arco.errors import Invalid
from arco.log.envelope import MAX_BATCH_BYTES, MAX_EVENT_BYTES, encode_payload
from arco.orchestration.events import RunAsset, TaskPlan, TasksPlanned
from arco.orchestration.packing import pack, unpack
from arco.orchestration.plan import PlannedTask, PlanSpec
from servo.contract.manifest import Asset

CHUNK_TASKS: Final = 1_000
CHUNK_EDGES: Final = 100_000
PLAIN_BYTES: Final = 32 << 10
"""Beyond this a slice is packed."""
BATCH_BYTES: Final = MAX_BATCH_BYTES - (1 << 20)
"""For all slices; the command and the envelopes have room above it."""

_tasks = msgspec.json.Decoder(tuple[TaskPlan, ...])


def slices(run_id: str, spec: PlanSpec, assets: Mapping[str, Asset]) -> list[TasksPlanned]:
    """A plan as events. A plan goes into the log as one batch, or not at all: Invalid."""
    events = [
        event
        for first, stop in _bounds(spec.tasks)
        for event in _slice(run_id, first, spec.tasks[first:stop], assets)
    ]
    size = sum(len(encode_payload(event)) + 1_000 for event in events)
    if size > BATCH_BYTES:
        edges = sum(len(task.depends_on) for task in spec.tasks)
        raise Invalid(
            f"the plan has {len(spec.tasks):,} tasks and {edges:,} dependencies between them, "
            f"which take {size:,} bytes; the limit is {BATCH_BYTES:,}",
            hint="run fewer partitions; wide windows and all_upstream multiply dependencies",
        )
    return events


def tasks_of(event: TasksPlanned) -> tuple[TaskPlan, ...]:
    """The tasks of a slice; none if what is packed cannot be read, and the run never starts."""
    if not event.packed:
        return event.tasks
    try:
        return _tasks.decode(unpack(event.packed))
    except (ValueError, msgspec.DecodeError):
        return ()


def _bounds(tasks: Sequence[PlannedTask]) -> Iterator[tuple[int, int]]:
    first, edges = 0, 0
    for i, task in enumerate(tasks):
        edges += len(task.depends_on)
        if i > first and (i - first >= CHUNK_TASKS or edges > CHUNK_EDGES):
            yield first, i
            first, edges = i, len(task.depends_on)
    yield first, len(tasks)


def _slice(
    run_id: str, first: int, tasks: Sequence[PlannedTask], assets: Mapping[str, Asset]
) -> Iterator[TasksPlanned]:
    used: dict[str, int] = {}
    listed: list[RunAsset] = []
    planned = []
    for task in tasks:
        if task.asset not in used:
            used[task.asset] = len(listed)
            listed.append(_run_asset(assets[task.asset], task.asset_id))
        planned.append(
            TaskPlan(
                task_id=task.task_id,
                asset=used[task.asset],
                partition=task.partition,
                deps=task.depends_on,
                reused=task.materialization_id if task.action == "reuse" else "",
                tenant=task.tenant,
            )
        )
    event = TasksPlanned(run_id=run_id, first=first, assets=tuple(listed), tasks=tuple(planned))
    text = msgspec.json.encode(planned)
    if len(text) > PLAIN_BYTES:
        event = msgspec.structs.replace(event, tasks=(), packed=pack(text), count=len(planned))
    if len(encode_payload(event)) > MAX_EVENT_BYTES and len(tasks) > 1:
        half = len(tasks) // 2
        yield from _slice(run_id, first, tasks[:half], assets)
        yield from _slice(run_id, first + half, tasks[half:], assets)
    else:
        yield event


def _run_asset(asset: Asset, asset_id: str) -> RunAsset:
    retry = asset.retry
    return RunAsset(
        key=asset.key,
        asset_id=asset_id,
        max_attempts=retry.max_attempts,
        delay_s=retry.delay_s,
        max_delay_s=retry.max_delay_s,
        retry_on=retry.retry_on,
        never_on=retry.never_on,
        timeout_s=asset.timeout_s,
        priority=asset.resources.priority,
        pool=asset.resources.pool or "",
    )
