"""One development server for a folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from arco.app.project_templates import create_local_store
from arco.errors import Conflict

FILE = "dev.lock"


class FolderLock:
    """Held by this process; the system releases it when the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def tell(self, url: str) -> None:
        """Record the address of this server, for the message of a second one."""
        text = json.dumps({"pid": os.getpid(), "url": url}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[FolderLock]:
    """Raises Conflict while another process has it."""
    path = create_local_store(folder) / FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(
                f"servo dev is running in {folder}{_owner(path)}",
                hint="use that one, or press Ctrl-C there first",
            ) from None
        yield FolderLock(descriptor)
    finally:
        os.close(descriptor)


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text("utf-8"))
        return f": {owner['url']}, process {owner['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
