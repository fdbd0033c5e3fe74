"""How the memory of a process that runs for months is allocated.

Arrow's default allocator, and glibc's with its arena for each thread, are fast, and keep
what they once had: an orchestrator's memory then grows for hours with what its threads
have used in turn, and with the largest merge so far. With one arena, Arrow in the same
one, and large buffers in mappings that go back at once, it levels off.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

ARENAS = 1
MAPPED_BYTES = 128 << 10
"""What is larger is mapped, and given back when it is freed. Set, it does not grow by itself."""
CACHED_BYTES = 6 << 20
"""What such a process keeps of the files that it has read, decoded: a fifth of what a
command may."""

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def use_little_memory() -> None:
    """Call it before Arrow is imported and threads are started.

    Where the C library is not glibc, only Arrow heeds it.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, ARENAS)
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
