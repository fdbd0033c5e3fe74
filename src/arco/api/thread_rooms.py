"""Threads for what may wait for the store: bounded in number, waiting and time.

Each workspace has a room of its own, so that one whose store hangs uses up its own threads and
leaves those of the others alone.
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


class ThreadRoom:
    """Used by the event loop alone. Threads are started when they are needed."""

    def __init__(self, settings: ApiSettings, waiting: int | None = None) -> None:
        """`waiting`: so many calls may wait for a thread; by default as the settings say."""
        self._settings = settings
        self._waiting = settings.waiting if waiting is None else waiting
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="api")
        self._under_way = 0
        self._shares = FairShares(settings.threads // 2, self._waiting // 2)

    async def run(self, call: Callable[[], T]) -> T:
        """Have a thread call it: at most half of the threads are one caller's. A call that nobody
        waits for any more is not begun."""
        try:
            async with (
                asyncio.timeout(self._settings.request_timeout_s),
                self._shares.turn(CALLER.get()),
            ):
                return await self._called(call)
        except TimeoutError:
            raise ApiError(
                "timeout",
                "the store did not answer in time",
                hint="ask again; a write with the same Idempotency-Key has effect once",
                retry_after_s=5,
            ) from None

    async def _called(self, call: Callable[[], T]) -> T:
        if self._under_way >= self._settings.threads + self._waiting:
            raise ApiError("unavailable", "the server is busy", code="busy", retry_after_s=1)
        loop = asyncio.get_running_loop()
        self._under_way += 1
        called = self._threads.submit(call)

        def one_less() -> None:
            self._under_way -= 1

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(one_less)

        called.add_done_callback(tell)
        future = asyncio.wrap_future(called)
        # What is raised after everybody has left is raised to nobody.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(future)
        finally:
            called.cancel()  # does nothing to one that has begun

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
