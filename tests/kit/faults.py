"""What can go wrong between a client and its store, as rules that a seed decides.

    drop      the request is applied, and its response is lost
    late      the client gets no response; the request is applied later
    delay     the request waits, then is applied and answered
    repeat    the request is applied and answered, and applied once more later
    error     the answer is `status`, before or after the request is applied
    cut       a body ends too soon, under its full Content-Length
    shorten   a body ends too soon, under a Content-Length that fits it
    flip      one bit of a body is changed
    page      a body is replaced by an error page in HTML, with status 200
    hide      keys that were written a moment ago are missing from a listing

`tests.kit.proxy` does this to HTTP requests in front of a real server,
`tests.kit.faulty` to calls of the storage port. "Later" is after `delay_s`, or
where that is None, when the test calls `release()`.
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

Kind = Literal[
    "drop", "late", "delay", "repeat", "error", "cut", "shorten", "flip", "page", "hide"
]  # fmt: skip
PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"

_OPERATIONS: dict[str, tuple[str, ...]] = {
    "late": ("put", "delete"),
    "repeat": ("put", "delete"),
    "cut": ("get", "list"),
    "shorten": ("get", "list"),
    "flip": ("get", "list"),
    "page": ("get", "list"),
    "hide": ("list",),
}
"""Where a fault makes sense; the others are for every operation."""


class Rule(NamedTuple):
    """A fault, and the requests that it concerns."""

    kind: Kind
    op: str = ""
    """put, get, head, list or delete; any of them by default."""
    path: str = ""
    """A regular expression, searched for in the object's path or the listing's prefix."""
    rate: float = 1.0
    """The share of the requests concerned that the fault happens to."""
    skip: int = 0
    """How many of the requests concerned pass first."""
    times: int | None = None
    """How often the fault happens; for ever by default."""
    once_each: bool = False
    """Whether the fault happens to each path at most once."""
    delay_s: float | None = None
    keep: float = 0.5
    """The share of a body that is left when it is cut or shortened."""
    status: int = 503
    applied: bool = False
    """Whether an `error` comes after the request was applied."""
    action: Callable[[], object] | None = None
    """Called after the request was applied, or held, and before the client hears of it."""

    def concerns(self, op: str, path: str) -> bool:
        operations = (self.op,) if self.op else _OPERATIONS.get(self.kind, (op,))
        return op in operations and re.search(self.path, path) is not None


class Fault(NamedTuple):
    """A rule at work on one request; `draw`, in [0, 1), decides what it leaves open."""

    rule: Rule
    draw: float

    @property
    def kind(self) -> Kind:
        return self.rule.kind

    def damage(self, body: bytes) -> bytes:
        """The body that arrives in place of `body`."""
        match self.kind:
            case "cut" | "shorten":
                return body[: int(len(body) * self.rule.keep)]
            case "flip" if body:
                return _flipped(body, int(self.draw * len(body) * 8))
            case "page":
                return PAGE
        return body


class Event(NamedTuple):
    """One request, and the fault that happened to it."""

    op: str
    path: str
    fault: str


class Faults:
    """Decides for each request whether a fault happens to it; the first rule that says so wins.

    The decision follows from the seed, and from how many requests a rule has
    concerned so far: rules do not influence each other's chance.
    """

    def __init__(self, rules: Sequence[Rule] = (), seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._rules = [(rule, random.Random(f"{seed} {n}")) for n, rule in enumerate(rules)]
        self._concerned: Counter[int] = Counter()
        self._happened: Counter[int] = Counter()
        self._spoilt: set[tuple[int, str]] = set()
        self.events: list[Event] = []

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind of fault happened."""
        with self._lock:
            return dict(Counter(event.fault for event in self.events if event.fault))

    def count(self, op: str, path: str = "") -> int:
        """How many requests there were."""
        with self._lock:
            return sum(e.op == op and re.search(path, e.path) is not None for e in self.events)

    def pick(self, op: str, path: str) -> Fault | None:
        with self._lock:
            fault = self._pick(op, path)
            self.events.append(Event(op, path, fault.kind if fault else ""))
            return fault

    def _pick(self, op: str, path: str) -> Fault | None:
        for n, (rule, rng) in enumerate(self._rules):
            if not rule.concerns(op, path):
                continue
            chance, draw = rng.random(), rng.random()
            self._concerned[n] += 1
            spent = rule.times is not None and self._happened[n] >= rule.times
            spent |= rule.once_each and (n, path) in self._spoilt
            if self._concerned[n] > rule.skip and not spent and chance < rule.rate:
                self._happened[n] += 1
                self._spoilt.add((n, path))
                return Fault(rule, draw)
        return None


def _flipped(body: bytes, bit: int) -> bytes:
    changed = bytearray(body)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
