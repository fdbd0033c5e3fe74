"""The storage port: the operations that everything else is built on.

The most important one is `put(..., Mode.CREATE)`: *create this object only if it is absent*.
Commits, claims and leases are built on it.

What every backend promises, and the conformance suite checks:

- An object becomes visible completely, or not at all; a successful put is durable.
- Of any number of concurrent creates of one path exactly one succeeds; the
  others raise `AlreadyExists`.
- Reads and listings see every write that returned before they began.
- `list` yields paths in ascending order of their UTF-8 bytes.
- `delete` of an absent object succeeds.
- `AlreadyExists` does not promise that the object can be read now: it may have been
  deleted since, or belong to a create that is still under way.
- `Unavailable` from a write means *unknown*: it may have taken effect. Its writer may read the
  object: if that succeeds, or it "exists already", it is durable. A store that cannot be sure
  raises `Unavailable` again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol


class Mode(enum.Enum):
    CREATE = "create"
    OVERWRITE = "overwrite"
    FRESH = "fresh"
    """CREATE of a path that no process needs before this put has returned: others may see it before
    it is durable, and if it fails the store may remove it."""


class ObjectMeta(NamedTuple):
    path: str
    size: int
    last_modified: datetime
    """The store's clock, not the writer's: UTC without a zone."""


class Object(NamedTuple):
    data: bytes
    meta: ObjectMeta


class Store(Protocol):
    @property
    def parallelism(self) -> int:
        """The recommended number of concurrent calls."""

    @property
    def url(self) -> str:
        """Names this store for people and for `open_store` in another process."""

    def get(self, path: str) -> Object:
        """The whole object. Raises NotFound."""

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`. Raises NotFound, and Invalid past the end."""

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        """Write an object whole. CREATE raises AlreadyExists where there is one."""

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        """Write an object, or replace it, from parts that need not fit into memory together.

        It becomes visible whole, after the last part. If `parts` raises, nothing is written.
        """

    def head(self, path: str) -> ObjectMeta:
        """Size and time of an object. Raises NotFound."""

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """Objects whose path starts with `prefix` (a plain string prefix), in order."""

    def delete(self, path: str) -> None:
        """Remove an object. A missing object is not an error."""

    def copy(self, source: str, target: str) -> None:
        """Make `target` the same object as `source`, whatever its size. Raises NotFound.

        The bytes do not pass through this process where the store can avoid it.
        """

    def sign(self, path: str, expiry: timedelta) -> str:
        """A URL that lets its bearer GET this object until `expiry` has passed."""
