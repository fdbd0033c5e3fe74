"""Manifests: what a generation consists of.

A *root manifest* is one generation of a workspace. It refers, by path and
SHA-256, to one *domain manifest* for each domain, which lists the files of the
domain's tables. All of them are immutable.

Root manifests carry their own checksum; everything else is referred to with one.
A reader refuses what it does not understand: a format above its own, or a
required feature that it does not know.
"""

from __future__ import annotations

import hashlib
from datetime import date, datetime
from typing import Any, TypeVar

import msgspec

from arco.errors import Corrupt, Unreadable
from arco.storage.seal import seal, unseal

FORMAT = 2
"""2: root manifests are sealed, the floor is numbered, consumed batches are a table."""
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
    day: date | None = None
    """Of history files: the day that all rows belong to."""


class ColumnSpec(msgspec.Struct, frozen=True):
    name: str
    type: str


class TableManifest(msgspec.Struct, frozen=True):
    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    shard: int
    """How many of the key's leading columns make the shard key."""
    base: tuple[FileRef, ...] = ()
    l0: tuple[FileRef, ...] = ()
    history: tuple[FileRef, ...] = ()

    def files(self) -> tuple[FileRef, ...]:
        return self.base + self.l0 + self.history


class L0Limits(msgspec.Struct, frozen=True):
    """Past any of these, a table is due for a merge."""

    files: int = 50
    bytes: int = 256 << 20
    age_s: int = 3600


class DomainManifest(msgspec.Struct, frozen=True):
    domain: str
    generation: int
    tables: dict[str, TableManifest]
    limits: L0Limits = L0Limits()
    format: int = FORMAT


class Ref(msgspec.Struct, frozen=True):
    path: str
    sha256: str
    bytes: int


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
    segment: SegmentRef | None = None
    consumed: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    skipped: dict[str, int] = {}
    """Events of a type or version that the committer did not know."""
    pending_cleanup: tuple[str, ...] = ()
    domains: dict[str, Ref]


class Hint(msgspec.Struct, frozen=True):
    """Where to start looking for the head. Never authoritative."""

    generation: int
    root_sha256: str


class Floor(msgspec.Struct, frozen=True):
    """Every generation from here to the head is kept."""

    generation: int


_encoder = msgspec.json.Encoder(order="sorted")
T = TypeVar("T", bound=msgspec.Struct)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class _Version(msgspec.Struct):
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
            raise Unreadable(
                f"{path} is of format 1; this program reads format {FORMAT}",
                hint="make a new workspace: format 1 was never released",
            ) from None
        raise
    return decode(body, cls, path)


def decode(raw: bytes, cls: type[T], path: str) -> T:
    """Parse a manifest, failing closed: Unreadable if newer, Corrupt if broken."""
    try:
        version = _decoder(_Version).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path} is not a manifest: {error}", hint="run `servo admin fsck`") from None
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


def _decoder(cls: type) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(cls)
    if found is None:
        found = _decoders[cls] = msgspec.json.Decoder(cls)
    return found


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def verified(raw: bytes, expected: str, path: str) -> bytes:
    """`raw`, if it is what the manifest says it is; Corrupt otherwise."""
    found = sha256(raw)
    if found != expected:
        raise Corrupt(
            f"{path} has checksum {found[:12]}…, its manifest says {expected[:12]}…",
            hint="the file was damaged or replaced; restore it from a backup, or rebuild",
        )
    return raw
