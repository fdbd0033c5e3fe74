"""Append: one conditional write, and the events are durable.

`Ledger.append` validates, encodes one batch and creates it in the inbox. It
reads nothing. When it returns, the events will be folded exactly once.

When the store does not answer, the outcome is unknown: the batch may be in the
inbox, may have been consumed and deleted since, or may still arrive. So it is put
again, under the same name. A commit remembers the names that it consumed, and
recognises a batch that comes again, however late (commit.py). A caller that gets
Unappended may try again for as long as it likes, if it keeps the batch's name.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from arco.clock import Clock
from arco.errors import (
    AlreadyExists,
    Corrupt,
    Error,
    Invalid,
    NotFound,
    Unappended,
    Unavailable,
)
from arco.log.envelope import (
    MAX_EVENT_BYTES,
    Batch,
    Event,
    EventTypes,
    Payload,
    encode_batch,
    make_event,
    unfit,
)
from arco.storage import paths
from arco.storage.port import Store
from arco.storage.store_clock import StoreClock


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
        tenant: str,
        workspace: str,
        clock: Clock,
        ids: Callable[[], str],
        types: EventTypes,
        store_clock: StoreClock,
        *,
        source: str = "arco",
        actor: str = "",
        signal: Signal | None = None,
        attempts: int = 4,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._workspace = workspace
        self._clock = clock
        self._ids = ids
        self._types = types
        self._store_clock = store_clock
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
            tenant=self._tenant,
            workspace=self._workspace,
            idempotency_key=idempotency_key,
            actor=actor or self._actor,
            correlation_id=correlation_id,
            causation_id=causation_id,
            traceparent=traceparent,
        )

    def new_batch(self) -> str:
        """A name for a batch, for a caller that may have to append it more than once."""
        return self._ids()

    def append(
        self, events: Sequence[Event | Payload], *, batch: str = "", notify: bool = True
    ) -> Receipt:
        """Make events durable. Raises Invalid, or Unappended if the outcome is unknown.

        Whoever tries again after Unappended gives the same events and its `batch`: they
        are in the log once, whatever became of the tries before. Whoever commits the
        events itself, next, need not `notify` the compactor.
        """
        now = self._clock.now()
        wrapped = [e if isinstance(e, Event) else self.event(e, time=now) for e in events]
        for event in wrapped:
            self._validate(event)
        name = batch or self._ids()
        self._put(name, encode_batch(Batch(batch=name, events=wrapped)))
        if notify and self._signal is not None:
            self._signal.notify(name)
        return Receipt(name, tuple(event.id for event in wrapped))

    def _validate(self, event: Event) -> None:
        if (reason := unfit(event, self._tenant, self._workspace)) is not None:
            large = len(event.data) > MAX_EVENT_BYTES
            raise Invalid(
                reason, hint="store large values as an object and refer to it" if large else ""
            )
        try:
            self._types.decode(event.type, event.version, event.data)
        except Corrupt as error:
            raise Invalid(f"event {event.id}: {error.message}") from None

    def _put(self, name: str, raw: bytes) -> None:
        before = self._store_clock.moment()
        try:
            self._store.put(paths.inbox(name), raw)
        except (AlreadyExists, Unavailable) as error:
            self._settle(name, raw, error)
        else:
            self._store_clock.wrote(paths.inbox(name), before)

    def _settle(self, name: str, raw: bytes, unknown: Error) -> None:
        """Put again, until it is known that the batch arrived.

        From here on no error of the store says that it did not: the first put may have taken
        effect, or may still.
        """
        for attempt in range(1, self._attempts):
            try:
                if isinstance(unknown, AlreadyExists) and self._is_ours(name, raw):
                    return
                self._clock.sleep(0.05 * 2 ** (attempt - 1))
                self._store.put(paths.inbox(name), raw)
                return
            except Corrupt:
                raise
            except Error as error:
                unknown = error
        raise Unappended(
            name,
            f"batch {name} may or may not have been appended: {unknown}",
            hint="append it again under the same name, or with the same idempotency keys: "
            "it will not be applied twice",
        ) from unknown

    def _is_ours(self, name: str, raw: bytes) -> bool:
        """Whether an earlier put of this batch lies in the inbox.

        If it does not, it was consumed, or it never was there: to put it again is right
        in both cases, because a commit takes it once.
        """
        try:
            if self._store.get(paths.inbox(name)).data == raw:
                return True
            if self._store.get(paths.inbox(name)).data == raw:  # the first read may be bad
                return True
        except NotFound:
            return False
        raise Corrupt(f"another batch is called {name}", hint="check the source of randomness")
