"""Puts objects whose path determines their content: it has a nonce of ours, or a digest."""

from __future__ import annotations

from arco.clock import Clock, SystemClock
from arco.errors import AlreadyExists, Corrupt, NotFound, Unavailable
from arco.storage.port import Mode, Store

ATTEMPTS = 5
PAUSE_S = 0.05
"""Before the second attempt; each further pause is twice as long."""


def put_own(
    store: Store, path: str, data: bytes, clock: Clock | None = None, mode: Mode = Mode.FRESH
) -> None:
    """Create an object under a path that always has the same content.

    After a put whose response was lost, the object is read back, and counts if it has our bytes: an
    object that its writer can read after Unavailable is durable. `mode` is CREATE where others may
    put the same object meanwhile.
    """
    clock = clock or SystemClock()
    for attempt in range(ATTEMPTS):
        try:
            store.put(path, data, mode)
            return
        except (AlreadyExists, Unavailable) as error:
            try:
                if store.get(path).data == data or store.get(path).data == data:
                    return  # the first read may have been a bad one
            except (NotFound, Unavailable) as unread:
                if attempt == ATTEMPTS - 1:
                    message = f"{path} may or may not have been put: {error}; {unread}"
                    raise Unavailable(message, hint="try again") from None
                clock.sleep(PAUSE_S * 2**attempt)
                continue
            raise Corrupt(
                f"{path} has other content",
                hint="delete it if its name is a digest; otherwise check this "
                "machine's source of randomness",
            ) from None
