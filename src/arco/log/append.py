"""Append: one conditional write, and the events are durable.

`Ledger.append` validates, encodes one batch and creates it in the inbox. It
reads nothing. When it returns, the events will be folded exactly once.

When the store does not respond, the outcome is unknown: the batch may be in the inbox, may have
been consumed and deleted since, or may still arrive. So it is put again, under the same name. A
commit remembers the names that it consumed, and recognises a batch that comes again, however late
(commit.py). A caller that gets Unappended may try again for as long as it likes, if it keeps the
batch's name.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from arco.errors import AlreadyExists, Corrupt, Error, Invalid, NotFound, Unappended, Unavailable
from arco.log.core import LogCore
from arco.log.envelope import (
    Batch,
    Event,
    Origin,
    Payload,
    encode_batch,
    encode_payload,
    make_event,
    oversized,
    unfit,
)
from arco.storage import paths
from arco.storage.port import Mode

replace = msgspec.structs.replace


class Receipt(msgspec.Struct, frozen=True):
    batch: str
    event_ids: tuple[str, ...]


class Signal:
    """Wakes a compactor in the same process, and tells it which batches are new.

    Without a listener the oldest names are dropped: a listing finds those batches.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._names: deque[str] = deque(maxlen=1_000)
        self._woken = False

    def wake(self) -> None:
        """Wake the waiting thread without a batch name."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def notify(self, name: str) -> None:
        with self._condition:
            self._names.append(name)
            self._condition.notify_all()

    def wait(self, timeout_s: float) -> list[str]:
        """Names that came in; empty after the timeout."""
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
        core: LogCore,
        *,
        source: str = "arco",
        actor: str = "",
        origin: Origin | None = None,
        signal: Signal | None = None,
        attempts: int = 4,
    ) -> None:
        self._store = core.store
        self._tenant = core.manifests.tenant
        self._workspace = core.manifests.workspace
        self._clock = core.clock
        self._ids = core.ids
        self._types = core.types
        self._store_clock = core.store_clock
        self._source = source
        self._actor = actor
        self._origin = origin
        self._signal = signal
        self._attempts = attempts

    def event(
        self,
        payload: Payload,
        *,
        idempotency_key: str = "",
        actor: str = "",
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
            origin=self._origin,
        )

    def acting(self, actor: str, origin: Origin | None) -> Ledger:
        """The same log, for events of another actor."""
        ledger = copy.copy(self)
        ledger._actor, ledger._origin = actor, origin
        return ledger

    def new_batch(self) -> str:
        """A name for a batch, for a caller that may have to append it more than once."""
        return self._ids()

    def append(
        self, events: Sequence[Event | Payload], *, batch: str = "", notify: bool = True
    ) -> Receipt:
        """Make events durable. Raises Invalid, or Unappended if the outcome is unknown.

        A retry after Unappended passes the same events and its `batch`: they are in the log once,
        whatever the outcome of earlier tries. A caller that commits the events itself need not
        `notify` the compactor.
        """
        now = self._clock.now().replace(tzinfo=UTC)
        wrapped: list[Event] = []
        own: Event | None = None
        own_type: type[Payload] = Payload
        for each in events:
            if isinstance(each, Event):
                self._check_envelope(each)
                wrapped.append(each)
            elif own is None or type(each) is not own_type or each.lowest_version != own.version:
                own, own_type = self.event(each, time=now), type(each)
                self._check_envelope(own)
                wrapped.append(own)
            else:  # it differs only in its id and its data, which are valid
                wrapped.append(replace(own, id=self._ids(), data=encode_payload(each)))
        self._check_data(wrapped)
        name = batch or self._ids()
        self._put(name, encode_batch(Batch(batch=name, events=wrapped)))
        if notify and self._signal is not None:
            self._signal.notify(name)
        return Receipt(name, tuple(event.id for event in wrapped))

    def _check_envelope(self, event: Event) -> None:
        if (reason := unfit(event, self._tenant, self._workspace)) is not None:
            raise Invalid(reason)

    def _check_data(self, events: Sequence[Event]) -> None:
        for event in events:
            if (reason := oversized(event)) is not None:
                raise Invalid(reason, hint="store large values as an object and refer to it")
        try:
            self._types.payloads(events)
        except Corrupt as error:
            raise Invalid(error.message) from None

    def _put(self, name: str, raw: bytes) -> None:
        before = self._store_clock.moment()
        try:
            # FRESH: a commit that takes the batch early makes it durable itself. If the put
            # fails, it is put again, and a commit takes it once.
            self._store.put(paths.inbox(name), raw, Mode.FRESH)
        except (AlreadyExists, Unavailable) as error:
            self._settle(name, raw, error)
        else:
            self._store_clock.wrote(paths.inbox(name), before)

    def _settle(self, name: str, raw: bytes, unknown: Error) -> None:
        """Repeat the put until it is known that the batch arrived.

        No later error proves that it did not: the first put may have taken effect, or may still.
        """
        for attempt in range(1, self._attempts):
            try:
                if isinstance(unknown, AlreadyExists) and self._is_ours(name, raw):
                    return
                self._clock.sleep(0.05 * 2 ** (attempt - 1))
                self._store.put(paths.inbox(name), raw, Mode.FRESH)
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
        """Whether an earlier put of this batch is in the inbox.

        If not, it was consumed, or it never arrived: putting it again is correct in both cases,
        because a commit takes it once.
        """
        try:
            if self._store.get(paths.inbox(name)).data == raw:
                return True
            if self._store.get(paths.inbox(name)).data == raw:  # the first read may be bad
                return True
        except NotFound:
            return False
        raise Corrupt(
            f"another batch has the name {name}", hint="check this machine's source of randomness"
        )
