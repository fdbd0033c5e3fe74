"""What an attempt cost, as well as one process that runs several can tell.

Processor time is that of the task's own thread and of child processes that ended
meanwhile (children of a task that runs beside it count as well). Memory is the
process's: its high-water mark if this attempt raised it, else its size at the end.
"""

from __future__ import annotations

import functools
import os
import resource
import sys
import time

import msgspec

from arco.clock import Clock
from arco.spark.metrics import SparkUsage
from servo.contract.task import Usage


class Meter:
    """Starts when it is made; must be stopped by the same thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_s = clock.monotonic()
        self._cpu_s = time.thread_time()
        self._children_s = _children_s()
        self._high_kib, _ = _memory_kib()
        self.bytes_read = 0
        self.bytes_written = 0
        self.spark: SparkUsage | None = None

    def usage(self) -> Usage:
        cpu_s = time.thread_time() - self._cpu_s + _children_s() - self._children_s
        took = Usage(
            wall_ms=round((self._clock.monotonic() - self._wall_s) * 1000),
            cpu_ms=round(cpu_s * 1000),
            peak_memory_kib=self._peak_kib(),
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
        )
        return took if self.spark is None else _with_spark(took, self.spark)

    def _peak_kib(self) -> int:
        high_kib, now_kib = _memory_kib()
        return high_kib if high_kib > self._high_kib else now_kib


def _with_spark(took: Usage, spark: SparkUsage) -> Usage:
    return msgspec.structs.replace(
        took,
        bytes_read=took.bytes_read + spark.bytes_read,
        executor_cpu_ms=spark.executor_cpu_ms,
        executor_run_ms=spark.executor_run_ms,
        shuffle_bytes=spark.shuffle_bytes,
        spilled_bytes=spark.spilled_bytes,
        spark_jobs=spark.jobs,
        spark_stages=spark.stages,
        spark_tasks=spark.tasks,
    )


def _children_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _memory_kib() -> tuple[int, int]:
    """The process's high-water mark, and its size now."""
    file = _status(os.getpid())
    if file is None:
        # In bytes on macOS. On Linux it would do worse: there it outlives `exec`.
        high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        high_kib = high // 1024 if sys.platform == "darwin" else high
        return high_kib, high_kib
    text = os.pread(file, 4096, 0)
    high, now = text.find(b"VmHWM:"), text.find(b"VmRSS:")
    return int(text[high + 6 : high + 20].split()[0]), int(text[now + 6 : now + 20].split()[0])


@functools.cache
def _status(pid: int) -> int | None:
    """Kept open: to open it costs more than the rest of a small task's accounts."""
    try:
        return os.open(f"/proc/{pid}/status", os.O_RDONLY)
    except OSError:  # no Linux
        return None
