"""Putting an object that nobody else can put: its path carries a nonce of ours."""

from __future__ import annotations

from arco.errors import AlreadyExists, Corrupt, NotFound, Unavailable
from arco.storage.port import Mode, Store

ATTEMPTS = 4


def put_own(store: Store, path: str, data: bytes) -> None:
    """Create an object under a path that only we write.

    A client that repeats a put whose response was lost is told AlreadyExists for its
    own bytes. So what is there is read back, and counts if it is what we wanted to put:
    what its writer can read after an Unavailable is durable, or it could not be read.
    """
    for attempt in range(ATTEMPTS):
        try:
            store.put(path, data, Mode.FRESH)
            return
        except (AlreadyExists, Unavailable) as error:
            try:
                found = store.get(path).data
            except (NotFound, Unavailable):
                if attempt == ATTEMPTS - 1:
                    raise error from None
                continue
            if found != data:
                raise Corrupt(
                    f"{path} holds something else", hint="check the source of randomness"
                ) from None
            return
