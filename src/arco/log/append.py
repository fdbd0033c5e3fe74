"""Append: one conditional write, and the events are durable.

`Ledger.append` validates, encodes one batch and creates it in the inbox. It
reads nothing. When it returns, the events will be folded exactly once.

When the store does not answer, the outcome is unknown. Putting the batch again
without looking could have it folded twice: it may have been taken by a commit
and deleted since. So the ledger looks first, in the inbox, then in the commits
since the append began, and only then puts it again under the same name.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from arco.clock import Clock
from arco.errors import AlreadyExists, Corrupt, Invalid, NotFound, Unavailable
from arco.log.envelope import (
    MAX_EVENT_BYTES,
    MAX_VERSION,
    Batch,
    Event,
    EventTypes,
    Payload,
    encode_batch,
    make_event,
)
from arco.log.head import Manifests
from arco.storage import paths
from arco.storage.port import Store

CLOCK_SKEW = timedelta(minutes=5)
"""How far committers' clocks may be from ours when we look for a batch in their commits."""


class Receipt(msgspec.Struct, frozen=True):
    batch: str
    event_ids: tuple[str, ...]


class Signal:
    """Wakes a compactor in the same process, and tells it which batches are new.

    The oldest names are forgotten where nobody listens: a listing finds the rest.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._names: deque[str] = deque(maxlen=1_000)
        self._woken = False

    def wake(self) -> None:
        """Have a waiter look, without a batch of ours to look for."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def notify(self, name: str) -> None:
        with self._condition:
            self._names.append(name)
            self._condition.notify_all()

    def wait(self, timeout_s: float) -> list[str]:
        """Names that came in; empty after the time-out."""
        with self._condition:
            if not self._names and not self._woken:
                self._condition.wait(timeout_s)
            self._woken = False
            names = list(self._names)
            self._names.clear()
            return names


class Ledger:
    def __init__(
        self,
        store: Store,
        manifests: Manifests,
        clock: Clock,
        ids: Callable[[], str],
        types: EventTypes,
        *,
        source: str = "arco",
        actor: str = "",
        signal: Signal | None = None,
        attempts: int = 4,
    ) -> None:
        self._store = store
        self._manifests = manifests
        self._clock = clock
        self._ids = ids
        self._types = types
        self._source = source
        self._actor = actor
        self._signal = signal
        self._attempts = attempts

    def event(
        self,
        payload: Payload,
        *,
        idempotency_key: str = "",
        actor: str = "",
        correlation_id: str | None = None,
        causation_id: str | None = None,
        traceparent: str | None = None,
        time: datetime | None = None,
    ) -> Event:
        """Wrap a payload for this workspace."""
        return make_event(
            payload,
            id=self._ids(),
            time=time or self._clock.now(),
            source=self._source,
            tenant=self._manifests.tenant,
            workspace=self._manifests.workspace,
            idempotency_key=idempotency_key,
            actor=actor or self._actor,
            correlation_id=correlation_id,
            causation_id=causation_id,
            traceparent=traceparent,
        )

    def append(self, events: Sequence[Event | Payload], *, notify: bool = True) -> Receipt:
        """Make events durable. Raises Invalid, or Unavailable with the outcome unknown.

        Whoever commits them itself, next, need not `notify` the compactor.
        """
        now = self._clock.now()
        wrapped = [e if isinstance(e, Event) else self.event(e, time=now) for e in events]
        for event in wrapped:
            self._validate(event)
        batch = Batch(batch=self._ids(), events=wrapped)
        self._put(batch.batch, encode_batch(batch))
        if notify and self._signal is not None:
            self._signal.notify(batch.batch)
        return Receipt(batch.batch, tuple(event.id for event in wrapped))

    def _validate(self, event: Event) -> None:
        scope = (self._manifests.tenant, self._manifests.workspace)
        if (event.tenant_id, event.workspace_id) != scope:
            raise Invalid(f"event {event.id} belongs to {event.tenant_id}/{event.workspace_id}")
        if not event.id or not event.type:
            raise Invalid("an event needs an id and a type")
        if not 1 <= event.version <= MAX_VERSION or not 1 < event.time.year < 9999:
            raise Invalid(f"event {event.id}: version {event.version} or time is out of range")
        if len(event.data) > MAX_EVENT_BYTES:
            raise Invalid(
                f"event {event.id} ({event.type}) has {len(event.data)} bytes of data; "
                f"the limit is {MAX_EVENT_BYTES}",
                hint="store large values as an object and refer to it",
            )
        try:
            self._types.decode(event.type, event.version, event.data)
        except Corrupt as error:
            raise Invalid(f"event {event.id}: {error.message}") from None

    def _put(self, name: str, raw: bytes) -> None:
        path = paths.inbox(name)
        began = self._clock.now() - CLOCK_SKEW  # before the put, which may hang for minutes
        try:
            self._store.put(path, raw)
        except (Unavailable, AlreadyExists) as error:
            self._settle(name, raw, error, began)

    def _settle(self, name: str, raw: bytes, error: Exception, began: datetime) -> None:
        """Find out what became of a put that gave no clear answer; repeat it if nothing did."""
        for attempt in range(self._attempts):
            self._clock.sleep(0.05 * 2**attempt)
            try:
                if self._arrived(name, raw, began):
                    return
                if self._clock.now() - began > CLOCK_SKEW + self._manifests.age_gate / 10:
                    break  # we slept: the commit that took it may have been collected
                self._store.put(paths.inbox(name), raw)
                return
            except (Unavailable, AlreadyExists) as again:
                error = again
        raise Unavailable(
            f"batch {name} may or may not have been appended: {error}",
            hint="append it again with the same idempotency keys: it will not be applied twice",
        ) from error

    def _arrived(self, name: str, raw: bytes, began: datetime) -> bool:
        try:
            found = self._store.get(paths.inbox(name)).data
        except NotFound:
            return self.committed_at(name, began) is not None
        if found != raw:
            raise Corrupt(f"another batch is called {name}", hint="check the source of randomness")
        return True

    def committed_at(self, name: str, since: datetime) -> int | None:
        """The generation that consumed a batch, looking no further back than `since`."""
        head: Manifests = self._manifests
        current = head.head()
        while current.generation > 0 and current.manifest.published_at >= since:
            if name in current.manifest.consumed or name in current.manifest.pending_cleanup:
                return current.generation
            parent = head.find(current.generation - 1)
            if parent is None:
                return None
            current = parent
        return None
