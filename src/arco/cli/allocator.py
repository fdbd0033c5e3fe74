"""How the memory of a process that runs for months is allocated.

Arrow's default allocator, and glibc's with an arena for each thread, are fast, and return little
memory: an orchestrator's memory then grows for hours with the use of its threads, and with the
largest merge so far. With one arena, Arrow in the same one, and large buffers in mappings that
are returned at once, it stays constant.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

ARENAS = 1
MAPPED_BYTES = 128 << 10
"""Larger buffers are mapped, and returned when they are freed. glibc keeps a fixed value."""
CACHED_BYTES = 6 << 20
"""Maximum of decoded files in memory: a fifth of that of a command."""

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def use_little_memory() -> None:
    """Call it before Arrow is imported and threads are started.

    Without glibc, only Arrow's setting has an effect.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, ARENAS)
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
