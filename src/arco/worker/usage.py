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

from arco.clock import Clock
from servo.contract.task import Usage

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


class Meter:
    """Starts when it is made; must be stopped by the same thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_s = clock.monotonic()
        self._cpu_s = time.thread_time()
        self._children_s = _children_s()
        self._high_kib = _high_kib()
        self.bytes_read = 0
        self.bytes_written = 0

    def usage(self) -> Usage:
        cpu_s = time.thread_time() - self._cpu_s + _children_s() - self._children_s
        return Usage(
            wall_ms=round((self._clock.monotonic() - self._wall_s) * 1000),
            cpu_ms=round(cpu_s * 1000),
            peak_memory_kib=self._peak_kib(),
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
        )

    def _peak_kib(self) -> int:
        high_kib = _high_kib()
        if high_kib > self._high_kib:
            return high_kib
        return _resident_kib() or high_kib


def _children_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _high_kib() -> int:
    high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return high // 1024 if sys.platform == "darwin" else high  # there it is in bytes


def _resident_kib() -> int:
    file = _statm(os.getpid())
    return int(os.pread(file, 128, 0).split()[1]) * _PAGE_KIB if file is not None else 0


@functools.cache
def _statm(pid: int) -> int | None:
    """Kept open, for opening it costs more than all the rest of a small task's accounts."""
    try:
        return os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    except OSError:  # no Linux
        return None
