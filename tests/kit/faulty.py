"""Stores that fail as real ones do, on purpose and reproducibly.

Both wrappers have a parallelism of 1, so that the order of calls, and with it
the place of each fault, follows from the seed alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeVar

from arco.clock import Clock
from arco.errors import Unavailable
from arco.storage.port import Mode, Object, ObjectMeta, Store

T = TypeVar("T")


class Crash(BaseException):
    """The process dies here. Not an Exception: no handler for errors may survive it."""


class _Wrapper:
    """Every call of the port passes through `_call`, and is logged as (op, path)."""

    parallelism = 1

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.calls: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return self._inner.url

    def get(self, path: str) -> Object:
        return self._call("get", path, lambda: self._inner.get(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._call("get_range", path, lambda: self._inner.get_range(path, start, length))

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        return self._call("put", path, lambda: self._inner.put(path, data, mode))

    def head(self, path: str) -> ObjectMeta:
        return self._call("head", path, lambda: self._inner.head(path))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return self._call("list", prefix, lambda: self._inner.list(prefix, start_after))

    def delete(self, path: str) -> None:
        return self._call("delete", path, lambda: self._inner.delete(path))

    def copy(self, source: str, target: str) -> None:
        return self._call("copy", source, lambda: self._inner.copy(source, target))

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._call("sign", path, lambda: self._inner.sign(path, expiry))

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        raise NotImplementedError


class FaultyStore(_Wrapper):
    """Fails at random: before the effect, or after it, as when the response is lost.

    `error_rate` and `lost_response_rate` are the shares of calls, out of 1. With
    a `slow_rate`, that share of calls takes `slow_s` on the clock, first. Faults
    can be switched off for a while through `armed`.
    """

    def __init__(
        self,
        inner: Store,
        rng: random.Random,
        error_rate: float = 0.0,
        lost_response_rate: float = 0.0,
        *,
        slow_rate: float = 0.0,
        slow_s: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(inner)
        if slow_rate and clock is None:
            raise ValueError("slow calls need a clock to be slow on")
        self._rng = rng
        self._error_rate = error_rate
        self._lost_response_rate = lost_response_rate
        self._slow_rate = slow_rate
        self._slow_s = slow_s
        self._clock = clock
        self.armed = True

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((op, path))
        # Always three draws, so that a changed rate moves no other fault.
        slow, error, lost = (self._rng.random() for _ in range(3))
        if not self.armed:
            return act()
        if self._clock is not None and slow < self._slow_rate:
            self._clock.sleep(self._slow_s)
        if error < self._error_rate:
            raise Unavailable(f"{op} {path}: injected, without effect")
        result = act()
        if lost < self._lost_response_rate:
            raise Unavailable(f"{op} {path}: injected, after the effect")
        return result


class CrashStore(_Wrapper):
    """Dies at call number `at`, counted from 1, before or after its effect.

    A dead process makes no more calls, so every later one raises `Crash` too,
    without effect. Run with `at` = 1, 2, ... until nothing crashes to have tried
    every place.
    """

    def __init__(self, inner: Store, at: int, after_effect: bool) -> None:
        super().__init__(inner)
        self._at = at
        self._after_effect = after_effect

    @property
    def crashed(self) -> bool:
        return len(self.calls) >= self._at

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((op, path))
        number = len(self.calls)
        if number > self._at or (number == self._at and not self._after_effect):
            raise Crash(f"call {number}: {op} {path}")
        result = act()
        if number == self._at:
            raise Crash(f"call {number}: after {op} {path}")
        return result
