"""What an attempt cost."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta

from arco.worker.usage import Meter
from tests.kit.clocks import SimClock


def test_wall_time_is_the_clocks_and_bytes_are_what_was_counted() -> None:
    clock = SimClock()
    meter = Meter(clock)
    clock.advance(timedelta(seconds=1.5))
    meter.bytes_read, meter.bytes_written = 7, 8
    usage = meter.usage()
    assert (usage.wall_ms, usage.bytes_read, usage.bytes_written) == (1500, 7, 8)
    assert usage.peak_memory_kib > 1000


def test_processor_time_is_the_processes_and_its_childrens() -> None:
    meter = Meter(SimClock())
    time.sleep(0.05)
    assert meter.usage().cpu_ms < 40
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    assert meter.usage().cpu_ms >= 50
    alone = Meter(SimClock())
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    assert alone.usage().cpu_ms >= 5


def test_memory_that_was_used_and_given_back_is_seen() -> None:
    # In a process of its own, since this one may have been bigger before.
    script = """
from arco.clock import SystemClock
from arco.worker.usage import Meter
meter = Meter(SystemClock())
before = meter.usage().peak_memory_kib
block = bytearray(b"x" * (64 << 20))
del block
print(meter.usage().peak_memory_kib - before)
"""
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert int(ran.stdout) >= 60 << 10
