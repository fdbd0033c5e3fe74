"""Stopping user code within a slot: when it asks, and, while it runs Python, when it does not.

`ctx.check_cancelled()` is the polite way. For code that never asks, the supervisor sends a
signal; its handler raises in the main thread, which is the one that runs the task. Such an
exception must never hit our own code, which may be about to commit. So it is raised only while
the attempt is *armed*: during `call`, and not within `shielded` parts of that (reads, progress).
It is raised once. Code that goes on all the same is ended by the supervisor, with its process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, TypeVar

from arco.worker.failures import Interrupted, TaskTimeout

T = TypeVar("T")

CANCEL: Final = signal.SIGUSR1
TIME_OUT: Final = signal.SIGUSR2
_LIMIT: Final = signal.SIGVTALRM
"""From a thread of this process: the call that runs now has used up its own time."""
_HEARD: Final = (CANCEL, TIME_OUT, _LIMIT)


def ignore_late_signals() -> None:
    """A signal of the supervisor that comes when no attempt listens must not end the process.

    By a handler that does nothing: what is ignored would be ignored by child processes too.
    """
    for number in _HEARD:
        signal.signal(number, lambda *_: None)


class Stopping:
    """Whether, and why, one attempt is to stop. `call` is for the main thread."""

    def __init__(self, timeout_s: int = 0) -> None:
        self._timeout_s = timeout_s
        self._armed = False
        self._reason: BaseException | None = None
        self._limit: BaseException | None = None
        """Why the call that runs now is to end, though not the attempt."""
        self.interrupted = False
        """Whether an exception was raised in the middle of whatever the function did."""
        self._process = os.getpid()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, signals of the supervisor are heard."""
        before = {number: signal.signal(number, self._hear) for number in _HEARD}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if number != _LIMIT and self._reason is None:
            self._reason = self._why(number)
        error = self._reason or self._limit
        if self._armed and error is not None:
            self._armed = False
            self.interrupted = True
            raise error

    def _why(self, number: int) -> BaseException:
        if number == CANCEL:
            return Interrupted()
        return TaskTimeout(f"the task took longer than its {self._timeout_s} s")

    def reason(self) -> BaseException | None:
        return self._reason

    def stopping(self) -> bool:
        return self._reason is not None

    def check(self) -> None:
        if self._reason is not None:
            raise self._reason

    def call(self, function: Callable[[], T]) -> T:
        """`function()`, which may be interrupted; whatever comes after it may not.

        A process that it forked, and that returns from it too, ends here.
        """
        try:
            self.check()
            self._armed = True
            return function()
        finally:
            self._armed = False
            if os.getpid() != self._process:
                os._exit(0)

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """A part of `call` that is ours: it runs to its end, and the reason is raised then."""
        if not self._armed or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._armed = False
        try:
            yield
        finally:
            self._armed = True
        self.check()

    @contextlib.contextmanager
    def limited(self) -> Iterator[Callable[[BaseException], None]]:
        """What is yielded interrupts the call that runs now; it is for other threads."""

        def interrupt(error: BaseException) -> None:
            self._limit = self._limit or error
            signal.pthread_kill(threading.main_thread().ident or 0, _LIMIT)

        try:
            yield interrupt
        finally:
            self._limit = None
