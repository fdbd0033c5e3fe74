"""A store whose clock is moved as far as the clock of the processes that use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from arco.clock import MovedClock
from arco.storage.port import Mode, Object, ObjectMeta, Store


class MovedStore:
    """Objects are as old as they are in the store itself: their times move with the present."""

    def __init__(self, store: Store, clock: MovedClock) -> None:
        self._store = store
        self._clock = clock

    @property
    def parallelism(self) -> int:
        return self._store.parallelism

    @property
    def url(self) -> str:
        return self._store.url

    def get(self, path: str) -> Object:
        stored = self._store.get(path)
        return Object(stored.data, self._moved(stored.meta))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._store.get_range(path, start, length)

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        self._store.put(path, data, mode)

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        self._store.put_parts(path, parts)

    def head(self, path: str) -> ObjectMeta:
        return self._moved(self._store.head(path))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return map(self._moved, self._store.list(prefix, start_after))

    def delete(self, path: str) -> None:
        self._store.delete(path)

    def copy(self, source: str, target: str) -> None:
        self._store.copy(source, target)

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._store.sign(path, expiry)

    def sweep(self, older_than: timedelta, prefix: str = "") -> int:
        sweep = getattr(self._store, "sweep", None)
        return 0 if sweep is None else int(sweep(older_than, prefix))

    def _moved(self, meta: ObjectMeta) -> ObjectMeta:
        return meta._replace(last_modified=meta.last_modified + self._clock.shift())
