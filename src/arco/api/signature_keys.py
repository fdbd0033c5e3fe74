"""Keys that signed URLs, task tokens and webhook events are verified with, held in memory.

A client that shows one of these has no API key. It must learn nothing from a refusal, not even that
a workspace is there while its store hangs. So signatures are verified with keys that were read
before. While none were read, every signature is refused, as for a workspace that is not there.
"""

from __future__ import annotations

import asyncio
import contextlib

from arco.api.problems import ApiError
from arco.api.served import KEYS_WAIT_S, ServedWorkspace
from arco.api.server import ApiServer
from arco.errors import Error


async def has_keys(server: ApiServer, served: ServedWorkspace) -> bool:
    """Whether the keys of a workspace are in memory. The first time they are read."""
    if not served.has_keys:
        with contextlib.suppress(ApiError, Error, TimeoutError):
            async with asyncio.timeout(KEYS_WAIT_S):
                await server.in_thread(served.load_keys, served)
    return served.has_keys


async def read_all_keys(server: ApiServer) -> None:
    """When a server starts: before a store hangs."""
    await asyncio.gather(*(has_keys(server, each) for each in server.workspaces.values()))
