"""Compares a schema with the registry of an asset: its versions, its readers, accepted breaks.

An accepted break of a column covers its changes since the versions that existed when it was
accepted. A later break of the same column needs another acceptance.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from arco.columns.compatibility import SchemaChange, compare
from arco.columns.schema_columns import SchemaColumn
from servo.contract.manifest import Compatibility

SHOWN: Final = 5


class KnownVersion(msgspec.Struct, frozen=True, gc=False):
    version: int
    columns: tuple[SchemaColumn, ...]


class KnownSchema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a new schema of an asset is compared with."""

    rule: Compatibility = Compatibility()
    versions: tuple[KnownVersion, ...]
    """The current one first; the others only if the rule is transitive."""
    accepted: dict[str, int] = {}
    """By column, the newest version whose break was accepted."""
    consumers: dict[str, tuple[str, ...]] = {}
    """By column, what reads it: `namespace.asset.column`, or an asset whose rows depend on it."""
    more_consumers: dict[str, int] = {}
    """By column, how many read it besides those."""
    renames: dict[str, str] = {}
    """Governed: new names by old ones."""


class SchemaBreak(msgspec.Struct, frozen=True, gc=False):
    """A change that the asset's compatibility does not allow."""

    change: SchemaChange
    version: int
    """What it was compared with."""
    consumers: tuple[str, ...] = ()
    more_consumers: int = 0

    def __str__(self) -> str:
        more = max(0, len(self.consumers) - SHOWN) + self.more_consumers
        names = ", ".join(self.consumers[:SHOWN]) + (f" and {more} more" if more > 0 else "")
        read = f"; read by {names}" if names else ""
        return f"{self.change} (compared with version {self.version}{read})"


def breaks_of(baseline: KnownSchema, columns: Sequence[SchemaColumn]) -> list[SchemaBreak]:
    """The breaking changes of a new schema; each once, with the newest version."""
    breaks: dict[tuple[str, str], SchemaBreak] = {}
    for each in baseline.versions:
        for change in compare(
            each.columns, columns, baseline.rule.mode, baseline.renames
        ).violations:
            if baseline.accepted.get(change.column, 0) >= each.version:
                continue
            readers = baseline.consumers.get(change.column, ())
            if baseline.rule.policy == "consumers" and not readers:
                continue
            key = change.kind, change.path
            more = baseline.more_consumers.get(change.column, 0)
            breaks.setdefault(key, SchemaBreak(change, each.version, readers, more))
    return list(breaks.values())


def packed_schema(baseline: KnownSchema) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(baseline), 6)).decode()


def unpacked_schema(text: str) -> KnownSchema:
    data = zlib.decompress(base64.b64decode(text))
    return msgspec.json.decode(data, type=KnownSchema)
