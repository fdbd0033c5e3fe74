"""Leases: usually one process at a time does a piece of work.

A lease saves work. Correctness must not depend on it: clocks differ, and a process can sleep
between reading its lease and acting on it. All writes of a holder must be safe if two hold the
lease, as commits are.

A lease is a row of numbered objects, `leases/{name}/{number}.json`, each created
only if absent; the one with the greatest number is the lease's state. To
acquire, renew or release is to create the next number:

1. List. The top record decides: released, expired, or held until its end. It expires its term after
   the store's last-modified time of the object, by the store's clock: a holder whose clock was
   wrong blocks the others for its term, no longer.
2. Create number top + 1 with our nonce and our term. The holder computes its term by its own
   monotonic clock, from before step 1, so that a writer that slept in between holds it for less
   time, not more.
3. After AlreadyExists or an unknown outcome, read that number back. With our nonce, we created it;
   otherwise another process was faster.
4. List greater numbers. If there are any, we slept while our number had been used and removed: what
   we created is void.
5. Remove the numbers below. The top one is never removed, so numbers never decrease: they are
   fencing numbers for a receiver that remembers the greatest it has seen.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from arco.storage.seal import read_checked, seal, unseal
from arco.storage.store_clock import StoreClock

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_LOOKS = 5
LONGEST_TERM = timedelta(hours=1)
"""Maximum term; a longer one in a record is limited to this."""


class Record(msgspec.Struct, frozen=True):
    """The content of one numbered object."""

    holder: str
    nonce: str
    term_s: float
    """From the object's last-modified time, by the store's clock. 0: released."""


class Lease(msgspec.Struct, frozen=True):
    """A lease that this process held when it was read."""

    name: str
    number: int
    """The fencing number: greater than those of all holders before, and at each renewal."""
    record: Record
    until_s: float
    """When it ends, by this process's monotonic clock."""


@dataclass(frozen=True)
class Leases:
    """Acquires, renews and releases leases for one holder.

    `new_nonce` gives a text that was never given before, in any process.
    """

    store: Store
    clock: Clock
    store_clock: StoreClock
    holder: str
    new_nonce: Callable[[], str]

    def remaining_s(self, lease: Lease) -> float:
        """How long a lease of this process still lasts."""
        return lease.until_s - self.clock.monotonic()

    def acquire(self, name: str, ttl: timedelta) -> Lease | None:
        """The lease, or None if another process holds it. Raises Unavailable if that is unknown."""
        if _NAME.fullmatch(name) is None:
            raise Invalid(f"{name[:100]!r} cannot name a lease", hint="use a-z, 0-9, '_.-'")
        now = self.store_clock.now()
        began_s = self.clock.monotonic()
        number, held = self._top(name, now)
        if held:
            return None
        record = Record(self.holder, self.new_nonce(), ttl.total_seconds())
        return self._advance(name, number + 1, record, began_s)

    def renew(self, lease: Lease, ttl: timedelta) -> Lease:
        """The lease with a new term. Raises Fenced if it expired or went to another."""
        began_s = self.clock.monotonic()
        if began_s >= lease.until_s:
            raise Fenced(f"lease {lease.name} expired {began_s - lease.until_s:.0f} s ago")
        record = msgspec.structs.replace(lease.record, term_s=ttl.total_seconds())
        renewed = self._advance(lease.name, lease.number + 1, record, began_s)
        if renewed is None:
            raise Fenced(f"lease {lease.name} went to another holder after {lease.number}")
        return renewed

    def release(self, lease: Lease) -> None:
        """Release the lease at once. Does nothing if another process holds it by now."""
        record = msgspec.structs.replace(lease.record, term_s=0.0)
        ended = self._advance(lease.name, lease.number + 1, record, self.clock.monotonic())
        if ended is not None and ended.record != record:
            self.release(ended)  # a renewal of ours lay there, whose response was lost

    @contextlib.contextmanager
    def hold(self, name: str, ttl: timedelta) -> Iterator[RenewedLease | None]:
        """Hold a lease during some work; None if another process holds it.

        The release is best effort.
        """
        lease = self.acquire(name, ttl)
        if lease is None:
            yield None
            return
        held = RenewedLease(self, lease, ttl)
        try:
            yield held
        finally:
            held.let_go()

    def _top(self, name: str, now: datetime) -> tuple[int, bool]:
        """The greatest number, and whether its record is held now."""
        for _ in range(_LOOKS):
            entries = self._entries(name)
            if not entries:
                return 0, False
            number, created = entries[-1]
            try:
                record = self._read(name, number)
            except NotFound:  # renewed, and removed, since we listed
                continue
            term = min(timedelta(seconds=record.term_s), LONGEST_TERM)
            # A record from the future, which a local disk may have, is not held.
            credible = created - now <= self.store_clock.bound
            return number, credible and now < created + term
        raise Contended(f"lease {name} changes faster than it can be read")

    def _advance(self, name: str, number: int, record: Record, began_s: float) -> Lease | None:
        """Create `number`; None if another process created it, or if it is void."""
        try:
            body = seal(msgspec.json.encode(record))
            self.store.put(_path(name, number), body, Mode.CREATE)
        except (AlreadyExists, Unavailable) as error:
            stored = self._read_back(name, number, error)
            if stored is None or stored.nonce != record.nonce:
                return None
            record = stored
        entries = self._entries(name)
        if not entries or entries[-1][0] != number:
            self._remove(name, [number])
            return None
        self._remove(name, [entry for entry, _ in entries[:-1]])
        return Lease(name, number, record, self._until_s(record, began_s, entries[-1][1]))

    def _until_s(self, record: Record, began_s: float, created: datetime) -> float:
        """The end of a term, by the monotonic clock. An earlier try may have created the record."""
        now_s = self.clock.monotonic()
        age = self.store_clock.estimate() - created
        return now_s + record.term_s - max(now_s - began_s, age.total_seconds())

    def _read_back(self, name: str, number: int, error: Exception) -> Record | None:
        try:
            return self._read(name, number)
        except NotFound:
            if isinstance(error, Unavailable):
                raise error from None  # it may still arrive; then it expires unused
            return None  # another's, and already removed

    def _read(self, name: str, number: int) -> Record:
        path = _path(name, number)
        return read_checked(self.store, path, lambda raw: _decode(raw, path))

    def _entries(self, name: str) -> list[tuple[int, datetime]]:
        """The existing numbers, with the store's time of each."""
        prefix = f"{paths.LEASES}{name}/"
        listed = ((m.path.removeprefix(prefix), m.last_modified) for m in self.store.list(prefix))
        return [
            (int(stem[:20]), created)
            for stem, created in listed
            if stem[:20].isdecimal() and len(stem) == 25
        ]

    def _remove(self, name: str, numbers: list[int]) -> None:
        for number in numbers:
            with contextlib.suppress(Unavailable):  # the next holder removes it
                self.store.delete(_path(name, number))


class RenewedLease:
    """A lease that is renewed during long work."""

    def __init__(self, leases: Leases, lease: Lease, ttl: timedelta) -> None:
        self._leases = leases
        self._lease = lease
        self._ttl = ttl

    def keep(self) -> None:
        """Renew the lease once half of its term is over. Errors are ignored."""
        if self._leases.remaining_s(self._lease) < self._ttl.total_seconds() / 2:
            with contextlib.suppress(Error):
                self._lease = self._leases.renew(self._lease, self._ttl)

    def keeping(self, progress: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
        """`progress`, which also renews the lease."""

        def report(what: str, done: int, total: int) -> None:
            self.keep()
            progress(what, done, total)

        return report

    def let_go(self) -> None:
        with contextlib.suppress(Error):
            self._leases.release(self._lease)


_decoder = msgspec.json.Decoder(Record)


def _decode(raw: bytes, path: str) -> Record:
    try:
        return _decoder.decode(unseal(raw, path))
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path}: {error}", hint="delete it if no process holds the lease") from error


def _path(name: str, number: int) -> str:
    return f"{paths.LEASES}{name}/{number:020d}.json"
