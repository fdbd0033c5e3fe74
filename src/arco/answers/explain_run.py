"""Why a run is in its state: the chain of causes, and observations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from statistics import median
from typing import Final

from arco.answers.causes import CauseFinder, task_facts
from arco.answers.inputs_above import InputReader
from arco.answers.shapes import Cause, RunExplanation, place, remedy
from arco.dispatch.waiting import Waiting
from arco.execution.tables import PARTITION_STATUS
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import HELD_GATES, RUN_ACTIVE, RunState, TaskState
from arco.orchestration.tables import RunRow, TaskRow
from arco.orchestration.triggers import run_trigger, runs_before

SLOW: Final = 3.0
LEAST_SLOW_MS: Final = 10_000


class RunExplainer:
    def __init__(self, inputs: InputReader) -> None:
        self.snapshot = inputs.snapshot
        self._finder = CauseFinder(inputs)

    def explain(self, run: RunRow, waiting: Sequence[Waiting]) -> RunExplanation:
        """`waiting` is what an active run waits for now."""
        tasks = OrchestrationReader(self.snapshot).tasks(run.run_id)
        causes = tuple(self._chain(run, tasks, waiting))
        triggered = [run_trigger(run)]
        triggered += [
            f"run {each.run_id}: {run_trigger(each)}" for each in runs_before(self.snapshot, run)
        ]
        return RunExplanation(
            generation=self.snapshot.generation,
            run_id=run.run_id,
            state=run.state,
            summary=causes[-1].text if causes else _all_well(run),
            causes=causes,
            observations=tuple(self._observations(run, tasks, waiting)),
            triggered_by=tuple(triggered),
        )

    # -- the chain --------------------------------------------------------------------------

    def _chain(
        self, run: RunRow, tasks: Sequence[TaskRow], waiting: Sequence[Waiting]
    ) -> Iterator[Cause]:
        failed = sorted(
            (task for task in tasks if task.state == TaskState.FAILED),
            key=lambda task: (task.finished_at or run.created_at, task.index),
        )
        if run.state in RUN_ACTIVE and waiting:
            yield _waits(run, waiting)
        elif run.state == RunState.TIMED_OUT:
            yield _timed_out(run, tasks)
        elif run.state in (RunState.CANCELLED, RunState.CANCELLING) and not run.failed_by:
            yield _cancelled(run)
        elif run.failed_by:
            yield _stopped_by_checks(run)
        elif failed:
            yield _has_failed(run, failed)
        if failed:
            yield from self._failure(run, failed)
        elif run.tasks_held:
            yield from self._holds(run, tasks)

    def _failure(self, run: RunRow, failed: Sequence[TaskRow]) -> Iterator[Cause]:
        """Of the task that failed first, or ended the run."""
        task = next((each for each in failed if each.task_id == run.failed_by), failed[0])
        status = self.snapshot.get(PARTITION_STATUS, task.asset_id, task.partition_key)
        if status is not None and status.last_run_id == run.run_id:
            causes = self._finder.chain(task.asset_key, task.partition_key)
            if causes:
                yield from causes
                return
        facts = {**task_facts(task), "run_id": run.run_id}
        if status is not None:
            facts["last_run_id"] = status.last_run_id
        hints = [remedy(task.error_hint)] if task.error_hint else []
        yield Cause(
            kind="failed",
            asset=task.asset_key,
            partition=task.partition_key,
            text=f"{place(task.asset_key, task.partition_key)} failed: {task.error_message}",
            at=task.finished_at,
            facts=facts,
            remedies=(
                *hints,
                remedy("read the log", f"servo runs logs {run.run_id} --task {task.asset_key}"),
            ),
        )

    def _holds(self, run: RunRow, tasks: Sequence[TaskRow]) -> Iterator[Cause]:
        held = [task for task in tasks if task.gate in HELD_GATES]
        yield Cause(
            kind="held",
            text=f"checks hold {run.tasks_held:,} outputs of the run",
            at=run.finished_at,
            facts={"run_id": run.run_id, "assets": sorted({task.asset_key for task in held})},
            remedies=(remedy("decide about them", "servo quarantine list"),),
        )
        for task in held[:1]:
            yield from self._finder.chain(task.asset_key, task.partition_key)

    # -- what stands out ----------------------------------------------------------------------

    def _observations(
        self, run: RunRow, tasks: Sequence[TaskRow], waiting: Sequence[Waiting]
    ) -> Iterator[Cause]:
        for each in waiting[1:]:
            yield Cause(kind="waiting", text=each.text, at=each.since, facts={"for": each.what})
        retried = [task for task in tasks if task.attempt > 1]
        if retried:
            codes = Counter(task.error_code for task in retried if task.error_code)
            common = "".join(f"; mostly {code}" for code, _ in codes.most_common(1))
            yield Cause(
                kind="retries",
                text=f"{len(retried):,} of {len(tasks):,} tasks took more than one attempt{common}",
                facts={"tasks": [_named(task) for task in retried[:20]]},
            )
        skipped = [task for task in tasks if task.state == TaskState.SKIPPED]
        if skipped:
            yield Cause(
                kind="skipped",
                text=f"skipped because an input is not good: {len(skipped):,} of "
                f"{len(tasks):,} tasks",
                facts={"tasks": [_named(task) for task in skipped[:20]]},
                remedies=(
                    remedy("run them when the cause is fixed", f"servo runs retry {run.run_id}"),
                ),
            )
        yield from _slow(tasks)


def _named(task: TaskRow) -> str:
    return place(task.asset_key, task.partition_key)


def _all_well(run: RunRow) -> str:
    if run.state in RUN_ACTIVE:
        left = run.tasks_total - run.tasks_done
        return f"run {run.run_id} continues: {left:,} of {_tasks(run.tasks_total)} remain"
    good = "its task is" if run.tasks_total == 1 else f"all {_tasks(run.tasks_total)} are"
    return f"run {run.run_id} is {run.state}: {good} good"


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number:,} tasks"


def _has_failed(run: RunRow, failed: Sequence[TaskRow]) -> Cause:
    kinds = Counter(task.error_code for task in failed)
    codes = ", ".join(f"{code} ({count:,})" for code, count in kinds.most_common(5))
    state = "failed" if run.state == RunState.FAILED else f"is {run.state}"
    return Cause(
        kind="run_failed",
        text=f"run {run.run_id} {state}: {len(failed):,} of {run.tasks_total:,} tasks failed, "
        f"{run.tasks_skipped:,} skipped; {codes}",
        at=run.finished_at,
        facts={
            "run_id": run.run_id,
            "tasks_failed": run.tasks_failed,
            "tasks_skipped": run.tasks_skipped,
            "tasks_total": run.tasks_total,
        },
        remedies=(
            remedy("see all of its tasks", f"servo runs show {run.run_id}"),
            remedy("run the failed tasks again", f"servo runs retry {run.run_id}"),
        ),
    )


def _stopped_by_checks(run: RunRow) -> Cause:
    return Cause(
        kind="stopped_by_checks",
        text=f"checks of a task ended run {run.run_id}, by the gating policy of the asset",
        at=run.finished_at,
        facts={"run_id": run.run_id, "task_id": run.failed_by},
        remedies=(remedy("see the checks", "servo quarantine list"),),
    )


def _cancelled(run: RunRow) -> Cause:
    who = f" by {run.cancelled_by}" if run.cancelled_by else ""
    why = f": {run.cancel_reason}" if run.cancel_reason else ""
    return Cause(
        kind="cancelled",
        text=f"run {run.run_id} was cancelled{who}{why}",
        at=run.cancel_requested_at,
        facts={"run_id": run.run_id, "cancelled_by": run.cancelled_by},
        remedies=(remedy("run the remaining tasks", f"servo runs retry {run.run_id}"),),
    )


def _timed_out(run: RunRow, tasks: Sequence[TaskRow]) -> Cause:
    limit = f", the limit {run.timeout_limit}" if run.timeout_limit else ""
    slowest = sorted(tasks, key=lambda task: -task.wall_ms)[:3]
    named = [f"{_named(task)} {task.wall_ms / 1000:.1f} s" for task in slowest if task.wall_ms]
    return Cause(
        kind="timed_out",
        text=f"run {run.run_id} took longer than {timedelta(seconds=run.timeout_s)}{limit}"
        + (f"; its slowest tasks: {', '.join(named)}" if named else ""),
        at=run.finished_at,
        facts={"run_id": run.run_id, "timeout_s": run.timeout_s, "slowest": named},
        remedies=(remedy("run the remaining tasks", f"servo runs retry {run.run_id}"),),
    )


def _waits(run: RunRow, waiting: Sequence[Waiting]) -> Cause:
    first = waiting[0]
    return Cause(
        kind="waiting",
        text=f"run {run.run_id} waits: {first.text}",
        at=first.since,
        facts={"run_id": run.run_id, "for": first.what, "tasks": first.tasks},
        remedies=(remedy("watch it", f"servo runs show {run.run_id}"),),
    )


def _slow(tasks: Sequence[TaskRow]) -> Iterator[Cause]:
    """A task that takes most of the time, among others of the same asset."""
    by_asset: dict[str, list[TaskRow]] = {}
    for task in tasks:
        if task.wall_ms:
            by_asset.setdefault(task.asset_key, []).append(task)
    for asset, alike in sorted(by_asset.items()):
        median_ms = median(task.wall_ms for task in alike)
        slowest = max(alike, key=lambda task: task.wall_ms)
        if len(alike) < 3 or slowest.wall_ms < max(SLOW * median_ms, LEAST_SLOW_MS):
            continue
        yield Cause(
            kind="skew",
            asset=asset,
            partition=slowest.partition_key,
            text=f"{_named(slowest)} took {slowest.wall_ms / 1000:.1f} s, "
            f"others of the asset {median_ms / 1000:.1f} s",
            facts={"wall_ms": slowest.wall_ms, "usual_wall_ms": int(median_ms)},
        )
