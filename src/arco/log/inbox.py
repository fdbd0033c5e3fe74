"""Taking batches out of the inbox, and setting aside what cannot be read."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from arco.errors import AlreadyExists, Corrupt, Invalid, NotFound, Unavailable
from arco.log.envelope import Event, EventTypes, Payload, decode_batch
from arco.log.head import Head
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import Object, ObjectMeta, Store

log = logging.getLogger(__name__)


class ReceivedBatch(msgspec.Struct, frozen=True):
    name: str
    received_at: datetime
    events: list[tuple[Event, Payload | None]]
    """With the decoded data; None where the type or version is unknown."""


class Rejection(msgspec.Struct, frozen=True):
    """A batch that cannot be read: kept under `ledger/rejected/`, whole, with the reason."""

    name: str
    reason: str
    received_at: datetime
    body: bytes


class Taken(msgspec.Struct, frozen=True):
    batches: list[ReceivedBatch]
    rejections: list[Rejection]
    leftovers: tuple[str, ...]
    """Consumed by earlier commits and still there."""
    more: bool = False
    """Whether batches were left for the next commit."""


class Limits(msgspec.Struct, frozen=True):
    """How much one commit takes; the rest waits for the next one."""

    batches: int = 2_000
    bytes: int = 8 << 20


class Inbox:
    def __init__(self, store: Store, types: EventTypes, *, limits: Limits | None = None) -> None:
        self._store = store
        self._types = types
        self._limits = limits or Limits()

    def take(self, head: Head, names: Sequence[str] = ()) -> Taken:
        """Read unconsumed batches. The head must have been read before this is called.

        `names` come first, so that a batch somebody waits for does not queue
        behind a flood.
        """
        pending = set(head.manifest.pending_cleanup)
        listed = self._store.list(paths.INBOX)
        present = {
            paths.inbox_name(meta.path): meta for meta in listed if meta.path.endswith(".json")
        }
        # Notifications may come twice; a batch must not.
        first = dict.fromkeys(name for name in names if name in present)
        wanted = [present[name] for name in first]
        wanted += [meta for name, meta in present.items() if name not in first]
        fresh = [meta for meta in wanted if paths.inbox_name(meta.path) not in pending]
        leftovers = tuple(sorted(pending & present.keys()))
        chosen = self._within_limits(fresh)
        return self._read(head, chosen, leftovers, more=len(chosen) < len(fresh))

    def _within_limits(self, metas: Iterable[ObjectMeta]) -> list[ObjectMeta]:
        chosen: list[ObjectMeta] = []
        total = 0
        for meta in metas:
            total += meta.size
            if chosen and (len(chosen) >= self._limits.batches or total > self._limits.bytes):
                break
            chosen.append(meta)
        return chosen

    def _read(
        self, head: Head, metas: list[ObjectMeta], leftovers: tuple[str, ...], *, more: bool
    ) -> Taken:
        taken = Taken([], [], leftovers, more)
        unread: Unavailable | None = None
        for meta, found in zip(metas, each(self._store, self._get, metas), strict=True):
            if found is None:
                continue  # see `_get`
            if isinstance(found, Unavailable):
                unread = found
                continue
            name, received_at = paths.inbox_name(meta.path), found.meta.last_modified
            try:
                events = self._decode(head, found.data)
                taken.batches.append(ReceivedBatch(name, received_at, events))
            except Corrupt as error:
                taken.rejections.append(Rejection(name, error.message, received_at, found.data))
        if unread is not None and not taken.batches and not taken.rejections:
            raise unread
        return taken if unread is None else msgspec.structs.replace(taken, more=True)

    def _get(self, meta: ObjectMeta) -> Object | Unavailable | None:
        try:
            return self._store.get(meta.path)
        except NotFound:
            return None  # another committer took and deleted it: our head is stale
        except Unavailable as error:
            return error  # it waits for the next commit; the others need not
        except Invalid:
            log.warning("%r lies in the inbox and cannot be the name of a batch", meta.path)
            return None

    def _decode(self, head: Head, raw: bytes) -> list[tuple[Event, Payload | None]]:
        batch = decode_batch(raw, head.manifest.tenant_id, head.manifest.workspace_id)
        decode = self._types.decode
        return [(e, decode(e.type, e.version, e.data)) for e in batch.events]

    def set_aside(self, rejections: Sequence[Rejection]) -> None:
        for rejection in rejections:
            # An attempt before this one may have set it aside already.
            with contextlib.suppress(AlreadyExists):
                self._store.put(paths.rejected(rejection.name), msgspec.json.encode(rejection))
