"""A queue made of objects: any machine that reaches the bucket can be a worker.

    queue/claims/{rank}-{name}.{n}.json    who has delivery n of it; created only if absent
    queue/ready/{rank}-{name}.json         a message; `rank` makes urgent ones list first

The names of messages that take more than one slot, or memory, end in their weight, as in
`{rank}-{name}.c4m2048.json`: a worker knows it before it claims them.

The claim with the greatest number is the one that counts.

- *put* creates the message. An existing object is the same message.
- *take* lists both folders in one go, claims first, and claims a message that has no claim by
  creating delivery 1. A second worker gets AlreadyExists and tries another message. Older messages
  go first, by whole seconds. Workers go through messages of one second in different orders, so that
  they rarely conflict. A worker that finds several messages claimed lists again.
- After the claim, the message's body is read. If it is missing, the message was *done*, which
  deletes the message first and then its claims: the worker removes its claim again.
- *renew* overwrites the claim. A listing shows that by its time, or by its size, which
  changes too: some stores' times are whole seconds.
- *release* overwrites the claim with nothing: an empty claim has ended, and was not lost.
- A claim that was not seen to change for `claim_s`, by the monotonic clock of the observer, has
  ended too, so that different clocks do no harm. Delivery n + 1 may then be created, by one of
  those who try. This includes a worker's own claims: the outcome of a take may be unknown to it.

Claims are deleted only after their message: otherwise a worker that lists no claim and a worker
that lists claim 2 could both have the message. So a worker that slept past the end of its claim
does no harm:

- If it renews or releases, the greater number of another worker counts. If the message was deleted,
  the claim is created again without it. Such claims, and those that crashes leave, are deleted by a
  worker that sees them unchanged and without their message for `claim_s`.
- If it calls done, the message is deleted, although another worker may run it. That is correct,
  since the result is in the log before done is called.

Correctness does not depend on this: two workers that run one attempt commit one output. That can
still happen if a name is put again after it was done, while its first claims are being deleted.

Slot threads share one queue. Its lock is never held during a call of the store.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from arco.clock import Clock
from arco.errors import AlreadyExists, Error, NotFound, Unavailable
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import Mode, ObjectMeta, Store
from arco.transport.queues.port import NAME, PASSES, Admission, Delivery, Message, Weight

A = TypeVar("A")

READY = f"{paths.QUEUE}ready/"
CLAIMS = f"{paths.QUEUE}claims/"
RANK = 4
"""Length of the rank in the name of a message's file."""
ORDINARY = 5_000
"""The rank of priority 0; a smaller one is more urgent."""
LOOK_AHEAD = 1_000
"""Maximum of claimable messages that one listing reads."""
MISSES = 2
"""After this many claimed messages in a row, the listing is too old."""
LISTINGS = 8
"""Maximum of repeated listings in one take."""

_FILE = rf"((?!0000)[0-9]{{4}}-{NAME}(?:\.c[0-9]+m[0-9]+)?)"
_MESSAGE = re.compile(rf"{READY}{_FILE}\.json")
_CLAIM = re.compile(rf"{CLAIMS}{_FILE}\.([0-9]{{6}})\.json")


class Claim(msgspec.Struct, frozen=True):
    worker: str
    nonce: str


_claim = msgspec.json.Decoder(Claim)


class _Key(NamedTuple):
    """Names one delivery of one message."""

    file: str
    number: int

    @property
    def message(self) -> str:
        return f"{READY}{self.file}.json"

    @property
    def claim(self) -> str:
        return f"{CLAIMS}{self.file}.{self.number:06d}.json"


class _Candidate(NamedTuple):
    """A delivery that may be claimed."""

    key: _Key
    lost: int
    """How many claims of its message have expired."""


class _ListedClaim(NamedTuple):
    """The claim that counts for a message, as a listing showed it."""

    number: int
    modified: datetime
    size: int
    since: float
    """By our monotonic clock: when it was first seen like that."""


class _Own(NamedTuple):
    """A claim of this worker."""

    body: bytes
    renewed: int
    since: float
    """By our monotonic clock: it was certainly ours then."""


class QueueListing(NamedTuple):
    """The names of the messages in the queue, with their weights, and of those that are claimed."""

    messages: Mapping[str, Weight]
    claimed: frozenset[str]
    put_at: Mapping[str, datetime] = {}
    """When messages were put, by the store's clock."""


def name_of_message(path: str) -> str:
    """The name of the message that an object of the queue is about; empty if it is about none."""
    match = _CLAIM.fullmatch(path) or _MESSAGE.fullmatch(path)
    return "" if match is None else _name(match[1])


def contents(store: Store) -> QueueListing:
    """The content of the queue, to be shown. Expired claims count as claims."""
    messages: dict[str, Weight] = {}
    put_at: dict[str, datetime] = {}
    counting: dict[str, tuple[int, bool]] = {}
    for meta in store.list(paths.QUEUE):
        if claim := _CLAIM.fullmatch(meta.path):
            name, number = _name(claim[1]), int(claim[2])
            counting[name] = max(counting.get(name, (0, False)), (number, meta.size > 0))
        elif message := _MESSAGE.fullmatch(meta.path):
            messages[_name(message[1])] = _weight(message[1])
            put_at[_name(message[1])] = meta.last_modified
    claimed = {name for name, (_, held) in counting.items() if held}
    return QueueListing(messages, frozenset(claimed), put_at)


def claimed_message(store: Store, delivery: Delivery, nonce: str) -> bytes:
    """The body of a claimed message. Raises NotFound if this claim does not count."""
    key = _key(delivery)
    try:
        is_owner = _claim.decode(store.get(key.claim).data).nonce == nonce
    except msgspec.DecodeError:  # it was released
        is_owner = False
    if not is_owner:
        raise NotFound(f"the claim on {delivery.message.name} has ended")
    return store.get(key.message).data


def renewed_at(store: Store, delivery: Delivery) -> datetime:
    """When a claim was last renewed. Raises NotFound if it was released, or another one counts."""
    key = _key(delivery)
    counting: tuple[int, int, datetime] | None = None
    for meta in store.list(f"{CLAIMS}{key.file}."):
        if match := _CLAIM.fullmatch(meta.path):
            counting = (int(match[2]), meta.size, meta.last_modified)
    if counting is None or counting[0] != key.number or not counting[1]:
        raise NotFound(f"the claim on {delivery.message.name} has ended")
    return counting[2]


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
        max_poll_s: float = 1.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._ids = ids
        self._rng = rng or random.Random()
        self._claim_s = claim_s
        self._poll_s = poll_s
        self._max_poll_s = max_poll_s
        self._lock = threading.Lock()
        self.candidates: list[_Candidate] = []
        """Messages that were listed and not tried yet; the next one is the last."""
        self._seen: dict[str, _ListedClaim] = {}
        """Claims, by the files of their messages."""
        self.own_claims: dict[_Key, _Own] = {}
        self._polling = False
        self._polled_at = float("-inf")
        self._fresh_until = float("-inf")
        """Candidates are dropped then: something more urgent may have come in."""
        self._patient_until = float("-inf")
        """The same for those of less than ordinary urgency, and sooner."""
        self._pause_s = 0.0
        """The pause between two listings while there are no messages."""
        self._rest_s = 0.0
        """The same while there is no capacity for the listed messages."""
        self._misses = 0
        self._passes = 0
        """Candidates in a row that were taken before less urgent ones."""

    # -- the dispatcher's side -----------------------------------------------------------

    def put(self, messages: Sequence[Message]) -> None:
        self._all(self._put, messages)
        self._poll_soon()

    def _put(self, message: Message) -> None:
        # FRESH: a worker that sees it early does no harm, and a failed put is repeated.
        with contextlib.suppress(AlreadyExists):
            self._store.put(_Key(_file(message), 0).message, message.body, Mode.FRESH)

    def withdraw(self, names: Sequence[str]) -> None:
        if not names:
            return
        requested = set(names)
        by_name: dict[str, list[str]] = {}
        for meta in self._store.list(paths.QUEUE):
            match = _MESSAGE.fullmatch(meta.path) or _CLAIM.fullmatch(meta.path)
            if match is not None and _name(match[1]) in requested:
                by_name.setdefault(match[1], []).append(meta.path)
        self._all(self._delete, [reversed(keys) for keys in by_name.values()])

    def held(self, names: Collection[str]) -> set[str]:
        listed = (_MESSAGE.fullmatch(meta.path) for meta in self._store.list(READY))
        return set(names) & {_name(match[1]) for match in listed if match is not None}

    # -- the worker's side ---------------------------------------------------------------

    def take(
        self, limit: int, timeout_s: float, admission: Admission | None = None
    ) -> list[Delivery]:
        deadline = self._clock.monotonic() + timeout_s
        at_once = timeout_s <= 0
        while True:
            deliveries = self._take(limit, at_once=at_once, admission=admission)
            left = deadline - self._clock.monotonic()
            if deliveries or left < 0.001:  # a clock may not be able to sleep less
                return deliveries
            self._clock.sleep(min(self._poll_s, left))

    def _take(self, limit: int, *, at_once: bool, admission: Admission | None) -> list[Delivery]:
        deliveries: list[Delivery] = []
        listings = refused = 0
        try:
            while len(deliveries) < limit:
                candidate = self._next()
                if candidate is not None:
                    if not _reserved(admission, candidate):
                        refused += 1
                        continue
                    delivery = self._claim_reserved(candidate, admission)
                    self._note(missed=delivery is None)
                    if delivery is not None:
                        deliveries.append(delivery)
                elif refused:
                    self._rest()  # another listing would show the same
                    break
                elif listings < LISTINGS and self._poll(
                    at_once=at_once or listings > 0, admission=admission
                ):
                    listings += 1
                else:
                    break
        except Error:
            if not deliveries:
                raise
        return deliveries

    def _claim_reserved(
        self, candidate: _Candidate, admission: Admission | None
    ) -> Delivery | None:
        delivery: Delivery | None = None
        try:
            delivery = self._claim(candidate)
        finally:
            if delivery is None and admission is not None:
                admission.release(_weight(candidate.key.file))
        return delivery

    def _rest(self) -> None:
        """Wait with the next listing, longer each time until something is claimed."""
        with self._lock:
            self._polled_at = self._clock.monotonic()
            self._rest_s = self._longer(self._rest_s)
            self._pause_s = self._rest_s

    def _next(self) -> _Candidate | None:
        now = self._clock.monotonic()
        with self._lock:
            if now > self._fresh_until or (now > self._patient_until and self._is_patient()):
                self.candidates.clear()
            return self._pop() if self.candidates else None

    def _is_patient(self) -> bool:
        """Whether the next candidate has a low priority: newer messages may go first."""
        return bool(self.candidates) and _priority(self.candidates[-1].key.file) < 0

    def _pop(self) -> _Candidate:
        """The most urgent candidate; the oldest of the least urgent if those were passed often."""
        candidates, at = self.candidates, len(self.candidates) - 1
        least = candidates[0].key.file[:RANK]
        if self._passes < PASSES:
            is_passing = candidates[at].key.file[:RANK] != least
            self._passes = self._passes + 1 if is_passing else 0
        else:
            self._passes = 0
            while candidates[at].key.file[:RANK] != least:
                at -= 1
        return candidates.pop(at)

    def _note(self, *, missed: bool) -> None:
        with self._lock:
            self._misses = self._misses + 1 if missed else 0
            if not missed:
                self._rest_s = 0.0
            if self._misses >= MISSES:
                self._misses = 0
                self.candidates.clear()

    def _claim(self, candidate: _Candidate) -> Delivery | None:
        key = candidate.key
        nonce = self._ids()
        body = msgspec.json.encode(Claim(self._worker, nonce))
        since = self._clock.monotonic()
        try:
            # FRESH: after a power failure no worker runs it, claimed or not.
            self._store.put(key.claim, body, Mode.FRESH)
        except AlreadyExists:
            # It may be an earlier try of this worker, whose answer was lost.
            if not self._is_ours(key, nonce):
                return None
        except Unavailable:
            if not self._is_ours(key, nonce):
                raise
        try:
            message = self._store.get(key.message).data
        except NotFound:
            with contextlib.suppress(Error):
                self._store.delete(key.claim)  # it was done before
            return None
        except Error:
            with contextlib.suppress(Error):
                self._store.put(key.claim, b"", Mode.OVERWRITE)
            raise
        with self._lock:
            self.own_claims[key] = _Own(body, 0, since)
        named = Message(_name(key.file), message, _priority(key.file), _weight(key.file))
        return Delivery(named, key.number, candidate.lost)

    def _is_ours(self, key: _Key, nonce: str) -> bool:
        """Whether a create with an unknown outcome took effect.

        If that stays unknown, the claim expires, if it exists."""
        try:
            return _claim.decode(self._store.get(key.claim).data).nonce == nonce
        except (Error, msgspec.DecodeError):
            return False

    def nonce(self, delivery: Delivery) -> str:
        """The nonce of a claim that was just created here. Raises NotFound if it has ended."""
        with self._lock:
            own = self.own_claims.get(_key(delivery))
        if own is None:
            raise NotFound(f"the claim on {delivery.message.name} has ended")
        return _claim.decode(own.body).nonce

    def adopt(self, delivery: Delivery, nonce: str) -> None:
        """Continue a claim that another process created for this worker."""
        body = msgspec.json.encode(Claim(self._worker, nonce))
        with self._lock:  # whether it still counts is looked up before it is renewed
            self.own_claims.setdefault(_key(delivery), _Own(body, 0, float("-inf")))

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        self._all(self._renew, [_key(delivery) for delivery in deliveries])

    def _renew(self, key: _Key) -> None:
        now = self._clock.monotonic()
        with self._lock:
            own = self.own_claims.get(key)
        if own is None:
            return
        if now - own.since > self._claim_s and not self._counts(key):
            self._forget([key])
            return
        # Remembered first: if its outcome is unknown, the next one has another size.
        own = own._replace(renewed=own.renewed + 1)
        self._remember(key, own)
        self._store.put(key.claim, own.body + b" " * (own.renewed % 64), Mode.OVERWRITE)
        self._remember(key, own._replace(since=now))

    def _remember(self, key: _Key, own: _Own) -> None:
        with self._lock:
            if key in self.own_claims:  # not done, meanwhile
                self.own_claims[key] = own

    def _forget(self, keys: Collection[_Key]) -> None:
        with self._lock:
            for key in keys:
                self.own_claims.pop(key, None)

    def _counts(self, key: _Key) -> bool:
        """Whether a claim that may have ended is there, and nobody has a later one."""
        listed = self._store.list(f"{CLAIMS}{key.file}.")
        matches = [_CLAIM.fullmatch(meta.path) for meta in listed]
        return max((int(match[2]) for match in matches if match), default=0) == key.number

    def done(self, deliveries: Sequence[Delivery]) -> None:
        keys = [_key(delivery) for delivery in deliveries]
        self._forget(keys)
        self._all(self._finish, keys)

    def _finish(self, key: _Key) -> None:
        claims = [_Key(key.file, n).claim for n in range(1, key.number + 1)]
        self._delete([key.message, *claims])

    def release(self, deliveries: Sequence[Delivery]) -> None:
        keys = [_key(delivery) for delivery in deliveries]
        self._forget(keys)
        self._all(lambda key: self._store.put(key.claim, b"", Mode.OVERWRITE), keys)
        self._poll_soon()

    # -- listing ---------------------------------------------------------------------------

    def _poll(self, *, at_once: bool, admission: Admission | None = None) -> bool:
        """List messages, unless a thread does or just did. Returns whether there are candidates."""
        now = self._clock.monotonic()
        with self._lock:
            early = now - self._polled_at < self._pause_s and not at_once
            if self._polling or early:
                return False
            self._polling = True
        try:
            self._list(now)
        finally:
            with self._lock:
                self._polling = False
        with self._lock:
            if admission is not None:
                admission.keep({_name(candidate.key.file) for candidate in self.candidates})
            if self.candidates:
                self._pause_s = 0.0
            else:
                self._pause_s = self._longer(self._pause_s)
            return bool(self.candidates)

    def _longer(self, pause_s: float) -> float:
        return min(max(self._poll_s, pause_s * 1.5), self._max_poll_s)

    def _poll_soon(self) -> None:
        with self._lock:
            self._polled_at = self._fresh_until = float("-inf")

    def _list(self, now: float) -> None:
        """All claims, and messages until there are enough that can be claimed."""
        before = self._seen
        seen: dict[str, _ListedClaim] = {}
        alone: dict[str, list[str]] = {}
        """The paths of claims whose message was not listed (yet)."""
        unreleased: Counter[str] = Counter()
        candidates: list[tuple[_Candidate, datetime]] = []
        last = ""
        for meta in self._store.list(paths.QUEUE):
            if claim := _CLAIM.fullmatch(meta.path):
                file = claim[1]
                seen[file] = self._compared(before.get(file), int(claim[2]), meta)
                unreleased[file] += meta.size > 0
                alone.setdefault(file, []).append(meta.path)
            elif message := _MESSAGE.fullmatch(meta.path):
                file = message[1]
                alone.pop(file, None)
                claimed = seen.get(file)
                if claimed is None or claimed.size == 0 or now - claimed.since > self._claim_s:
                    number = 1 if claimed is None else claimed.number + 1
                    candidate = _Candidate(_Key(file, number), unreleased[file])
                    candidates.append((candidate, meta.last_modified))
                if len(candidates) == LOOK_AHEAD:
                    last = file
                    break
        ended = self._clock.monotonic()
        with self._lock:
            self.candidates = self._in_order(candidates)
            self._seen = seen
            self._polled_at = ended
            # Slow listings are repeated less often.
            self._fresh_until = ended + max(self._max_poll_s, 10 * (ended - now))
            self._patient_until = ended + max(self._poll_s, 2 * (ended - now))
            self._misses = 0
            for key in [
                key for key, own in self.own_claims.items() if self._is_lost(key, own, seen)
            ]:
                del self.own_claims[key]
        self._sweep({f: claims for f, claims in alone.items() if not last or f <= last}, now)

    def _compared(self, before: _ListedClaim | None, number: int, meta: ObjectMeta) -> _ListedClaim:
        """An unchanged claim keeps the time when it was first seen."""
        seen = _ListedClaim(number, meta.last_modified, meta.size, self._clock.monotonic())
        return before if before is not None and before[:3] == seen[:3] else seen

    def _is_lost(self, key: _Key, own: _Own, seen: dict[str, _ListedClaim]) -> bool:
        """Whether a claim of this worker was not renewed, and does not count any more."""
        counts = key.file in seen and seen[key.file].number == key.number
        return not counts and self._clock.monotonic() - own.since > self._claim_s

    def _in_order(self, candidates: list[tuple[_Candidate, datetime]]) -> list[_Candidate]:
        """The most urgent last, and the oldest of those; which of one second differs between
        workers."""
        self._rng.shuffle(candidates)

        def place(listed: tuple[_Candidate, datetime]) -> tuple[str, datetime]:
            candidate, modified = listed
            return candidate.key.file[:RANK], modified.replace(microsecond=0)

        return [candidate for candidate, _ in sorted(candidates, key=place, reverse=True)]

    def _sweep(self, alone: dict[str, list[str]], now: float) -> None:
        """Delete claims without a message, unless another worker may be about to."""
        for file, claims in alone.items():
            if now - self._seen[file].since > self._claim_s:
                with contextlib.suppress(Error):
                    self._delete(claims)

    # -- calls of the store --------------------------------------------------------------

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._store.delete(path)

    def _all(self, call: Callable[[A], None], items: Sequence[A]) -> None:
        """Call for each item; a failure of one does not stop the others."""

        def tried(item: A) -> Error | None:
            try:
                call(item)
            except Error as error:
                return error
            return None

        for error in each(self._store, tried, items):
            if error is not None:
                raise error


def _key(delivery: Delivery) -> _Key:
    return _Key(_file(delivery.message), delivery.number)


def _file(message: Message) -> str:
    """Sorts urgent messages first; priorities are kept within ±4999."""
    rank = f"{ORDINARY - max(-4_999, min(4_999, message.priority)):04d}"
    weight = message.weight
    suffix = "" if weight == Weight() else f".c{weight.slots}m{weight.memory_mib}"
    return f"{rank}-{message.name}{suffix}"


def _name(file: str) -> str:
    return file[5:].partition(".")[0]


def _weight(file: str) -> Weight:
    slots, _, memory_mib = file.partition(".c")[2].partition("m")
    return Weight(int(slots), int(memory_mib)) if slots else Weight()


def _reserved(admission: Admission | None, candidate: _Candidate) -> bool:
    file = candidate.key.file
    return admission is None or admission.reserve(_name(file), _weight(file))


def _priority(file: str) -> int:
    return ORDINARY - int(file[:RANK])
