"""Events of imports from other tools. Each import replaces the previous one of the same source.

A *source* is a tool and what it calls its project: `dbt/jaffle_shop`. It has *nodes* with ids of
their own (`model.jaffle_shop.orders`); each node that holds data is an asset.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from arco.catalog.events import Column
from arco.log.envelope import Payload
from servo.contract.task import Lineage


class ImportedAsset(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node, for the catalog and lineage."""

    node: str
    """The id that the source has for it."""
    key: str
    asset_id: str
    moved_from: str = ""
    """The key that it leaves, if it had another one."""
    fingerprint: str = ""
    """The fingerprint of everything imported: an unchanged node is not in the next import."""
    kind: str = "table"
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    columns: tuple[Column, ...] = ()
    inputs: tuple[str, ...] = ()
    """Ids of the assets that it is made of."""
    lineage: Lineage | None = None
    """Of its columns; assets in it are ids. None: the source does not make it."""


class ImportPart(Payload, frozen=True, kw_only=True):
    """A part of an import, without effect until the import is created."""

    TYPE: ClassVar[str] = "imports.part"
    source: str
    import_id: str
    number: int
    packed: str = ""
    """`ImportedAsset`s that are new or differ: JSON, compressed, base64."""
    removed: tuple[str, ...] = ()
    """Nodes that the source does not have any more, or that are another asset now."""


class ImportCreated(Payload, frozen=True, kw_only=True):
    """An import takes effect. Refused if another import came in between."""

    TYPE: ClassVar[str] = "imports.created"
    COMMAND: ClassVar[bool] = True
    source: str
    import_id: str
    parent: str = ""
    """The import that it changes; empty for the first."""
    parts: int
    nodes: int
    """How many the source has, changed or not."""
    tool_version: str = ""
    generated_at: str = ""
    """As the source's file says."""


class ImportInstalled(Payload, frozen=True, kw_only=True):
    """Makes the parts take effect: one batch with the command before it."""

    TYPE: ClassVar[str] = "imports.installed"
    source: str
    import_id: str


EVENTS: tuple[type[Payload], ...] = (ImportPart, ImportCreated, ImportInstalled)
