"""Stores for tests: by name, openable in any process, and behind HTTP for signed URLs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from arco.clock import Clock, SystemClock
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.open import open_store
from arco.storage.port import Mode, Object, ObjectMeta, Store
from arco.storage.scoped import ScopedStore
from arco.storage.signing import Signer, SigningKey, preflight, respond
from tests.kit.faulty import FaultyStore
from tests.kit.http_servers import QuietHandler, on_free_port, serving_http

SIGNING_KEYS = (SigningKey("new", b"n" * 32), SigningKey("old", b"o" * 32))


class ManualClock:
    """Moves only when told to, or when somebody sleeps on it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1)) -> None:
        self._start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    def sleep(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class DatedStore:
    """A real store whose objects bear the times of a manual clock, by which they were put."""

    def __init__(self, inner: Store, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._times: dict[str, datetime] = {}

    @property
    def parallelism(self) -> int:
        return self._inner.parallelism

    @property
    def url(self) -> str:
        return self._inner.url

    def get(self, path: str) -> Object:
        entry = self._inner.get(path)
        return Object(entry.data, self._dated(entry.meta))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._inner.get_range(path, start, length)

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        self._inner.put(path, data, mode)
        self._times[path] = self._clock.now()

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        self._inner.put_parts(path, parts)
        self._times[path] = self._clock.now()

    def head(self, path: str) -> ObjectMeta:
        return self._dated(self._inner.head(path))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return map(self._dated, self._inner.list(prefix, start_after))

    def delete(self, path: str) -> None:
        self._inner.delete(path)

    def copy(self, source: str, target: str) -> None:
        self._inner.copy(source, target)
        self._times[target] = self._clock.now()

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._inner.sign(path, expiry)

    def _dated(self, meta: ObjectMeta) -> ObjectMeta:
        return meta._replace(last_modified=self._times.get(meta.path, self._clock.now()))


class Address(NamedTuple):
    """A store that another process can open."""

    kind: str
    url: str
    options: Mapping[str, str | bool]

    def open(self, signer: Signer | None = None) -> Store:
        match self.kind:
            case "memory":
                return MemoryStore(SystemClock(), signer)
            case "local":
                return self._local(signer)
            case "local-named":
                store = self._local(signer)
                store.nameless = False  # as on a file system without O_TMPFILE
                return store
            case "scoped":
                return ScopedStore(self._local(signer), "acme", "dev")
            case "faulty":
                return FaultyStore(self._local(signer), random.Random(0))
        return open_store(self.url, **self.options)

    def _local(self, signer: Signer | None) -> LocalStore:
        return LocalStore(Path(self.url.removeprefix("file://")), signer)


@contextlib.contextmanager
def serving(address: Address, clock: Clock) -> Iterator[Store]:
    """`address`, opened so that its signed URLs are answered on loopback meanwhile.

    Whoever answers opens the store below any scope: signed paths are whole.
    """
    holder: dict[str, Any] = {}

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = respond(
                holder["store"],
                holder["signer"],
                self.path,
                range_header=self.headers.get("Range"),
                origin=self.headers.get("Origin"),
                now=clock.now(),
            )
            self._send(answer.status, answer.headers, answer.body)

        def do_OPTIONS(self) -> None:
            answer = preflight(self.headers.get("Origin"))
            self._send(answer.status, answer.headers, answer.body)

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = on_free_port(Handler)
    signer = Signer(server.address, SIGNING_KEYS, clock)
    store = address.open(signer)
    whole = address._replace(kind="local").open() if address.kind == "scoped" else store
    holder.update(store=whole, signer=signer)
    with serving_http(server):
        yield store
