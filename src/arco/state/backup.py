"""Backup and restore: one complete generation on another store.

A backup is a workspace by itself: the same paths, one root manifest, and all that it refers to, the
log included. Existing files are not copied again, so a second backup to the same place copies only
new files. The root manifest is copied last: an interrupted backup is not valid yet, and the next
one completes it.

Rows refer by name to files that no manifest lists:

    artifacts/, plans/, inputs/     always copied, all of them
    data/                           copied if requested: it may be more than all the rest

They never change once they are written, so a file of the same size is the same file. They are
listed after the head was read: what its rows refer to existed before it.

Never copied: `keys/`, which are secrets; `queue/`, `liveness/` and `leases/`, which
are about processes that run now; and `logs/`, what tasks printed.

Restoring is the same in the other direction, into a place that has no workspace; the
data comes back if the backup has it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from arco.clock import SystemClock
from arco.errors import Conflict, Corrupt, NotFound
from arco.log.head import Head, Manifests
from arco.log.manifest import Floor, Hint, encode_sealed, sha256, verified
from arco.state.core import Core
from arco.state.parquet import Files
from arco.state.pins import Pins
from arco.state.replay import ReportProgress, segments, silent
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.parallel import cut_by_size, each
from arco.storage.port import Mode, Store
from arco.storage.unique_objects import put_own

ARTIFACTS = "artifacts/"
PLANS = "plans/"
DATA = ("data/", paths.COMMITS)
BY_NAME = (ARTIFACTS, PLANS, paths.INPUTS)
_BY_DIGEST = re.compile(rf"(?:{ARTIFACTS}|{paths.INPUTS}[^/]+/)([0-9a-f]{{64}})\.\w+")

BATCH_FILES = 64
BATCH_BYTES = 64 << 20
"""Files are copied through memory, several at once."""
PART_BYTES = 8 << 20
"""Maximum bytes of a larger file in memory."""


class CopyReport(msgspec.Struct, frozen=True):
    generation: int
    position: int
    copied: int
    copied_bytes: int
    present: int
    """Files that existed already."""


class _Item(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    sha256: str = ""
    """Empty if nothing has the checksum of the file."""


def back_up(
    core: Core, pins: Pins, target: Store, *, data: bool = False, progress: ReportProgress = silent
) -> CopyReport:
    """Copy the head of a workspace to `target`, which is scoped to the same workspace.

    With `data`, the data of assets is copied too. Otherwise the restored rows refer to data that is
    missing.
    """
    head = core.manifests.head()
    if head.generation == 0:
        raise NotFound("the workspace is empty; there is nothing to back up")
    pin = pins.pin(f"backup-{core.ids()}", head.generation, "backup", ttl=timedelta(days=7))
    try:
        prefixes = (*BY_NAME, *DATA) if data else BY_NAME
        return _copy(core.manifests, core.files, head, target, prefixes, progress)
    finally:
        pins.release(pin.name)


def restore(
    backup: Store, core: Core, *, generation: int | None = None, progress: ReportProgress = silent
) -> CopyReport:
    """Copy a backup (its newest generation, or the one given) into an empty workspace.

    Raises Conflict if there is a workspace already, NotFound if there is no backup.
    """
    existing = core.manifests.head()
    if existing.generation:
        raise Conflict(
            f"{core.store.url} already holds a workspace at generation {existing.generation}",
            hint="restore into an empty store",
        )
    tenant, workspace = core.manifests.tenant, core.manifests.workspace
    source = Manifests(backup, tenant, workspace, core.clock)
    head = source.head() if generation is None else source.read(generation)
    if head.generation == 0:
        raise NotFound(f"there is no backup of {tenant}/{workspace} at {backup.url}")
    return _copy(source, Files(backup), head, core.store, (*BY_NAME, *DATA), progress)


def _copy(
    source: Manifests,
    files: Files,
    head: Head,
    target: Store,
    prefixes: Sequence[str],
    progress: ReportProgress,
) -> CopyReport:
    store = source.store
    items = [*_items(source, files, head), *_named(store, prefixes)]
    places = (paths.SEGMENTS, paths.STATE, paths.MANIFESTS, *prefixes)
    present = {meta.path: meta.size for place in places for meta in target.list(place)}
    todo = [item for item in items if present.get(item.path) != item.bytes]

    def copy(item: _Item) -> None:
        if item.bytes > PART_BYTES:
            target.put_parts(item.path, _parts(store, item))
            return
        raw = store.get(item.path).data
        _check(item, sha256(raw))
        if item.path in present:
            target.put(item.path, raw, Mode.OVERWRITE)  # cut short, or damaged
        else:
            put_own(target, item.path, raw, mode=Mode.CREATE)

    total = sum(item.bytes for item in todo)
    done = 0
    for batch in cut_by_size(todo, BATCH_FILES, BATCH_BYTES):
        each(target, copy, batch)
        done += sum(item.bytes for item in batch)
        progress("copying bytes", done, total)
    _finish(store, head, target)
    return CopyReport(
        head.generation,
        head.manifest.position,
        len(todo),
        sum(item.bytes for item in todo),
        len(items) - len(todo),
    )


def _items(source: Manifests, files: Files, head: Head) -> Iterator[_Item]:
    root = head.manifest
    for ref in root.domains.values():
        yield _Item(ref.path, ref.bytes, ref.sha256)
        for table in source.domain(ref).tables.values():
            yield from (_Item(file.path, file.bytes, file.sha256) for file in table.base)
            if table.history is not None:
                listed = table.history.list
                yield _Item(listed.path, listed.bytes, listed.sha256)
                history = source.history(table.history)
                yield from (_Item(file.path, file.bytes, file.sha256) for file in history)
    for changes in root.changes:
        yield _Item(changes.path, changes.bytes, changes.sha256)
    for l0 in root.l0.values():
        yield from (_Item(file.path, file.bytes, file.sha256) for file in l0)
    for row in segments(Snapshot(source, files, head)):
        yield _Item(row.path, row.bytes, row.sha256)


def _named(store: Store, prefixes: Sequence[str]) -> Iterator[_Item]:
    """Everything under some prefixes, which rows refer to by name."""
    for prefix in prefixes:
        for meta in store.list(prefix):
            yield _Item(meta.path, meta.size)


def _parts(store: Store, item: _Item) -> Iterator[bytes]:
    """The bytes of a large file, in order. Raises Corrupt after the last if they are wrong."""
    digest = hashlib.sha256()
    for start in range(0, item.bytes, PART_BYTES):
        part = store.get_range(item.path, start, min(PART_BYTES, item.bytes - start))
        digest.update(part)
        yield part
    _check(item, digest.hexdigest())


def _check(item: _Item, digest: str) -> None:
    if item.sha256 and digest != item.sha256:
        raise Corrupt(
            f"{item.path} has checksum {digest[:12]}…, its manifest says {item.sha256[:12]}…",
            hint="the file was damaged or replaced; restore it from a backup, or rebuild",
        )
    named = _BY_DIGEST.fullmatch(item.path)
    if named is not None and digest != named[1]:
        raise Corrupt(
            f"{item.path} does not match the digest in its name", hint="delete it, and deploy again"
        )


def _finish(source: Store, head: Head, target: Store) -> None:
    path = paths.root(head.generation)
    # A later backup to the same place: the newest floor counts.
    root = head.manifest
    copy = Manifests(target, root.tenant_id, root.workspace_id, SystemClock())
    if copy.floor().generation < head.generation:
        copy.raise_floor(Floor(head.generation))
    raw = verified(source.get(path).data, head.sha256, path)
    put_own(target, path, raw, mode=Mode.CREATE)
    target.put(paths.HINT, encode_sealed(Hint(head.generation, head.sha256)), Mode.OVERWRITE)
