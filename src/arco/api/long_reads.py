"""Reads that may take longer than a request: a request waits for a while, and the next one waits
for the same read. A client that repeats its request after a 503 does not start the read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from arco.api.problems import ApiError

T = TypeVar("T")
WAIT_S: Final = 20.0
"""Maximum wait of one request."""
AT_ONCE: Final = 2
"""Of a process: each takes a thread, and reads a lot."""

_places = threading.BoundedSemaphore(AT_ONCE)


class LongRead(Generic[T]):
    """One read, shared by all requests for it. After a failure the next request starts it again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._future: Future[T] | None = None

    def result(self, read: Callable[[], T], wait_s: float = WAIT_S) -> T:
        """The result. Raises if it is not done in time, or if there are too many reads."""
        with self._lock:
            future = self._future
            if future is None or (future.done() and future.exception() is not None):
                future = self._future = _begun(read)
        try:
            return future.result(wait_s)
        except TimeoutError:
            raise ApiError(
                "unavailable",
                "this read takes longer, and continues",
                code="still_reading",
                hint="repeat the request with the same generation: it waits for the same read",
                retry_after_s=1,
            ) from None


def _begun(read: Callable[[], T]) -> Future[T]:
    if not _places.acquire(blocking=False):
        raise ApiError("unavailable", "the server is busy", code="busy", retry_after_s=5)
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(read())
        except BaseException as error:  # raised to who waits
            future.set_exception(error)
        finally:
            _places.release()

    threading.Thread(target=run, name="long-read", daemon=True).start()
    return future
