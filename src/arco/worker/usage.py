"""What an attempt consumed in its slot, as measured by the operating system.

Processor time is that of the process and of child processes that ended meanwhile. Memory is the
highest that the process had during the attempt.
"""

from __future__ import annotations

import contextlib
import resource
import sys

import msgspec

from arco.clock import Clock
from arco.spark.metrics import SparkUsage
from servo.contract.task import Usage

_STATUS = "/proc/self/status"
_RESET = "/proc/self/clear_refs"


class Meter:
    """Measures from its creation on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_s = clock.monotonic()
        self._cpu_s = _cpu_s()
        with contextlib.suppress(OSError), open(_RESET, "wb", buffering=0) as reset:  # no Linux
            reset.write(b"5")  # resets the high-water mark
        self.bytes_read = 0
        self.bytes_written = 0
        self.spark: SparkUsage | None = None

    def usage(self) -> Usage:
        took = Usage(
            wall_ms=round((self._clock.monotonic() - self._wall_s) * 1000),
            cpu_ms=round((_cpu_s() - self._cpu_s) * 1000),
            peak_memory_kib=_peak_kib(),
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
        )
        return took if self.spark is None else _with_spark(took, self.spark)


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


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _peak_kib() -> int:
    try:
        with open(_STATUS, "rb", buffering=0) as file:
            status = file.read()
    except OSError:  # no Linux; in bytes on macOS
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // 1024 if sys.platform == "darwin" else peak
    at = status.find(b"VmHWM:")
    return int(status[at + 6 : at + 20].split()[0])
