"""Reads batches from the inbox, and rejects objects that cannot be read.

Any process with access to the store can put objects here, and any read can fail. A batch is taken
if its checksum is correct; otherwise it is read again. An object is rejected only after two equal
reads, or by its size in the listing, without a read. A rejected object is copied as it is, under a
name of our own, so that no name, no size and no content of one object stops the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from arco.errors import Corrupt, Denied, Error, Invalid, NotFound, Unavailable
from arco.log.core import LogCore
from arco.log.envelope import MAX_BATCH_BYTES, Event, Payload, decode_batch
from arco.log.head import Head
from arco.log.manifest import decode_sealed
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import Mode, ObjectMeta, Store
from arco.storage.seal import read_checked, seal
from arco.storage.unique_objects import put_own

log = logging.getLogger(__name__)

Events = list[tuple[Event, Payload | None]]
"""With the decoded data; None where the type or version is unknown."""


class ReceivedBatch(msgspec.Struct, frozen=True):
    name: str
    received_at: datetime
    events: Events


class Rejection(msgspec.Struct, frozen=True):
    """Why an object was rejected. The object itself lies beside this record, as it was."""

    key: str
    """Names the record and the object under `ledger/rejected/`."""
    name: str
    """What the object was called in the inbox."""
    reason: str
    received_at: datetime
    bytes: int


class InboxBatches(msgspec.Struct, frozen=True):
    batches: list[ReceivedBatch]
    rejections: list[Rejection]
    leftovers: tuple[str, ...]
    """Consumed by earlier commits and still there."""
    more: bool = False
    """Whether batches were left for the next commit."""


class _Listing(msgspec.Struct, frozen=True):
    fresh: dict[str, ObjectMeta]
    """Not consumed by earlier commits, as far as the head tells."""
    leftovers: tuple[str, ...]
    stopped_at: str
    """The last path that was looked at; empty if everything was."""


class CommitLimits(msgspec.Struct, frozen=True):
    """How much one commit takes; the rest waits for the next one."""

    batches: int = 2_000
    bytes: int = 8 << 20


class Inbox:
    def __init__(self, core: LogCore, *, limits: CommitLimits | None = None) -> None:
        self._store = core.store
        self._types = core.types
        self._store_clock = core.store_clock
        self._limits = limits or CommitLimits()
        self._complaints: set[str] = set()

    def take(self, head: Head, names: Sequence[str] = ()) -> InboxBatches:
        """Read unconsumed batches. The head must have been read before this is called.

        `names` come first, so that a batch with a waiting caller does not queue behind many others.
        """
        pending = {*head.manifest.consumed, *head.manifest.pending_cleanup}
        listing = self._listed(pending)
        # A name may come twice; a batch must not.
        first = dict.fromkeys(name for name in names if name not in pending)
        requested = {name: meta for name in first if (meta := listing.fresh.get(name)) is not None}
        if listing.stopped_at:
            beyond = [name for name in first if name not in requested]
            requested |= dict(filter(None, each(self._store, self._read_meta, beyond)))
        ordered = [*requested.values()]
        ordered += [meta for name, meta in listing.fresh.items() if name not in requested]
        chosen = self._within_limits(ordered)
        more = bool(listing.stopped_at) or len(chosen) < len(ordered)
        return self._read(head, chosen, listing.leftovers, more=more)

    def _listed(self, pending: set[str]) -> _Listing:
        """The batches for one commit: a very full inbox is not listed completely."""
        fresh: dict[str, ObjectMeta] = {}
        present: set[str] = set()
        count = size = 0
        for meta in self._store.list(paths.INBOX):
            if not meta.path.endswith(".json"):
                continue
            name = paths.inbox_name(meta.path)
            self._store_clock.listed(meta.path, meta.last_modified)
            if name in pending:
                present.add(name)
                continue
            fresh[name] = meta
            if name in self._complaints:
                continue  # it stays in the inbox, and must not hide later batches
            count += 1
            size += meta.size if meta.size <= MAX_BATCH_BYTES else 0
            if count > self._limits.batches or size > self._limits.bytes + MAX_BATCH_BYTES:
                # Whether later ones were deleted is unknown.
                unseen = {name for name in pending if paths.inbox(name) > meta.path}
                return _Listing(fresh, tuple(sorted(present | unseen)), meta.path)
        return _Listing(fresh, tuple(sorted(present)), "")

    def _read_meta(self, name: str) -> tuple[str, ObjectMeta] | None:
        try:
            return name, self._store.head(paths.inbox(name))
        except NotFound:
            return None  # another committer took it

    def _within_limits(self, metas: Iterable[ObjectMeta]) -> list[ObjectMeta]:
        chosen: list[ObjectMeta] = []
        total = 0
        for meta in metas:
            # What is larger than any batch is rejected unread, and takes no memory.
            total += meta.size if meta.size <= MAX_BATCH_BYTES else 0
            if chosen and (len(chosen) >= self._limits.batches or total > self._limits.bytes):
                break
            chosen.append(meta)
        return chosen

    def _read(
        self, head: Head, metas: list[ObjectMeta], leftovers: tuple[str, ...], *, more: bool
    ) -> InboxBatches:
        inbox = InboxBatches([], [], leftovers, more)
        unread: Unavailable | None = None

        def read(meta: ObjectMeta) -> ReceivedBatch | Rejection | Unavailable | None:
            return self._one(head, meta)

        for result in each(self._store, read, metas):
            match result:
                case ReceivedBatch():
                    inbox.batches.append(result)
                case Rejection():
                    inbox.rejections.append(result)
                case Unavailable():
                    unread = result
        if unread is not None and not inbox.batches and not inbox.rejections:
            raise unread
        return inbox if unread is None else msgspec.structs.replace(inbox, more=True)

    def _one(self, head: Head, meta: ObjectMeta) -> ReceivedBatch | Rejection | Unavailable | None:
        name = paths.inbox_name(meta.path)
        try:
            if meta.size > MAX_BATCH_BYTES:
                raise Corrupt(f"{meta.size} bytes; the limit is {MAX_BATCH_BYTES}")
            events = self._events(head, name, meta)
        except NotFound:
            return None  # another committer took and deleted it: our head is stale
        except Unavailable as error:
            return error  # it waits for the next commit; the others need not
        except Corrupt as error:
            return self._set_aside(_rejection(name, meta, error.message))
        except (Invalid, Denied) as error:
            self._complain(name, f"cannot be read: {error}")
            return None
        return ReceivedBatch(name, meta.last_modified, events)

    def _events(self, head: Head, name: str, meta: ObjectMeta) -> Events:
        """The events of a batch. Raises Unavailable if what was read is not the object.

        The listing has its size: an empty answer and an error page are bad reads, not a bad object.
        """
        size = -1

        def parse(raw: bytes) -> Events:
            nonlocal size
            size = len(raw)
            return self._decode(head, name, raw)

        try:
            return read_checked(self._store, meta.path, parse)
        except Corrupt:
            if size == meta.size:
                raise
            message = f"{meta.path}: {size} bytes were read, and {meta.size} are listed"
            raise Unavailable(message, hint="the connection to the store is unreliable") from None

    def _complain(self, name: str, problem: str) -> None:
        """Log once for each object."""
        if name not in self._complaints and len(self._complaints) < 100_000:
            self._complaints.add(name)
            log.error("%r in the inbox %s; it stays there", name[:200], problem)

    def _decode(self, head: Head, name: str, raw: bytes) -> Events:
        batch = decode_batch(raw, head.manifest.tenant_id, head.manifest.workspace_id, name)
        return list(zip(batch.events, self._types.payloads(batch.events), strict=True))

    def _set_aside(self, rejection: Rejection) -> Rejection | None:
        """Copy a rejected object. One that cannot be copied stays in the inbox."""
        try:
            self._store.copy(paths.inbox(rejection.name), paths.rejected_object(rejection.key))
            record = seal(msgspec.json.encode(rejection))
            # An earlier attempt may have copied it already, with another reason.
            with contextlib.suppress(Corrupt):
                put_own(self._store, paths.rejection(rejection.key), record, mode=Mode.CREATE)
        except NotFound:
            return None  # another committer has rejected it
        except Error as error:
            self._complain(rejection.name, f"cannot be moved to the rejected objects: {error}")
            return None
        return rejection


def _rejection(name: str, meta: ObjectMeta, reason: str) -> Rejection:
    identity = f"{name}\n{meta.size}\n{meta.last_modified.isoformat()}"
    key = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:16]
    return Rejection(key, name, reason, meta.last_modified, meta.size)


def read_rejection(store: Store, path: str) -> Rejection:
    """The record of a rejected object. Raises NotFound."""
    return read_checked(store, path, lambda raw: decode_sealed(raw, Rejection, path))
