"""Progress and usage of a task's jobs, from Spark's own status store.

A call into the JVM takes some tenths of a millisecond, whatever it returns. So whole
records cross as JSON, which the JVM's REST API knows how to write, and numbers are
added up here: two calls for each job and each stage of the task.

The store keeps only the latest jobs and stages of all tasks. So a job's stages are read when it is
first seen to have ended, and a complete sum needs frequent reads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any, Final

import msgspec

_log = logging.getLogger(__name__)

BUS_TIMEOUT_MS: Final = 500
"""How long to wait until the store has all finished jobs, in milliseconds."""
KILLED_S: Final = 1.0
"""How long to wait until killed Spark tasks have ended, for their usage."""
_POLL_S: Final = 0.1


class StageProgress(msgspec.Struct, frozen=True):
    """The progress of a task's jobs, in Spark tasks."""

    done: int
    total: int
    text: str
    """For people: `stage 2 of 3, 120 of 200 tasks`."""
    percent: int
    stage: int = 0
    stages: int = 0


class SparkUsage(msgspec.Struct, frozen=True):
    """The usage of executors for a task. The CPU time of Python workers is not included."""

    executor_cpu_ms: int = 0
    executor_run_ms: int = 0
    """Time that Spark's tasks held a core."""
    bytes_read: int = 0
    bytes_written: int = 0
    shuffle_bytes: int = 0
    """Written to, and read from, shuffles."""
    spilled_bytes: int = 0
    """To disk."""
    jobs: int = 0
    stages: int = 0
    tasks: int = 0


_ENDED: Final = frozenset({"SUCCEEDED", "FAILED"})
"""What Spark calls the states of jobs; a version of it may have others."""
_NEVER_RAN: Final = frozenset({"SKIPPED", "PENDING"})
"""The same, of stages."""


class SparkJob(msgspec.Struct, frozen=True, rename="camel"):
    """What we read of a job's record."""

    job_id: int
    status: str = "UNKNOWN"
    stage_ids: tuple[int, ...] = ()
    num_tasks: int = 0
    num_completed_tasks: int = 0
    num_skipped_tasks: int = 0
    num_completed_stages: int = 0
    num_skipped_stages: int = 0

    @property
    def ended(self) -> bool:
        return self.status in _ENDED


class SparkStage(msgspec.Struct, frozen=True, rename="camel"):
    """What we read of a stage attempt's record."""

    stage_id: int = 0
    attempt_id: int = 0
    status: str = ""
    num_active_tasks: int = 0
    num_complete_tasks: int = 0
    num_failed_tasks: int = 0
    num_killed_tasks: int = 0
    executor_run_time: int = 0
    executor_cpu_time: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    disk_bytes_spilled: int = 0

    @property
    def ran(self) -> bool:
        return self.status not in _NEVER_RAN


_JOB: Final = msgspec.json.Decoder(SparkJob)
_IDS: Final = msgspec.json.Decoder(tuple[int, ...])
_STAGES: Final = msgspec.json.Decoder(tuple[SparkStage, ...])


# -- pure ---------------------------------------------------------------------------------


def progress_of(jobs: Iterable[SparkJob]) -> StageProgress | None:
    """Of all jobs so far, with the stages of those that run. None when nothing runs."""
    jobs = tuple(jobs)
    running = [job for job in jobs if not job.ended]
    if not running:
        return None
    stages = sum(len(job.stage_ids) - job.num_skipped_stages for job in running)
    finished = sum(job.num_completed_stages for job in running)
    done, total = _tasks(running)
    stage = min(finished + 1, max(stages, 1))
    text = f"stage {stage} of {max(stages, 1)}, {done} of {total} tasks"
    all_done, everything = _tasks(jobs)
    percent = min(99, 100 * all_done // max(everything, 1))
    return StageProgress(done, total, text, percent, stage, max(stages, 1))


def _tasks(jobs: Iterable[SparkJob]) -> tuple[int, int]:
    pairs = [(j.num_completed_tasks, j.num_tasks - j.num_skipped_tasks) for j in jobs]
    return sum(done for done, _ in pairs), sum(total for _, total in pairs)


def usage_of(jobs: int, stages: Iterable[SparkStage]) -> SparkUsage:
    """The sum over the stages that ran; those that were skipped took nothing."""
    ran = [stage for stage in stages if stage.ran]
    return SparkUsage(
        executor_cpu_ms=sum(s.executor_cpu_time for s in ran) // 1_000_000,
        executor_run_ms=sum(s.executor_run_time for s in ran),
        bytes_read=sum(s.input_bytes for s in ran),
        bytes_written=sum(s.output_bytes for s in ran),
        shuffle_bytes=sum(s.shuffle_read_bytes + s.shuffle_write_bytes for s in ran),
        spilled_bytes=sum(s.disk_bytes_spilled for s in ran),
        jobs=jobs,
        stages=len(ran),
        tasks=sum(s.num_complete_tasks + s.num_failed_tasks + s.num_killed_tasks for s in ran),
    )


# -- through py4j -------------------------------------------------------------------------


class StatusStore:
    """The status store of one Spark context. Used from any thread."""

    def __init__(self, context: Any) -> None:
        jvm, scala = context._jvm, context._jsc.sc()
        self._tracker = scala.statusTracker()
        self._store = scala.statusStore()
        self._bus = scala.listenerBus()
        writer = getattr(jvm, "org.apache.spark.status.api.v1.JacksonMessageWriter")
        self._json = writer().mapper()
        self._no_quantiles = context._gateway.new_array(jvm.double, 0)
        self._any_status = jvm.java.util.ArrayList()

    def job_ids(self, tags: Iterable[str]) -> set[int]:
        """The jobs that carry one of the tags, as long as Spark remembers them."""
        # Each element of a Java array would be a call of its own.
        encoded = (self._json.writeValueAsString(self._tracker.getJobIdsForTag(t)) for t in tags)
        return {job for text in encoded for job in _IDS.decode(text)}

    def job(self, job_id: int) -> SparkJob | None:
        """None if it was forgotten meanwhile."""
        try:
            record = self._store.job(job_id)
        except Exception as error:
            if "NoSuchElementException" not in str(error):
                raise
            return None
        return _JOB.decode(self._json.writeValueAsString(record))

    def stage(self, stage_id: int) -> tuple[SparkStage, ...]:
        """All attempts of a stage; none if it was forgotten."""
        record = self._store.stageData(stage_id, False, self._any_status, False, self._no_quantiles)
        return _STAGES.decode(self._json.writeValueAsString(record))

    def settle(self) -> None:
        """Wait until finished jobs are in the store; with a timeout, as other tasks go on."""
        try:
            self._bus.waitUntilEmpty(BUS_TIMEOUT_MS)
        except Exception as error:
            if "TimeoutException" not in str(error):
                raise


class TaskStatus:
    """One task's part of the store. Used from any thread. What has ended is read once."""

    def __init__(self, store: StatusStore, tags: tuple[str, ...]) -> None:
        self._store = store
        self._tags = tags
        self._lock = threading.Lock()
        self._ended: dict[int, SparkJob] = {}
        self._stages: dict[tuple[int, int], SparkStage] = {}
        """Attempts of stages that ran, as they were last seen. Jobs may have some in common."""
        self._percent = 0

    def progress(self) -> StageProgress | None:
        with self._lock:
            progress = progress_of(self._jobs())
            if progress is None:
                return None
            # There may be more jobs now; the progress must not decrease.
            self._percent = max(self._percent, progress.percent)
            return msgspec.structs.replace(progress, percent=self._percent)

    def usage(self) -> SparkUsage:
        """The usage that was seen, also after Spark has lost it."""
        with self._lock:
            jobs = list(self._ended.values())
            try:
                self._store.settle()
                jobs = self._jobs_and_killed()
                for job in jobs:
                    if job.job_id not in self._ended:
                        self._read_stages(job)
            except Exception as error:  # a driver that has ended
                _log.debug("some of Spark's usage is not available: %s", error)
            return usage_of(len(jobs), self._stages.values())

    def _jobs_and_killed(self) -> list[SparkJob]:
        waiting = threading.Event()
        for _ in range(int(KILLED_S / _POLL_S)):
            jobs = self._jobs()
            if not any(job.ended and job.job_id not in self._ended for job in jobs):
                break
            waiting.wait(_POLL_S)
        return jobs

    def _jobs(self) -> list[SparkJob]:
        ids = self._store.job_ids(self._tags) - self._ended.keys()
        new = [job for job_id in sorted(ids) if (job := self._store.job(job_id)) is not None]
        for job in new:
            # Tasks that were killed end a moment after their job.
            if job.ended and not any(stage.num_active_tasks for stage in self._read_stages(job)):
                self._ended[job.job_id] = job
        return [*self._ended.values(), *(job for job in new if job.job_id not in self._ended)]

    def _read_stages(self, job: SparkJob) -> list[SparkStage]:
        stages = [stage for id in job.stage_ids for stage in self._store.stage(id)]
        self._stages |= {(s.stage_id, s.attempt_id): s for s in stages if s.ran}
        return stages
