"""Stores that fail as real ones do, on purpose and reproducibly.

All wrappers have a parallelism of 1, so that the order of calls, and with it
the place of each fault, follows from the seed alone.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from arco.clock import Clock
from arco.errors import AlreadyExists, Denied, Error, Unavailable
from arco.storage.port import Mode, Object, ObjectMeta, Store
from tests.kit.faults import Fault, Faults, Rule

T = TypeVar("T")


class Crash(BaseException):
    """The process dies here. Not an Exception: no handler for errors may survive it."""


class StoreWrapper:
    """Every call of the port passes through `_call`, and is logged as (op, path)."""

    parallelism = 1

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.calls: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return self.inner.url

    def get(self, path: str) -> Object:
        return self._call("get", path, lambda: self.inner.get(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._call("get_range", path, lambda: self.inner.get_range(path, start, length))

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        return self._call("put", path, lambda: self.inner.put(path, data, mode))

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        return self._call("put", path, lambda: self.inner.put_parts(path, parts))

    def head(self, path: str) -> ObjectMeta:
        return self._call("head", path, lambda: self.inner.head(path))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return self._call("list", prefix, lambda: self.inner.list(prefix, start_after))

    def delete(self, path: str) -> None:
        return self._call("delete", path, lambda: self.inner.delete(path))

    def copy(self, source: str, target: str) -> None:
        return self._call("copy", source, lambda: self.inner.copy(source, target))

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._call("sign", path, lambda: self.inner.sign(path, expiry))

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        raise NotImplementedError


class FaultyStore(StoreWrapper):
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


class _Waiting(NamedTuple):
    """A write that arrives later; at `due`, or when it is released."""

    due: datetime | None
    act: Callable[[], None]


class UnreliableStore(StoreWrapper):
    """A store behind a network where the faults of `tests.kit.faults` happen.

    What a client library detects by itself is an error here: a body that ends
    before its Content-Length, and a range that has another length than was asked
    for. What nobody below the port can detect arrives as data.

    `clock` is the store's. Writes that are late arrive during the first call after
    their time. Faults can be switched off for a while through `armed`; what is under
    way arrives all the same.
    """

    def __init__(
        self, inner: Store, clock: Clock, rules: Sequence[Rule] = (), seed: int = 0
    ) -> None:
        super().__init__(inner)
        self._clock = clock
        self._waiting: list[_Waiting] = []
        self._written: dict[str, datetime] = {}
        self.faults = Faults(rules, seed)
        self.armed = True

    @property
    def held(self) -> int:
        """How many writes are under way."""
        return len(self._waiting)

    def release(self) -> None:
        """Let all writes that are under way arrive, and show all keys in listings."""
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write.act()
        self._written.clear()

    def get(self, path: str) -> Object:
        fault = self._begin("get", path)
        whole = self._through("get", path, fault, lambda: self.inner.get(path))
        if fault is None:
            return whole
        data = fault.damage(whole.data)
        return Object(data, whole.meta._replace(size=len(data)))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        fault = self._begin("get", path)
        data = self._through("get", path, fault, lambda: self.inner.get_range(path, start, length))
        damaged = data if fault is None else fault.damage(data)
        if len(damaged) != length or (fault is not None and fault.kind == "page"):
            raise Unavailable(f"get {path}: injected, {len(damaged)} bytes for {length}")
        return damaged

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        def act() -> None:
            self.inner.put(path, data, mode)
            self._written[path] = self._clock.now()

        self._call("put", path, act)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        fault = self._begin("list", prefix)
        if fault is not None and fault.kind in ("shorten", "flip", "page"):
            raise Unavailable(f"list {prefix}: injected, a listing that cannot be parsed")
        listed = self._through("list", prefix, fault, lambda: self.inner.list(prefix, start_after))
        if fault is None or fault.kind != "hide":
            return listed
        return self._without_new(listed, fault.rule.delay_s)

    def _without_new(
        self, listed: Iterator[ObjectMeta], delay_s: float | None
    ) -> Iterator[ObjectMeta]:
        oldest = timedelta.max if delay_s is None else timedelta(seconds=delay_s)
        now = self._clock.now()
        hidden = {path for path, moment in self._written.items() if now - moment < oldest}
        return iter([meta for meta in listed if meta.path not in hidden])

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        return self._through(op, path, self._begin(op, path), act)

    def _begin(self, op: str, path: str) -> Fault | None:
        self.calls.append((op, path))
        self._deliver()
        return self.faults.pick(op, path) if self.armed and op != "sign" else None

    def _through(self, op: str, path: str, fault: Fault | None, act: Callable[[], T]) -> T:
        if fault is None:
            return act()
        rule = fault.rule
        if fault.kind == "error" and not rule.applied:
            raise _error(rule, f"{op} {path}: injected {rule.status}, without effect")
        if fault.kind == "late":
            self._hold(act, rule)
            raise Unavailable(f"{op} {path}: injected, it arrives later")
        if fault.kind == "delay":
            self._clock.sleep(rule.delay_s or 0.0)
        result = act()
        if fault.kind == "repeat":
            self._hold(act, rule)
        if rule.action is not None:
            rule.action()
        match fault.kind:
            case "drop" | "cut":
                raise Unavailable(f"{op} {path}: injected, after the effect")
            case "error":
                raise _error(rule, f"{op} {path}: injected {rule.status}, after the effect")
        return result

    def _hold(self, act: Callable[[], object], rule: Rule) -> None:
        def arrive() -> None:
            with contextlib.suppress(AlreadyExists):
                act()

        due = None
        if rule.delay_s is not None:
            due = self._clock.now() + timedelta(seconds=rule.delay_s)
        self._waiting.append(_Waiting(due, arrive))
        if rule.action is not None and rule.kind == "late":
            rule.action()

    def _deliver(self) -> None:
        now = self._clock.now()
        arrived = [w for w in self._waiting if w.due is not None and w.due <= now]
        self._waiting = [w for w in self._waiting if w not in arrived]
        for write in arrived:
            write.act()


def _error(rule: Rule, message: str) -> Error:
    return Denied(message) if rule.status in (401, 403) else Unavailable(message)


CHANGING = ("put", "delete")
"""Calls that change the store."""


class CrashStore(StoreWrapper):
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
