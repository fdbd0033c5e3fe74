"""Threads for calls that may wait for the store, with limits on threads, queue and time.

Each workspace has its own threads, so that a store that hangs does not block other workspaces.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from arco.api.api_settings import ApiSettings
from arco.api.fair_shares import CALLER, FairShares
from arco.api.problems import ApiError

T = TypeVar("T")


class BoundedThreads:
    """Used by the event loop alone. Threads are started when they are needed."""

    def __init__(self, settings: ApiSettings, waiting: int | None = None) -> None:
        """`waiting`: the maximum number of queued calls; default: that of the settings."""
        self._settings = settings
        self._waiting = settings.waiting if waiting is None else waiting
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="api")
        self._active = 0
        self._shares = FairShares(settings.threads // 2, self._waiting // 2)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in a thread; one caller has at most half of the threads. A call whose client
        has disconnected is not started."""
        try:
            async with (
                asyncio.timeout(self._settings.request_timeout_s),
                self._shares.turn(CALLER.get()),
            ):
                return await self._called(call)
        except TimeoutError:
            raise ApiError(
                "timeout",
                "the store did not respond in time",
                hint="try again; a write with the same Idempotency-Key takes effect once",
                retry_after_s=5,
            ) from None

    async def _called(self, call: Callable[[], T]) -> T:
        if self._active >= self._settings.threads + self._waiting:
            raise ApiError("unavailable", "the server is busy", code="busy", retry_after_s=1)
        loop = asyncio.get_running_loop()
        self._active += 1
        called = self._threads.submit(call)

        def one_less() -> None:
            self._active -= 1

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(one_less)

        called.add_done_callback(tell)
        future = asyncio.wrap_future(called)
        # An error after all have left is dropped.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(future)
        finally:
            called.cancel()  # has no effect on one that has started

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
