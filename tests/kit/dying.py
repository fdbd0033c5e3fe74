"""`servo` on a store that kills its process, as `kill -9` does, at one exact write.

    python -m tests.kit.dying 3 before serve --port 0 --json

dies before its third write, counted from the first batch that it puts into the inbox; `after`:
when the write has had its effect, and nobody has heard of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

from arco.storage.port import Store
from tests.kit.faulty import StoreWrapper

T = TypeVar("T")
WRITING = ("put", "delete", "copy")


class DyingStore(StoreWrapper):
    def __init__(self, inner: Store, number: int, *, after: bool) -> None:
        super().__init__(inner)
        self._number = number
        self._after = after
        self._writes = 0
        self._lock = threading.Lock()

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        if not self._is_last(op, path):
            return act()
        if self._after:
            act()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("this process is dead")

    def _is_last(self, op: str, path: str) -> bool:
        with self._lock:
            if op in WRITING and (self._writes or "/ledger/inbox/" in f"/{path}"):
                self._writes += 1
                return self._writes == self._number
        return False


def servo(number: int, after: bool, arguments: list[str]) -> NoReturn:
    from arco.app import workspace
    from arco.cli.app import run
    from arco.storage.open import open_store

    def open_dying(url: str, **options: str | bool) -> Store:
        return DyingStore(open_store(url, **options), number, after=after)

    vars(workspace)["open_store"] = open_dying
    os._exit(run(arguments))


if __name__ == "__main__":
    servo(int(sys.argv[1]), sys.argv[2] == "after", sys.argv[3:])
