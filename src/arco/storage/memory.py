"""A store in this process's memory: for tests, simulations and dry runs."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from datetime import timedelta

from arco.clock import Clock
from arco.errors import AlreadyExists, Invalid, NotFound
from arco.storage import keys
from arco.storage.port import Mode, Object, ObjectMeta
from arco.storage.signing import Signer


class MemoryStore:
    """Fulfils the port except for durability; its time is that of the clock.

    `list` shows the names as they were when it was called; what is deleted
    before the iteration comes to it is left out.
    """

    parallelism = 1
    url = "memory://"

    def __init__(self, clock: Clock, signer: Signer | None = None) -> None:
        self.clock = clock
        self._signer = signer
        self._lock = threading.Lock()
        self.objects: dict[str, Object] = {}
        # Sorted. Code points order as their UTF-8 bytes do, so plain strings serve.
        self.names: list[str] = []

    def get(self, path: str) -> Object:
        keys.check_key(path)
        stored = self.objects.get(path)
        if stored is None:
            raise NotFound(f"{path} does not exist")
        return stored

    def get_range(self, path: str, start: int, length: int) -> bytes:
        keys.check_range(path, start, length)
        data = self.get(path).data
        if start + length > len(data):
            raise keys.past_the_end(path, start, length, len(data))
        return data[start : start + length]

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        keys.check_key(path)
        body = bytes(data)
        with self._lock:
            if path not in self.objects:
                insort(self.names, path)
            elif mode is not Mode.OVERWRITE:
                raise AlreadyExists(f"{path} exists")
            meta = ObjectMeta(path, len(body), self.clock.now())
            self.objects[path] = Object(body, meta)

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        self.put(path, b"".join(parts), Mode.OVERWRITE)

    def head(self, path: str) -> ObjectMeta:
        return self.get(path).meta

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        keys.check_prefix(prefix)
        if start_after is not None:
            keys.check_prefix(start_after)
        with self._lock:
            begin = bisect_left(self.names, prefix)
            if start_after is not None:
                begin = max(begin, bisect_right(self.names, start_after))
            width = len(prefix)
            end = bisect_right(self.names, prefix, lo=begin, key=lambda name: name[:width])
            names = self.names[begin:end]
        objects = map(self.objects.get, names)
        return (entry.meta for entry in objects if entry is not None)

    def delete(self, path: str) -> None:
        keys.check_key(path)
        with self._lock:
            if self.objects.pop(path, None) is not None:
                del self.names[bisect_left(self.names, path)]

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.get(source).data, Mode.OVERWRITE)

    def sign(self, path: str, expiry: timedelta) -> str:
        keys.check_key(path)
        if self._signer is None:
            raise Invalid("this store cannot sign URLs", hint="open it with a Signer")
        return self._signer.sign(path, expiry)
