"""What a task's jobs took, from a store that forgets."""

from __future__ import annotations

from typing import Any

from arco.spark.metrics import SparkJob, SparkStage, SparkUsage, TaskStatus


class Store:
    """Spark's status store: it keeps as many jobs and stages as it likes."""

    def __init__(self) -> None:
        self.jobs: dict[int, SparkJob] = {}
        self.stages: dict[int, tuple[SparkStage, ...]] = {}
        self.listed: set[int] | None = None
        self.gone = False

    def job_ids(self, tags: tuple[str, ...]) -> set[int]:
        if self.gone:
            raise ConnectionRefusedError
        return self.listed or set(self.jobs)

    def job(self, job_id: int) -> SparkJob | None:
        return self.jobs.get(job_id)

    def stage(self, stage_id: int) -> tuple[SparkStage, ...]:
        return self.stages.get(stage_id, ())

    def settle(self) -> None:
        pass

    def runs(self, number: int, job: str = "SUCCEEDED", **more: Any) -> None:
        """A job with one stage, both of this number."""
        self.jobs[number] = SparkJob(number, job, (number,), num_tasks=1)
        done: dict[str, Any] = {
            "status": "COMPLETE",
            "executor_run_time": 10,
            "num_complete_tasks": 1,
        }
        self.stages[number] = (SparkStage(number, **(done | more)),)

    def forgets(self, number: int) -> None:
        del self.jobs[number], self.stages[number]


def status(store: Store) -> TaskStatus:
    given: Any = store
    return TaskStatus(given, ("tag",))


def took(stages: int, each_ms: int = 10) -> SparkUsage:
    return SparkUsage(executor_run_ms=stages * each_ms, jobs=stages, stages=stages, tasks=stages)


def test_jobs_that_were_seen_to_end_count_when_the_store_has_forgotten_them() -> None:
    store = Store()
    task = status(store)
    for number in range(5):
        store.runs(number)
        assert task.progress() is None
        store.forgets(number)
    store.runs(5)
    assert task.usage() == took(6)


def test_a_job_forgotten_while_it_is_looked_up_costs_no_other() -> None:
    store = Store()
    store.runs(1)
    store.listed = {0, 1}
    assert status(store).usage() == took(1)


def test_a_driver_that_is_gone_leaves_what_was_counted() -> None:
    store = Store()
    task = status(store)
    store.runs(1)
    task.progress()
    store.gone = True
    assert task.usage() == took(1)


def test_a_job_that_runs_counts_as_far_as_it_is_and_once() -> None:
    store = Store()
    task = status(store)
    store.runs(1, "RUNNING", status="ACTIVE", executor_run_time=4)
    assert task.usage() == took(1, each_ms=4)
    store.runs(1)
    assert task.usage() == task.usage() == took(1)


def test_tasks_that_end_after_their_job_count() -> None:
    store = Store()
    task = status(store)
    store.runs(1, "FAILED", status="FAILED", executor_run_time=4, num_active_tasks=1)
    assert task.progress() is None
    store.runs(1, "FAILED", status="FAILED", executor_run_time=9)
    assert task.usage() == took(1, each_ms=9)


def test_tasks_that_were_killed_are_waited_for() -> None:
    class Slow(Store):
        def stage(self, stage_id: int) -> tuple[SparkStage, ...]:
            found = super().stage(stage_id)
            self.runs(1, "FAILED", status="FAILED", executor_run_time=9)
            return found

    store = Slow()
    store.runs(1, "FAILED", status="FAILED", executor_run_time=0, num_active_tasks=1)
    assert status(store).usage() == took(1, each_ms=9)


def test_a_stage_that_two_jobs_share_counts_once() -> None:
    store = Store()
    task = status(store)
    store.runs(1)
    task.progress()
    store.jobs[2] = SparkJob(2, "SUCCEEDED", (1,))
    store.stages[1] = (SparkStage(1, status="SKIPPED"),)  # a later job overwrites what it skips
    assert task.usage() == SparkUsage(executor_run_ms=10, jobs=2, stages=1, tasks=1)
