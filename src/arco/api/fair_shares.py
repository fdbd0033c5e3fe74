"""Limits the part of a shared resource that one caller may use.

A caller with many or slow requests waits for its own requests; others are served meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Final

from arco.api.api_settings import ApiSettings
from arco.api.problems import ApiError

CALLER: Final[ContextVar[str]] = ContextVar("caller", default="")
"""Who sent the request that is answered; empty until that is known."""


class FairShares:
    """Used by the event loop alone."""

    def __init__(self, share: int, waiting: int) -> None:
        """A caller has at most `share` concurrent requests, and `waiting` that wait."""
        self._share = max(1, share)
        self._waiting = waiting
        self._callers: dict[str, _Share] = {}

    @contextlib.asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for the caller's turn. Raises if too many of its requests wait already."""
        if not caller:
            yield
            return
        share = self._callers.get(caller)
        if share is None:
            share = self._callers[caller] = _Share(self._share)
        if share.users >= self._share + self._waiting:
            raise ApiError("unavailable", "the server is busy", code="busy", retry_after_s=1)
        share.users += 1
        try:
            async with share.semaphore:
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._callers[caller]


class _Share:
    def __init__(self, size: int) -> None:
        self.semaphore = asyncio.Semaphore(size)
        self.users = 0


class QueryTurns:
    """Places for queries, each of which has a process with memory of its own. Used by the event
    loop alone."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(settings.queries)
        self._shares = FairShares(settings.queries // 2, settings.waiting // 2)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a query may run: one caller has at most half of the places."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._settings.request_timeout_s):
                    await stack.enter_async_context(self._shares.turn(CALLER.get()))
                    await stack.enter_async_context(self._places)
            except TimeoutError:
                raise ApiError(
                    "unavailable", "other queries still run", code="busy", retry_after_s=5
                ) from None
            yield
