"""Pins: generations that GC must keep, for a backup, a rollback, or a person.

GC raises the floor before it reads the pins. A process that needs an old generation pins it first,
and then reads the floor. So either GC sees the pin, or the process sees that it came too late.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from arco.errors import Invalid, NotFound
from arco.log.core import LogCore
from arco.log.manifest import decode_sealed, encode_sealed
from arco.storage import paths
from arco.storage.port import Mode, Store
from arco.storage.seal import listed_surely, read_checked


class Pin(msgspec.Struct, frozen=True):
    name: str
    generation: int
    reason: str
    created_at: datetime
    expires_at: datetime | None = None


class Pins:
    def __init__(self, core: LogCore) -> None:
        self._manifests = core.manifests
        self._store = core.store
        self._store_clock = core.store_clock

    def pin(self, name: str, generation: int, reason: str, *, ttl: timedelta | None = None) -> Pin:
        """Keep a generation, until `ttl` has passed or it is released."""
        if not name or not all(c.isalnum() or c in "-_" for c in name):
            raise Invalid(f"{name!r} cannot name a pin", hint="letters, digits, - and _")
        head = self._manifests.head().generation
        if not 0 < generation <= head:
            raise NotFound(f"there is no generation {generation}", hint=f"the newest is {head}")
        now = self._store_clock.now()
        before = self._read(name)
        pin = Pin(name, generation, reason, now, None if ttl is None else now + ttl)
        self._store.put(paths.pin(name), encode_sealed(pin), Mode.OVERWRITE)
        floor = self._manifests.floor()
        stays = floor.keeps(generation) or any(
            p.generation == generation and p.name != name for p in self.active(now)
        )
        if not stays or self._manifests.find(generation) is None:
            self._put_back(name, before)
            raise NotFound(
                f"generation {generation} was collected",
                hint=f"all from {floor.generation} on are kept; `servo admin snapshot --history N` "
                "lists older ones that are kept",
            )
        return pin

    def _read(self, name: str) -> bytes | None:
        try:
            return self._store.get(paths.pin(name)).data
        except NotFound:
            return None

    def _put_back(self, name: str, before: bytes | None) -> None:
        if before is None:
            self.release(name)
        else:
            self._store.put(paths.pin(name), before, Mode.OVERWRITE)

    def release(self, name: str) -> None:
        self._store.delete(paths.pin(name))

    def all(self) -> Iterator[Pin]:
        return read_pins(self._store)

    def active(self, now: datetime | None = None) -> list[Pin]:
        """The pins that are valid at a time of the store's clock, by default about now."""
        now = now or self._store_clock.estimate()
        return [pin for pin in self.all() if pin.expires_at is None or pin.expires_at > now]


def read_pins(store: Store) -> Iterator[Pin]:
    """All pins, including expired ones."""
    for meta in listed_surely(store, paths.PINS):
        try:
            yield read_pin(store, meta.path)
        except NotFound:
            continue


def read_pin(store: Store, path: str) -> Pin:
    """Raises NotFound, and Corrupt if it is damaged."""
    return read_checked(store, path, lambda raw: decode_sealed(raw, Pin, path))
