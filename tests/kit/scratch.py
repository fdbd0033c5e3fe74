"""Where tests write: in memory, if there is room.

A commit waits for the disk: two calls of fsync take milliseconds on the disk of a virtual
machine, and the tests make tens of thousands of them. A process that is killed loses nothing
in either place. `TMPDIR` chooses another folder; the conformance of the local store is always
checked on the disk (`ON_DISK`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 4 << 30
"""A container may have a few megabytes there."""

ON_DISK: Final = Path("/var/tmp")


def use_memory() -> None:
    """From here on, in this process and those that it starts."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
