"""Backup and restore: one generation, whole, on another store.

A backup is a workspace by itself: the same paths, one root manifest, and all that
it refers to, the log included. What is there already is not copied again, so a
second backup to the same place copies what is new. The root manifest goes last:
a backup that was cut short is no backup yet, and the next one finishes it.

Restoring is the same in the other direction, into a place that has no workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from arco.clock import Clock
from arco.errors import AlreadyExists, Conflict, Corrupt, NotFound
from arco.log.head import Head, Manifests
from arco.log.manifest import Floor, Hint, encode, verified
from arco.state.parquet import Files
from arco.state.pins import Pins
from arco.state.replay import Progress, segments, silent
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import Mode, Store


class CopyReport(msgspec.Struct, frozen=True):
    generation: int
    position: int
    copied: int
    copied_bytes: int
    present: int
    """Files that were there already."""


class _Item(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    sha256: str


def back_up(
    source: Manifests,
    files: Files,
    pins: Pins,
    target: Store,
    *,
    nonce: str,
    progress: Progress = silent,
) -> CopyReport:
    """Copy the head of a workspace to `target`, which is scoped to the same workspace."""
    head = source.head()
    if head.generation == 0:
        raise NotFound("there is nothing to back up: the workspace is empty")
    pin = pins.pin(f"backup-{nonce}", head.generation, "backup", ttl=timedelta(days=7))
    try:
        return _copy(source, files, head, target, progress)
    finally:
        pins.release(pin.name)


def restore(
    backup: Store,
    target: Store,
    tenant: str,
    workspace: str,
    clock: Clock,
    *,
    generation: int | None = None,
    progress: Progress = silent,
) -> CopyReport:
    """Copy a backup (its newest generation, or the one given) into an empty place.

    Raises Conflict if there is a workspace already, NotFound if there is no backup.
    """
    existing = Manifests(target, tenant, workspace, clock).head()
    if existing.generation:
        raise Conflict(
            f"{target.url} already holds a workspace at generation {existing.generation}",
            hint="restore into an empty place",
        )
    source = Manifests(backup, tenant, workspace, clock)
    head = source.head() if generation is None else source.read(generation)
    if head.generation == 0:
        raise NotFound(f"there is no backup of {tenant}/{workspace} at {backup.url}")
    return _copy(source, Files(backup), head, target, progress)


def _copy(
    source: Manifests, files: Files, head: Head, target: Store, progress: Progress
) -> CopyReport:
    items = list(_items(source, files, head))
    present = {
        meta.path: meta.size for p in ("ledger/", "state/", "manifests/") for meta in target.list(p)
    }
    todo = [item for item in items if present.get(item.path) != item.bytes]
    store = source.store

    def copy(item: _Item) -> None:
        raw = verified(store.get(item.path).data, item.sha256, item.path)
        if item.path in present:
            target.put(item.path, raw, Mode.OVERWRITE)  # cut short, or damaged
        else:
            _create(target, item.path, raw)

    for start in range(0, len(todo), 64):
        each(target, copy, todo[start : start + 64])
        progress("copying", min(start + 64, len(todo)), len(todo))
    _finish(store, head, target)
    return CopyReport(
        head.generation,
        head.manifest.position,
        len(todo),
        sum(item.bytes for item in todo),
        len(items) - len(todo),
    )


def _items(source: Manifests, files: Files, head: Head) -> Iterator[_Item]:
    for ref in head.manifest.domains.values():
        yield _Item(ref.path, ref.bytes, ref.sha256)
        for table in source.domain(ref).tables.values():
            for file in table.files():
                yield _Item(file.path, file.bytes, file.sha256)
    for row in segments(Snapshot(source, files, head)):
        yield _Item(row.path, row.bytes, row.sha256)


def _finish(source: Store, head: Head, target: Store) -> None:
    path = paths.root(head.generation)
    target.put(paths.FLOOR, encode(Floor(head.generation)), Mode.OVERWRITE)
    _create(target, path, verified(source.get(path).data, head.sha256, path))
    target.put(paths.HINT, encode(Hint(head.generation, head.sha256)), Mode.OVERWRITE)


def _create(target: Store, path: str, raw: bytes) -> None:
    """Create, or find the very same bytes there."""
    try:
        target.put(path, raw)
    except AlreadyExists:
        if target.get(path).data != raw:
            raise Corrupt(f"{target.url}/{path} holds something else") from None
