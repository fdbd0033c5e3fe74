"""The objects that readers of a workspace need.

With these a program reads a workspace as if it had the store: `ARCO_API` makes `servo` do that.
Manifests, files of tables, plans, declared code and logs of attempts are among them; the log,
keys, leases, queues and data are not. Without the permissions for keys, roles and the audit log,
manifests and change files come without those tables. A caller with a role on some namespaces gets
no tables, and only the visible part of other objects (`visible_objects.py`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from arco.api.routes import AtParameters, read
from arco.api.row_visibility import RowVisibility
from arco.api.views import View
from arco.api.visible_objects import VisibleObjects
from arco.errors import NotFound
from arco.log.manifest import ChangesRef, RootManifest, encode_sealed, sha256
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.state import changes
from arco.storage import paths
from arco.storage.keys import past_the_end
from arco.storage.port import ObjectMeta, Store
from arco.storage.seal import unseal

PERMISSION: Final = Permission.ASSETS_READ
"""For who has this alone there are generations. The rest takes `runs.read`, and files of tables
`metadata.read_all` too."""
SECURITY: Final = "security"
_SHOWN: Final = (
    paths.MANIFESTS,
    paths.STATE,
    paths.LOGS,
    paths.INPUTS,
    paths.LIVENESS,
    "plans/",
)
_NAMED: Final = (*_SHOWN, "artifacts/", paths.QUEUE)
"""Listed, though not all of it can be read."""
_HIDDEN: Final = (f"{paths.MANIFESTS}{SECURITY}/", f"{paths.STATE}{SECURITY}/")
_CHANGES: Final = f"{paths.STATE}changes/"
LISTED: Final = 1_000
KEPT_BYTES: Final = 32 << 20


def is_readable(path: str, *, see_all: bool) -> bool:
    """`see_all`: also of keys, roles and the audit log."""
    if path.startswith("artifacts/"):
        return path.endswith(".json")
    return path.startswith(_SHOWN) and (see_all or not path.startswith(_HIDDEN))


class ObjectsParameters(AtParameters, frozen=True, kw_only=True):
    prefix: Annotated[str, Meta(min_length=1, max_length=500, description="The prefix of paths.")]
    start_after: Annotated[str, Meta(max_length=500, description="Only paths after this.")] = ""


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size: int
    last_modified: datetime


class ObjectsBody(msgspec.Struct, frozen=True, kw_only=True):
    objects: list[StoredObject]
    truncated: bool
    """There are more: ask for those after the last one."""


def list_stored_objects(view: View, visible: Visible, parameters: ObjectsParameters) -> ObjectsBody:
    """List objects of the store that readers of the workspace need, in the order of their paths."""
    listed: list[StoredObject] = []
    for meta in _metas(view, parameters.prefix, parameters.start_after or None):
        if len(listed) == LISTED:
            return ObjectsBody(objects=listed, truncated=True)
        listed.append(
            StoredObject(path=meta.path, size=meta.size, last_modified=meta.last_modified)
        )
    return ObjectsBody(objects=listed, truncated=False)


def _metas(view: View, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    if not view.sees_objects:
        yield from VisibleObjects(RowVisibility(view, view.sees_runs_of)).list(prefix, start_after)
        return
    if not prefix.startswith(_NAMED):
        raise NotFound(f"objects that begin with {prefix} are not available")
    for meta in view.store.list(prefix, start_after):
        if view.sees_security or not meta.path.startswith(_HIDDEN):
            yield meta


class ShownObjects:
    """The objects as a caller may read them. Computed ones are cached, within bounds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, path: str, *, see_all: bool) -> bytes:
        """Raises NotFound for objects that are not shown, as for missing ones."""
        if not is_readable(path, see_all=see_all):
            raise NotFound(f"{path} does not exist")
        if see_all or not _is_redacted(path):
            return self._store.get(path).data
        make = self._changes if path.startswith(_CHANGES) else self._root
        return self._once(path, make)

    def part(self, path: str, start: int, length: int, *, see_all: bool) -> bytes:
        if not is_readable(path, see_all=see_all):
            raise NotFound(f"{path} does not exist")
        if not see_all and _is_redacted(path):
            return part_of(path, self.get(path, see_all=see_all), start, length)
        return self._store.get_range(path, start, length)

    def _root(self, path: str) -> bytes:
        """A root manifest without tables of security, sealed again."""
        root = msgspec.json.decode(unseal(self._store.get(path).data, path), type=RootManifest)
        redacted = msgspec.structs.replace(
            root,
            changes=tuple(self._changes_ref(ref) for ref in root.changes if _others(ref)),
            l0={name: refs for name, refs in root.l0.items() if not _is_hidden(name)},
            domains={name: ref for name, ref in root.domains.items() if name != SECURITY},
            consumed=(),
            rejected=(),
            pending_cleanup=(),
            segment=None,
        )
        return encode_sealed(redacted)

    def _changes_ref(self, ref: ChangesRef) -> ChangesRef:
        others = _others(ref)
        if len(others) == len(ref.tables):
            return ref
        raw = self._once(ref.path, self._changes)
        return msgspec.structs.replace(ref, bytes=len(raw), sha256=sha256(raw), tables=others)

    def _changes(self, path: str) -> bytes:
        """A change file without rows of security; itself if it has none."""
        raw = self._store.get(path).data
        batch = changes.parse(raw, path)
        hidden = pc.starts_with(batch.column("table"), f"{SECURITY}.")
        if not pc.any(hidden).as_py():
            return raw
        return changes.encoded(pa.Table.from_batches([batch.filter(pc.invert(hidden))]))

    def _once(self, path: str, make: Callable[[str], bytes]) -> bytes:
        with self._lock:
            if (cached := self._cache.get(path)) is not None:
                self._cache.move_to_end(path)
                return cached
        raw = make(path)
        with self._lock:
            self._bytes += len(raw) - len(self._cache.pop(path, b""))
            self._cache[path] = raw
            while self._bytes > KEPT_BYTES and len(self._cache) > 1:
                self._bytes -= len(self._cache.popitem(last=False)[1])
        return raw


def part_of(path: str, raw: bytes, start: int, length: int) -> bytes:
    """Some bytes of an object that the server makes."""
    if start + length > len(raw):
        raise past_the_end(path, start, length, len(raw))
    return raw[start : start + length]


def _is_redacted(path: str) -> bool:
    """Whether an object may contain keys, roles or the audit log besides other things."""
    return path.startswith(_CHANGES) or paths.root_generation(path) is not None


def _others(ref: ChangesRef) -> dict[str, Any]:
    return {name: table for name, table in ref.tables.items() if not _is_hidden(name)}


def _is_hidden(table: str) -> bool:
    return table.startswith(f"{SECURITY}.")


ROUTES = (read("/objects", PERMISSION, list_stored_objects, live=True),)
