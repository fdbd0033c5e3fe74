"""What is new under a prefix of an object store.

The cursor holds a digest of each object that was seen: its path, size and time. So an object that
becomes visible late, with an old time, is found too. Of the digests the newest are kept (`KEPT`,
and up to twice as many); objects that are older than all of these count as seen. An object that was
deleted is forgotten.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from arco.storage.port import ObjectMeta, Store
from servo.sensor import SensorFile

AT_A_TIME: Final = 1_000
KEPT: Final = 5_000
_DIGEST: Final = 8


class SeenFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cursor of a file sensor."""

    seen: str = ""
    """Digests, one after the other, in base64."""
    floor: datetime | None = None
    """Objects that are not newer count as seen."""

    @property
    def digests(self) -> set[bytes]:
        raw = base64.b64decode(self.seen)
        return {raw[at : at + _DIGEST] for at in range(0, len(raw), _DIGEST)}


class NewFiles(NamedTuple):
    files: tuple[SensorFile, ...]
    """The oldest first."""
    cursor: str
    more: bool


class _Listed(NamedTuple):
    modified: datetime
    path: str
    size: int
    digest: bytes


def new_files(store: Store, cursor: str, *, pattern: str, existing: bool) -> NewFiles:
    """Raises errors of the store, and ValueError for an invalid cursor."""
    if not cursor and not existing:
        newest = heapq.nlargest(2 * KEPT + 1, _listed(store, pattern, None))
        return NewFiles((), _cursor(newest, None, None), False)
    before = msgspec.json.decode(cursor, type=SeenFiles) if cursor else SeenFiles()
    digests = before.digests
    seen: list[_Listed] = []

    def unseen() -> Iterator[_Listed]:
        for listed in _listed(store, pattern, before.floor):
            if listed.digest in digests:
                seen.append(listed)
            else:
                yield listed

    new = heapq.nsmallest(AT_A_TIME + 1, unseen())
    page, remaining = new[:AT_A_TIME], new[AT_A_TIME:]
    next_cursor = _cursor(
        [*seen, *page], before.floor, remaining[0].modified if remaining else None
    )
    files = tuple(
        SensorFile(each.path, each.size, each.modified, f"{store.url.rstrip('/')}/{each.path}")
        for each in page
    )
    if not files:  # deleted objects are no reason to change the cursor
        next_cursor = cursor or next_cursor
    return NewFiles(files, next_cursor, bool(remaining))


def request_key(files: tuple[SensorFile, ...]) -> str:
    """The key of the one run for these files."""
    if len(files) == 1:
        key = f"{files[0].path}@{files[0].modified.isoformat()}"
        if len(key.encode()) <= 200 and key.isprintable():
            return key
    text = "\n".join(f"{each.path} {each.size} {each.modified}" for each in files)
    count = f"{len(files)} file{'s' if len(files) > 1 else ''}"
    return f"{count} {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _listed(store: Store, pattern: str, floor: datetime | None) -> Iterator[_Listed]:
    for meta in store.list(""):
        if pattern and not fnmatch.fnmatchcase(meta.path, pattern):
            continue
        if floor is None or meta.last_modified > floor:
            yield _Listed(meta.last_modified, meta.path, meta.size, _digest(meta))


def _digest(meta: ObjectMeta) -> bytes:
    text = f"{meta.path}\n{meta.size}\n{meta.last_modified.isoformat()}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_DIGEST]


def _cursor(seen: list[_Listed], floor: datetime | None, unseen: datetime | None) -> str:
    """`unseen`: the time of the oldest object that was not returned yet."""
    if len(seen) > 2 * KEPT:
        newest = heapq.nlargest(KEPT, seen)
        floor = newest[-1].modified
        if unseen is not None:
            floor = min(floor, unseen - timedelta(microseconds=1))
        seen = [each for each in newest if each.modified > floor]
    raw = b"".join(sorted({each.digest for each in seen}))
    after = SeenFiles(base64.b64encode(raw).decode(), floor)
    return msgspec.json.encode(after).decode()
