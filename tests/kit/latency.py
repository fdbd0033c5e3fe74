"""A store that answers after a while, as one behind a network does.

`LatencyStore` waits before each call of the real store behind it, counts the calls, and
knows how many of them had to wait for each other: `round_trips`. A listing waits once for
each page. The wait can be set for single operations and paths.

For processes: `python -m tests.kit.latency 30 worker --slots 8` is `servo worker --slots 8`
on a store that waits 30 ms for each call. With LATENCY_CALLS=FILE, each process appends the
number of its calls by operation to the file when it ends, as one line of JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple, NoReturn, TypeVar

from arco.storage.port import Mode, Object, ObjectMeta, Store

T = TypeVar("T")

PAGE = 1_000
"""How many objects one call of a listing answers with."""


class Call(NamedTuple):
    op: str
    path: str
    size: int
    """The bytes that were written or read."""
    began: float
    ended: float


class LatencyStore:
    """Waits `latency_s` for each call. Any number of calls wait at the same time."""

    def __init__(self, inner: Store, latency_s: float, *, parallelism: int = 32) -> None:
        self._inner = inner
        self._latency_s = latency_s
        self._parallelism = parallelism
        self._slow: list[tuple[str, str, float]] = []
        self._lock = threading.Lock()
        self.calls: list[Call] = []

    @property
    def parallelism(self) -> int:
        return self._parallelism

    @property
    def url(self) -> str:
        return self._inner.url

    def slow(self, op: str, path: str, seconds: float) -> None:
        """From now on, calls of `op` whose path holds `path` wait so long."""
        self._slow.append((op, path, seconds))

    def since(self, began: float) -> Sequence[Call]:
        """The calls that began at that time of `time.monotonic`, or later."""
        with self._lock:
            return [call for call in self.calls if call.began >= began]

    def count(self, op: str = "", path: str = "") -> int:
        with self._lock:
            return sum((not op or c.op == op) and path in c.path for c in self.calls)

    def size(self, op: str, path: str = "") -> int:
        with self._lock:
            return sum(c.size for c in self.calls if c.op == op and path in c.path)

    def get(self, path: str) -> Object:
        return self._call("get", path, lambda: self._inner.get(path), lambda got: len(got.data))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._call("get", path, lambda: self._inner.get_range(path, start, length), len)

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        self._call("put", path, lambda: self._inner.put(path, data, mode), lambda _: len(data))

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        self._call("put", path, lambda: self._inner.put_parts(path, parts))

    def head(self, path: str) -> ObjectMeta:
        return self._call("head", path, lambda: self._inner.head(path))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        listing = self._inner.list(prefix, start_after)
        while True:
            page = self._call("list", prefix, lambda: _next_page(listing), len)
            yield from page
            if len(page) < PAGE:
                return

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self._inner.delete(path))

    def copy(self, source: str, target: str) -> None:
        self._call("copy", source, lambda: self._inner.copy(source, target))

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._inner.sign(path, expiry)

    def sweep(self, older_than: timedelta, prefix: str) -> int:
        sweep = getattr(self._inner, "sweep", None)
        return 0 if sweep is None else int(sweep(older_than, prefix))

    def _call(
        self, op: str, path: str, act: Callable[[], T], size: Callable[[T], int] = lambda _: 0
    ) -> T:
        began = time.monotonic()
        waits = [s for slow, part, s in self._slow if slow == op and part in path]
        time.sleep(max(waits, default=self._latency_s))
        length = 0
        try:
            answer = act()
            length = size(answer)
            return answer
        finally:
            with self._lock:
                self.calls.append(Call(op, path, length, began, time.monotonic()))


def _next_page(listing: Iterator[ObjectMeta]) -> list[ObjectMeta]:
    return list(itertools.islice(listing, PAGE))


def round_trips(calls: Sequence[Call]) -> int:
    """How many of these calls were made one after the other.

    Calls that overlap count once: the longest sequence in which each call begins after the
    one before it has ended.
    """
    count, ended = 0, float("-inf")
    for call in sorted(calls, key=lambda call: call.ended):
        if call.began >= ended:
            count, ended = count + 1, call.ended
    return count


def servo(latency_s: float, arguments: list[str]) -> NoReturn:
    """The `servo` command in this process, on stores that wait."""
    from arco.app import workspace
    from arco.cli.app import run

    opened: list[LatencyStore] = []
    from arco.storage.open import open_store

    def open_slow(url: str, **options: str | bool) -> Store:
        opened.append(LatencyStore(open_store(url, **options), latency_s))
        return opened[-1]

    vars(workspace)["open_store"] = open_slow
    code = run(arguments)
    if target := os.environ.get("LATENCY_CALLS"):
        _append_tally(target, arguments, [call for store in opened for call in store.calls])
    os._exit(code)  # as `servo` itself ends


def _append_tally(target: str, arguments: Sequence[str], calls: Sequence[Call]) -> None:
    tally = Counter(f"{call.op} {_folder(call.path)}" for call in calls)
    with open(target, "a") as file:
        file.write(json.dumps({"servo": arguments[:1], **dict(tally.most_common())}) + "\n")


def _folder(path: str) -> str:
    """Two folders of a workspace's own path: `queue/ready` of `acme/main/queue/ready/x.json`."""
    return "/".join(path.split("/")[2:-1][:2])


if __name__ == "__main__":
    servo(float(sys.argv[1]) / 1000, sys.argv[2:])
