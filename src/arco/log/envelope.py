"""Events and batches, as they are sent and stored.

A *batch* is what one append puts into the inbox: a JSON object with 1..n
events, the batch's own name, and a checksum. An *event* is an envelope
(CloudEvents' attributes and ours) around `data`, whose shape is known from `type` and `version`.

Evolution: fields are only ever added, with defaults, and the version goes up.
One struct therefore reads every version up to its own, and an event has the lowest
version that can read it. Types and versions that
this program does not know stay in the log and are skipped by the fold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec

from arco.errors import Corrupt, Invalid
from arco.storage.seal import seal, unseal

BATCH_FORMAT = 2
"""2: sealed, see `arco.storage.seal`."""
MAX_BATCH_EVENTS = 10_000
MAX_BATCH_BYTES = 8 << 20
MAX_EVENT_BYTES = 1 << 20
MAX_TEXT_BYTES = 1 << 10
"""Of ids, keys and names in an envelope."""
MAX_VERSION = (1 << 31) - 1


class Payload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The `data` of one type of event. Subclasses set TYPE, and VERSION as they grow.

    A command is a payload that the fold may refuse, and that is applied once
    for each idempotency key; anything else is a fact.
    """

    TYPE: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1
    COMMAND: ClassVar[bool] = False

    @property
    def lowest_version(self) -> int:
        """The lowest version that reads this payload correctly; it is written with this version.

        A reader skips versions above its own. A payload that has none of the newer fields
        is therefore written with the older version, which programs of before still read.
        """
        return self.VERSION


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The request that an event comes from, as the API saw it; for the audit log alone."""

    kind: str = ""
    """Of its caller: user, api_key, service, worker."""
    caller_id: str = ""
    email: str = ""
    request_id: str = ""
    address: str = ""
    user_agent: str = ""


Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_BYTES)]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    id: Text
    type: Text
    version: Annotated[int, msgspec.Meta(ge=1, le=MAX_VERSION)] = 1
    time: datetime
    """The producer's clock: information only. Nothing is decided by it."""
    source: Text
    tenant_id: str
    workspace_id: str
    idempotency_key: Text = ""
    """Empty means: the event's own id."""
    correlation_id: Text | None = None
    causation_id: Text | None = None
    actor: Text = ""
    traceparent: Text | None = None
    data: msgspec.Raw
    origin: Origin | None = None
    """None: a process with access to the store appended it by itself."""

    @property
    def key(self) -> str:
        return self.idempotency_key or self.id


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    format: int = BATCH_FORMAT
    batch: str
    events: list[Event]


_encoder = msgspec.json.Encoder()
_batches = msgspec.json.Decoder(Batch)


def encode_payload(payload: Payload) -> msgspec.Raw:
    try:
        return msgspec.Raw(_encoder.encode(payload))
    except UnicodeEncodeError as error:
        raise Invalid(f"{payload.TYPE} has text that UTF-8 cannot hold: {error}") from None


def encode_batch(batch: Batch) -> bytes:
    if not batch.events:
        raise Invalid("a batch needs at least one event")
    if len(batch.events) > MAX_BATCH_EVENTS:
        raise Invalid(
            f"batch {batch.batch} has {len(batch.events)} events; the limit is {MAX_BATCH_EVENTS}",
            hint="append it in several batches",
        )
    raw = seal(_encoder.encode(batch))
    if len(raw) > MAX_BATCH_BYTES:
        raise Invalid(
            f"batch {batch.batch} has {len(raw)} bytes; the limit is {MAX_BATCH_BYTES}",
            hint="append it in several batches",
        )
    return raw


def decode_batch(raw: bytes, tenant: str, workspace: str, name: str) -> Batch:
    """Parse the inbox object `name`, whoever wrote it. Raises Corrupt with the reason."""
    try:
        # `data` is not looked into, and must be text all the same.
        batch = _batches.decode(unseal(raw, "this object").decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Corrupt(f"not a batch of events: {error}") from None
    if batch.format != BATCH_FORMAT:
        raise Corrupt(f"batch format {batch.format}; this program reads {BATCH_FORMAT}")
    if batch.batch != name:
        raise Corrupt(f"this is batch {batch.batch[:100]!r}, stored under another name")
    if not 0 < len(batch.events) <= MAX_BATCH_EVENTS:
        raise Corrupt(f"{len(batch.events)} events; between 1 and {MAX_BATCH_EVENTS} are allowed")
    plain = raw.isascii() and b"\\u" not in raw
    for event in batch.events:
        if reason := unfit(event, tenant, workspace, plain=plain) or oversized(event):
            raise Corrupt(reason)
    return batch


def unfit(event: Event, tenant: str, workspace: str, *, plain: bool = False) -> str | None:
    """Why the log of a workspace cannot hold an event's envelope; None if it can.

    A value that a column of the log cannot hold would fail every later commit. `plain`: it was
    decoded from ASCII without escapes. Then its texts are not checked again, which would take
    longer than the decoding: the decoder has counted their characters. It has not for `origin`.
    """
    if event.tenant_id != tenant or event.workspace_id != workspace:
        return (
            f"event {event.id[:100]!r} belongs to {event.tenant_id[:100]}/"
            f"{event.workspace_id[:100]}, not to {tenant}/{workspace}"
        )
    if not event.id or not event.type:
        return f"event {event.id[:100]!r} has no id or no type"
    if not (plain and event.origin is None) and (field := _overlong(event, plain)) is not None:
        return (
            f"event {event.id[:100]!r}: {field} has text that UTF-8 cannot hold, or more than "
            f"{MAX_TEXT_BYTES} bytes of it"
        )
    if not 1 <= event.version <= MAX_VERSION or not 1 < event.time.year < 9999:
        return f"event {event.id}: version {event.version} or time is out of range"
    return None


def oversized(event: Event) -> str | None:
    """Why the log cannot hold an event's data; None if it can."""
    if len(event.data) <= MAX_EVENT_BYTES:
        return None
    return (
        f"event {event.id} ({event.type}) has {len(event.data)} bytes of data; "
        f"the limit is {MAX_EVENT_BYTES}"
    )


def _overlong(event: Event, plain: bool) -> str | None:
    """The first text field that is not UTF-8, or longer than MAX_TEXT_BYTES."""
    if event.origin is not None:
        origin = msgspec.structs.asdict(event.origin)
        for field, value in origin.items():
            if _is_overlong(value):
                return f"origin.{field}"
    if plain:
        return None
    texts = (
        f"{event.id}{event.type}{event.source}{event.idempotency_key}{event.correlation_id}"
        f"{event.causation_id}{event.actor}{event.traceparent}"
    )
    if len(texts) <= MAX_TEXT_BYTES and texts.isascii():  # all of them at once
        return None
    for field in _TEXT_FIELDS:
        value = getattr(event, field)
        if value is not None and _is_overlong(value):
            return field
    return None


def _is_overlong(text: str) -> bool:
    if text.isascii():
        return len(text) > MAX_TEXT_BYTES
    try:
        return len(text.encode()) > MAX_TEXT_BYTES
    except UnicodeEncodeError:
        return True


_TEXT_FIELDS = (
    "id",
    "type",
    "source",
    "idempotency_key",
    "correlation_id",
    "causation_id",
    "actor",
    "traceparent",
)


_making_decoders = threading.Lock()
"""msgspec crashes if two threads make the first decoders of a struct at the same time."""


class EventTypes:
    """The event types that this program knows, by name."""

    def __init__(self, payloads: Iterable[type[Payload]]) -> None:
        self._types: dict[str, type[Payload]] = {}
        for payload in payloads:
            if self._types.setdefault(payload.TYPE, payload) is not payload:
                raise Invalid(f"two payloads have the type {payload.TYPE!r}")
        with _making_decoders:
            self._decoders: dict[str, Callable[[bytes | msgspec.Raw], Any]] = {
                name: msgspec.json.Decoder(payload).decode for name, payload in self._types.items()
            }

    def decode(self, type_: str, version: int, data: bytes | msgspec.Raw) -> Payload | None:
        """The typed payload; None for an unknown type or version. Raises Corrupt."""
        payload = self._types.get(type_)
        if payload is None or version > payload.VERSION:
            return None
        try:
            return self._decoders[type_](data)  # type: ignore[no-any-return]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"data of {type_} version {version}: {error}") from None

    def payloads(self, events: Sequence[Event]) -> list[Payload | None]:
        """`decode` for many events, most of which are of the same type. Raises Corrupt."""
        decoded: list[Payload | None] = []
        at: tuple[str, int] | None = None
        decode: Callable[[msgspec.Raw], Any] = _unknown
        event: Event | None = None
        try:
            for event in events:
                if (event.type, event.version) != at:
                    at = event.type, event.version
                    payload = self._types.get(event.type)
                    is_readable = payload is not None and event.version <= payload.VERSION
                    decode = self._decoders[event.type] if is_readable else _unknown
                decoded.append(decode(event.data))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            assert event is not None
            raise Corrupt(
                f"event {event.id}: data of {event.type} version {event.version}: {error}"
            ) from None
        return decoded


def _unknown(data: msgspec.Raw) -> None:
    """The payload for data of an unknown type or version."""


def make_event(
    payload: Payload,
    *,
    id: str,
    time: datetime,
    source: str,
    tenant: str,
    workspace: str,
    idempotency_key: str = "",
    actor: str = "",
    origin: Origin | None = None,
) -> Event:
    return Event(
        id=id,
        type=payload.TYPE,
        version=payload.lowest_version,
        time=time if time.tzinfo else time.replace(tzinfo=UTC),
        source=source,
        tenant_id=tenant,
        workspace_id=workspace,
        idempotency_key=idempotency_key,
        actor=actor,
        data=encode_payload(payload),
        origin=origin,
    )


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event with its position in the log, for folds.

    `received_at` is the log's own time: the store's last-modified of the batch,
    never earlier than that of the position before. It is the only time a fold
    may use.
    """

    position: int
    received_at: datetime
    event: Event
    payload: Payload | None
