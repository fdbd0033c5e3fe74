"""One workspace's part of a store. All other packages use this.

No path given to a `ScopedStore`, plain or encoded, can name an object outside its
`{tenant}/{workspace}/`, and no result shows one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from arco.errors import Corrupt, Invalid
from arco.storage import keys
from arco.storage.port import Mode, Object, ObjectMeta, Store

if TYPE_CHECKING:
    from arco.storage.cloud import Option, SignedPut

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class ScopedStore:
    """Paths, given and returned, are relative to the workspace."""

    def __init__(self, store: Store, tenant: str, workspace: str) -> None:
        for what, name in (("tenant", tenant), ("workspace", workspace)):
            if _ID.fullmatch(name) is None:
                raise Invalid(
                    f"{name[:100]!r} cannot name a {what}",
                    hint="use up to 63 of a-z, 0-9, '-' and '_', a letter or a digit first",
                )
        self.tenant = tenant
        self.workspace = workspace
        self._store = store
        self._prefix = f"{tenant}/{workspace}/"

    @property
    def parallelism(self) -> int:
        return self._store.parallelism

    @property
    def url(self) -> str:
        """The workspace's own; `{url}/{path}` names an object for Spark and for people."""
        return f"{self._store.url.rstrip('/')}/{self.tenant}/{self.workspace}"

    @property
    def options(self) -> dict[str, Option]:
        """With `url`, all that `open_store` needs in another process. May hold secrets."""
        return dict(getattr(self._store, "options", {}))

    def get(self, path: str) -> Object:
        stored = self._store.get(self._whole(path))
        return Object(stored.data, self._relative(stored.meta))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._store.get_range(self._whole(path), start, length)

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        self._store.put(self._whole(path), data, mode)

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        self._store.put_parts(self._whole(path), parts)

    def head(self, path: str) -> ObjectMeta:
        return self._relative(self._store.head(self._whole(path)))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        keys.check_scoped_prefix(prefix)
        if start_after is not None:
            keys.check_scoped_prefix(start_after)
            start_after = self._prefix + start_after
        return map(self._relative, self._store.list(self._prefix + prefix, start_after))

    def delete(self, path: str) -> None:
        self._store.delete(self._whole(path))

    def copy(self, source: str, target: str) -> None:
        self._store.copy(self._whole(source), self._whole(target))

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._store.sign(self._whole(path), expiry)

    def sign_put(self, path: str, expiry: timedelta) -> SignedPut | None:
        """Where the bearer may put an object, if the store is a cloud's."""
        sign_put = getattr(self._store, "sign_put", None)
        return None if sign_put is None else sign_put(self._whole(path), expiry)

    def sweep(self, older_than: timedelta) -> int:
        """Remove what writers of this workspace that died left behind, if the store can."""
        sweep = getattr(self._store, "sweep", None)
        return 0 if sweep is None else int(sweep(older_than, self._prefix))

    def _whole(self, path: str) -> str:
        keys.check_scoped(path)
        return self._prefix + path

    def _relative(self, meta: ObjectMeta) -> ObjectMeta:
        path, size, last_modified = meta
        if not path.startswith(self._prefix):
            raise Corrupt(
                f"the store listed {path!r} for the prefix {self._prefix}",
                hint="report this: the storage backend does not respect prefixes",
            )
        return ObjectMeta(path[len(self._prefix) :], size, last_modified)
