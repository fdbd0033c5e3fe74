"""Stopping user code: when it asks, and, while it runs Python, when it does not.

`ctx.check_cancelled()` is the polite way. For code that never asks, a watchdog, one
thread for all attempts of a process, raises an exception inside of the task's thread
(`PyThreadState_SetAsyncExc`). Such an exception must never hit our own code, which
may be about to commit. So:

- it is sent only while the attempt is *armed*, which it is exactly during `call`, and
  not within `shielded` parts of that (reads, progress reports);
- arming, disarming and sending hold one lock; disarming takes back what was sent and
  has not arrived;
- it may arrive during disarming, before the lock is held. It then leaves `call` as
  if the function had raised it, and disarming is done again. Nothing is sent twice
  within a second, so this time it comes through.

Code that waits for Spark is ended by cancelling its jobs: whoever `watch`es the attempt
does that. An exception in the middle of a call to the JVM would leave an answer unread, so
it is sent only if that was not enough (`patience_s`).

Code that is stuck in C does not see any of this. Its attempt can be *abandoned*: what
it returns at last is never committed.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from arco.clock import Clock
from arco.worker import threads
from arco.worker.failures import Interrupted, TaskTimeout

T = TypeVar("T")

POLL_S: Final = 0.05
RESEND_S: Final = 1.0
SPARK_PATIENCE_S: Final = 2.0
"""How long code that uses Spark gets to notice that its jobs were cancelled."""
_IDLE_POLLS: Final = 100


class Control(Protocol):
    """What the worker's loop and an attempt have to tell each other. Called from any thread."""

    def cancelled(self) -> bool: ...

    def timed_out(self) -> bool: ...

    def progress(self, percent: int, message: str) -> None: ...


class Interruption:
    """Whether, and how, one attempt is to stop. Made by the thread that runs it."""

    def __init__(self, control: Control, clock: Clock, timeout_s: int = 0) -> None:
        self._control = control
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadline = clock.monotonic() + timeout_s if timeout_s else None
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._armed = False
        self._sent_at: float | None = None
        self._committing = False
        self._asked_at: float | None = None
        self.abandoned = False
        self.watch: Callable[[BaseException | None], None] | None = None
        """Told often, by another thread, why to stop, or that there is no reason to."""
        self.patience_s = 0.0

    @property
    def sent(self) -> bool:
        """Whether an exception was raised in the middle of whatever the function did."""
        return self._sent_at is not None

    # -- asked by the task's own thread ---------------------------------------------------

    def reason(self) -> BaseException | None:
        """Why to stop, if there is a reason to. Cancellation comes before the time-out."""
        if self.abandoned or self._control.cancelled():
            return Interrupted()
        late = self._deadline is not None and self._clock.monotonic() >= self._deadline
        if late:
            return TaskTimeout(f"the task took longer than its {self._timeout_s} s")
        return TaskTimeout() if self._control.timed_out() else None

    def extend(self, seconds: float) -> None:
        """Give the attempt more time: it waited for something that is not its own work."""
        if self._deadline is not None:
            self._deadline += seconds

    def stopping(self) -> bool:
        return self.reason() is not None

    def check(self) -> None:
        found = self.reason()
        if found is not None:
            raise found

    def call(self, function: Callable[[], T]) -> T:
        """`function()`, which may be interrupted; whatever comes after it may not."""
        try:
            try:
                self._armed = True
                return function()
            finally:
                self._disarm()
        except BaseException:
            self._disarm()
            raise

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """A part of `call` that is ours: it runs to its end, and the reason is raised then."""
        if threading.get_ident() != self._thread or not self._armed:
            yield
            return
        self._disarm()
        try:
            yield
        finally:
            self._armed = True
        self.check()

    def begin_commit(self) -> None:
        """The last look before the marker; from here on it is too late to abandon."""
        self.check()
        with self._lock:
            if self.abandoned:
                raise Interrupted()
            self._committing = True

    def _disarm(self) -> None:
        with self._lock:
            self._armed = False
            if self._sent_at is not None:
                _raise_in(self._thread, None)

    # -- told by other threads ------------------------------------------------------------

    def poke(self) -> None:
        """Interrupt the function if there is a reason to and it is running."""
        found = self.reason()
        if self.watch is not None and not self._committing:
            self.watch(found)
        if found is None or not self._armed:
            return
        with self._lock:
            now = self._clock.monotonic()
            if self._asked_at is None:
                self._asked_at = now
            if now - self._asked_at < self.patience_s:
                return
            if self._armed and (self._sent_at is None or now - self._sent_at >= RESEND_S):
                self._sent_at = now
                _raise_in(self._thread, type(found))

    def abandon(self) -> bool:
        """Give the attempt up; false if its commit has begun and its result must be awaited."""
        with self._lock:
            self.abandoned = not self._committing
            return self.abandoned


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Have a thread raise `kind` when it next runs Python; None takes back what is pending."""
    value = ctypes.py_object() if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


class Watchdog:
    """Pokes every attempt that is running, from one thread that ends when there are none."""

    def __init__(self, poll_s: float = POLL_S) -> None:
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._watched: set[Interruption] = set()
        self._running = False

    def add(self, interruption: Interruption) -> None:
        with self._lock:
            self._watched.add(interruption)
            if not self._running:
                self._running = True
                threads.start_detached(self._loop, "arco-watchdog")

    def remove(self, interruption: Interruption) -> None:
        with self._lock:
            self._watched.discard(interruption)

    def _loop(self) -> None:
        pause = threading.Event()
        idle = 0
        while self._goes_on(idle):
            pause.wait(self._poll_s)
            with self._lock:
                watched = list(self._watched)
            idle = 0 if watched else idle + 1
            for interruption in watched:
                with contextlib.suppress(Exception):  # a control that fails says nothing
                    interruption.poke()

    def _goes_on(self, idle: int) -> bool:
        with self._lock:
            self._running = bool(self._watched) or idle < _IDLE_POLLS
            return self._running
