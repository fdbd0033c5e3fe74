"""Stopping user code within a slot: when it checks for that, or by a signal while it runs Python.

Code may call `ctx.check_cancelled()`. For code that does not, the supervisor sends a signal; its
handler raises in the main thread, which runs the task. Such an exception must never hit our own
code, which may be about to commit. So it is raised only while the attempt is *armed*: during
`call`, and not within `shielded` parts of that (reads, progress). It is raised once. If the code
goes on, the supervisor ends its process.
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
"""Sent by a thread of this process when the current call has reached its own time limit."""
_HEARD: Final = (CANCEL, TIME_OUT, _LIMIT)


def ignore_late_signals() -> None:
    """A signal of the supervisor that comes when no attempt listens must not end the process.

    The handler does nothing. SIG_IGN would be inherited by child processes.
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
        """Why the current call is to end, but not the attempt."""
        self.interrupted = False
        """Whether an exception was raised while the function ran."""
        self._process = os.getpid()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Within this context, signals of the supervisor are handled."""
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
        """Call `function()`, which may be interrupted; later code is not.

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
        """A part of `call` that is our own code: the reason to stop is raised after it."""
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
        """Yields a function that interrupts the current call; for other threads."""

        def interrupt(error: BaseException) -> None:
            self._limit = self._limit or error
            signal.pthread_kill(threading.main_thread().ident or 0, _LIMIT)

        try:
            yield interrupt
        finally:
            self._limit = None
