"""A queue made of objects: any machine that reaches the bucket can be a worker.

    queue/ready/{rank}-{name}.json            a message; `rank` makes urgent ones list first
    queue/claims/{rank}-{name}/{n}.json       who has delivery n of it; created only if absent

- *put* creates the message. One that is there already is the same message.
- *take* lists messages, and claims one by creating delivery 1. Who comes second is
  told AlreadyExists and looks further. Workers start at different places of the
  listing, so that they rarely meet.
- *renew* overwrites the own claim, which moves its last-modified.
- A claim that nobody has seen change for `claim_s`, by the clock of whoever looks,
  has ended: delivery n + 1 may be created, by one of those who try. (Comparing the
  store's times with each other only: clocks that differ do no harm.)
- *done* deletes the message, then its claims. A worker that created a claim in
  between finds no message, and removes the claim again. Claims that a crash left
  without a message go when they have ended.

Nothing here is needed for correctness: two who work on one attempt commit one output.
"""

from __future__ import annotations

import contextlib
import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from arco.clock import Clock
from arco.dispatch.queues.port import Delivery, Message
from arco.errors import AlreadyExists, NotFound, Unavailable
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import Mode, Store

READY = f"{paths.QUEUE}ready/"
CLAIMS = f"{paths.QUEUE}claims/"
LOOK_AHEAD = 2_000
"""How many messages one listing takes in."""


class Claim(msgspec.Struct, frozen=True):
    worker: str
    nonce: str
    renewed: int


class _Seen(msgspec.Struct):
    """A claim of somebody else, as last seen."""

    modified: datetime
    since: float
    """By our monotonic clock: when it was first seen like that."""


class ObjectStoreQueue:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker: str,
        ids: Callable[[], str],
        *,
        rng: random.Random | None = None,
        claim_s: float = 60.0,
        poll_s: float = 0.2,
        max_poll_s: float = 2.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._ids = ids
        self._rng = rng or random.Random()
        self._claim_s = claim_s
        self._poll_s = poll_s
        self._max_poll_s = max_poll_s
        self._names: OrderedDict[str, None] = OrderedDict()
        """Messages that were listed and not tried yet, by their file names."""
        self._others: dict[str, _Seen] = {}
        """Claims that belong to others, by path."""
        self._mine: dict[str, tuple[str, int]] = {}
        """By message's name: our claim's path, and how often it was renewed."""
        self._swept_at = clock.monotonic()

    # -- the dispatcher's side -----------------------------------------------------------

    def put(self, messages: Sequence[Message]) -> None:
        each(self._store, self._put, messages)

    def _put(self, message: Message) -> None:
        with contextlib.suppress(AlreadyExists):
            self._store.put(f"{READY}{_file(message)}.json", message.body)

    def withdraw(self, names: Sequence[str]) -> None:
        if names:
            wanted = set(names)
            files = [file for file in self._listed() if file.partition("-")[2] in wanted]
            each(self._store, self._remove, files)

    def held(self, names: Collection[str]) -> set[str]:
        return set(names) & {file.partition("-")[2] for file in self._listed()}

    def _listed(self) -> Iterator[str]:
        return (_stem(meta.path, READY) for meta in self._store.list(READY))

    # -- the worker's side ---------------------------------------------------------------

    def take(self, limit: int, timeout_s: float) -> list[Delivery]:
        deadline = self._clock.monotonic() + timeout_s
        pause = self._poll_s
        while True:
            found = self._take(limit)
            left = deadline - self._clock.monotonic()
            if found or left <= 0:
                return found
            self._clock.sleep(min(pause, left))
            pause = min(pause * 1.5, self._max_poll_s)

    def _take(self, limit: int) -> list[Delivery]:
        if not self._names:
            self._list()
        found: list[Delivery] = []
        while self._names and len(found) < limit:
            file = self._next()
            delivery = self._claim(file, 1)
            if delivery is not None:
                found.append(delivery)
        if not found and self._clock.monotonic() - self._swept_at > self._claim_s / 4:
            found = self._sweep(limit)
        return found

    def _list(self) -> None:
        listed = list(islice(self._listed(), LOOK_AHEAD))
        known = {path.rpartition("/")[0] for path in self._others}
        for file in listed:
            if f"{CLAIMS}{file}" not in known and file.partition("-")[2] not in self._mine:
                self._names[file] = None

    def _next(self) -> str:
        """One of the first few of equal rank: two workers rarely try the same."""
        first = next(iter(self._names))
        rank = first.partition("-")[0]
        near = [n for n in islice(self._names, 16) if n.startswith(rank)]
        file = self._rng.choice(near)
        del self._names[file]
        return file

    def _claim(self, file: str, number: int) -> Delivery | None:
        path = f"{CLAIMS}{file}/{number:06d}.json"
        claim = Claim(self._worker, self._ids(), 0)
        try:
            self._store.put(path, msgspec.json.encode(claim))
        except AlreadyExists:
            self._others.setdefault(path, _Seen(datetime.min, self._clock.monotonic()))
            return None
        except Unavailable:
            if not self._is_ours(path, claim):
                return None
        try:
            body = self._store.get(f"{READY}{file}.json").data
        except NotFound:
            self._store.delete(path)  # it was done before we came
            return None
        rank, _, name = file.partition("-")
        message = Message(name, body, _priority(rank))
        self._mine[name] = (path, 0)
        return Delivery(message, number)

    def _is_ours(self, path: str, claim: Claim) -> bool:
        try:
            found = msgspec.json.decode(self._store.get(path).data, type=Claim)
        except (NotFound, Unavailable, msgspec.DecodeError):
            return False
        return found.nonce == claim.nonce

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            mine = self._mine.get(delivery.message.name)
            if mine is None:
                continue
            path, renewed = mine
            claim = Claim(self._worker, "", renewed + 1)
            self._store.put(path, msgspec.json.encode(claim), Mode.OVERWRITE)
            self._mine[delivery.message.name] = (path, renewed + 1)

    def done(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._mine.pop(delivery.message.name, None)
        each(self._store, self._finish, deliveries)

    def _finish(self, delivery: Delivery) -> None:
        file = _file(delivery.message)
        self._store.delete(f"{READY}{file}.json")
        for number in range(1, delivery.number + 1):
            self._store.delete(f"{CLAIMS}{file}/{number:06d}.json")

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """The claims go. A later delivery then begins at 1 again."""
        for delivery in deliveries:
            self._mine.pop(delivery.message.name, None)
            file = _file(delivery.message)
            for number in range(delivery.number, 0, -1):
                self._store.delete(f"{CLAIMS}{file}/{number:06d}.json")

    # -- claims that have ended ----------------------------------------------------------

    def _sweep(self, limit: int) -> list[Delivery]:
        """Look at the claims of others; take over what has ended."""
        self._swept_at = now = self._clock.monotonic()
        newest: dict[str, tuple[int, str, datetime]] = {}
        for meta in self._store.list(CLAIMS):
            file, _, digits = _stem(meta.path, CLAIMS).rpartition("/")
            newest[file] = (int(digits), meta.path, meta.last_modified)
        found: list[Delivery] = []
        others: dict[str, _Seen] = {}
        mine = {path for path, _ in self._mine.values()}
        for file, (number, path, modified) in newest.items():
            if path in mine:
                continue
            seen = self._others.get(path)
            if seen is None or seen.modified != modified:
                others[path] = _Seen(modified, now)
                continue
            others[path] = seen
            if now - seen.since > self._claim_s and len(found) < limit:
                delivery = self._take_over(file, number)
                if delivery is not None:
                    found.append(delivery)
        self._others = others
        return found

    def _take_over(self, file: str, number: int) -> Delivery | None:
        delivery = self._claim(file, number + 1)
        if delivery is None and not self._exists(f"{READY}{file}.json"):
            for n in range(number, 0, -1):  # left behind by a crash
                self._store.delete(f"{CLAIMS}{file}/{n:06d}.json")
        return delivery

    def _exists(self, path: str) -> bool:
        try:
            self._store.head(path)
        except NotFound:
            return False
        return True

    def _remove(self, file: str) -> None:
        self._store.delete(f"{READY}{file}.json")
        for meta in self._store.list(f"{CLAIMS}{file}/"):
            self._store.delete(meta.path)


def _file(message: Message) -> str:
    return f"{_rank(message.priority)}-{message.name}"


def _rank(priority: int) -> str:
    """Text that sorts urgent messages first; priorities are kept within ±4999."""
    return f"{5_000 - max(-4_999, min(4_999, priority)):04d}"


def _priority(rank: str) -> int:
    return 5_000 - int(rank)


def _stem(path: str, prefix: str) -> str:
    return path.removeprefix(prefix).removesuffix(".json")
