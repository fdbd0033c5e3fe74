"""A store that stops answering, and one that knows who calls it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from arco.errors import Unavailable
from arco.storage.port import Store
from tests.kit.faulty import StoreWrapper

T = TypeVar("T")
GIVEN_UP_S = 60.0
"""A client of a cloud gives up after a while, too."""


class HangingStore(StoreWrapper):
    """Between `hang` and `recover`, calls wait."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._answers = threading.Event()
        self._answers.set()
        self._lock = threading.Lock()
        self._with_answer = False
        self.waiting = 0
        self.most_waiting = 0
        self.by_loop: list[tuple[str, str]] = []
        """Calls by a thread that runs an event loop, and serves nobody meanwhile."""

    def hang(self, *, with_answer: bool = False) -> None:
        """`with_answer`: the answer is there, and takes long to arrive."""
        self._with_answer = with_answer
        self._answers.clear()

    def recover(self) -> None:
        self._answers.set()

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        with self._lock:
            self.calls.append((op, path))
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            self.by_loop.append((op, path))
        if self._answers.is_set():
            return act()
        if not self._with_answer:
            self._wait(op, path)
            return act()
        try:
            return act()
        finally:
            self._wait(op, path)

    def _wait(self, op: str, path: str) -> None:
        with self._lock:
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            if not self._answers.wait(GIVEN_UP_S):
                raise Unavailable(f"{op} {path}: no answer")
        finally:
            with self._lock:
                self.waiting -= 1
