"""Manifests: what a generation consists of.

A *root manifest* is one generation of a workspace. It refers to

- the *change files* of the latest commits, with the few rows that each commit changed in any
  table, and the L0 files of commits that changed many rows of one;
- by path and SHA-256, one *domain manifest* for each domain, which lists the base files of
  the domain's tables, and refers to the lists of their history files.

All of them are immutable. A commit writes a root manifest alone: domain manifests and lists
are written by merges, so that what a commit writes does not grow with history, nor with the
tables that it does not touch.

Root manifests carry their own checksum; everything else is referred to with one.
A reader refuses what it does not understand: a format above its own, or a
required feature that it does not know.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from datetime import date, datetime
from typing import Any, TypeVar

import msgspec

from arco.errors import Corrupt, Unreadable
from arco.storage.seal import seal, unseal

FORMAT = 3
"""2: root manifests are sealed, the floor is numbered, consumed batches are a table.
3: change files in the root manifest, history in lists of its own, thinned generations."""
FEATURES: frozenset[str] = frozenset()
"""Features beyond the format that this program can read."""


class FileRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """One immutable Parquet file, with what a reader needs to skip or verify it."""

    path: str
    rows: int
    bytes: int
    sha256: str
    footer_bytes: int
    footer_sha256: str
    buckets: tuple[int, int]
    """Lowest and highest bucket of its rows."""
    shard: tuple[str, str]
    """Lowest and highest shard key, as text."""
    versions: tuple[int, int]
    """Lowest and highest row_version."""
    created_at: datetime
    days: tuple[date, date] | None = None
    """Of history files: the first and the last day that it is for."""
    table: str = ""
    """Of a change file, which holds rows of several tables: the table."""
    index_bytes: int = 0
    """Of the footer, the length of the index of row groups before it; 0 if there is none."""


class TableChanges(msgspec.Struct, frozen=True, array_like=True):
    """The rows of one table in a change file."""

    rows: int
    buckets: tuple[int, int]
    versions: tuple[int, int]
    columns: int
    """The number of the table's columns for its writer. Columns are only ever added: a program with
    fewer columns must not rewrite these rows."""


class ChangesRef(msgspec.Struct, frozen=True):
    """One change file: the rows that a commit, or several, changed in some tables."""

    path: str
    bytes: int
    sha256: str
    versions: tuple[int, int]
    """Lowest and highest row_version."""
    created_at: datetime
    tables: dict[str, TableChanges]
    """Each table (`domain.name`) whose rows still count here."""

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())

    def of(self, table: str) -> FileRef:
        """The rows of one table, as if they were a file."""
        own = self.tables[table]
        return FileRef(
            self.path,
            own.rows,
            self.bytes,
            self.sha256,
            footer_bytes=0,
            footer_sha256="",
            buckets=own.buckets,
            shard=("", "\U0010ffff"),
            versions=own.versions,
            created_at=self.created_at,
            table=table,
        )


class ColumnSpec(msgspec.Struct, frozen=True):
    name: str
    type: str


class Ref(msgspec.Struct, frozen=True):
    path: str
    sha256: str
    bytes: int


class HistoryRef(msgspec.Struct, frozen=True):
    """The list of a table's history files, and what a reader needs to skip it."""

    list: Ref
    files: int
    rows: int
    shard: tuple[str, str]
    versions: tuple[int, int]


class HistoryList(msgspec.Struct, frozen=True):
    files: tuple[FileRef, ...]
    format: int = FORMAT


class TableManifest(msgspec.Struct, frozen=True):
    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    shard: int
    """How many of the key's leading columns make the shard key."""
    base: tuple[FileRef, ...] = ()
    history: HistoryRef | None = None
    merges: int = 0
    """How often L0 files went into the base: their tombstones ended with that."""


class DomainManifest(msgspec.Struct, frozen=True):
    domain: str
    generation: int
    tables: dict[str, TableManifest]
    format: int = FORMAT


class SegmentRef(msgspec.Struct, frozen=True):
    path: str
    sha256: str
    bytes: int
    first: int
    last: int


class RootManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int
    requires: tuple[str, ...] = ()
    tenant_id: str
    workspace_id: str
    generation: int
    kind: str
    """events, merge, rebuild or rollback: why this generation exists."""
    commit_id: str
    parent_sha256: str
    published_at: datetime
    log_time: datetime
    """received_at of the last position: the log's own clock."""
    position: int
    """The last position of the log at this generation."""
    rewritten_at: int = 0
    """The newest generation, up to this one, that is a rebuild or a rollback: rows changed
    there without an event."""
    segment: SegmentRef | None = None
    consumed: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    skipped: dict[str, int] = {}
    """Events of a type or version that the committer did not know."""
    pending_cleanup: tuple[str, ...] = ()
    """Batches of earlier commits that are still there to be deleted, besides `consumed`."""
    changes: tuple[ChangesRef, ...] = ()
    l0: dict[str, tuple[FileRef, ...]] = {}
    """L0 files of one table each (`domain.name`): of commits that changed many of its rows."""
    domains: dict[str, Ref]


class Hint(msgspec.Struct, frozen=True):
    """Where to start looking for the head. Never authoritative."""

    generation: int
    root_sha256: str


class Thinned(msgspec.Struct, frozen=True, array_like=True):
    """A generation below the floor that is kept."""

    generation: int
    published_at: datetime
    position: int
    log_time: datetime


class Floor(msgspec.Struct, frozen=True):
    """Which generations are kept: all from here to the head, and some below."""

    generation: int
    thinned: tuple[Thinned, ...] = ()
    """Generations below that are kept: one an hour, then one a day."""

    def thinned_numbers(self) -> list[int]:
        return [thinned.generation for thinned in self.thinned]

    def keeps(self, generation: int) -> bool:
        return generation >= self.generation or generation in self.thinned_numbers()


_encoder = msgspec.json.Encoder(order="sorted")
T = TypeVar("T", bound=msgspec.Struct)


class _FormatVersion(msgspec.Struct):
    format: int = FORMAT
    requires: tuple[str, ...] = ()


def encode(manifest: msgspec.Struct) -> bytes:
    return _encoder.encode(manifest)


def encode_sealed(manifest: msgspec.Struct) -> bytes:
    """With its own checksum, for objects that nothing refers to by one."""
    return seal(_encoder.encode(manifest))


def decode_sealed(raw: bytes, cls: type[T], path: str) -> T:
    """Verify and parse. Raises Unreadable if of another format, Corrupt if broken."""
    try:
        body = unseal(raw, path)
    except Corrupt:
        if raw.endswith(b"}") and b'"format":1,' in raw:
            raise _too_old(path, 1) from None
        raise
    return decode(body, cls, path)


def decode(raw: bytes, cls: type[T], path: str) -> T:
    """Parse a manifest, failing closed: Unreadable if newer, Corrupt if broken."""
    try:
        version = _decoder(_FormatVersion).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path} is not a manifest: {error}", hint="run `servo admin fsck`") from None
    if version.format < FORMAT:
        raise _too_old(path, version.format)
    unknown = set(version.requires) - FEATURES
    if version.format > FORMAT or unknown:
        needs = f"format {version.format}" + (f" with {sorted(unknown)}" if unknown else "")
        raise Unreadable(
            f"{path} needs {needs}; this program reads format {FORMAT}", hint="upgrade arco"
        )
    try:
        return _decoder(cls).decode(raw)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path}: {error}", hint="run `servo admin fsck`") from None


def _too_old(path: str, number: int) -> Unreadable:
    return Unreadable(
        f"{path} is of format {number}; this program reads format {FORMAT}",
        hint=f"create a new workspace: format {number} was never released",
    )


_making_decoders = threading.Lock()
"""msgspec crashes if two threads make the first decoders of a struct at the same time."""


@functools.cache
def _decoder(cls: type) -> msgspec.json.Decoder[Any]:
    with _making_decoders:
        return msgspec.json.Decoder(cls)


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def verified(raw: bytes, expected: str, path: str) -> bytes:
    """`raw`, if its size and checksum match the manifest. Raises Corrupt otherwise."""
    checksum = sha256(raw)
    if checksum != expected:
        raise Corrupt(
            f"{path} has checksum {checksum[:12]}…, its manifest says {expected[:12]}…",
            hint="the file was damaged or replaced; restore it from a backup, or rebuild",
        )
    return raw
