"""What this process may use of the machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Machine(NamedTuple):
    """What a process may use."""

    cores: int
    memory_bytes: int


def machine() -> Machine:
    """This machine, or the container that limits us to a part of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(cores=_cores(), memory_bytes=min(total, _limit() or total))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _limit() -> int | None:
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return int(Path(file).read_text())
        except (OSError, ValueError):  # not there, or `max`
            continue
    return None
