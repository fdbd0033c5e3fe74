"""What one caller may have at once of what all share."""

from __future__ import annotations

import asyncio
import threading

import pytest

from arco.api.api_settings import ApiSettings
from arco.api.bounded_threads import BoundedThreads
from arco.api.fair_shares import CALLER, FairShares
from arco.api.problems import ApiError


def test_slow_calls_of_one_caller_leave_threads_for_others() -> None:
    settings = ApiSettings(threads=4, waiting=40)
    room = BoundedThreads(settings)
    going_on = threading.Event()
    begun = threading.Semaphore(0)

    def slow() -> str:
        begun.release()
        going_on.wait(60)
        return "slow"

    async def as_caller(name: str, call: object) -> str:
        CALLER.set(name)
        assert callable(call)
        return await room.run(call)

    async def both() -> None:
        greedy = [asyncio.create_task(as_caller("greedy", slow)) for _ in range(12)]
        for _ in range(2):  # half of the threads
            await asyncio.to_thread(begun.acquire)
        assert await as_caller("modest", lambda: "quick") == "quick"
        assert not begun.acquire(blocking=False)
        going_on.set()
        assert await asyncio.gather(*greedy) == ["slow"] * 12

    try:
        asyncio.run(both())
    finally:
        going_on.set()
        room.close()


def test_a_caller_waits_with_a_bounded_number_and_leaves_nothing_behind() -> None:
    async def fill() -> None:
        shares = FairShares(1, 2)
        free = asyncio.Event()

        async def take() -> None:
            async with shares.turn("greedy"):
                await free.wait()

        tasks = [asyncio.create_task(take()) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="busy"):
            await take()
        async with shares.turn("modest"):
            pass
        tasks[2].cancel()
        await asyncio.gather(tasks[2], return_exceptions=True)
        free.set()
        await asyncio.gather(*tasks[:2])
        await take()  # there is room again

    asyncio.run(fill())


def test_who_is_not_known_yet_shares_with_nobody() -> None:
    async def nested() -> str:
        shares = FairShares(1, 0)
        async with shares.turn(""), shares.turn(""):
            return "both"

    assert asyncio.run(nested()) == "both"
