"""Concurrent store calls, as many as the store recommends."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from arco.storage.port import Store


class Sized(Protocol):
    @property
    def bytes(self) -> int: ...


A = TypeVar("A")
B = TypeVar("B")
S = TypeVar("S", bound=Sized)

_within = threading.local()


def each(store: Store, call: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """`[call(item) for item in items]`, in threads. The first error is raised at the end.

    Items go to the threads in slices, because a future for each would cost more than a call on a
    local disk. Within one of those threads calls are sequential: waiting there for other threads
    could deadlock.
    """
    todo = list(items)
    width = min(store.parallelism, len(todo))
    if width <= 1 or getattr(_within, "pool", False):
        return [call(item) for item in todo]
    slices = [todo[i::width] for i in range(width)]
    pool = _pool(store.parallelism)
    futures = [pool.submit(_run_in_pool, call, part) for part in slices[1:]]
    error: BaseException | None = None
    results: list[list[B]] = []
    try:
        results.append(_run(call, slices[0]))
    except BaseException as raised:
        error = raised
    for future in futures:
        try:
            results.append(future.result())
        except BaseException as raised:
            error = error or raised
    if error is not None:
        raise error
    merged: list[B] = [results[i % width][i // width] for i in range(len(todo))]
    return merged


def in_portions(
    store: Store,
    call: Callable[[A], B],
    items: Sequence[A],
    progress: Callable[[int, int], None],
    size: int = 256,
) -> Iterator[B]:
    """`each` for many items, `size` at a time. `progress` gets the number that is done."""
    for start in range(0, len(items), size):
        portion = items[start : start + size]
        yield from each(store, call, portion)
        progress(start + len(portion), len(items))


def cut_by_size(items: Iterable[S], most: int, most_bytes: int) -> Iterator[list[S]]:
    """Portions with a maximum of items and bytes; a larger item is a portion of its own."""
    portion: list[S] = []
    size = 0
    for item in items:
        if portion and (len(portion) == most or size + item.bytes > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += item.bytes
    if portion:
        yield portion


def _run(call: Callable[[A], B], items: list[A]) -> list[B]:
    return [call(item) for item in items]


def _run_in_pool(call: Callable[[A], B], items: list[A]) -> list[B]:
    _within.pool = True
    return _run(call, items)


@functools.cache
def _pool(width: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(width, thread_name_prefix="store")
