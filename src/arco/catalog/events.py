"""What can happen to namespaces, assets and columns.

All but `AssetObserved` are commands: the fold may refuse them. In an update,
None leaves a field as it is. An asset's id is the id of the event that created
it, so no two assets can ever share one.

A command names its asset, and its column, by id and by the name that the caller
wrote. The fold applies it only while the two belong together. `asset_key` is
`namespace.name`. The first versions of these events had ids only; for them
`asset_key` and `column_name` are unset, and only the id is compared.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from arco.log.envelope import Payload
from servo.contract.manifest import NotificationEvent

TextOrUnset = str | msgspec.UnsetType
"""Text that older versions of an event do not have. It is not encoded while unset, so
the fingerprint of an older event stays the same."""
VersionOrUnset = int | None | msgspec.UnsetType
"""The same for the version of a row."""


class CatalogCommand(Payload, frozen=True, kw_only=True):
    COMMAND: ClassVar[bool] = True


class Column(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    nullable: bool = True
    description: str = ""
    pii: str = ""
    sensitivity: str = ""
    terms: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of columns that code declares."""
    renamed_from: TextOrUnset = msgspec.UNSET
    """The name that it had, if code declares a rename."""


class NamespaceCreated(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.namespace_created"
    namespace: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    properties: dict[str, str] = {}


class NamespaceUpdated(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.namespace_updated"
    namespace: str
    description: str | None = None
    owners: tuple[str, ...] | None = None
    tags: dict[str, str] | None = None
    properties: dict[str, str] | None = None
    expected_version: int | None = None


class NamespaceDropped(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.namespace_dropped"
    namespace: str


class AssetCreated(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.asset_created"
    namespace: str
    name: str
    kind: str = "table"
    format: str = "parquet"
    location: str = ""
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    properties: dict[str, str] = {}
    columns: tuple[Column, ...] = ()


class AssetUpdated(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.asset_updated"
    VERSION: ClassVar[int] = 2
    asset_id: str
    kind: str | None = None
    format: str | None = None
    location: str | None = None
    description: str | None = None
    owners: tuple[str, ...] | None = None
    tags: dict[str, str] | None = None
    properties: dict[str, str] | None = None
    expected_version: int | None = None
    asset_key: TextOrUnset = msgspec.UNSET


class AssetRenamed(CatalogCommand, frozen=True, kw_only=True):
    """Within its namespace only: one key of the fold decides names of a namespace."""

    TYPE: ClassVar[str] = "catalog.asset_renamed"
    asset_id: str
    namespace: str
    name: str
    new_name: str


class AssetDropped(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.asset_dropped"
    asset_id: str
    namespace: str
    name: str


class ColumnAdded(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.column_added"
    VERSION: ClassVar[int] = 2
    asset_id: str
    column: Column
    asset_key: TextOrUnset = msgspec.UNSET


class ColumnUpdated(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.column_updated"
    VERSION: ClassVar[int] = 3
    asset_id: str
    column_id: str
    name: str | None = None
    type: str | None = None
    nullable: bool | None = None
    description: str | None = None
    pii: str | None = None
    sensitivity: str | None = None
    asset_key: TextOrUnset = msgspec.UNSET
    column_name: TextOrUnset = msgspec.UNSET
    expected_version: VersionOrUnset = msgspec.UNSET

    @property
    def lowest_version(self) -> int:
        return 2 if self.expected_version is msgspec.UNSET else 3

    """Of the row of the column."""


class ColumnDropped(CatalogCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "catalog.column_dropped"
    VERSION: ClassVar[int] = 3
    asset_id: str
    column_id: str
    asset_key: TextOrUnset = msgspec.UNSET
    column_name: TextOrUnset = msgspec.UNSET
    expected_version: VersionOrUnset = msgspec.UNSET

    @property
    def lowest_version(self) -> int:
        return 2 if self.expected_version is msgspec.UNSET else 3

    """Of the row of the column."""


class AssetObserved(Payload, frozen=True, kw_only=True):
    """A measurement of an asset's data. A fact: the newest observation counts."""

    TYPE: ClassVar[str] = "catalog.asset_observed"
    asset_id: str
    row_count: int
    size_bytes: int
    files: int = 0


class AssetDeclared(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: code declares this asset, under this name."""

    TYPE: ClassVar[str] = "catalog.asset_declared"
    asset_id: str
    namespace: str
    name: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    columns: tuple[Column, ...] = ()
    project: str = ""
    sla: str = ""
    """As JSON (`SlaSpec`)."""
    terms: tuple[str, ...] = ()
    links: dict[str, str] = {}
    deprecated: str = ""
    kind: str = ""
    """Of its code: python or sql; empty in deployments of before code was recorded."""
    code: str = ""


class AssetLeft(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: its project does not have this asset any more."""

    TYPE: ClassVar[str] = "catalog.asset_left"
    asset_id: str


class AssetReshaped(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: an asset has other partitions than before."""

    TYPE: ClassVar[str] = "catalog.asset_reshaped"
    asset_id: str


class AssetReturned(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: a project has this asset again, as it was."""

    TYPE: ClassVar[str] = "catalog.asset_returned"
    asset_id: str
    project: str


class AssetMoved(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: an asset leaves its name."""

    TYPE: ClassVar[str] = "catalog.asset_moved"
    asset_id: str
    namespace: str
    name: str


class AssetReleased(Payload, frozen=True, kw_only=True):
    """Derived: an asset has lost its name, and is removed."""

    TYPE: ClassVar[str] = "catalog.asset_released"
    asset_id: str


class AssetImported(Payload, frozen=True, kw_only=True):
    """Derived from an import: the description of an asset by another tool."""

    TYPE: ClassVar[str] = "catalog.asset_imported"
    asset_id: str
    namespace: str
    name: str
    source: str
    """`dbt/jaffle_shop`."""
    kind: str = "table"
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    columns: tuple[Column, ...] = ()


class AssetImportEnded(Payload, frozen=True, kw_only=True):
    """Derived from an import: the tool does not have this asset any more."""

    TYPE: ClassVar[str] = "catalog.asset_import_ended"
    asset_id: str
    source: str


class AssetNotice(Payload, frozen=True, kw_only=True):
    """Derived: a notice about an asset. The catalog adds its owners."""

    TYPE: ClassVar[str] = "catalog.asset_notice"
    asset_id: str
    topic: Literal["output", "freshness", "cost", "contract"] = "output"
    """The topic, which fails and recovers separately. Costs do not recover."""
    event: NotificationEvent
    run_id: str = ""
    code: str = ""
    before: int = 0
    """The cost of the asset on this day, before and now, in 10⁻⁹ of the unit."""
    after: int = 0
    currency: str = ""
    consumers: tuple[str, ...] = ()
    """E-mail addresses among the consumers of the asset's contract."""
    about: str = ""
    """The key of the asset whose contract it is about, if that is one that this asset reads."""


class AddressedNotice(AssetNotice, frozen=True, kw_only=True):
    """Derived: the same, with the asset's name, project, owners and tags."""

    TYPE: ClassVar[str] = "catalog.addressed_notice"
    asset: str
    project: str
    owners: tuple[str, ...]
    tags: dict[str, str]


COMMANDS: tuple[type[CatalogCommand], ...] = (
    NamespaceCreated,
    NamespaceUpdated,
    NamespaceDropped,
    AssetCreated,
    AssetUpdated,
    AssetRenamed,
    AssetDropped,
    ColumnAdded,
    ColumnUpdated,
    ColumnDropped,
)
EVENTS: tuple[type[Payload], ...] = (*COMMANDS, AssetObserved)
