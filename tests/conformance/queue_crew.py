"""What the workers of the queue's tests do; importable in spawned processes."""

from __future__ import annotations

import itertools
import os
import time

from arco.clock import Clock, SystemClock
from arco.storage.port import Store
from arco.transport.queues.objectstore import READY, ObjectStoreQueue
from tests.conformance.crew import DEADLINE_S, Place, wait_for_all

HELD = "test/held"


def open_queue(store: Store, clock: Clock, worker: str, claim_s: float) -> ObjectStoreQueue:
    count = itertools.count()
    process = os.getpid()
    return ObjectStoreQueue(
        store,
        clock,
        worker,
        lambda: f"{worker}-{process}-{next(count)}",
        claim_s=claim_s,
        poll_s=0.02,
        max_poll_s=0.1,
    )


def work_off(place: Place, worker: int, crew: int, claim_s: float) -> list[tuple[str, int]]:
    """Take and finish until no message is left; which deliveries this worker had."""
    store = place.open()
    queue = open_queue(store, SystemClock(), f"worker-{worker}", claim_s)
    wait_for_all(store, worker, crew)
    found: list[tuple[str, int]] = []
    deadline = time.monotonic() + DEADLINE_S
    while next(iter(store.list(READY)), None) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError("messages are left")
        for delivery in queue.take(2, 0.1):
            queue.done([delivery])
            found.append((delivery.message.name, delivery.number))
    return found


def take_and_hang(place: Place, count: int, claim_s: float) -> None:
    """Claim messages, say so, and never come back to them."""
    store = place.open()
    queue = open_queue(store, SystemClock(), "hanging", claim_s)
    held: list[str] = []
    while len(held) < count:
        held += [delivery.message.name for delivery in queue.take(count - len(held), 1.0)]
    store.put(HELD, ",".join(held).encode())
    time.sleep(10 * DEADLINE_S)
