"""Time-outs and cancellation, for work that is done in C or by Spark.

While a query runs, a thread watches the clock and the task. After a timeout or a cancellation it
stops the engine; the query then ends with an error, which is replaced by the reason.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from arco.worker.checks.phrases import age
from arco.worker.checks.subject import CheckContext

POLL_S: Final = 0.05
STOPPED_S: Final = 10.0
"""Maximum wait for the last call of `stop`: if it hangs, the task must not hang."""


class CheckTimeout(Exception):
    """A check took longer than it may."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"it took longer than {age(seconds)}")


@contextlib.contextmanager
def limited(context: CheckContext, seconds: int, stop: Callable[[], None]) -> Iterator[None]:
    """Run the body; `stop` is called from another thread when it must end.

    Raises CheckTimeout after the timeout, and the task's own reason when the task is to stop.
    """
    reason = context.reason()
    if reason is not None:
        raise reason
    watch = _Watch(context, seconds, stop)
    try:
        yield
    except Exception:
        watch.end()
        reason = context.reason()
        if reason is not None:
            raise reason from None
        if watch.late:
            raise CheckTimeout(seconds) from None
        raise
    finally:
        watch.end()


class _Watch:
    def __init__(self, context: CheckContext, seconds: int, stop: Callable[[], None]) -> None:
        self._context = context
        self._deadline = context.clock.monotonic() + seconds
        self._stop = stop
        self._over = threading.Event()
        self._ended = threading.Event()
        self.late = False
        threading.Thread(target=self._loop, name="arco-checks", daemon=True).start()

    def end(self) -> None:
        """Do not call `stop` any more. Waits for a running call, unless that hangs."""
        self._over.set()
        self._ended.wait(STOPPED_S)

    def _loop(self) -> None:
        try:
            while not self._over.wait(POLL_S):
                late = self._context.clock.monotonic() >= self._deadline
                if late or self._context.reason() is not None:
                    self.late = self.late or late
                    with contextlib.suppress(Exception):  # it is asked again
                        self._stop()
        finally:
            self._ended.set()
