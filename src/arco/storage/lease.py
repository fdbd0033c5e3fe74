"""Leases: so that, mostly, one process at a time does a job.

A lease saves work. It is never needed for correctness: clocks differ, and a
process can sleep between looking at its lease and acting on it. Whatever a
holder writes must be safe if two hold the lease, as commits are.

A lease is a row of numbered objects, `leases/{name}/{number}.json`, each created
only if absent; the one with the greatest number is the lease's state. To
acquire, renew or release is to create the next number:

1. List. The top record decides: nobody's, expired, or somebody's until then.
2. Create number top + 1 with our nonce and when it will expire, reckoned from
   before step 1, so that a writer who slept in between holds less, not more.
3. AlreadyExists, or an unknown outcome: read that number back. Our nonce in it
   means that it was us. Anything else: somebody was faster.
4. List what lies above. Something there means that we slept while our number
   had been used and removed: what we created is void.
5. Remove the numbers below. The top one is never removed, so numbers never go
   back: they fence, if whoever is written to remembers the greatest it has seen.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec

from arco.clock import Clock
from arco.errors import (
    AlreadyExists,
    Contended,
    Corrupt,
    Error,
    Fenced,
    Invalid,
    NotFound,
    Unavailable,
)
from arco.storage import paths
from arco.storage.port import Mode, Store

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_LOOKS = 5


class Record(msgspec.Struct, frozen=True):
    """What one numbered object says."""

    holder: str
    nonce: str
    expires_at: datetime


class Lease(msgspec.Struct, frozen=True):
    """A lease that was ours when we looked."""

    name: str
    number: int
    """The fencing number: greater than those of all holders before, and at each renewal."""
    record: Record


class Leases:
    """Acquires, renews and releases leases for one holder.

    `new_nonce` gives a text that was never given before, in any process.
    """

    def __init__(
        self, store: Store, clock: Clock, holder: str, new_nonce: Callable[[], str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._new_nonce = new_nonce

    def now(self) -> datetime:
        return self._clock.now()

    def acquire(self, name: str, ttl: timedelta) -> Lease | None:
        """The lease, or None if somebody holds it. Raises Unavailable where nobody can say."""
        if _NAME.fullmatch(name) is None:
            raise Invalid(f"{name[:100]!r} cannot name a lease", hint="use a-z, 0-9, '_.-'")
        now = self._clock.now()
        number, top = self._top(name)
        if top is not None and now < top.expires_at:
            return None
        record = Record(self._holder, self._new_nonce(), now + ttl)
        return self._advance(name, number + 1, record)

    def renew(self, lease: Lease, ttl: timedelta) -> Lease:
        """The lease with a new term. Raises Fenced if it expired or went to another."""
        now = self._clock.now()
        if now >= lease.record.expires_at:
            raise Fenced(f"lease {lease.name} expired at {lease.record.expires_at}")
        record = msgspec.structs.replace(lease.record, expires_at=now + ttl)
        renewed = self._advance(lease.name, lease.number + 1, record)
        if renewed is None:
            raise Fenced(f"lease {lease.name} went to another holder after {lease.number}")
        return renewed

    def release(self, lease: Lease) -> None:
        """Let others have the lease at once. Nothing happens if it is not ours any more."""
        record = msgspec.structs.replace(lease.record, expires_at=self._clock.now())
        ended = self._advance(lease.name, lease.number + 1, record)
        if ended is not None and ended.record != record:
            self.release(ended)  # a renewal of ours lay there, whose response was lost

    @contextlib.contextmanager
    def hold(self, name: str, ttl: timedelta) -> Iterator[Hold | None]:
        """Hold a lease while work goes on; None if somebody else has it.

        Letting go is best effort: what was done under the lease stays done.
        """
        lease = self.acquire(name, ttl)
        if lease is None:
            yield None
            return
        held = Hold(self, lease, ttl)
        try:
            yield held
        finally:
            held.let_go()

    def _top(self, name: str) -> tuple[int, Record | None]:
        for _ in range(_LOOKS):
            numbers = self._numbers(name)
            if not numbers:
                return 0, None
            try:
                return numbers[-1], self._read(name, numbers[-1])
            except NotFound:  # renewed, and removed, since we listed
                continue
        raise Contended(f"lease {name} changes faster than it can be read")

    def _advance(self, name: str, number: int, record: Record) -> Lease | None:
        """Create `number`; None if it is another's, or void. What is there is what counts."""
        try:
            self._store.put(_path(name, number), msgspec.json.encode(record), Mode.CREATE)
        except (AlreadyExists, Unavailable) as error:
            there = self._read_back(name, number, error)
            if there is None or there.nonce != record.nonce:
                return None
            record = there
        numbers = self._numbers(name)
        if numbers[-1:] != [number]:
            self._remove(name, [number])
            return None
        self._remove(name, numbers[:-1])
        return Lease(name, number, record)

    def _read_back(self, name: str, number: int, error: Exception) -> Record | None:
        try:
            return self._read(name, number)
        except NotFound:
            if isinstance(error, Unavailable):
                raise error from None  # it may still arrive; then it expires unused
            return None  # another's, and already removed

    def _read(self, name: str, number: int) -> Record:
        path = _path(name, number)
        try:
            return msgspec.json.decode(self._store.get(path).data, type=Record)
        except msgspec.MsgspecError as error:
            raise Corrupt(f"{path}: {error}", hint="delete it if nobody holds it") from error

    def _numbers(self, name: str) -> list[int]:
        prefix = f"{paths.LEASES}{name}/"
        found = (meta.path.removeprefix(prefix) for meta in self._store.list(prefix))
        return [int(stem[:20]) for stem in found if stem[:20].isdecimal() and len(stem) == 25]

    def _remove(self, name: str, numbers: list[int]) -> None:
        for number in numbers:
            with contextlib.suppress(Unavailable):  # the next holder removes it
                self._store.delete(_path(name, number))


class Hold:
    """A lease that long work renews as it goes on."""

    def __init__(self, leases: Leases, lease: Lease, ttl: timedelta) -> None:
        self._leases = leases
        self._lease = lease
        self._ttl = ttl

    def keep(self) -> None:
        """Renew the lease once half of its term is over. One that was lost is lost."""
        if self._leases.now() + self._ttl / 2 > self._lease.record.expires_at:
            with contextlib.suppress(Error):
                self._lease = self._leases.renew(self._lease, self._ttl)

    def keeping(self, progress: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
        """`progress`, with the lease kept whenever there is some."""

        def told(what: str, done: int, total: int) -> None:
            self.keep()
            progress(what, done, total)

        return told

    def let_go(self) -> None:
        with contextlib.suppress(Error):
            self._leases.release(self._lease)


def _path(name: str, number: int) -> str:
    return f"{paths.LEASES}{name}/{number:020d}.json"
