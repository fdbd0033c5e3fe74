"""What the workers of the concurrency tests do; importable in spawned processes."""

from __future__ import annotations

import time
from typing import NamedTuple

from arco.errors import AlreadyExists, NotFound
from arco.storage.port import Mode, Store
from tests.kit.stores import Address

DEADLINE_S = 60.0


class Place(NamedTuple):
    """A store to work on: opened already, for threads, or to be opened here."""

    address: Address
    opened: Store | None

    def open(self) -> Store:
        return self.opened if self.opened is not None else self.address.open()


def wait_for_all(store: Store, worker: int, crew: int) -> None:
    """A barrier made of the store itself: begin when everybody is there."""
    store.put(f"ready/{worker}", b"")
    deadline = time.monotonic() + DEADLINE_S
    while len(list(store.list("ready/"))) < crew:
        if time.monotonic() > deadline:
            raise TimeoutError("the others did not come")
        time.sleep(0.01)


def claim_numbers(place: Place, worker: int, crew: int, count: int) -> list[int]:
    """Try to create every number; those that this worker got."""
    store = place.open()
    wait_for_all(store, worker, crew)
    won = []
    for number in range(count):
        try:
            store.put(f"numbers/{number:020d}", f"worker {worker}".encode())
        except AlreadyExists:
            continue
        won.append(number)
    return won


def write_patterns(place: Place, worker: int, crew: int, rounds: int) -> str:
    """Overwrite one object and create others; each is one byte, many times."""
    store = place.open()
    wait_for_all(store, worker, crew)
    for number in range(rounds):
        data = pattern(number)
        store.put("overwritten", data, Mode.OVERWRITE)
        store.put(f"created/{number:020d}", data)
    return "written"


def read_patterns(place: Place, worker: int, crew: int, rounds: int) -> str:
    """Read what the writer writes, as soon as it can be seen; "" or what was wrong."""
    store = place.open()
    wait_for_all(store, worker, crew)
    deadline = time.monotonic() + DEADLINE_S
    number = 0
    while number < rounds:
        if time.monotonic() > deadline:
            raise TimeoutError(f"number {number} did not appear")
        for path in ("overwritten", f"created/{number:020d}"):
            try:
                data = store.get(path).data
            except NotFound:
                continue
            if data not in _PATTERNS:
                return f"{path}: {len(data)} bytes of {sorted(set(data))}"
            if path != "overwritten":
                number += 1
    return ""


def pattern(number: int) -> bytes:
    """Of different lengths, so that a mixture of two shows."""
    return bytes([number % 7 + 1]) * (100_000 + 20_000 * (number % 7))


_PATTERNS = {pattern(number) for number in range(7)}
